"""Jobs that want too much memory together run one by one, and jobs know the poison of their lanes.

The engine is a machine with room for so many jobs together; it has no records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from tests.story.observer import RecordingObserver

from penstock.core.errors import UnavailableError
from penstock.core.events import ConcurrencyLowered, PoisonFound
from penstock.core.offsets import span
from penstock.core.planning import Lane
from penstock.landing.epoch import poison_isolation
from penstock.landing.epoch.poison_isolation import GOOD_RUNS, PoisonIsolation
from penstock.landing.task.message_json import job_from_json, result_to_json
from penstock.landing.task.messages import Job, PoisonKind, TaskResult, WriteTarget
from penstock.testing.prepared import TOPIC_ID, part


@dataclass
class Machine:
    """Dies of more jobs together than it has room for, and of records, by partition and offset."""

    room: int = 99
    cores: int = 99
    poison: set[tuple[int, int]] = field(default_factory=set)
    runs: list[list[Job]] = field(default_factory=list)

    def run(self, texts: Sequence[str]) -> list[str]:
        jobs = [job_from_json(text) for text in texts]
        self.runs.append(jobs)
        if min(len(jobs), self.cores) > self.room or any(map(self._dies_of, jobs)):
            raise UnavailableError("workers died", code="P606", hint="more memory")
        return [result_to_json(TaskResult(job.number)) for job in jobs]

    def capacity(self) -> int:
        return self.cores

    @property
    def sizes(self) -> list[int]:
        """Return how many jobs ran together, and forget it."""
        sizes = [len(jobs) for jobs in self.runs]
        self.runs.clear()
        return sizes

    def _dies_of(self, job: Job) -> bool:
        return any(
            lane.at.partition == number
            and offset in lane.covered
            and (TOPIC_ID, number, offset) not in job.poison
            for number, offset in self.poison
            for lane in job.lanes
        )


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def observer() -> RecordingObserver:
    return RecordingObserver()


@pytest.fixture
def isolation(machine: Machine, observer: RecordingObserver) -> PoisonIsolation:
    return PoisonIsolation(SimpleNamespace(engine=machine, observer=observer))


def jobs(count: int, start: int = 0, stop: int = 4) -> list[Job]:
    return [
        Job(
            pipeline="shop",
            epoch=7,
            number=number,
            survey=False,
            prefix=f"p-{number}",
            lanes=(Lane(part(number), span(start, stop), ("lake.a",)),),
            tables={},
            quarantine=WriteTarget("memory", "q"),
            timeout_seconds=1.0,
            now_ms=0,
            log={},
        )
        for number in range(count)
    ]


def test_jobs_that_die_together_and_live_alone_run_by_halves_from_then_on(
    isolation, machine, observer
):
    machine.room = 4
    first = isolation.run(jobs(8))

    assert [8, *[1] * 8] == machine.sizes
    assert [ConcurrencyLowered(7, 8, 4)] == observer.of(ConcurrencyLowered)
    second = isolation.run(jobs(8))
    assert [4, 4] == machine.sizes
    assert [*range(8)] == [each.number for each in first] == [each.number for each in second]


def test_halves_that_die_are_halved_in_the_same_run(isolation, machine, observer):
    machine.room = 2
    isolation.run(jobs(8))
    isolation.run(jobs(8))

    assert [8, *[1] * 8, 4, *[1] * 4, 2, 2] == machine.sizes
    assert [4, 2] == [each.concurrency_max for each in observer.of(ConcurrencyLowered)]


def test_no_more_than_the_engine_runs_at_once_are_halved(isolation, machine):
    machine.cores, machine.room = 4, 2
    isolation.run(jobs(16))

    assert 2 == isolation.concurrency


def test_one_by_one_is_reported_once_and_never_halved(isolation, machine, observer):
    machine.room = 1
    for _ in range(5):
        isolation.run(jobs(2))

    assert [2, *[1] * 2 * 5] == machine.sizes
    assert [1] == [each.concurrency_max for each in observer.of(ConcurrencyLowered)]


def test_after_some_good_runs_more_are_tried_up_to_all(isolation, machine):
    machine.room = 1
    isolation.run(jobs(4))
    isolation.run(jobs(4))
    machine.room = 4
    for _ in range(2 * GOOD_RUNS):
        isolation.run(jobs(4))
    machine.sizes  # noqa: B018 - forgotten
    isolation.run(jobs(4))

    assert [4] == machine.sizes


def test_runs_that_were_not_held_back_report_nothing(isolation, machine):
    machine.room = 2
    isolation.run(jobs(4))
    for _ in range(2 * GOOD_RUNS):
        isolation.run(jobs(2))

    assert 2 == isolation.concurrency


def test_poison_is_no_matter_of_memory(isolation, machine, observer):
    machine.poison = {(1, 2)}
    isolation.run(jobs(4))
    machine.sizes  # noqa: B018 - forgotten
    isolation.run(jobs(4))

    assert [4] == machine.sizes
    assert [] == observer.of(ConcurrencyLowered)


def test_a_job_gets_the_poison_of_its_lanes_and_of_no_other(isolation, machine, observer):
    machine.poison = {(0, 2), (1, 3)}
    isolation.run(jobs(2))
    machine.runs.clear()
    isolation.run(jobs(3))
    isolation.run(jobs(3, start=4, stop=8))

    given = [[*job.poison] for run in machine.runs for job in run]
    assert [[(TOPIC_ID, 0, 2)], [(TOPIC_ID, 1, 3)], [], [], [], []] == given
    assert 2 == len(observer.of(PoisonFound))


def test_what_was_found_first_is_forgotten_and_found_again(
    isolation, machine, observer, monkeypatch
):
    monkeypatch.setattr(poison_isolation, "FOUND_MAX", 2)
    machine.poison = {(0, 0), (0, 4), (0, 8)}
    for start in (0, 4, 8, 8, 0):
        isolation.run(jobs(1, start, start + 4))

    assert [0, 4, 8, 0] == [each.offset for each in observer.of(PoisonFound)]
    assert {False: {(TOPIC_ID, 0, 8), (TOPIC_ID, 0, 0)}, True: set()} == {
        survey: {*found} for survey, found in isolation.poison.items()
    }
    assert {PoisonKind.CONVERTED} == {*isolation.poison[False].values()}
