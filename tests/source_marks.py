"""Short marks of code: what was found out on one text of it is kept separate from another's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


def mark_of(paths: Iterable[Path]) -> str:
    """Return a mark of what files hold, whatever their order."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
