"""`penstock test`: the cases of a spec are played in memory, and what differs is told."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from penstock.app.spec_tests.comparing import differences, matches
from penstock.app.spec_tests.reading import read_cases
from penstock.app.spec_tests.running import run_case
from penstock.core.errors import InvalidError
from penstock.spec.load import loads

SPEC = """
name: shop
kafka: { brokers: "${env:NOWHERE:-x:9092}", topics: [orders, { pattern: 'shop\\.(?P<name>.+)' }] }
catalogs:
  lake: { type: sql, uri: "sqlite:///./c.db", warehouse: ./lake }
  delta: { type: delta, root: ./delta }
tables:
  - { from: orders, into: delta.shop.orders, where: "amount > 0", continue: true,
      schema: { create: true, hints: { amount: "decimal(10,2)" } } }
  - { from: orders, into: lake.shop.ready }
  - { from: 'shop\\.(?P<name>.+)', into: "lake.shop.{name}", schema: { create: true } }
quarantine: { into: lake.ops.quarantine }
"""
GIVEN = "tables: { lake.shop.ready: { id: long } }\n"


def told(tmp_path: Path, text: str) -> list[list[str]]:
    """Play the cases of a text and give what differs, by case."""
    path = tmp_path / "penstock.test.yaml"
    path.write_text(text)
    file = read_cases(path)
    pipeline = loads(SPEC, base=tmp_path)
    return [differences(case, run_case(pipeline, case, file.tables)) for case in file.cases]


def test_cases_that_end_as_they_say_differ_in_nothing(tmp_path: Path) -> None:
    text = (
        GIVEN
        + """
cases:
  - topic: orders
    records: [{ id: 1, amount: 2.50 }, { id: 2, amount: -1 }, "no json"]
    expect:
      delta.shop.orders: [{ id: 1, amount: 2.5, _kafka_offset: 0 }]
      lake.shop.ready: []
    rejected:
      delta.shop.orders: [P302]
      lake.shop.ready: [P361, P361, P302]
  - topic: shop.clicks
    records: [{ $value: { at: x }, $partition: 1, $key: k }, { $bytes: eyJhdCI6ICJ5In0= }]
    expect: { lake.shop.clicks: [{ at: y }, { at: x, _kafka_partition: 1 }] }
"""
    )
    assert [[], []] == told(tmp_path, text)
    assert ["penstock.test.yaml"] == [each.name for each in tmp_path.iterdir()]


def test_what_differs_is_told_in_words(tmp_path: Path) -> None:
    text = (
        GIVEN
        + """
cases:
  - topic: orders
    records: [{ id: 1 }]
    expect: { lake.shop.ready: [{ id: 2, name: x }], delta.shop.orders: [{}] }
    rejected: { lake.shop.ready: [P302] }
"""
    )
    assert [
        [
            "lake.shop.ready row 1: id is 1, expected 2",
            "lake.shop.ready row 1: there is no column name",
            "delta.shop.orders: 0 rows landed, expected 1",
            "lake.shop.ready: rejected are none, expected P302",
        ]
    ] == told(tmp_path, text)


def test_a_table_that_cannot_be_landed_in_is_told(tmp_path: Path) -> None:
    text = "cases: [{ topic: orders, records: [{ id: 1 }] }]"
    (found,) = told(tmp_path, text)

    assert ["lake.shop.ready is parked: P456"] == [each[:31] for each in found]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("cases: [{ topic: orders, record: [] }]", 1),
        ("cases:\n  - records: []\n", 2),
        ("cases:\n  - topic: orders\n    records: 5\n", 3),
        ("cases: []\ntables: { lake.a: { id: whole } }", 2),
        ("cases:\n  - topic: orders\n    records: [{ $bytes: '*' }]\n", 3),
        ("cases: [", 1),
    ],
)
def test_what_a_file_cannot_say_is_refused_with_its_line(
    tmp_path: Path, text: str, line: int
) -> None:
    path = tmp_path / "penstock.test.yaml"
    path.write_text(text)
    with pytest.raises(InvalidError, match=f":{line}: ") as caught:
        read_cases(path)

    assert "P173" == caught.value.code


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as caught:
        read_cases(tmp_path / "no.test.yaml")

    assert "P173" == caught.value.code


AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("found", "expected", "equal"),
    [
        (Decimal("2.50"), 2.5, True),
        (Decimal("2.50"), "2.50", True),
        (2, 2.0, True),
        (1, True, False),
        (True, True, True),
        (True, 1, False),
        (None, None, True),
        (None, "", False),
        (AT, "2026-11-01T13:00:00+01:00", True),
        (AT, "soon", False),
        (b"ab", "YWI=", True),
        ([1, 2], [1, 2], True),
        ([1, 2], [1], False),
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        (3, "three", False),
    ],
)
def test_values_are_compared_as_people_write_them(found: Any, expected: Any, equal: bool) -> None:
    assert equal is matches(found, expected)
