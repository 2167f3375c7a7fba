"""Change events of Debezium, DMS, Maxwell and Canal land as rows with their operation and source."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, List, Struct
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode
from penstock.rows.schema.inference import table_schema
from penstock.rows.schema.survey import survey

AT = TopicPartition("id", 0, "server.public.orders")
CHANGES = {name: f"_change_{name}" for name in ("operation", "timestamp", "source")}
SCHEMA = Struct(
    (
        Field("id", Kind.LONG),
        Field("name", Kind.STRING),
        Field("_change_operation", Kind.STRING),
        Field("_change_timestamp", Kind.TIMESTAMPTZ),
        Field("_change_source", Kind.STRING),
    )
)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
NOON_S = int(NOON.timestamp())
NOON_MS = NOON_S * 1000
ROW = {"id": 1, "name": "Ann"}
UNAVAILABLE_UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
SOURCE = {
    "version": "3.0.0.Final",
    "connector": "postgresql",
    "name": "server",
    "ts_ms": NOON_MS,
    "snapshot": "false",
    "db": "shop",
    "schema": "public",
    "table": "orders",
    "txId": 571,
    "lsn": 24023128,
    "xmin": None,
}
METADATA = {
    "timestamp": "2026-11-21T12:00:00.000000Z",
    "record-type": "data",
    "operation": "update",
    "partition-key-type": "primary-key",
    "schema-name": "shop",
    "table-name": "orders",
    "transaction-id": 12884904641,
}


def debezium(op: str, before: Any, after: Any, **members: Any) -> dict[str, Any]:
    return {
        "before": before,
        "after": after,
        "source": SOURCE,
        "op": op,
        "ts_ms": NOON_MS + 5,
        "transaction": None,
        **members,
    }


def maxwell(kind: str, **members: Any) -> dict[str, Any]:
    head = {"database": "shop", "table": "orders", "type": kind, "ts": NOON_S, "xid": 940752}
    return {**head, "commit": True, **members}


def canal(kind: str, data: Any, **members: Any) -> dict[str, Any]:
    return {
        "data": data,
        "database": "shop",
        "es": NOON_MS,
        "id": 3,
        "isDdl": False,
        "mysqlType": {"id": "bigint", "name": "varchar(20)"},
        "old": None,
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": -5, "name": 12},
        "table": "orders",
        "ts": NOON_MS + 9,
        "type": kind,
        **members,
    }


def batch_of(*events: Any, indent: int | None = None) -> pa.RecordBatch:
    separators = (",", ":") if indent is None else None
    values = [
        event
        if isinstance(event, bytes | None)
        else json.dumps(event, indent=indent, separators=separators).encode()
        for event in events
    ]
    return pa.record_batch(
        {
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.nulls(len(values), pa.timestamp("ms", "UTC")),
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def landed(
    envelope: str, *events: Any, schema: Struct = SCHEMA, indent: int | None = None, **options: Any
) -> ConvertedBatch:
    return convert_batch(
        batch_of(*events, indent=indent),
        at=AT,
        schema=schema,
        options=RowOptions({}, envelope=envelope, change_columns=CHANGES, **options),  # type: ignore[arg-type]
    )


def codes(done: ConvertedBatch) -> list[tuple[int, str, str]]:
    return [(reject.offset, reject.stage, reject.code) for reject in done.rejects]


CHANGED = [
    ("debezium", debezium("c", None, ROW), "insert"),
    ("debezium", debezium("u", {"id": 1, "name": "An"}, ROW), "update"),
    ("debezium", debezium("d", ROW, None), "delete"),
    ("debezium", debezium("r", None, ROW), "read"),
    ("dms", {"data": ROW, "metadata": METADATA}, "update"),
    ("dms", {"data": ROW, "metadata": {**METADATA, "operation": "load"}}, "read"),
    ("dms", {"data": ROW, "metadata": {**METADATA, "operation": "delete"}}, "delete"),
    ("maxwell", maxwell("insert", data=ROW), "insert"),
    ("maxwell", maxwell("update", data=ROW, old={"name": "An"}), "update"),
    ("maxwell", maxwell("delete", data=ROW), "delete"),
    ("maxwell", maxwell("bootstrap-insert", data=ROW), "read"),
    ("canal", canal("INSERT", [{"id": "1", "name": "Ann"}]), "insert"),
    ("canal", canal("UPDATE", [{"id": "1", "name": "Ann"}], old=[{"name": "A"}]), "update"),
    ("canal", canal("DELETE", [{"id": "1", "name": "Ann"}]), "delete"),
]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(("envelope", "event", "operation"), CHANGED)
def test_a_change_lands_as_its_row_with_operation_and_time(
    envelope: str, event: dict[str, Any], operation: str, indent: int | None
) -> None:
    done = landed(envelope, event, indent=indent)

    assert [] == codes(done)
    (row,) = done.rows.to_pylist()
    source = json.loads(row.pop("_change_source"))
    expected = {**ROW, "_change_operation": operation, "_change_timestamp": NOON}
    assert expected == row
    match envelope:
        case "debezium":
            assert source == SOURCE
        case "dms":
            assert source == event["metadata"]
        case "maxwell":
            members = {"database": "shop", "table": "orders", "xid": 940752, "commit": True}
            assert members == source
        case _:
            assert {"database": "shop", "table": "orders", "id": 3} == {
                name: source[name] for name in ("database", "table", "id")
            }


def test_the_finer_time_of_the_source_is_taken() -> None:
    source = {**SOURCE, "ts_us": NOON_MS * 1000 + 123456, "ts_ns": 1}

    done = landed("debezium", debezium("c", None, ROW, source=source))

    assert [NOON.replace(microsecond=123456)] == done.rows.column("_change_timestamp").to_pylist()


def test_what_extract_new_record_state_leaves_lands_with_its_operation() -> None:
    schema = Struct((*SCHEMA.fields, Field("__op", Kind.STRING), Field("__deleted", Kind.STRING)))
    rows = [
        {**ROW, "__op": "u"},
        {**ROW, "__deleted": "true"},
        {**ROW, "__deleted": "false"},
        ROW,
    ]

    done = landed("flattened", *rows, schema=schema)

    assert [] == codes(done)
    expected = ["update", "delete", None, None]
    assert expected == done.rows.column("_change_operation").to_pylist()
    assert ["u", None, None, None] == done.rows.column("__op").to_pylist()


WITHOUT_ROW = [
    ("debezium", debezium("t", None, None), "truncate"),
    ("debezium", debezium("m", None, None), "message"),
    (
        "debezium",
        {"source": SOURCE, "databaseName": "shop", "ddl": "drop table x"},
        "schema change",
    ),
    ("dms", {"metadata": {**METADATA, "record-type": "control"}}, "control"),
    ("maxwell", maxwell("table-create", sql="create table x"), "schema change"),
    ("maxwell", maxwell("bootstrap-start", data={}), "control"),
    ("canal", canal("ALTER", None, isDdl=True, sql="alter table x"), "schema change"),
]


@pytest.mark.parametrize(("envelope", "event", "reason"), WITHOUT_ROW)
def test_an_event_without_a_row_is_counted_under_its_reason(
    envelope: str, event: dict[str, Any], reason: str
) -> None:
    done = landed(envelope, event, event)

    assert ({reason: 2}, []) == (done.filtered, codes(done))
    assert 0 == len(done.rows)


REFUSED = [
    ("debezium", debezium("x", None, ROW), RejectCode.UNKNOWN_OPERATION),
    ("debezium", debezium("d", None, None), RejectCode.IMAGE_MISSING),
    ("debezium", debezium("c", ROW, None), RejectCode.IMAGE_MISSING),
    ("debezium", {"op": "u"}, RejectCode.IMAGE_MISSING),
    ("debezium", debezium("c", None, [1]), RejectCode.NO_ENVELOPE),
    ("debezium", {"id": 1}, RejectCode.NO_ENVELOPE),
    ("debezium", {"schema": {}, "payload": debezium("c", None, ROW)}, RejectCode.NO_ENVELOPE),
    ("debezium", {**debezium("c", None, ROW), "op": 7}, RejectCode.NO_ENVELOPE),
    ("debezium", debezium("c", None, ROW, source=[1]), RejectCode.NO_ENVELOPE),
    ("debezium", debezium("c", None, ROW, source={"ts_ms": 2**62}), RejectCode.OUT_OF_RANGE),
    ("debezium", b'{"op":"c","after":{"id":1},"op":"d"}', RejectCode.DUPLICATE_KEY),
    ("debezium", b'{"op":"c","after":{"id":1},"after":{"id":2}}', RejectCode.DUPLICATE_KEY),
    ("debezium", b'{"op":"c","after":{"id":1,"id":2}}', RejectCode.DUPLICATE_KEY),
    ("debezium", b'{"op":"c","after":{"id":1,"_change_operation":"d"}}', RejectCode.DUPLICATE_KEY),
    ("debezium", b'{"op":"c","after":{"id":1}', RejectCode.MALFORMED),
    ("debezium", b'{"op":"c","after":{"id":NaN}}', RejectCode.MALFORMED),
    ("debezium", b'{"op":"c","after":{"id":1}}x', RejectCode.TRAILING_DATA),
    ("debezium", b'[{"op":"c"}]', RejectCode.NOT_AN_OBJECT),
    ("debezium", b'{"op":"c","after":{"name":"\xff"}}', RejectCode.NOT_UTF8),
    ("debezium", b'{"op":"c","after":{"id":1},"source":{"x":"\xff"}}', RejectCode.NOT_UTF8),
    ("debezium", b'{"op":"c","after":' + b"[" * 70 + b"]" * 70 + b"}", RejectCode.TOO_DEEP),
    ("debezium", debezium("c", None, {"id": 2**70}), RejectCode.OUT_OF_RANGE),
    ("debezium", debezium("u", None, {"id": 1, "nope": 2}), RejectCode.UNKNOWN_FIELD),
    ("dms", {"data": ROW}, RejectCode.NO_ENVELOPE),
    ("dms", {"metadata": METADATA}, RejectCode.IMAGE_MISSING),
    (
        "dms",
        {"data": ROW, "metadata": {**METADATA, "operation": "x"}},
        RejectCode.UNKNOWN_OPERATION,
    ),
    ("dms", {"data": ROW, "metadata": {**METADATA, "timestamp": "now"}}, RejectCode.UNREADABLE),
    ("dms", {"data": ROW, "metadata": {**METADATA, "record-type": "x"}}, RejectCode.NO_ENVELOPE),
    ("maxwell", ROW, RejectCode.NO_ENVELOPE),
    ("maxwell", maxwell("upsert", data=ROW), RejectCode.UNKNOWN_OPERATION),
    ("maxwell", maxwell("insert"), RejectCode.IMAGE_MISSING),
    ("canal", canal("INSERT", [ROW, ROW]), RejectCode.SEVERAL_ROWS),
    ("canal", canal("INSERT", []), RejectCode.IMAGE_MISSING),
    ("canal", canal("MERGE", [ROW]), RejectCode.UNKNOWN_OPERATION),
    ("canal", canal("INSERT", ROW), RejectCode.NO_ENVELOPE),
]


@pytest.mark.parametrize(("envelope", "event", "code"), REFUSED)
def test_an_event_that_cannot_be_unwrapped_is_refused_with_its_code(
    envelope: str, event: Any, code: RejectCode
) -> None:
    good = {
        "debezium": debezium("c", None, ROW),
        "dms": {"data": ROW, "metadata": METADATA},
        "maxwell": maxwell("insert", data=ROW),
        "canal": canal("INSERT", [ROW]),
    }[envelope]

    done = landed(envelope, good, event, good)

    assert [(1, str(code))] == [(offset, found) for offset, _, found in codes(done)]
    assert [1, 1] == done.rows.column("id").to_pylist()
    assert [0, 2] == done.offsets.tolist()


def test_an_event_within_a_schema_is_refused_with_the_format_that_reads_it() -> None:
    wrapped = {"schema": {}, "payload": debezium("c", None, ROW)}
    said = [each.message for each in landed("debezium", wrapped, {"id": 1}).rejects]

    assert said[0].endswith("has a schema and a payload: format json-schema-envelope")
    assert "the event names no 'op'" == said[1]


def test_a_value_that_the_source_left_out_is_never_landed_as_its_placeholder() -> None:
    unavailable = "__debezium_unavailable_value"
    rows = [{"id": 1, "name": unavailable}, ROW]
    events = [debezium("u", None, row) for row in rows]

    refused = landed("debezium", *events)
    assert [(0, "unwrap", "P323")] == codes(refused)
    assert ["Ann"] == refused.rows.column("name").to_pylist()

    done = landed("debezium", *events, types="drop_value")
    assert ([], {"name": 1}) == (codes(done), done.dropped)
    assert [None, "Ann"] == done.rows.column("name").to_pylist()

    flat = landed("flattened", *rows)
    assert [(0, "unwrap", "P323")] == codes(flat)

    escaped = b'{"id":1,"name":"\\u005f_debezium_unavailable_value"}'
    assert [(0, "unwrap", "P323")] == codes(landed("flattened", escaped))

    deep = Struct((Field("tags", List(Kind.STRING)), Field("data", Kind.BINARY)))
    inside = [
        {"tags": ["a", unavailable]},
        {"data": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="},
    ]
    done = landed("debezium", *(debezium("u", None, row) for row in inside), schema=deep)
    assert [(0, "unwrap", "P323"), (1, "unwrap", "P323")] == codes(done)


def test_arrays_that_the_source_left_out_are_never_landed() -> None:
    """As UnchangedToastedPlaceholder of Debezium's PostgreSQL connector makes them."""
    table = Struct((Field("n", List(Kind.LONG)), Field("u", List(Kind.UUID))))
    numbers = list(b"__debezium_unavailable_value")
    named = "1c3f5cd0-0000-3000-8000-000000000000"
    rows = [{"n": numbers}, {"u": [UNAVAILABLE_UUID]}, {"n": numbers[:-1], "u": [named]}]

    for indent in (None, 1):
        events = [json.dumps(row, indent=indent).encode() for row in rows]
        done = landed("flattened", *events, schema=table)

        assert [(0, "unwrap", "P323"), (1, "unwrap", "P323")] == codes(done)
        assert [numbers[:-1]] == done.rows.column("n").to_pylist()

    dropped = landed("flattened", *rows, schema=table, types="drop_value")
    assert [None, None, numbers[:-1]] == dropped.rows.column("n").to_pylist()


def test_another_placeholder_may_be_set() -> None:
    table = Struct(
        (Field("name", Kind.STRING), Field("data", Kind.BINARY), Field("n", List(Kind.LONG)))
    )
    other = "not-available:1.0"
    rows = [
        {"name": other},
        {"data": base64.b64encode(other.encode()).decode()},
        {"n": list(other.encode())},
        {"name": "__debezium_unavailable_value"},
    ]

    done = landed("flattened", *rows, schema=table, unavailable_value=other)

    assert [(at, "unwrap", "P323") for at in range(3)] == codes(done)
    assert ["__debezium_unavailable_value"] == done.rows.column("name").to_pylist()


def test_tombstones_follow_their_own_policy() -> None:
    done = landed("debezium", debezium("d", ROW, None), None)
    assert ({"tombstone": 1}, ["delete"]) == (
        done.filtered,
        done.rows.column("_change_operation").to_pylist(),
    )


def test_change_columns_that_the_table_has_not_are_left_out() -> None:
    bare = Struct(SCHEMA.fields[:2])

    done = landed("debezium", debezium("c", None, ROW), schema=bare)

    assert [ROW] == done.rows.to_pylist()


def test_an_empty_row_lands_with_its_change() -> None:
    done = landed("debezium", debezium("c", None, {}))

    assert [None, "insert"] == [done.rows.column(n)[0].as_py() for n in ("id", "_change_operation")]


def test_a_table_is_made_of_the_row_and_the_change_columns() -> None:
    options = RowOptions({"offset": "_kafka_offset"}, envelope="debezium", change_columns=CHANGES)

    shown = survey(batch_of(debezium("c", None, ROW)), options, ReaderCache(), columns_max=100)

    assert (
        "struct<id: long, name: string, _kafka_offset: long, _change_operation: string, "
        "_change_timestamp: timestamptz, _change_source: string>"
    ) == str(table_schema(shown, {}, options))
