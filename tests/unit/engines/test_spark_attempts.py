"""Whether a run's tasks ran once, from what Spark's status store says; Java's objects are fakes."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.engines.spark.attempts import StageAttempts, ran_once, seen_to_run_once

ONCE = StageAttempts(attempt=0, planned=3, completed=3, failed=0)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ([ONCE], True),
        ([StageAttempts(1, 3, 3, 0)], False),
        ([StageAttempts(0, 3, 2, 0)], False),
        ([StageAttempts(0, 3, 3, 1)], False),
        ([StageAttempts(0, 2, 2, 0)], False),
        ([ONCE, ONCE], False),
        ([None], False),
        ([], False),
    ],
)
def test_tasks_ran_once_in_one_stage_that_is_complete_at_its_first_attempt(
    stages: list[StageAttempts | None], expected: bool
) -> None:
    assert expected == ran_once(stages, 3)


@dataclass
class Tracker:
    """A SparkStatusTracker that is told one answer a look, and repeats the last."""

    looks: list[list[str]]
    stage: StageAttempts | None = ONCE
    waits: list[float] = field(default_factory=list)

    def getJobIdsForTag(self, tag: str) -> list[int]:  # noqa: N802 - Java's name
        assert tag == "tag"
        return list(range(len(self._look())))

    def getJobInfo(self, number: int) -> Any:  # noqa: N802
        status = self._look()[number]
        return _option(
            SimpleNamespace(status=lambda: status, stageIds=lambda: [7]) if status else None
        )

    def getStageInfo(self, number: int) -> Any:  # noqa: N802
        assert number == 7
        stage = self.stage
        if stage is None:
            return _option(None)
        return _option(
            SimpleNamespace(
                currentAttemptId=lambda: stage.attempt,
                numTasks=lambda: stage.planned,
                numCompletedTasks=lambda: stage.completed,
                numFailedTasks=lambda: stage.failed,
            )
        )

    def _look(self) -> list[str]:
        return self.looks[min(len(self.waits), len(self.looks) - 1)]


def test_a_job_whose_end_is_seen_late_ran_once() -> None:
    tracker = Tracker([[], [""], ["RUNNING"], ["SUCCEEDED"]])

    assert seen_to_run_once(tracker, "tag", 3, tracker.waits.append)
    assert 3 == len(tracker.waits)


@pytest.mark.parametrize(
    "tracker",
    [
        Tracker([[]]),
        Tracker([["RUNNING"]]),
        Tracker([["FAILED"]]),
        Tracker([["SUCCEEDED", "SUCCEEDED"]]),
        Tracker([["SUCCEEDED"]], stage=None),
        Tracker([["SUCCEEDED"]], stage=StageAttempts(1, 3, 3, 0)),
    ],
)
def test_what_is_not_seen_did_not_run_once(tracker: Tracker) -> None:
    assert not seen_to_run_once(tracker, "tag", 3, tracker.waits.append)
    assert sum(tracker.waits) <= 2.0 + 1e-6


def _option(value: Any) -> Any:
    return SimpleNamespace(isDefined=lambda: value is not None, get=lambda: value)
