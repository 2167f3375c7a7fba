"""Run jobs in this process: for tests and tiny jobs, with the same guarantees as Spark.

Invariants:
- one result for each job, in order;
- the jobs of a run begin in order; with a capacity above one they overlap, in threads;
- nothing is retried: the first error in job order is raised after running jobs have ended.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.engines.work import LANDING_WORK, Work, cancelled, find_work
from penstock.ports.runtime import JobResult


class InlineEngine:
    """An Engine without Spark: calls the work itself, at most `capacity` jobs at once."""

    def __init__(self, work: str | Work = LANDING_WORK, capacity: int = 1) -> None:
        assert capacity >= 1
        self._work = find_work(work) if isinstance(work, str) else work
        self._capacity = capacity
        self._under_way: set[threading.Event] = set()

    def run(self, jobs: Sequence[str]) -> Sequence[str]:
        """Run all jobs; raises what a job raised, or UnavailableError (P605) when cancelled."""
        ended = threading.Event()

        def run_one(job: str) -> str:
            if ended.is_set():
                raise cancelled()
            return self._work(job)

        self._under_way.add(ended)
        try:
            if self._capacity == 1:
                return [run_one(job) for job in jobs]
            with ThreadPoolExecutor(self._capacity) as threads:
                return list(threads.map(run_one, jobs))
        finally:
            self._under_way.discard(ended)

    def run_once(self, jobs: Sequence[str]) -> Sequence[JobResult]:
        """Run all jobs: each runs once, for nothing is retried; raises what `run` raises."""
        return [JobResult(text, ran_once=True) for text in self.run(jobs)]

    def is_ready(self, patience_seconds: float) -> bool:
        """Return True: there is nothing to start."""
        del patience_seconds
        return True

    def warm(self) -> None:
        """Do nothing: this process works by itself."""

    def capacity(self) -> int:
        """Return the number of jobs that run at once."""
        return self._capacity

    def cancel(self) -> None:
        """Let no further job of present runs begin; a running job ends by itself."""
        for ended in [*self._under_way]:
            ended.set()

    def close(self) -> None:
        """Do nothing: nothing was started."""
