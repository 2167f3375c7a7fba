"""Lives of a simulated world that move only on command.

Invariants:
- a life is a thread of its own, held at every crash point, before every listing, and when it has
  opened its tables;
- one life moves at a time, so what is played is one story however threads are scheduled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from tests.story.backend import MemoryGround
from tests.story.observer import Crash
from tests.story.run import Life
from tests.story.single_thread import Waiting

from penstock.core.crash_points import OF_PUBLISHING, CrashPoint

LISTING = "listing"
STARTED = "started"
"""Where a life has claimed, and opened its tables."""
LISTINGS_MAX, PASSINGS_MAX, MOVES_MAX = 60, 12, 80
WAIT_SECONDS = 90.0
BEATS = {CrashPoint.HEARTBEAT_BEFORE, CrashPoint.HEARTBEAT_AFTER}


class Actor:
    """One life in a thread of its own; it moves only on command."""

    def __init__(self, life: Life, target: Callable[[], object]) -> None:
        self.life, self.at, self.ended, self.cap = life, "", False, 0
        self.bug: BaseException | None = None
        self._killed = False
        self._go, self._held = threading.Semaphore(0), threading.Semaphore(0)
        for number in range(1, LISTINGS_MAX):
            life.at_listing(number, lambda: self._hold(LISTING))
        life.at_listing(LISTINGS_MAX, life.stop.set)
        life.observer.at_start = lambda: self._hold(STARTED)
        for point in set(CrashPoint) - BEATS - OF_PUBLISHING:
            for passing in range(1, PASSINGS_MAX):
                life.at(point, lambda point=point: self._hold(point), passing=passing)
        self._thread = threading.Thread(target=self._live, args=(target,), daemon=True)

    def _live(self, target: Callable[[], object]) -> None:
        self._go.acquire()
        try:
            target()
        except BaseException as error:  # noqa: BLE001  reported to the thread that plays
            self.bug = error
        finally:
            self.ended = True
            self._held.release()

    def _hold(self, where: str) -> None:
        if threading.current_thread() is self._thread and not self._killed:
            self.at = where
            self._held.release()
            self._go.acquire()
        if self._killed:
            self.life.observer.crash_now()
            raise Crash("killed where the trace ends")

    def move(self) -> None:
        """Let it go on to the next place where it is held, or to its end."""
        if self.ended:
            return
        if self._thread.ident is None:
            self._thread.start()
        self._go.release()
        if not self._held.acquire(timeout=WAIT_SECONDS):
            raise TimeoutError(f"stuck after {self.at}")
        if self.bug is not None:
            raise self.bug

    def until(self, places: set[Any]) -> None:
        """Let it go on until it is held at one of some places, or ends, or turns in a circle."""
        for _ in range(MOVES_MAX):
            self.move()
            if self.ended or self.at in places:
                return

    def kill(self) -> None:
        """End it where it is."""
        self._killed = True
        if not self.ended and self._thread.ident is not None:
            self._go.release()
            self._thread.join(WAIT_SECONDS)
        self.ended = True


class DirectedCommits(Waiting):
    """Commit in the coordinator's own thread, when the schedule has a turn next."""

    def __init__(self, is_due: Callable[[], bool]) -> None:
        super().__init__()
        self._is_due = is_due

    def submit(self, act: Callable[[str], None], name: str, /) -> Future[None]:
        """Do it now when it is due, else let it wait."""
        future = self.put(act, name)
        self.before_wait(0.0)
        return future

    def before_wait(self, seconds: float) -> float:
        """Do what waits, when it is due or there is nothing else to do; then none is to come."""
        while self.tasks and (seconds > 0 or self._is_due()):
            self.do_next()
        return 0.0


class CappedGround(MemoryGround):
    """A ground whose log shows each life no more than its next epoch is to read."""

    def __init__(self) -> None:
        super().__init__()
        self.cap: Callable[[], int | None] = lambda: None

    def open_log(self, topics: Sequence[str]) -> Any:
        """Open the listing side, with the ends that the schedule has."""
        log, cap = super().open_log(topics), self.cap

        class Capped:
            def __getattr__(self, name: str) -> Any:
                return getattr(log, name)

            def bounds(self, partitions: Any) -> Any:
                found, most = log.bounds(partitions), cap()
                if most is None:
                    return found
                return {at: replace(each, stop=min(each.stop, max(most, each.start)))
                        for at, each in found.items()}  # fmt: skip

        return Capped()
