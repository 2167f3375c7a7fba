"""Threads that commit, as many at once as pay (core/commit_pace.py).

Invariants:
- what was submitted first begins first, and as many run at once as the pace says, at most;
- the pace is judged only over times in which something waited: else it is the work that is slow in
  coming;
- a pace lasts: the next epoch begins with the number that the last one came to.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from penstock.core.commit_pace import MOST, Pace

WINDOW = 2
"""A pace is judged when so many times as many as run at once have ended."""


class _Waiting(NamedTuple):
    future: Future[None]
    act: Callable[[str], None]
    name: str


class PacedCommits:
    """Implements `landing.settings.CommitExecutor`. `monotonic` and `cpu` give seconds."""

    def __init__(self, monotonic: Callable[[], float], cpu: Callable[[], float]) -> None:
        self.pace = Pace()
        self._pool = ThreadPoolExecutor(MOST, "penstock-commit")
        self._monotonic, self._cpu = monotonic, cpu
        self._guard = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._running = 0
        self._begin_window()

    def submit(self, act: Callable[[str], None], name: str, /) -> Future[None]:
        """Do something as soon as it is its turn."""
        future: Future[None] = Future()
        with self._guard:
            if not self._running:
                self.pace = self.pace.resumed()
                self._begin_window()
            self._waiting.append(_Waiting(future, act, name))
        self._start()
        return future

    def before_wait(self, seconds: float) -> float:
        """Let it wait: threads work by themselves."""
        return seconds

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """End; what has begun may be waited for, what has not is dropped."""
        del cancel_futures
        with self._guard:
            dropped, self._waiting = self._waiting, deque()
        for each in dropped:
            each.future.cancel()
        self._pool.shutdown(wait=wait)

    def _start(self) -> None:
        with self._guard:
            while self._waiting and self._running < self.pace.at_once:
                each = self._waiting.popleft()
                self._running += 1
                self._pool.submit(self._run, each)

    def _run(self, work: _Waiting) -> None:
        failed: BaseException | None = None
        try:
            work.act(work.name)
        except BaseException as error:  # noqa: BLE001  the future tells it
            failed = error
        with self._guard:
            self._running -= 1
            self._judge()
        try:
            self._start()
        finally:  # a thread that cannot be had is no reason to keep an outcome back
            if failed is None:
                work.future.set_result(None)
            else:
                work.future.set_exception(failed)

    def _judge(self) -> None:
        if not self._waiting:
            self._begin_window()
            return
        self._ended += 1
        if self._ended < WINDOW * self.pace.at_once:
            return
        seconds = max(self._monotonic() - self._began, 1e-9)
        share = (self._cpu() - self._cpu_then) / seconds
        self.pace = self.pace.after(self._ended / seconds, share)
        self._begin_window()

    def _begin_window(self) -> None:
        self._ended = 0
        self._began, self._cpu_then = self._monotonic(), self._cpu()
