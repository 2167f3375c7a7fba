"""What goes on beside the coordinator: commits by hands, and heartbeats.

Invariant: both are given to it, so that in a simulation they are done in its own thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

END_SECONDS_MAX = 10.0


class CommitExecutor(Protocol):
    """Does commits beside the coordinator, several at once."""

    def submit(self, act: Callable[[str], None], name: str, /) -> Future[None]:
        """Do something now or later."""
        ...

    def before_wait(self, seconds: float) -> float:
        """Hear that the coordinator waits for outcomes; give how many seconds that is worth."""
        ...

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """End; what has begun may be waited for, what has not is dropped."""
        ...


class ThreadPoolCommits(ThreadPoolExecutor):
    """Hands of their own, one a thread."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="penstock-commit")

    def before_wait(self, seconds: float) -> float:
        """Let it wait: threads work by themselves."""
        return seconds


class Heartbeat(Protocol):
    """An act that is done over and over, until it gives false."""

    def end(self) -> None:
        """Let what is under way finish, and begin nothing any more."""
        ...


def start_heartbeat(act: Callable[[], bool], every_seconds: float) -> Heartbeat:
    """Do an act every so many seconds, for the first time after that long."""
    return _HeartbeatThread(act, every_seconds)


class _HeartbeatThread:
    def __init__(self, act: Callable[[], bool], every_seconds: float) -> None:
        self._act = act
        self._every_seconds = every_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="penstock-heartbeat", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join(timeout=END_SECONDS_MAX)

    def _keep(self) -> None:
        while not self._ended.wait(self._every_seconds) and self._act():
            pass
