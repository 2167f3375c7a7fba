"""`penstock test`: the cases of a spec are played in memory, and what differs is reported."""

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


def reported(tmp_path: Path, text: str) -> list[list[str]]:
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
    assert [[], []] == reported(tmp_path, text)
    assert ["penstock.test.yaml"] == [each.name for each in tmp_path.iterdir()]


def test_what_differs_is_reported_in_words(tmp_path: Path) -> None:
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
    ] == reported(tmp_path, text)


def test_a_table_that_cannot_be_landed_in_is_reported(tmp_path: Path) -> None:
    text = "cases: [{ topic: orders, records: [{ id: 1 }] }]"
    (found,) = reported(tmp_path, text)

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


@pytest.mark.parametrize(
    ("case", "fact", "hint"),
    [
        ("topic: order", "no rule takes topic 'order'", "did you mean orders?"),
        (
            "topic: orders\n    expect: { lake.shop.redy: [] }",
            "no rule makes table 'lake.shop.redy'",
            "did you mean lake.shop.ready?",
        ),
    ],
)
def test_a_topic_or_table_that_no_rule_knows_is_refused(
    tmp_path: Path, case: str, fact: str, hint: str
) -> None:
    with pytest.raises(InvalidError, match=f"line 3, case 0: {fact}") as caught:
        reported(tmp_path, f"{GIVEN}cases:\n  - {case}\n    records: []\n")

    assert ("P173", hint) == (caught.value.code, caught.value.hint)


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
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


KEYED = """
name: shop
kafka: { brokers: "x:9092", topics: [prices, orders] }
catalogs: { lake: { type: sql, uri: "sqlite:///./c.db", warehouse: ./lake } }
tables:
  - { from: prices, into: lake.shop.prices, mode: cdc, keys: [id], records: { envelope: debezium },
      schema: { create: true, hints: { id: long, price: "decimal(9,2)" } } }
  - { from: orders, into: lake.shop.orders, mode: upsert, keys: [id],
      records: { key_format: json }, schema: { create: true, hints: { id: long } } }
quarantine: { into: lake.ops.quarantine }
"""


def test_a_keyed_table_is_expected_as_it_is_after_the_last_record(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/test-a-spec.md").read_text()
    (documented,) = [
        block.partition("CASES\n")[0]
        for block in page.split("<<'CASES'\n")[1:]
        if "topic: prices" in block.partition("CASES\n")[0]
    ]
    text = """
  - topic: orders
    records:
      - { $value: { id: 1, v: a }, $key: "1" }
      - { $value: { id: 2, v: b }, $key: "2" }
      - { $value: { id: 1, v: c }, $key: "1" }
      - { $value: { id: 3, v: d }, $key: "3" }
      - { $value: null, $key: "2" }
      - { id: null }
    expect: { lake.shop.orders: [{ id: 3, v: d }, { id: 1, v: c, _kafka_offset: 2 }] }
    rejected: { lake.shop.orders: [P373] }
  - topic: orders
    records: [{ $value: { id: 1, v: a } }, { $value: { id: 2, v: b } }]
    expect: { lake.shop.orders: [{ id: 1, v: b }, { id: 3 }] }
  - topic: orders
    records: [{ $value: { id: 1, v: a } }]
    expect: { lake.shop.orders: [{ v: b }] }
"""
    path = tmp_path / "penstock.test.yaml"
    path.write_text(documented + text)
    file, pipeline = read_cases(path), loads(KEYED, base=tmp_path)

    assert [
        [],
        [],
        [
            "lake.shop.orders row with id 1: v is 'a', expected 'b'",
            "lake.shop.orders: there is no row with id 3",
            "lake.shop.orders: the row with id 2 is not expected",
        ],
        ["lake.shop.orders row 1: v is 'a', expected 'b'"],
    ] == [differences(case, run_case(pipeline, case, file.tables)) for case in file.cases]


def test_a_case_shows_late_changes_and_flags_of_deleted_rows(tmp_path: Path) -> None:
    rule = (
        "{ from: prices, into: lake.shop.prices, mode: cdc, keys: [id], deletes: soft,"
        " sequence_by: [no], operation: { field: op, map: { U: update, D: delete } },"
        " schema: { create: true, hints: { id: long, no: long } } }"
    )
    begin, end = KEYED.index("  - { from: prices"), KEYED.index("  - { from: orders")
    spec = f"{KEYED[:begin]}  - {rule}\n{KEYED[end:]}"
    case = """
  - name: in any order
    topic: prices
    records:
      - { id: 1, no: 7, op: D }
      - { id: 1, no: 3, op: U }
      - { id: 2, no: 5, op: U }
      - { id: 3, op: U }
    expect:
      lake.shop.prices: [{ id: 1, no: 7, _is_deleted: true }, { id: 2, _is_deleted: false }]
    rejected: { lake.shop.prices: [P375] }
"""
    for tables in ("", "tables: { lake.shop.prices: { id: long, no: long, op: string } }\n"):
        path = tmp_path / "penstock.test.yaml"
        path.write_text(f"{tables}cases:{case}")
        file, pipeline = read_cases(path), loads(spec, base=tmp_path)
        assert [[]] == [differences(c, run_case(pipeline, c, file.tables)) for c in file.cases]
