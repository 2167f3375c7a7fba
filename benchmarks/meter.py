"""CPU seconds and memory of a whole process tree, Java and Python separately.

Invariants:
- children that came and went count: every process is asked for what its ended children used;
- memory is the sum of resident sets: a page that two processes share counts in both;
- reading takes some milliseconds, in the process that reads, never in the one that is measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds used so far, and bytes resident now.

    `java` is Spark's Java process, `driver` the root process, `workers` all other descendants.
    """

    java_seconds: float = 0.0
    python_seconds: float = 0.0
    java_bytes: int = 0
    driver_bytes: int = 0
    worker_bytes: int = 0

    @property
    def seconds(self) -> float:
        """Add the CPU seconds up."""
        return self.java_seconds + self.python_seconds

    @property
    def resident_bytes(self) -> int:
        """Add the memory up."""
        return self.java_bytes + self.driver_bytes + self.worker_bytes


def family(root: psutil.Process) -> list[psutil.Process]:
    """List a process and its descendants; none when it has ended."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def usage_of(root: psutil.Process) -> Usage:
    """Read the tree of a process; an ended one gives zeros."""
    java_seconds = python_seconds = 0.0
    java_bytes = driver_bytes = worker_bytes = 0
    for process in family(root):
        try:
            with process.oneshot():
                times, size, name = process.cpu_times(), process.memory_info().rss, process.name()
        except psutil.Error:
            continue
        own = times.user + times.system
        python_seconds += times.children_user + times.children_system
        if name == "java":
            java_seconds += own
            java_bytes += size
        else:
            python_seconds += own
            driver_bytes += size if process == root else 0
            worker_bytes += size if process != root else 0
    return Usage(java_seconds, python_seconds, java_bytes, driver_bytes, worker_bytes)


def cpu_seconds_of(pid: int) -> float:
    """Read what one process has used, without its children; 0 when it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


@dataclass(slots=True)
class Samples:
    """Readings of a tree, each with the seconds (monotonic) when it was taken."""

    taken: list[tuple[float, Usage]] = field(default_factory=list)

    @property
    def peak_mib(self) -> float:
        """Return the largest sum of resident memory."""
        return max((usage.resident_bytes for _, usage in self.taken), default=0) / MIB


@contextmanager
def watched(root: psutil.Process, every_seconds: float = 0.5) -> Iterator[Samples]:
    """Sample a tree in the background."""
    samples = Samples()
    with sampling(lambda: samples.taken.append((time.monotonic(), usage_of(root))), every_seconds):
        yield samples


@contextmanager
def sampling(sample: Callable[[], object], every_seconds: float) -> Iterator[None]:
    """Call `sample` again and again, in the background."""
    stop = threading.Event()

    def follow() -> None:
        while not stop.wait(every_seconds):
            sample()

    thread = threading.Thread(target=follow, name="meter", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
