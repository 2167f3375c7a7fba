"""Rows of a quarantine become what their records were."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.publishing.dead_letters import HEADERS, dead_letter_rules
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.encode.encoder import encode, require_fit
from penstock.rows.encode.rules import MessageRules
from penstock.rows.quarantine.rows import QUARANTINE_SCHEMA

COLUMNS = arrow_schema(QUARANTINE_SCHEMA)
REJECTED_AT = datetime(2026, 11, 28, 9, 30, 0, 123_456, UTC)
ROW = {
    "pipeline": "shop",
    "table": "lake.bronze.orders",
    "topic": "orders",
    "topic_id": "t-1",
    "partition": 3,
    "offset": 41,
    "timestamp": datetime(2026, 11, 28, 9, 29, 59, tzinfo=UTC),
    "key": b"k",
    "value": b"\xff no order",
    "headers": [{"key": "trace", "value": b"\x00"}, {"key": "trace", "value": None}],
    "stage": "decode",
    "code": "P302",
    "message": "it is no JSON",
    "epoch": 7,
    "quarantined_at": REJECTED_AT,
    "status": "open",
}
NO_HEADERS: dict[str, Any] = {"headers": None, "offset": 42, "key": None, "value": None}
CLOSED = {"stage": "close", "status": "dropped", "value": None, "key": None, "headers": None}


def made(*changes: dict[str, Any], tables: tuple[str, ...] = (), **more: Any) -> Any:
    rows = pa.RecordBatch.from_pylist([ROW | each for each in changes], schema=COLUMNS)
    rules = dead_letter_rules(MessageRules(**more), "shop", tables)
    require_fit(COLUMNS, rules)
    return encode(rows, rules, now_ms=1)


def test_a_dead_letter_is_its_record_byte_by_byte_and_says_where_it_comes_from() -> None:
    (letter,) = made({}).messages.to_pylist()

    assert (b"k", b"\xff no order") == (letter["key"], letter["value"])
    assert REJECTED_AT.replace(microsecond=123_000) == letter["timestamp"]
    named = [(each["key"], each["value"]) for each in letter["headers"]]
    assert [("trace", b"\x00"), ("trace", None)] == named[:2]
    assert {
        "penstock.id": b"shop/lake.bronze.orders/t-1/3/41",
        "penstock.pipeline": b"shop",
        "penstock.table": b"lake.bronze.orders",
        "penstock.topic": b"orders",
        "penstock.partition": b"3",
        "penstock.offset": b"41",
        "penstock.timestamp": b"2026-11-28T09:29:59.000000Z",
        "penstock.stage": b"decode",
        "penstock.code": b"P302",
        "penstock.message": b"it is no JSON",
        "penstock.time": b"2026-11-28T09:30:00.123456Z",
    } == dict(named[2:])


def test_a_record_without_anything_of_its_own_is_one_without_it() -> None:
    found = made({}, NO_HEADERS, {"timestamp": None})
    _, bare, timeless = found.messages.to_pylist()

    assert () == found.misfits
    assert (None, None) == (bare["key"], bare["value"])
    assert [*HEADERS] == [each["key"] for each in bare["headers"]]
    names = [each["key"] for each in timeless["headers"]]
    assert ["trace", "trace", *(each for each in HEADERS if each != "penstock.timestamp")] == names


def test_resolutions_and_what_others_reject_are_none() -> None:
    found = made({}, CLOSED, {"pipeline": "other"}, {"pipeline": "shop2"}, {"pipeline": "shop+1"})

    ids = [dict(each)["penstock.id"] for each in map(_headers, found.messages.to_pylist())]
    assert 2 * [b"shop/lake.bronze.orders/t-1/3/41"] == ids  # of a record one shard knows
    assert 3 == found.filtered


@pytest.mark.parametrize(
    ("more", "offsets"),
    [({"tables": ("b",)}, [2]), ({"where": "\"offset\" < 2 or code = 'P9'"}, [1, 3])],
)
def test_some_tables_and_conditions(more: dict[str, Any], offsets: list[int]) -> None:
    rows = [{"offset": 1}, {"offset": 2, "table": "b"}, {"offset": 3, "code": "P9"}]
    found = [_headers(each)["penstock.offset"] for each in made(*rows, **more).messages.to_pylist()]

    assert [str(each).encode() for each in offsets] == found


def test_headers_of_the_spec_are_the_last() -> None:
    (letter,) = made({}, headers={"__connect.errors.topic": "topic"}).messages.to_pylist()

    assert {"key": "__connect.errors.topic", "value": b"orders"} == letter["headers"][-1]


def _headers(letter: dict[str, Any]) -> dict[str, bytes | None]:
    return {each["key"]: each["value"] for each in letter["headers"]}
