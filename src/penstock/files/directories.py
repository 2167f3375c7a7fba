"""Whether a directory can be made, told without making it: for those who may write nothing.

What a look cannot tell is not refused: rules of the kernel beyond permissions, and a full disk.
"""

from __future__ import annotations

import os
from pathlib import Path


def why_not_made(directory: Path) -> str:
    """Say why a directory, with those above it, cannot be made or written to; "" where it can."""
    above = next(
        each for each in (directory, *directory.absolute().parents) if os.path.lexists(each)
    )
    if not above.is_dir():
        return f"{above} is no directory"
    if not os.access(above, os.W_OK | os.X_OK):
        return f"{above} may not be written by this user"
    held = os.statvfs(above)
    if above != directory and not (held.f_blocks or held.f_files):
        return f"the file system of {above} holds no files"  # as /proc and /sys
    return ""
