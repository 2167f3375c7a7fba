"""Run jobs in this process: for tests and tiny jobs, with the same guarantees as Spark.

Invariants:
- one result for each job, in order;
- jobs begin in order; with a capacity above one they overlap, in threads;
- nothing is retried: the first error in job order is raised after running jobs have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.core.errors import UnavailableError
from penstock.engines.work import LANDING_WORK, Work, find_work


class InlineEngine:
    """An Engine without Spark: calls the work itself, at most `capacity` jobs at once.

    `work` is a function, or the name of one.
    """

    def __init__(self, work: str | Work = LANDING_WORK, capacity: int = 1) -> None:
        assert capacity >= 1
        self._work = find_work(work) if isinstance(work, str) else work
        self._capacity = capacity
        self._cancelled: threading.Event | None = None

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs; raises what a job raised, or UnavailableError (P605) when cancelled."""
        cancelled = threading.Event()
        self._cancelled = cancelled

        def run_one(job: str) -> str:
            if cancelled.is_set():
                raise UnavailableError("The run was cancelled.", code="P605", hint="run it again")
            return self._work(job)

        try:
            if self._capacity == 1:
                return [run_one(job) for job in jobs]
            with ThreadPoolExecutor(self._capacity) as threads:
                return list(threads.map(run_one, jobs))
        finally:
            self._cancelled = None

    def is_ready(self, patience_seconds: float) -> bool:
        """Return True: there is nothing to start."""
        del patience_seconds
        return True

    def capacity(self) -> int:
        """Return the number of jobs that run at once."""
        return self._capacity

    def cancel(self) -> None:
        """Let no further job of the present run begin; a running job ends by itself."""
        cancelled = self._cancelled
        if cancelled is not None:
            cancelled.set()

    def close(self) -> None:
        """Do nothing: nothing was started."""
