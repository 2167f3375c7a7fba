"""Readers of both formats, what each gets wrong by itself, and the check that they find all rows.

Invariant: what a reader is not asked, since it answers wrongly whatever a table tells, has a test of
its own in test_deviations_of_readers.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import QueryBuilder
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator, _StrictMetricsEvaluator
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
from tests.properties.random_tables import Begun, Lived

from penstock.core.schema import Kind

Reader = Callable[[Filter], Sequence[int]]


def all_wrong(lived: Lived) -> Iterator[str]:
    """Tell of each filter by which a reader finds other rows than it should."""
    if lived.plan.begun.connector == "lake":
        yield from wrong(lived, by_pyiceberg(lived), Floats.IEEE, pyiceberg_deviates)
        yield from wrong(lived, by_pruned_files(lived), Floats.NAN_LAST, pruning_deviates)
        yield from metadata_wrong(lived)
        return
    yield from wrong(lived, by_scan(lived), Floats.NAN_LAST, datafusion_deviates)
    yield from wrong(lived, by_query(lived), Floats.NAN_LAST, datafusion_deviates)
    if has_data_set(lived.plan.begun):
        yield from wrong(lived, by_data_set(lived), Floats.IEEE, arrow_deviates)
        yield from wrong(lived, by_duckdb(lived), Floats.NAN_LAST, lambda _: False)


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


def has_data_set(begun: Begun) -> bool:
    """Tell whether deltalake can make a data set: not of mapped names, nor of negative decimals."""
    mapped = "delta.columnMapping.mode" in begun.properties
    return not mapped and not {"n9", "n38"} & {*begun.partition_by}


# What readers get wrong by themselves.


def pyiceberg_deviates(asked: Filter) -> bool:
    return (
        arrow_deviates(asked)
        or (asked.type is Kind.UUID and bool(asked.values))
        or (asked.type is Kind.FLOAT and any(math.isinf(each) for each in asked.values))
    )


def pruning_deviates(asked: Filter) -> bool:
    return pyiceberg_deviates(asked) or asked.type is Kind.TIME


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
    lived: Lived, read: Reader, floats: Floats, deviates: Callable[[Filter], bool]
) -> Iterator[str]:
    """Tell of each filter that finds other rows than it should."""
    for asked in lived.plan.filters:
        if deviates(asked):
            continue
        due = sorted(id_ for id_, row in lived.rows.items() if keeps(asked, row, floats))
        found = sorted(read(asked))
        if due != found:
            yield f"{asked}: {due} and not {found}"


def wrong_after_delete(lived: Lived) -> Iterator[str]:
    """Let deltalake delete by the first filter that it can, and tell whether others are gone."""
    if "delta.columnMapping.mode" in lived.plan.begun.properties:
        return  # it writes into no such table
    asked = next(each for each in lived.plan.filters if not datafusion_deviates(each))
    lived.lakes.handle(lived.table).delete(to_sql(asked, DATAFUSION))
    due = [id_ for id_, row in lived.rows.items() if not keeps(asked, row, Floats.NAN_LAST)]
    left = pa.table(lived.lakes.handle(lived.table).scan(columns=["id"]))["id"].to_pylist()
    if sorted(due) != sorted(left):
        yield f"after a delete by {asked}: {sorted(due)} and not {sorted(left)}"


def keeps(asked: Filter, row: dict[str, Any], floats: Floats) -> bool:
    return asked.keeps(value_in(row, asked.column), floats)


def metadata_wrong(lived: Lived) -> Iterator[str]:
    """Tell of each file that is skipped though it holds a row, or taken whole though not all match.

    By the second a delete takes away whole files, by metadata alone.
    """
    known = lived.lakes.known(lived.table)
    asked_of = [each for each in lived.plan.filters if not metadata_deviates(each)]
    for task in known.scan().plan_files():
        path = task.file.file_path.removeprefix("file://")
        rows = [lived.rows[id_] for id_ in pq.read_table(path, columns=["id"])["id"].to_pylist()]
        for asked in asked_of:
            matching = [keeps(asked, row, Floats.IEEE) for row in rows]
            told = to_iceberg(asked)
            if any(matching) and not _InclusiveMetricsEvaluator(known.schema(), told).eval(
                task.file
            ):
                yield f"{asked}: {path} is skipped"
            if asked.op in (Op.NE, Op.NOT_NAN):  # in metadata null differs from all
                nulls = [value_in(row, asked.column) is None for row in rows]
                matching = [any(each) for each in zip(matching, nulls, strict=True)]
            if not all(matching) and _StrictMetricsEvaluator(known.schema(), told).eval(task.file):
                yield f"{asked}: {path} is taken whole"
