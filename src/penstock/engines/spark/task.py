"""The body of a Spark task: find the job by number, do the work, return the outcome as a row.

Invariants:
- a PenstockError is an outcome, in the row: Spark does not retry what is definite;
- any other exception is left to Spark, which retries it and then fails the run;
- only text crosses: jobs, results and errors are never pickled objects;
- a worker with other versions than the driver's does nothing, also on an executor that joins later;
- `perform` keeps its parameters in all releases, so that another release can report that it is one;
- in `perform_once`, a later attempt at a task does no work and says so.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from penstock.core.errors import BugError, PenstockError
from penstock.engines.spark.versions import require_agreement
from penstock.engines.work import find_work

if TYPE_CHECKING:
    import pyarrow as pa

OUTCOME_COLUMNS = "job bigint, result string, error string"


def perform(
    driver: Mapping[str, str], work: str, jobs: Sequence[str], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do the jobs with the numbers that come in, one row of OUTCOME_COLUMNS for each.

    `driver` holds the driver's versions, none where there is nothing to compare.
    """
    import pyarrow as pa

    columns = pa.schema([("job", pa.int64()), ("result", pa.string()), ("error", pa.string())])
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            result = error = None
            try:
                require_agreement(driver)
                result = find_work(work)(jobs[number])
            except PenstockError as failed:
                error = error_to_text(failed)
            finally:
                _settle()
            row = {"job": number, "result": result, "error": error}
            yield pa.RecordBatch.from_pylist([row], columns)


def perform_once(
    driver: Mapping[str, str], work: str, jobs: Sequence[str], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do as `perform` in a task's first attempt; in a later one, return rows without an outcome.

    A copy of a task and a repetition have numbers above 0. A repeated stage counts from 0 again,
    which only the driver sees (`attempts.py`).
    """
    import pyarrow as pa
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "runs in a task"
    if context.attemptNumber() == 0:
        yield from perform(driver, work, jobs, numbers)
        return
    for batch in numbers:
        nothing = pa.nulls(batch.num_rows, pa.string())
        yield pa.RecordBatch.from_arrays(
            [batch.column(0), nothing, nothing], names=["job", "result", "error"]
        )


def error_to_text(error: PenstockError) -> str:
    """Write an error as JSON; a subclass counts as the direct child of PenstockError it is."""
    kinds = PenstockError.__subclasses__()
    kind = next((each.__name__ for each in kinds if isinstance(error, each)), "")
    return json.dumps(
        {"kind": kind, "message": error.message, "code": error.code, "hint": error.hint}
    )


def error_from_text(text: str) -> PenstockError:
    """Read an error that `error_to_text` wrote; an unknown kind is a BugError."""
    data = json.loads(text)
    kinds = {each.__name__: each for each in PenstockError.__subclasses__()}
    kind = kinds.get(data["kind"], BugError)
    return kind(data["message"], code=data["code"], hint=data["hint"])


@cache
def _settle() -> None:
    """Exclude what the first job imported from garbage collection, which PySpark's worker runs
    after each task.
    """
    gc.collect()
    gc.freeze()
