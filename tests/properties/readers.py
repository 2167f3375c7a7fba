"""Readers of both formats, what each gets wrong by itself, and the check that they find all rows.

Invariant: what a reader is not asked, since it answers wrongly whatever a table records, has a test of
its own in test_deviations_of_readers.py.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import QueryBuilder
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
from tests.properties.changes import NEVER
from tests.properties.filters import (
    DATAFUSION,
    DUCKDB,
    FLOATS,
    Filter,
    Floats,
    Op,
    to_arrow,
    to_iceberg,
    to_sql,
)
from tests.properties.nasty_values import value_in
from tests.properties.random_tables import Lived, deltalake_writes

from penstock.core.schema import Decimal, Kind

DIGITS_OF_A_DOUBLE = 15
COMPARES_NO_VIEWS = re.compile(r"matching input types \((binary|string), \1_view\)")
"""What Arrow raises, rather than to miss rows, where deltalake deleted rows from files."""
TOO_WIDE = re.compile(r"Decimal type with precision \d+ does not fit into precision")
"""What PyIceberg raises by a literal that files of before a column was widened cannot hold."""
Reader = Callable[[Filter], Sequence[int]]


def all_wrong(lived: Lived) -> Iterator[str]:
    """Yield each filter by which a reader finds other rows than it should."""
    if lived.plan.begun.connector == "lake":
        far = far_days(lived)
        yield from wrong(
            lived,
            by_pyiceberg(lived),
            Floats.IEEE,
            lambda asked: (
                pyiceberg_deviates(asked) or far(asked) or differs_from_absent(lived, asked)
            ),
        )
        if lived.plan.change == NEVER:  # files alone know no column that changed
            yield from wrong(
                lived,
                by_pruned_files(lived),
                Floats.NAN_LAST,
                lambda asked: pruning_deviates(asked) or far(asked),
            )
        yield from metadata_wrong(lived)
        return
    rounded = bounds_of_deltalake_deviate(lived)
    for read in (by_scan(lived), by_query(lived)):
        yield from wrong(
            lived,
            read,
            Floats.NAN_LAST,
            lambda asked: datafusion_deviates(asked) or (asked.type in FLOATS and rounded(asked)),
        )
    if deltalake_writes(lived.plan.begun):
        found = data_set_of(lived)
        yield from wrong(
            lived,
            by_data_set(lived),
            Floats.IEEE,
            lambda asked: arrow_deviates(asked) or rounded(asked),
            found,
        )
        yield from wrong(lived, by_duckdb(lived), Floats.NAN_LAST, rounded, found)


# Readers.


def by_pyiceberg(lived: Lived) -> Reader:
    known = lived.lakes.known(lived.table)
    return lambda asked: (
        known.scan(row_filter=to_iceberg(asked), selected_fields=("id",))
        .to_arrow()["id"]
        .to_pylist()
    )


def by_pruned_files(lived: Lived) -> Reader:
    """Let DuckDB read the files that PyIceberg does not skip."""
    known = lived.lakes.known(lived.table)
    session = duckdb.connect()
    session.execute("SET TimeZone = 'UTC'")

    def read(asked: Filter) -> list[int]:
        tasks = list(known.scan(row_filter=to_iceberg(asked)).plan_files())
        if not tasks:
            return []
        paths = [task.file.file_path for task in tasks]
        text = f"SELECT id FROM read_parquet(?, union_by_name=true) WHERE {to_sql(asked, DUCKDB)}"
        return [id_ for (id_,) in session.execute(text, [paths]).fetchall()]

    return read


def by_scan(lived: Lived) -> Reader:
    handle = lived.lakes.handle(lived.table)
    return lambda asked: pa.table(handle.scan(columns=["id"], predicate=to_sql(asked, DATAFUSION)))[
        "id"
    ].to_pylist()


def by_query(lived: Lived) -> Reader:
    session = QueryBuilder().register("t", lived.lakes.handle(lived.table))
    return lambda asked: pa.table(
        session.execute(f"SELECT id FROM t WHERE {to_sql(asked, DATAFUSION)}")
    )["id"].to_pylist()


def by_data_set(lived: Lived) -> Reader:
    rows = lived.lakes.handle(lived.table).to_pyarrow_dataset()
    return lambda asked: rows.to_table(filter=to_arrow(asked), columns=["id"])["id"].to_pylist()


def by_duckdb(lived: Lived) -> Reader:
    session = duckdb.connect()
    session.execute("SET TimeZone = 'UTC'")
    session.register("t", lived.lakes.handle(lived.table).to_pyarrow_dataset())

    def read(asked: Filter) -> list[int]:
        text = f"SELECT id FROM t WHERE {to_sql(asked, DUCKDB)}"
        return [id_ for (id_,) in session.execute(text).fetchall()]

    return read


# What readers get wrong by themselves.


def pyiceberg_deviates(asked: Filter) -> bool:
    return (
        arrow_deviates(asked)
        or (asked.type is Kind.UUID and bool(asked.values))
        or (asked.type is Kind.FLOAT and any(math.isinf(each) for each in asked.values))
    )


def pruning_deviates(asked: Filter) -> bool:
    return pyiceberg_deviates(asked) or asked.type is Kind.TIME


def differs_from_absent(lived: Lived, asked: Filter) -> bool:
    """Return whether PyIceberg deviates: it finds all rows of files older than the column."""
    return asked.op in (Op.NE, Op.NOT_NAN) and asked.column in lived.plan.change.later


def far_days(lived: Lived) -> Callable[[Filter], bool]:
    """Return what selects filters by the first or last day of a year or month partition.

    PyIceberg knows no day before and after, and raises.
    """
    split = {column for name, column in lived.plan.begun.layout if name in ("year", "month")}

    def raises(asked: Filter) -> bool:
        if asked.column not in split:
            return False
        days = (each.date() if isinstance(each, dt.datetime) else each for each in asked.values)
        return any(each in (dt.date.min, dt.date.max) for each in days)

    return raises


def bounds_of_deltalake_deviate(lived: Lived) -> Callable[[Filter], bool]:
    """Return what selects filters by values next to which deltalake writes its bounds.

    It rounds those of long decimals to doubles, and NaN is outside of those of floats.
    """
    files = lived.lakes.handle(lived.table).file_uris()
    foreign = any(not Path(each).name.startswith("shop-") for each in files)

    def deviates(asked: Filter) -> bool:
        if not foreign or not asked.values:
            return False
        if isinstance(asked.type, Decimal):
            return asked.type.precision > DIGITS_OF_A_DOUBLE
        held = (value_in(row, asked.column) for row in lived.rows.values())
        return asked.type in FLOATS and any(each is not None and math.isnan(each) for each in held)

    return deviates


def data_set_of(lived: Lived) -> Callable[[Filter, set[int]], set[int]]:
    """Return what deltalake's data sets find of what they should.

    Of a file that has bounds of other columns, and neither a bound nor nulls of one, they take the
    bound for null: all its rows hold a value there, and none is equal to, below or above any. Files
    that we wrote have all bounds that were asked for then.
    """
    handle = lived.lakes.handle(lived.table)
    base = Path(handle.table_uri.removeprefix("file://"))
    files = [
        (
            Path(each.path).name,
            str(each.partition_expression),
            {*pq.read_table(base / each.path)["id"].to_pylist()},
        )
        for each in handle.to_pyarrow_dataset().get_fragments()
    ]

    def found(asked: Filter, due: set[int]) -> set[int]:
        if asked.op in (Op.IS_NAN, Op.NOT_NAN):
            return due
        is_later = asked.column in lived.plan.change.later
        for name, predicate, ids in files:
            ours_then = name.startswith("shop-") and name not in lived.unindexed
            if ours_then and not (is_later and name in lived.older):
                continue
            if (
                f"({asked.column} >= null[" in predicate
                and f"is_null({asked.column}," not in predicate
            ):
                due = due | ids if asked.op is Op.NOT_NULL else due - ids
        return due

    return found


def metadata_deviates(asked: Filter) -> bool:
    return "." in asked.column or pruning_deviates(asked)


def arrow_deviates(asked: Filter) -> bool:
    if asked.type not in FLOATS:
        return False
    return any(map(math.isnan, asked.values)) or datafusion_deviates(asked)


def datafusion_deviates(asked: Filter) -> bool:
    return asked.type in FLOATS and asked.op is Op.IN and 0.0 in asked.values


# Checks.


def wrong(
    lived: Lived,
    read: Reader,
    floats: Floats,
    deviates: Callable[[Filter], bool],
    answer: Callable[[Filter, set[int]], set[int]] = lambda _, due: due,
) -> Iterator[str]:
    """Yield each filter that finds other rows than it should; `answer` is a reader's answer."""
    for asked in lived.plan.filters:
        if deviates(asked):
            continue
        kept = {id_ for id_, row in lived.rows.items() if keeps(asked, row, floats)}
        due = sorted(answer(asked, kept))
        try:
            found = sorted(read(asked))
        except (pa.ArrowException, duckdb.InvalidInputException) as error:
            wide = asked.column in lived.plan.change.widened and TOO_WIDE.search(str(error))
            if not wide and not COMPARES_NO_VIEWS.search(str(error)):
                raise
            continue
        if due != found:
            yield f"{read.__qualname__} {asked}: {due} and not {found}"


def wrong_after_delete(lived: Lived) -> Iterator[str]:
    """Let deltalake delete by the first filter that it can; return whether others are missing."""
    if not deltalake_writes(lived.plan.begun):
        return
    asked = next(each for each in lived.plan.filters if not datafusion_deviates(each))
    lived.lakes.handle(lived.table).delete(to_sql(asked, DATAFUSION))
    due = [id_ for id_, row in lived.rows.items() if not keeps(asked, row, Floats.NAN_LAST)]
    left = pa.table(lived.lakes.handle(lived.table).scan(columns=["id"]))["id"].to_pylist()
    if sorted(due) != sorted(left):
        yield f"after a delete by {asked}: {sorted(due)} and not {sorted(left)}"


def keeps(asked: Filter, row: dict[str, Any], floats: Floats) -> bool:
    return asked.keeps(value_in(row, asked.column), floats)


def metadata_wrong(lived: Lived) -> Iterator[str]:
    """Yield each file that is skipped though a row matches, or taken whole though not all do.

    By the second a delete takes away whole files, by metadata alone.
    """
    known = lived.lakes.known(lived.table)
    asked_of = [each for each in lived.plan.filters if not metadata_deviates(each)]
    for task in known.scan().plan_files():
        path = task.file.file_path.removeprefix("file://")
        rows = [lived.rows[id_] for id_ in pq.read_table(path, columns=["id"])["id"].to_pylist()]
        for asked in asked_of:
            matching = [keeps(asked, row, Floats.IEEE) for row in rows]
            expression = to_iceberg(asked)
            if any(matching) and not _InclusiveMetricsEvaluator(known.schema(), expression).eval(
                task.file
            ):
                yield f"{asked}: {path} is skipped"
            if asked.op in (Op.NE, Op.NOT_NAN):  # in metadata null differs from all
                nulls = [value_in(row, asked.column) is None for row in rows]
                matching = [any(each) for each in zip(matching, nulls, strict=True)]
            if not all(matching) and _StrictMetricsEvaluator(known.schema(), expression).eval(
                task.file
            ):
                yield f"{asked}: {path} is taken whole"
