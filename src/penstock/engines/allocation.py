"""How a process that writes files keeps its memory: what is freed is used again.

glibc gives large pieces back to the kernel as soon as they are freed, and Arrow's own pool does so
a moment later; fresh pages for the next ones cost a tenth of the CPU of writing Parquet.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

KEEPING_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "2147483648",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""What says so to a process that is started."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""
_LONGEST_KEPT_BYTES = 1 << 30
_MOST_KEPT_BYTES = (1 << 31) - 1


def keep_freed_memory(environment: Mapping[str, str]) -> None:
    """Let this process keep it, as one that is started with `KEEPING_ENVIRONMENT`.

    Nothing is done where the environment of this process says something of its own on any of it,
    or where its C library is not glibc.
    """
    import pyarrow as pa

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and environment.keys().isdisjoint(KEEPING_ENVIRONMENT):
        mallopt(_MMAP_THRESHOLD, _LONGEST_KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())
