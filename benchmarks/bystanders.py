"""What other programs use of the machine while something is measured.

Ours are this process and all that it started, also what children leave running when they end, such
as Spark's Java: this process becomes their parent (Linux). PySpark lets no one wait for its
workers, so that no parent learns what they used; therefore the others are looked at, now and then,
instead of the machine as a whole.

Invariant: a program that starts and ends between two samples is not seen; kernel threads
do not count.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

from benchmarks.meter import family, sampling

SAMPLE_SECONDS = 2.0
_PR_SET_CHILD_SUBREAPER = 36
_KERNEL_THREADS_PARENT = 2


@dataclass(slots=True)
class Bystanders:
    """The CPU seconds that others had used when they were first and last seen."""

    began: float = field(default_factory=time.monotonic)
    ended: float = 0.0
    _first: dict[psutil.Process, float] = field(default_factory=dict)
    _last: dict[psutil.Process, float] = field(default_factory=dict)

    def sample(self) -> None:
        """Sample all programs but ours; one that is new had used nothing before."""
        ours, is_first = set(family(psutil.Process())), not self._last
        for each in psutil.process_iter():
            if each in ours or each.pid == _KERNEL_THREADS_PARENT:
                continue
            try:
                if each.ppid() == _KERNEL_THREADS_PARENT:
                    continue
                times = each.cpu_times()
            except psutil.Error:
                continue
            used = times.user + times.system
            self._first.setdefault(each, used if is_first else 0.0)
            self._last[each] = used

    @property
    def cores(self) -> float:
        """Return the cores that others kept busy on average."""
        used = sum(self._last[each] - first for each, first in self._first.items())
        return used / max(self.ended - self.began, 0.001)


@contextmanager
def bystanders() -> Iterator[Bystanders]:
    """Sample others in the background; their `cores` are known afterwards."""
    if sys.platform == "linux":  # prctl(2)
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    others = Bystanders()
    others.sample()
    with sampling(others.sample, SAMPLE_SECONDS):
        yield others
    others.sample()
    others.ended = time.monotonic()
