"""Hands that do commits in the coordinator's own thread, at moments that a seed chooses; and beats.

With them a life in memory has one thread, and the same seed gives the same story.

Invariants:
- what was submitted is begun in its order, and done when the coordinator waits at the latest;
- what was not begun at the end is dropped, as by a process that dies.
"""

from __future__ import annotations

import random  # noqa: TID251  seeded
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.landing.settings import CommitsAtOnce
from penstock.ownership.claim import Heartbeat

Task = tuple[Callable[[str], None], str, "Future[None]"]


BEATS_SHARE = 0.1
"""The share of the coordinator's waits in which a heartbeat falls."""


class OneThread:
    """What goes on next to the coordinator in one life, done in its own thread."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random(~seed)
        self._beats: dict[int, Callable[[], bool]] = {}

    def hands(self, at_once: CommitsAtOnce) -> SeededCommits:
        """Return the hands; there is one pair, however many are asked for."""
        del at_once
        return SeededCommits(self._seed, self._beat)

    def beats(self, act: Callable[[], bool], every_seconds: float) -> Heartbeat:
        """Do an act when the coordinator waits, now and then."""
        del every_seconds
        self._beats[id(act)] = act
        return _Ending(lambda: self._beats.pop(id(act), None))

    def _beat(self) -> None:
        if self._random.random() < BEATS_SHARE:
            self._beats = {key: act for key, act in [*self._beats.items()] if act()}


@dataclass(frozen=True, slots=True)
class _Ending:
    act: Callable[[], object]

    def end(self) -> None:
        self.act()


@dataclass(slots=True)
class Waiting:
    """What was submitted and is not done yet, in its order."""

    tasks: deque[Task] = field(default_factory=deque)

    def put(self, act: Callable[[str], None], name: str) -> Future[None]:
        """Let something wait."""
        future: Future[None] = Future()
        self.tasks.append((act, name, future))
        return future

    def do_next(self) -> None:
        """Do the first."""
        act, name, future = self.tasks.popleft()
        try:
            act(name)
        except BaseException as error:  # noqa: BLE001  a crash is the story's, as in a thread
            future.set_exception(error)
        else:
            future.set_result(None)

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """Drop what waits."""
        del wait, cancel_futures
        self.tasks.clear()


class SeededCommits(Waiting):
    """Do now or later, by the toss of a seeded coin."""

    def __init__(self, seed: int, beat: Callable[[], None]) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._beat = beat

    def submit(self, act: Callable[[str], None], name: str, /) -> Future[None]:
        """Do something now, after what waits, or let it wait too."""
        future = self.put(act, name)
        if self._random.random() < 0.5:
            self._work()
        return future

    def before_wait(self, seconds: float) -> float:
        """Do all that waits, when the coordinator has time; else perhaps. Nothing comes later."""
        self._beat()
        if seconds > 0 or self._random.random() < 0.5:
            self._work()
        return 0.0

    def _work(self) -> None:
        while self.tasks:
            self.do_next()
