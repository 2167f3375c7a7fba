"""Whether Spark ran each task of a run exactly once, by the driver's status store.

Invariants:
- what was not seen is not so: a lost event, a job that is not listed or a stage that was not kept
  (`spark.ui.retainedStages`) never counts as having run once;
- a stage that is complete in its first attempt has run each task to its end in that attempt;
  a later attempt at a task does no work (`perform_once`), so each job ran exactly once.

Copies that Spark killed are not counted: they are later attempts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SEEN_SECONDS_MAX = 2.0
"""How long the listener bus may take to show a job's end."""
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class StageAttempts:
    """What the status store knows of one stage: its latest attempt, and tasks by their end."""

    attempt: int
    planned: int
    completed: int
    failed: int


def ran_once(stages: Sequence[StageAttempts | None], tasks: int) -> bool:
    """Return whether the stages of one job are a single one whose tasks were each tried once."""
    return list(stages) == [StageAttempts(attempt=0, planned=tasks, completed=tasks, failed=0)]


def seen_to_run_once(tracker: Any, tag: str, tasks: int, wait: Callable[[float], object]) -> bool:
    """Return whether the one job of a tag ended, and ran once; waits at most SEEN_SECONDS_MAX.

    `tracker` is Java's SparkStatusTracker, `tasks` the number of tasks of the job.
    """
    for _ in range(round(SEEN_SECONDS_MAX / LOOK_SECONDS)):
        jobs = [_present(tracker.getJobInfo(number)) for number in tracker.getJobIdsForTag(tag)]
        if len(jobs) > 1:
            return False
        if jobs and jobs[0] is not None and str(jobs[0].status()) != "RUNNING":
            stages = [_stage(tracker.getStageInfo(number)) for number in jobs[0].stageIds()]
            return str(jobs[0].status()) == "SUCCEEDED" and ran_once(stages, tasks)
        wait(LOOK_SECONDS)
    return False


def _stage(option: Any) -> StageAttempts | None:
    stage = _present(option)
    if stage is None:
        return None
    return StageAttempts(
        attempt=stage.currentAttemptId(),
        planned=stage.numTasks(),
        completed=stage.numCompletedTasks(),
        failed=stage.numFailedTasks(),
    )


def _present(option: Any) -> Any:
    """Return what a Scala Option holds, or None."""
    return option.get() if option.isDefined() else None
