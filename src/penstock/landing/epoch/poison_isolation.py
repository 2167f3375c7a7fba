"""Run jobs; where the process that reads a record dies of it, find the record and go on without it.

A worker may die of its machine or for want of memory, too. So a run that died is tried once more,
each job by itself; a job that dies again is cut in halves until single records are left. Those that
still kill their process, twice by then, are rejected without the step that kills (P343). Steps that
can read them go on doing so, so that a route and its tables agree on the table of each record.

Where all that died together live alone, they want more memory than there is: half as many run at
once from then on, and twice as many again after some runs that lived so.

Invariants:
- a record is refused only when a run of it alone has died;
- where no record dies alone, the run's own error is raised: the slice is too large, not poisoned;
- runs in search of a record land nothing: their files are leftovers that no commit knows.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.core.errors import UnavailableError
from penstock.core.events import ConcurrencyLowered, PoisonFound
from penstock.core.offsets import OffsetRange, span
from penstock.core.planning import Lane
from penstock.landing.settings import Environment
from penstock.landing.task.coordinates import Coordinate
from penstock.landing.task.message_json import job_to_json, result_from_json
from penstock.landing.task.messages import Job, PoisonKind, TaskResult
from penstock.ports.runtime import DIED

POISON_MAX = 20
"""How many records of one slice are sought; each costs about twice log2 of the slice in runs."""
FOUND_MAX = 1000
"""How many are remembered; what was found first is forgotten, and found again if it is read."""
GOOD_RUNS = 10
"""How many runs must live that were held back before more jobs are tried at once."""


@dataclass(slots=True)
class PoisonIsolation:
    """Runs the jobs of one coordinator, and remembers the records that kill: in surveys, which read
    records in their own way, or in the jobs that land them.

    `concurrency` is how many jobs may run together; `good` counts runs that lived, held back by it.
    """

    environment: Environment
    poison: dict[bool, dict[Coordinate, PoisonKind]] = field(
        default_factory=lambda: {False: {}, True: {}}
    )
    concurrency: int = sys.maxsize
    good: int = 0

    def run(self, jobs: Sequence[Job]) -> list[TaskResult]:
        """Run jobs, one result for each in order.

        Raises the error of a whole task or of the engine.
        """
        results: list[TaskResult] = []
        at_once = self.concurrency
        while len(results) < len(jobs):
            left = jobs[len(results) :]
            results += self._run_together(left[: self.concurrency])
        if self.concurrency == at_once < len(jobs):
            self.good += 1
            if self.good >= GOOD_RUNS:
                self.concurrency, self.good = self.concurrency * 2, 0
        return results

    def _run_together(self, jobs: Sequence[Job]) -> list[TaskResult]:
        try:
            return _run(self.environment, [self._warned(job) for job in jobs])
        except UnavailableError as error:
            if error.code != DIED:
                raise
            died = error
        settled = [self._run_alone(job, died) for job in jobs]
        if len(jobs) > 1 and all(alone for _, alone in settled):
            at_once = min(len(jobs), self.environment.engine.capacity())
            self.concurrency, self.good = max(1, at_once // 2), 0
            lowered = ConcurrencyLowered(jobs[0].epoch, len(jobs), self.concurrency)
            self.environment.observer(lowered)
        return [result for result, _ in settled]

    def _warned(self, job: Job) -> Job:
        covered: dict[tuple[str, int], list[OffsetRange]] = defaultdict(list)
        for lane in job.lanes:
            covered[lane.at.topic_id, lane.at.partition].append(lane.covered)
        found = {
            (topic_id, number, offset): kind
            for (topic_id, number, offset), kind in self.poison[job.survey].items()
            if any(offset in each for each in covered.get((topic_id, number), ()))
        }
        return replace(job, poison=found) if found else job

    def _run_alone(self, job: Job, died: UnavailableError) -> tuple[TaskResult, bool]:
        """Run one job alone, without the records that kill it; return whether there are none."""
        result = _survived(self.environment, self._warned(job))
        if result is not None:
            return result, True
        search = _Bisection(self.environment, died, self._warned(job))
        for lane in job.lanes:
            search.seek(lane, lane.covered)
        former = {
            at: kind for at, kind in self.poison[job.survey].items() if at not in search.found
        }
        newest = [*former.items(), *search.found.items()][-FOUND_MAX:]
        self.poison[job.survey] = dict(newest)
        result = _survived(self.environment, self._warned(job)) if search.found else None
        if result is None:
            raise died
        return result, False


def _run(environment: Environment, jobs: Sequence[Job]) -> list[TaskResult]:
    results = [result_from_json(text) for text in environment.engine.run([*map(job_to_json, jobs)])]
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def _survived(environment: Environment, job: Job) -> TaskResult | None:
    try:
        (result,) = _run(environment, [job])
    except UnavailableError as error:
        if error.code != DIED:
            raise
        return None
    return result


@dataclass(slots=True)
class _Bisection:
    environment: Environment
    died: UnavailableError
    job: Job
    found: dict[Coordinate, PoisonKind] = field(default_factory=dict)
    runs: int = 0

    def seek(self, lane: Lane, covered: OffsetRange) -> None:
        """Find the records of a range that kill, by halves. Raises `died` when they are many."""
        if self._lives(lane, covered, {}):
            return
        if covered.count == 1:
            if len(self.found) >= POISON_MAX:
                raise self.died
            where = (lane.at.topic_id, lane.at.partition, covered.start)
            is_row = self._lives(lane, covered, {where: PoisonKind.CONVERTED})
            self.found[where] = PoisonKind.CONVERTED if is_row else PoisonKind.READ
            if not self.job.survey:  # which refuses nothing
                self.environment.observer(PoisonFound(self.job.epoch, str(lane.at), covered.start))
            return
        middle = (covered.start + covered.stop) // 2
        self.seek(lane, span(covered.start, middle))
        self.seek(lane, span(middle, covered.stop))

    def _lives(
        self, lane: Lane, covered: OffsetRange, poison: Mapping[Coordinate, PoisonKind]
    ) -> bool:
        self.runs += 1
        alone = replace(
            self.job,
            lanes=(replace(lane, covered=covered),),
            leader_epochs={},
            prefix=f"{self.job.prefix}-sought-{self.runs}",
            poison={**self.job.poison, **poison},
        )
        return _survived(self.environment, alone) is not None
