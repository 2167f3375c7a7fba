"""An act that is repeated in a thread of its own, to show that a process is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

END_SECONDS_MAX = 10.0


class Heartbeat(Protocol):
    """An act that is done over and over, until it returns false."""

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
