"""Whether a directory can be made, found out without making it.

What a look cannot tell is not refused: who runs may write where who looks may not, on a file system
that is read-only here as well; and a disk may be full.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

_OF_THE_KERNEL = ("/proc", "/sys")


def why_not_made(directory: Path) -> str:
    """Return why a directory, with its parents, cannot be created; "" where it can."""
    above = next(
        each for each in (directory, *directory.absolute().parents) if os.path.lexists(each)
    )
    if not above.is_dir():
        return f"{above} is no directory"
    if above != directory and any(map(partial(_is_within, above), _OF_THE_KERNEL)):
        return f"{above} is the kernel's, and holds no files of others"
    return ""


def _is_within(directory: Path, mount: str) -> bool:
    return os.path.ismount(mount) and directory.stat().st_dev == Path(mount).stat().st_dev
