"""Hands that do commits in the coordinator's own thread, at moments that a seed chooses.

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

Task = tuple[Callable[[str], None], str, "Future[None]"]


class SeededHands:
    """Do now or later, by the toss of a seeded coin."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  no secret is drawn
        self._waiting: deque[Task] = deque()

    def submit(self, act: Callable[[str], None], name: str, /) -> Future[None]:
        """Do something now, after what waits, or let it wait too."""
        future: Future[None] = Future()
        self._waiting.append((act, name, future))
        if self._random.random() < 0.5:  # noqa: PLR2004  a coin
            self._work()
        return future

    def about_to_wait(self, seconds: float) -> None:
        """Do all that waits, when the coordinator has time; else perhaps."""
        if seconds > 0 or self._random.random() < 0.5:  # noqa: PLR2004  a coin
            self._work()

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """Drop what waits."""
        del wait, cancel_futures
        self._waiting.clear()

    def _work(self) -> None:
        while self._waiting:
            act, name, future = self._waiting.popleft()
            try:
                act(name)
            except BaseException as error:  # noqa: BLE001  a crash is the story's, as in a thread
                future.set_exception(error)
            else:
                future.set_result(None)
