"""Whether a directory can be made, told without making it: for those who may write nothing.

What a look cannot tell is not refused: rules of the kernel beyond permissions, and a full disk.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

_OF_THE_KERNEL = ("/proc", "/sys")


def why_not_made(directory: Path) -> str:
    """Say why a directory, with those above it, cannot be made or written to; "" where it can."""
    above = next(
        each for each in (directory, *directory.absolute().parents) if os.path.lexists(each)
    )
    if not above.is_dir():
        return f"{above} is no directory"
    if not os.access(above, os.W_OK | os.X_OK):
        return f"{above} may not be written by this user"
    if above != directory and any(map(partial(_is_within, above), _OF_THE_KERNEL)):
        return f"{above} is the kernel's, and holds no files of others"
    return ""


def _is_within(directory: Path, mount: str) -> bool:
    return os.path.ismount(mount) and directory.stat().st_dev == Path(mount).stat().st_dev
