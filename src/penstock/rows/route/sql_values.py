"""SQL expressions computed over records: a value for each record, or why it has none.

A batch is computed at once. Where that fails or takes too long it is computed in parts, of half as
many records after each failure and of twice as many after each success: so one record in a batch
costs about twice log2 of the batch, and a slow machine a few parts.

Invariants:
- a record is rejected only for what a run of it alone came to, in a DuckDB of its own: neither the
  other records nor other work of this process affects the outcome;
- a batch or a part that takes too long rejects nothing: it is cut;
- an expression that is interrupted ends within one call of a function for `ROWS_AT_ONCE` records:
  DuckDB checks for an interrupt between such calls, never within one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import mask_of
from penstock.spec.language.sandbox import sandbox_alone

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_SECONDS_MAX = 60.0
"""The time limit of one expression for a batch of records before it is cut."""
PART_SECONDS_MAX = 6.0
"""The time limit of a part of a batch while slow records are searched for."""
RECORD_SECONDS_MAX = 60.0
"""The time limit of one record by itself before it is rejected."""
ROWS_AT_ONCE = 256
_ROWS_AT_ONCE_IN_PARTS = 16


@dataclass(slots=True)
class SqlValues:
    """A value for each record, null for those that `failed` or are too `slow` by themselves,
    both by position.
    """

    values: pa.Array
    failed: list[int] = field(default_factory=list)
    slow: list[int] = field(default_factory=list)


class TimedOutError(Exception):
    """An expression took too long, and was interrupted."""


def evaluate(connection: DuckDBPyConnection, sql: str, records: pa.Table) -> SqlValues:
    """Compute an expression for every record of a table."""
    from duckdb import Error  # noqa: PLC0415  only specs with SQL need it

    records = _in_chunks(records, ROWS_AT_ONCE)
    try:
        return SqlValues(_column(connection, sql, records, BATCH_SECONDS_MAX))
    except TimedOutError:
        return _by_parts(sql, records)
    except Error:
        pass
    try:
        failed = _column(connection, f"try({sql} is null) is null", records, BATCH_SECONDS_MAX)
        values = _column(connection, f"try({sql})", records, BATCH_SECONDS_MAX)
    except (TimedOutError, Error):
        return _by_parts(sql, records)
    return SqlValues(values, np.flatnonzero(true_of(failed)).tolist())


def true_of(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return where booleans, or nulls of no type, are true."""
    return mask_of(pc.fill_null(values.cast(pa.bool_()), False))


def _by_parts(sql: str, records: pa.Table) -> SqlValues:
    """Compute what fails or is late in one piece, down to the records that do so alone."""
    from duckdb import Error  # noqa: PLC0415  only specs with SQL need it

    records = _in_chunks(records, _ROWS_AT_ONCE_IN_PARTS)
    found: list[pa.Array | None] = []
    done = SqlValues(pa.nulls(0))
    start, count = 0, len(records) // 2
    with closing(sandbox_alone()) as connection:
        while start < len(records):
            count = min(max(count, 1), len(records) - start)
            seconds = PART_SECONDS_MAX if count > 1 else RECORD_SECONDS_MAX
            try:
                found.append(_column(connection, sql, records.slice(start, count), seconds))
            except (TimedOutError, Error) as error:
                if count > 1:
                    count //= 2
                    continue
                found.append(None)
                (done.slow if isinstance(error, TimedOutError) else done.failed).append(start)
                start += 1
                continue
            start, count = start + count, 2 * count
    kind = next((each.type for each in found if each is not None), pa.null())
    done.values = pa.concat_arrays([pa.nulls(1, kind) if each is None else each for each in found])
    return done


def _in_chunks(records: pa.Table, rows: int) -> pa.Table:
    # DuckDB takes a chunk at a time.
    return pa.Table.from_batches(records.to_batches(max_chunksize=rows), records.schema)


def _column(
    connection: DuckDBPyConnection, sql: str, records: pa.Table, seconds: float
) -> pa.Array:
    """Compute one column. Raises TimedOutError, and duckdb.Error for any other reason."""
    query = f"select {sql} as it from records as payload"  # noqa: S608  it was read by the spec
    connection.register("records", records)
    try:
        with _interrupted_after(connection, seconds):
            column = connection.sql(query).to_arrow_table().column("it")
    finally:
        connection.unregister("records")
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


@contextmanager
def _interrupted_after(connection: DuckDBPyConnection, seconds: float) -> Iterator[None]:
    from duckdb import Error  # noqa: PLC0415  only specs with SQL need it

    late = threading.Event()

    def interrupt() -> None:
        late.set()
        connection.interrupt()

    limit = threading.Timer(seconds, interrupt)
    limit.daemon = True
    limit.start()
    try:
        yield
    except Error as error:
        if late.is_set():
            raise TimedOutError from error
        raise
    finally:
        limit.cancel()
        limit.join()  # or it could interrupt what is computed next
