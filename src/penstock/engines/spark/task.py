"""The body of a Spark task: find the job by number, do the work, return the outcome as a row.

Invariants:
- a PenstockError is an outcome, in the row: Spark does not retry what is definite;
- any other exception is left to Spark, which retries it and then fails the run;
- only text crosses: jobs, results and errors are never pickled objects;
- a worker with other versions than the driver's does nothing, also on an executor that joins later;
- `perform` keeps its parameters in all releases, so that another release can report that it is one.
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
    """Do the jobs whose numbers come in, one row of OUTCOME_COLUMNS for each.

    `driver` holds the driver's versions, none where there is nothing to compare.
    """
    import pyarrow as pa

    columns = pa.schema([("job", pa.int64()), ("result", pa.string()), ("error", pa.string())])
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            result, error = _outcome(driver, work, jobs[number])
            row = [[number], [result], [error]]
            yield pa.record_batch(
                [pa.array(cell, column.type) for cell, column in zip(row, columns, strict=True)],
                schema=columns,
            )


def error_to_text(error: PenstockError) -> str:
    """Write an error as JSON; a subclass counts as the direct child of PenstockError it is."""
    kind = next((each.__name__ for each in _kinds() if isinstance(error, each)), "")
    return json.dumps(
        {"kind": kind, "message": error.message, "code": error.code, "hint": error.hint}
    )


def error_from_text(text: str) -> PenstockError:
    """Read an error that `error_to_text` wrote; an unknown kind is a BugError."""
    data = json.loads(text)
    kind = {each.__name__: each for each in _kinds()}.get(data["kind"], BugError)
    return kind(data["message"], code=data["code"], hint=data["hint"])


def _kinds() -> list[type[PenstockError]]:
    return PenstockError.__subclasses__()


def _outcome(driver: Mapping[str, str], work: str, job: str) -> tuple[str | None, str | None]:
    try:
        require_agreement(driver)
        return find_work(work)(job), None
    except PenstockError as error:
        return None, error_to_text(error)
    finally:
        _settle()


@cache
def _settle() -> None:
    """Exclude what the first job imported from garbage collection, which PySpark's worker runs
    after each task.
    """
    gc.collect()
    gc.freeze()
