"""What commits are done by, beside the coordinator.

Invariant: it is given to the run, so that in a simulation commits are done in its own thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol


class CommitExecutor(Protocol):
    """Does commits beside the coordinator, several at once."""

    def submit(self, act: Callable[[str], None], name: str, /) -> Future[None]:
        """Do something now or later."""
        ...

    def before_wait(self, seconds: float) -> float:
        """Hear that the coordinator waits for outcomes; return how many seconds that is worth."""
        ...

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """End; what has begun may be waited for, what has not is dropped."""
        ...


class ThreadPoolCommits(ThreadPoolExecutor):
    """Commits in threads of their own."""

    def __init__(self, count: int) -> None:
        super().__init__(count, thread_name_prefix="penstock-commit")

    def before_wait(self, seconds: float) -> float:
        """Let it wait: threads work by themselves."""
        return seconds
