"""How a process that writes files keeps its memory: what is freed is used again.

glibc gives large pieces back to the kernel as soon as they are freed, and Arrow's own pool does so
a moment later; fresh pages for the next ones cost a tenth of the CPU of writing Parquet, and more
(docs/design/0378).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import MutableMapping

_PIECE_BYTES_MAX, _FREE_BYTES_MAX = 1 << 30, (1 << 31) - 1
_POOL, _POOL_OF_MALLOC = "ARROW_DEFAULT_MEMORY_POOL", "system"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""
KEEPING_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(_PIECE_BYTES_MAX),
    "MALLOC_TRIM_THRESHOLD_": str(_FREE_BYTES_MAX),
    _POOL: _POOL_OF_MALLOC,
}
"""What says so to a process that is started."""


def keep_freed_memory(environment: MutableMapping[str, str]) -> None:
    """Let this process keep it, as one that is started with `KEEPING_ENVIRONMENT`.

    Nothing is done where this environment, its own, says anything on that, where Arrow is loaded
    already, which has chosen its pool by then, or where the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    is_chosen = "pyarrow" in sys.modules or not KEEPING_ENVIRONMENT.keys().isdisjoint(environment)
    if mallopt is None or is_chosen:
        return
    mallopt(_MMAP_THRESHOLD, _PIECE_BYTES_MAX)
    mallopt(_TRIM_THRESHOLD, _FREE_BYTES_MAX)
    environment[_POOL] = _POOL_OF_MALLOC
