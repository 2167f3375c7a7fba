"""Checks whether a directory can be made, without making it.

A check rejects nothing that it cannot prove: the user of a run may write where this user may not,
also on a file system that is read-only here; and a disk may be full.
"""

from __future__ import annotations

import os
from pathlib import Path

_OF_THE_KERNEL = ("/proc", "/sys")


def why_not_made(directory: Path) -> str:
    """Return why a directory, with its parents, cannot be created; "" where it can."""
    above = next(
        each for each in (directory, *directory.absolute().parents) if os.path.lexists(each)
    )
    if not above.is_dir():
        return f"{above} is no directory"
    for mount in _OF_THE_KERNEL if above != directory else ():
        if os.path.ismount(mount) and above.stat().st_dev == Path(mount).stat().st_dev:
            return f"{above} is the kernel's, and holds no files of others"
    return ""
