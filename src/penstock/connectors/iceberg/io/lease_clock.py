"""When lent credentials are to be renewed, told by two clocks: the one that says so first is right.

Invariants:
- a wall clock that is set back puts nothing off: the seconds of this process go on;
- a machine that slept puts nothing off: where its seconds stood still, the wall clock went on.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def expiry(
    wait_ms: int, now_ms: Callable[[], int], monotonic: Callable[[], float]
) -> Callable[[], bool]:
    """Begin to wait; gives what tells whether so many milliseconds have passed."""
    until_ms, until = now_ms() + wait_ms, monotonic() + wait_ms / 1000
    return lambda: now_ms() >= until_ms or monotonic() >= until


def machine_ms() -> int:
    """Return wall-clock epoch milliseconds."""
    return time.time_ns() // 1_000_000
