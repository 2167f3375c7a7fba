"""Expressions of tables, computed by us and by Spark over the same rows: values, nulls, failures."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal as Exact
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.integration.readers.lakes import Lakes

from penstock.core.expressions.literals import UnsupportedError
from penstock.core.expressions.parser import parse
from penstock.core.schema import Decimal, Field, Kind, Struct
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.demands.evaluate import evaluate

pytestmark = pytest.mark.spark

COLUMNS = Struct(
    (
        Field("row", Kind.INT),
        Field("a", Kind.INT),
        Field("b", Kind.LONG),
        Field("f", Kind.FLOAT),
        Field("d", Kind.DOUBLE),
        Field("p", Decimal(9, 2)),
        Field("s", Kind.STRING),
        Field("ok", Kind.BOOLEAN),
        Field("day", Kind.DATE),
        Field("at", Kind.TIMESTAMPTZ),
        Field("local", Kind.TIMESTAMP),
        Field("Place", Struct((Field("city x", Kind.STRING), Field("zip", Kind.INT)))),
    )
)
INTS = [0, 1, -1, 7, 1000, (1 << 31) - 1, -(1 << 31), None]
LONGS = [0, 1, -1, 3_000_000_000, (1 << 63) - 1, -(1 << 63), 1 << 53, (1 << 53) + 1, None]
DOUBLES = [0.0, -0.0, 0.5, 1.0, -2.25, float("nan"), float("inf"), 1e300, 9007199254740993.0, None]
DECIMALS = [
    None if each is None else Exact(each) for each in ("0", "0.5", "-1", "9999999.99", None)
]
TEXTS = ["", "a", "ab", "Ab", "äbc", "😀e\u0301x", "é", "zzzzzzz", None]
TIMES = [
    None if each is None else dt.datetime.fromisoformat(each)
    for each in (
        *("2024-02-29T23:59:59.999999", "1969-12-31T23:59:59.999999", "1970-01-01T00:00:00"),
        *("0999-12-31T00:00:01", "0001-01-01T00:00:00", "9999-12-31T23:00:00", None),
    )
]


class Chosen:
    """Chooses among values, the same ones each time."""

    def __init__(self, seed: int) -> None:
        self._numbers = np.random.default_rng(seed)

    def choice(self, values: Sequence[Any]) -> Any:
        return values[int(self._numbers.integers(len(values)))]


def rows_of(count: int) -> pa.RecordBatch:
    """Return rows in which values of all columns meet in many ways."""
    chosen = Chosen(26)
    rows = [
        {
            "row": number,
            "a": chosen.choice(INTS),
            "b": chosen.choice(LONGS),
            "f": chosen.choice([0.1, *DOUBLES[:7], None]),
            "d": chosen.choice(DOUBLES),
            "p": chosen.choice(DECIMALS),
            "s": chosen.choice(TEXTS),
            "ok": chosen.choice([True, False, None]),
            "day": at and at.date() if (at := chosen.choice(TIMES)) else None,
            "at": at and at.replace(tzinfo=dt.UTC) if (at := chosen.choice(TIMES)) else None,
            "local": chosen.choice(TIMES),
            "Place": chosen.choice(
                [None, {"city x": chosen.choice(TEXTS), "zip": chosen.choice(INTS)}]
            ),
        }
        for number in range(count)
    ]
    return pa.RecordBatch.from_pylist(rows, arrow_schema(COLUMNS))


FIXED = [
    *("a > 0 AND b BETWEEN 1 AND 1000", "a + 1", "a - 1 < b", "a * a", "b * b", "b + b", "b - 1"),
    *("-a", "-b + 1", "- a * 2", "a / b", "d / f", "a / 2 > 1 OR a = 0", "b <> 0 AND a / b >= 1"),
    *("b = 0 OR a / b < 1", "a / b > 0 OR b = 0", "a / 0 = 1 AND ok", "NOT ok", "! a = 1", "ok = true"),
    *("ok > false", "ok IS NULL", "a IS NOT NULL", "NOT a IS NULL", "a = b", "a <=> b", "d <=> d"),
    *("d = d", "d > f", "d >= 0", "d < 0.5", "f = 0.1", "f < 1", "f + a", "f * f", "d - d = 0", "-d"),
    *("p > 0", "p * 2", "p + 1.005", "p - a", "p + b", "p * p", "-p", "p IN (0.5, 1)", "p = b", "p < 0.50"),
    *("s = 'ab'", "s > 'ab'", "s <> ''", "s IN ('a', 'äbc')", "s NOT IN ('a', NULL)", "s IN (NULL)"),
    *("a IN (1, 7, 3000000000)", "d IN (0, 0.5)", "d IN (0.0D, 1e300)", "length(s) <= 2", "LENGTH(s)"),
    *("substring(s, 2)", "substr(s, 1, 2)", "substring(s, 3, 0) = ''", "char_length(s) > 1"),
    *("day >= '1970-01-01'", "day < DATE'2024-02-29'", "day = at", "at > TIMESTAMP'2000-01-01 00:00:00'"),
    *("at <= '1970-01-01T00:00:00+00:00'", "local = at", "local > TIMESTAMP_NTZ'1970-01-01 00:00:00'"),
    *("CAST(at AS DATE)", "cast(local as date)", "year(at)", "month(day)", "day(local)", "hour(at)"),
    *("dayofmonth(at)", "hour(local)", "day <=> cast(at as date)", "at BETWEEN local AND day"),
    *("date_format(at, 'yyyy-MM-dd-HH')", "date_format(day, 'yyyyMMddHH')", "date_format(local, 'yyyy')"),
    *("place.`city x` = 'a'", "PLACE.zip + 1", "place.zip IS NULL", "place IS NULL", "row = row = ok"),
    *("a NOT BETWEEN 0 AND 7 AND NOT ok", "ok AND NULL", "ok OR NULL", "a = NULL", "a <=> NULL", "NULL IS NULL"),
    *("1.5 + 1 > a", "2147483647 + 1 > b", "a + 2147483647L", "1e3 > a", ".5 < d", "5. = p", "-5 - -3 = a"),
]  # fmt: skip


def test_our_values_are_those_of_spark(lakes: Lakes) -> None:
    rows = rows_of(60)
    assert {} == differing(lakes, rows, FIXED)


@pytest.mark.slow
def test_our_values_of_random_expressions_are_those_of_spark(lakes: Lakes) -> None:
    rows, chosen = rows_of(200), Chosen(4)
    texts = [text for text in (_condition(chosen, 3) for _ in range(700)) if _is_read(text)]
    assert len(texts) > 300
    for part in _parts(texts):
        assert {} == differing(lakes, rows, part)


def differing(lakes: Lakes, rows: pa.RecordBatch, texts: Sequence[str]) -> dict[str, Any]:
    """Return where Spark's values or failures are others, by expression."""
    assert lakes.spark is not None
    lakes.spark.createDataFrame(pa.Table.from_batches([rows])).createOrReplaceTempView("given")
    ours, failed = {}, {}
    for number, text in enumerate(texts):
        made = evaluate(parse(text, COLUMNS), rows)
        failed[number] = [] if made.failed is None else made.failed.nonzero()[0].tolist()
        ours[number] = made.values.to_pylist()
    columns = [
        f"CASE WHEN row NOT IN ({', '.join(map(str, [-1, *failed[number]]))}) THEN {text} END"
        f" AS e{number}"
        for number, text in enumerate(texts)
    ]
    found = lakes.spark.sql(f"SELECT {', '.join(columns)} FROM given ORDER BY row").toArrow()
    wrong: dict[str, Any] = {}
    for number, text in enumerate(texts):
        theirs = found.column(f"e{number}").to_pylist()
        pairs = zip(ours[number], theirs, strict=True)
        differs = [
            (row, mine, other)
            for row, (mine, other) in enumerate(pairs)
            if row not in failed[number] and repr(mine) != repr(other)
        ]
        if differs:
            wrong[text] = differs[:3]
        for row in failed[number][:1]:
            if not _fails(lakes, text, row):
                wrong[text] = f"Spark computes row {row}: {rows.slice(row, 1).to_pylist()}"
    return wrong


def _fails(lakes: Lakes, text: str, row: int) -> bool:
    from pyspark.errors import ArithmeticException

    assert lakes.spark is not None
    try:
        lakes.spark.sql(f"SELECT {text} FROM given WHERE row = {row}").collect()
    except ArithmeticException:
        return True
    return False


def _is_read(text: str) -> bool:
    try:
        parse(text, COLUMNS)
    except UnsupportedError:
        return False
    return True


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[at : at + 60] for at in range(0, len(texts), 60))


NUMBERS = ["a", "b", "f", "d", "p", "place.zip", "0", "1", "-7", "2.5", "0.01", "3000000000", "1e2"]
NUMBERS += ["length(s)", "year(at)", "hour(local)", "NULL"]
STRINGS = ["s", "place.`city x`", "'a'", "''", "substring(s, 2, 2)", "date_format(at, 'yyyy-MM')"]
DAYS = ["day", "at", "local", "CAST(at AS DATE)", "DATE'1970-01-01'", "'2024-02-29'"]


def _number(chosen: Chosen, depth: int) -> str:
    if depth == 0 or chosen.choice([True, False]):
        return chosen.choice(NUMBERS)
    sign = chosen.choice("+-*/")
    text = f"{_number(chosen, depth - 1)} {sign} {_number(chosen, depth - 1)}"
    return f"({text})" if chosen.choice([True, False]) else text


def _condition(chosen: Chosen, depth: int) -> str:
    if depth and chosen.choice([True, True, False]):
        one, other = _condition(chosen, depth - 1), _condition(chosen, depth - 1)
        text = f"{one} {chosen.choice(['AND', 'OR'])} {other}"
        return chosen.choice([text, f"({text})", f"NOT ({text})", f"NOT {one}"])
    kinds = (
        lambda: _number(chosen, 2),
        lambda: chosen.choice(STRINGS),
        lambda: chosen.choice(DAYS),
    )
    kind = chosen.choice(kinds)
    one, other, third = kind(), kind(), kind()
    sign = chosen.choice(["=", "<>", "<", "<=", ">", ">=", "<=>", "=="])
    return chosen.choice(
        [
            f"{one} {sign} {other}",
            f"{one} BETWEEN {other} AND {third}",
            f"{one} IS NOT NULL",
            f"{one} NOT IN ({chosen.choice(['0, 1, 2.5', 'NULL, 7', '3000000000, 0'])})",
            "ok",
        ]
    )
