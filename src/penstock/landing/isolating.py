"""Run jobs; where the process that reads a record dies of it, find the record and go on without it.

A worker may die of its machine or for want of memory, too. So a run that died is tried once more,
each job by itself; a job that dies again is cut in halves until single records are left. Those that
still kill their process, twice by then, are refused without what kills (P343): whoever can look at
them goes on doing so, that a route and its tables agree on whose they are.

Invariants:
- a record is refused only when a run of it alone has died;
- where no record dies alone, the run's own error is raised: the slice is too large, not poisoned;
- runs in search of a record land nothing: their files are leftovers that no commit knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.core.errors import UnavailableError
from penstock.core.events import PoisonFound
from penstock.core.offsets import OffsetRange, span
from penstock.core.planning import Lane
from penstock.landing.jobs import Coordinate, Job, Poison, Result, job_to_json, result_from_json
from penstock.landing.settings import World

DIED = "P606"
POISON_MAX = 20
"""How many records of one slice are sought; each costs about twice log2 of the slice in runs."""


@dataclass(slots=True)
class Isolation:
    """Runs the jobs of one coordinator's life, and remembers what was found to kill: surveys, that
    look at records in a way of their own, or those that land them.
    """

    world: World
    found: dict[bool, dict[Coordinate, Poison]] = field(
        default_factory=lambda: {False: {}, True: {}}
    )

    def run(self, jobs: Sequence[Job]) -> list[Result]:
        """Run jobs, one result for each in order.

        Raises the error of a whole task or of the engine.
        """
        try:
            return _run(self.world, [self._warned(job) for job in jobs])
        except UnavailableError as error:
            if error.code != DIED:
                raise
            return [self._settle(job, error) for job in jobs]

    def _warned(self, job: Job) -> Job:
        found = self.found[job.survey]
        return replace(job, poison=dict(found)) if found else job

    def _settle(self, job: Job, died: UnavailableError) -> Result:
        """Run one job alone; without the records that it dies of, if there are any."""
        result = _survived(self.world, self._warned(job))
        if result is not None:
            return result
        search = _Search(self.world, died, self._warned(job))
        for lane in job.lanes:
            search.seek(lane, lane.covered)
        self.found[job.survey] |= search.found
        result = _survived(self.world, self._warned(job)) if search.found else None
        if result is None:
            raise died
        return result


def _run(world: World, jobs: Sequence[Job]) -> list[Result]:
    results = [result_from_json(text) for text in world.engine.run([*map(job_to_json, jobs)])]
    for result in results:
        if result.error is not None:
            raise result.error
    return results


def _survived(world: World, job: Job) -> Result | None:
    try:
        (result,) = _run(world, [job])
    except UnavailableError as error:
        if error.code != DIED:
            raise
        return None
    return result


@dataclass(slots=True)
class _Search:
    world: World
    died: UnavailableError
    job: Job
    found: dict[Coordinate, Poison] = field(default_factory=dict)
    runs: int = 0

    def seek(self, lane: Lane, covered: OffsetRange) -> None:
        """Find the records of a range that kill, by halves. Raises `died` when they are many."""
        if self._lives(lane, covered, {}):
            return
        if covered.count == 1:
            if len(self.found) >= POISON_MAX:
                raise self.died
            where = (lane.at.topic_id, lane.at.partition, covered.start)
            is_row = self._lives(lane, covered, {where: Poison.CONVERTED})
            self.found[where] = Poison.CONVERTED if is_row else Poison.LOOKED_AT
            if not self.job.survey:  # which refuses nothing
                self.world.observer(PoisonFound(self.job.epoch, str(lane.at), covered.start))
            return
        middle = (covered.start + covered.stop) // 2
        self.seek(lane, span(covered.start, middle))
        self.seek(lane, span(middle, covered.stop))

    def _lives(self, lane: Lane, covered: OffsetRange, poison: Mapping[Coordinate, Poison]) -> bool:
        """Tell whether who reads a range by itself lives, told of some poison."""
        self.runs += 1
        alone = replace(
            self.job,
            lanes=(replace(lane, covered=covered),),
            leader_epochs={},
            prefix=f"{self.job.prefix}-sought-{self.runs}",
            poison={**self.job.poison, **poison},
        )
        return _survived(self.world, alone) is not None
