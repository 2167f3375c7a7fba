"""The law of readers for Spark: a kept sample of filters finds what it finds over a full scan.

PyIceberg, DuckDB and deltalake are asked of random tables (tests/properties); to ask Spark takes too
long for that. The rows have the values that metadata get wrong, in both formats.
"""

from __future__ import annotations

import datetime as dt
import math
import random  # noqa: TID251  from the name of a table
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from pyiceberg.manifest import FileFormat
from tests.integration.readers.lakes import Lakes
from tests.properties.filters import FLOATS, SPARK, Filter, Floats, Op, to_sql
from tests.properties.nasty_values import (
    INNER,
    MIDNIGHT,
    NOT_OF_DELTA,
    columns_without,
    schema_of,
    value_in,
    values_of,
)

from penstock.core.schema import Field, Kind, Struct, Type
from penstock.files.dictionary_encoding import PAGE_ROWS_MIN
from penstock.ports.tables import TableDefinition

pytestmark = pytest.mark.spark

COMMITS, ROWS = 4, 6
FILTERS_OF_A_COLUMN = 2
AT_ONCE = 25
LAYOUTS = {
    "lake.shop.plain_nasty": (),
    "lake.shop.nasty": ("bucket(4, l)", "truncate(10, in.t)", "year(ts)", "bucket(2, u)"),
    "lake.shop.orc_nasty": ("bucket(4, l)", "truncate(10, in.t)"),
    "delta.shop.nasty": ("on_day", "ok"),
}


GREGORIAN = dt.date(1582, 10, 15)
SLOW = pytest.param("lake.shop.orc_nasty", marks=pytest.mark.slow)


def properties_of(table: str) -> dict[str, str]:
    """Return the properties of a table, by its name."""
    if table.startswith("delta."):
        return {"delta.checkpointInterval": "2"}
    return {"write.format.default": "orc"} if "orc" in table else {}


def columns_in(table: str) -> dict[str, Type]:
    """Spark has no time of day."""
    return columns_without(*NOT_OF_DELTA) if table[0] == "d" else columns_without(Kind.TIME)


def commits(
    columns: Mapping[str, Type], draw: random.Random, is_held: Callable[[Any], bool]
) -> list[list[dict[str, Any]]]:
    """Draw rows; those of a commit have few values in each column, so that files have bounds."""
    found = []
    for number in range(COMMITS):
        few = {
            name: draw.choices([None, *filter(is_held, values_of(t))], k=3)
            for name, t in columns.items()
        }
        rows = []
        for at in range(ROWS):
            flat = {name: draw.choice(values) for name, values in few.items()}
            row = {name: value for name, value in flat.items() if "." not in name}
            inner = {name: flat[f"in.{name}"] for name in INNER}
            plain = {"many": ["a"], "more": [("k", 1.0)]}
            rows.append({"id": ROWS * number + at, "in": inner, **plain, **row})
        found.append(rows)
    return found


def filters(
    columns: Mapping[str, Type], rows: Sequence[Mapping[str, Any]], draw: random.Random
) -> list[Filter]:
    found = []
    for name, type_ in columns.items():
        there = [value for row in rows if (value := value_in(row, name)) is not None]
        pool = [each for each in (*there, *values_of(type_)) if not is_negative_zero(each)]
        for op in draw.sample([each for each in Op if asks(each, type_)], FILTERS_OF_A_COLUMN):
            count = {Op.IN: 3}.get(op, int(op in VALUED))
            found.append(Filter(name, type_, op, tuple(draw.choices(pool, k=count))))
    return found


DELETING = {Op.LT, Op.GT, Op.EQ, Op.IS_NULL}
"""What rows are deleted by in the end: files whose bounds all match go by metadata alone."""
DELETES = 4
VALUED = {Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE, Op.STARTS}


def asks(op: Op, type_: Type) -> bool:
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return type_ in FLOATS
    return op is not Op.STARTS or type_ is Kind.STRING


def is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


def is_held_by_orc(value: Any) -> bool:
    """Return whether a value lands in ORC where a table says so; others land in Parquet."""
    if isinstance(value, dt.datetime):
        after_1970 = value.replace(tzinfo=None) >= MIDNIGHT
        return value.year in range(1700, 2200) and (after_1970 or not value.microsecond)
    if isinstance(value, dt.date):
        return value >= GREGORIAN
    return not is_negative_zero(value)


def condition(asked: Filter) -> str:
    """Write a filter; Spark reads UUIDs as text."""
    if asked.type is Kind.UUID:
        texts = tuple(str(uuid.UUID(bytes=each)) for each in asked.values)
        asked = Filter(asked.column, Kind.STRING, asked.op, texts)
    return to_sql(asked, SPARK)


def found_by_spark(lakes: Lakes, table: str, asked: Sequence[Filter]) -> list[list[int]]:
    """Ask many filters at once; each is pushed down by itself."""
    found: list[list[int]] = [[] for _ in asked]
    for start in range(0, len(asked), AT_ONCE):
        texts = [
            f"SELECT {start + at} AS f, id FROM {lakes.in_spark(table)} WHERE {condition(each)}"
            for at, each in enumerate(asked[start : start + AT_ONCE])
        ]
        for row in lakes.spark.sql(" UNION ALL ".join(texts)).collect():
            found[row["f"]].append(row["id"])
    return found


@pytest.mark.parametrize("table", [SLOW if "orc" in each else each for each in LAYOUTS])
def test_filters_of_spark_find_what_a_full_scan_finds(lakes: Lakes, table: str) -> None:
    draw = random.Random(table)
    columns = columns_in(table)
    definition = TableDefinition(schema_of(columns), LAYOUTS[table], properties_of(table))
    lakes.create(table, definition)
    rows = {}
    is_held = is_held_by_orc if "orc" in table else lambda _: True
    for commit in commits(columns, draw, is_held):
        lakes.landed(table, commit)
        lakes.table(table).housekeep()
        rows |= {row["id"]: row for row in commit}
    asked = filters(columns, [*rows.values()], draw)
    if "orc" in table:
        assert {FileFormat.ORC} == {each.file_format for each in lakes.files(table)}
    lakes.spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert sorted(rows) == sorted(row["id"] for row in lakes.sql("SELECT id FROM {t}", t=table))
    wrong = []
    for each, ids in zip(asked, found_by_spark(lakes, table, asked), strict=True):
        due = [
            id_
            for id_, row in rows.items()
            if each.keeps(value_in(row, each.column), Floats.NAN_LAST)
        ]
        if sorted(ids) != due:
            wrong.append(f"{each}: {due} and not {sorted(ids)}")
    assert [] == wrong
    for name in sorted({"i", "l", "f", "d", "on_day", "s", "n9", "in.k"} & columns.keys()):
        assert summed_up(rows.values(), name) == told_by_spark(lakes, table, name), name
    for each in [each for each in asked if each.op in DELETING][:DELETES]:
        lakes.sql(f"DELETE FROM {{t}} WHERE {condition(each)}", t=table)
        rows = {
            id_: row
            for id_, row in rows.items()
            if not each.keeps(value_in(row, each.column), Floats.NAN_LAST)
        }
        left = sorted(row["id"] for row in lakes.sql("SELECT id FROM {t}", t=table))
        assert sorted(rows) == left, each


def summed_up(rows: Iterable[Mapping[str, Any]], column: str) -> list[Any]:
    """Return how many values there are, the least and the greatest, of which NaN is the last."""
    there = [value for row in rows if (value := value_in(row, column)) is not None]
    nan = [each for each in there if isinstance(each, float) and math.isnan(each)]
    ordered = [*sorted(each for each in there if each not in nan), *nan]
    return [len(there), *map(_shown, (ordered[0], ordered[-1]) if there else (None, None))]


def told_by_spark(lakes: Lakes, table: str, column: str) -> list[Any]:
    """Ask for the same; Spark answers from metadata where it can."""
    text = "SELECT count({c}) AS n, min({c}) AS low, max({c}) AS high FROM {t}"
    name, at = SPARK.column(column), lakes.in_spark(table)
    row = lakes.spark.sql(text.format(c=name, t=at)).collect()[0]
    return [row["n"], _shown(row["low"]), _shown(row["high"])]


def _shown(value: Any) -> str:
    """Show a value; both zeros are 0.0, and NaN is itself."""
    return repr(value + 0.0 if isinstance(value, float) else value)


def test_spark_finds_no_zero_by_one_of_the_other_sign_in_a_dictionary(lakes: Lakes) -> None:
    """It does so of its own files; ours have no dictionary where -0.0 is, so that 0.0 finds it."""
    for table in ("lake.shop.zeros", "delta.shop.zeros"):
        lakes.create(
            table, TableDefinition(Struct((Field("id", Kind.LONG), Field("d", Kind.DOUBLE))))
        )
        lakes.landed(table, [{"id": n, "d": 0.0} for n in range(PAGE_ROWS_MIN)])
        lakes.landed(table, [{"id": PAGE_ROWS_MIN, "d": -0.0}])

        assert [*range(PAGE_ROWS_MIN + 1)] == sorted(
            row["id"] for row in lakes.sql("SELECT id FROM {t} WHERE d = 0.0D", t=table)
        )
        minus = "SELECT id FROM {t} WHERE d = CAST('-0.0' AS double)"
        assert [PAGE_ROWS_MIN] == [row["id"] for row in lakes.sql(minus, t=table)]
