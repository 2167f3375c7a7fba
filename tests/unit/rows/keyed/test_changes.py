"""Records become upserts and deletes of keys, and each is in the books once."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from tests.unit.rows.schema.test_evolution import One
from tests.unit.rows.test_connect import field, struct
from tests.unit.rows.test_connect import value as connect

from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.registry import RegisteredSchema
from penstock.rows.arrow_types import arrow_schema, arrow_type
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.keyed.changes import ChangeBatch, convert_changes
from penstock.rows.keyed.net import Changes, net_by_lane
from penstock.rows.options import HEADERS, KeyedOptions, RowOptions
from penstock.rows.reject_codes import RejectCode

AT = TopicPartition("id", 3, "shop.orders")
SCHEMA = Struct(
    (
        Field("id", Kind.LONG),
        Field("name", Kind.STRING, required=True),
        Field("_kafka_offset", Kind.LONG),
    )
)
BY_ID = KeyedOptions(("id",))
BY_FIELD = KeyedOptions(
    ("id",),
    {"I": "upsert", "U": "upsert", "D": "delete", "T": "truncate"},
    operation_field="op",
)
OPTIONS = RowOptions({"offset": "_kafka_offset"}, keyed=BY_ID)
LANE = 7

Shown = tuple[int, int, str, Any]
"""Offset, place in the record, what is done, and the row or key."""


def batch_of(
    *values: Any,
    keys: Sequence[bytes | None] = (),
    headers: Sequence[Mapping[str, bytes | None]] = (),
) -> pa.RecordBatch:
    count = len(values)
    columns = {
        "offset": pa.array(range(count), pa.int64()),
        "timestamp": pa.array([1000] * count, pa.timestamp("ms", "UTC")),
        "key": pa.array(keys or [None] * count, pa.binary()),
        "value": pa.array([_written(value) for value in values], pa.binary()),
    }
    if headers:
        entries = [[{"key": k, "value": v} for k, v in each.items()] for each in headers]
        columns["headers"] = pa.array(entries, arrow_type(HEADERS))
    return pa.record_batch(columns)


def _written(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def changed(
    batch: pa.RecordBatch, *, schema: Struct = SCHEMA, **options: Any
) -> tuple[list[Shown], ChangeBatch]:
    made = convert_changes(
        batch, at=AT, lane=LANE, schema=schema, options=replace(OPTIONS, **options)
    )
    changes = made.changes
    assert arrow_schema(schema) == changes.rows.schema
    assert {LANE} >= {*changes.lane.tolist()}
    shown = []
    for place, row in enumerate(changes.rows.to_pylist()):
        upsert, counts = bool(changes.upsert[place]), bool(changes.counts[place])
        done = "upsert" if upsert else "delete" if counts else "delete former"
        held = row if upsert else {k: v for k, v in row.items() if v is not None}
        held.pop("_kafka_offset", None)
        shown.append((int(changes.offset[place]), int(changes.sub[place]), done, held))
    return shown, made


def refused(made: ChangeBatch) -> dict[int, tuple[str, str]]:
    return {each.offset: (each.code, each.message) for each in made.rejects}


def debezium(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"ts_ms": 1}, "op": op}


def row(number: Any, name: Any = "Ann", **members: Any) -> dict[str, Any]:
    return {"id": number, "name": name, **members}


def test_without_an_operation_each_record_is_an_upsert() -> None:
    shown, made = changed(batch_of(row(1), row(2, 5), row(None), None, {"name": "Bob"}))

    assert [(0, 0, "upsert", row(1))] == shown
    assert {"tombstone": 1} == made.filtered
    assert {
        1: (RejectCode.WRONG_TYPE, "name: a number, the column takes a string"),
        2: (RejectCode.KEY_MISSING, "id: a column of the key is null or missing"),
        4: (RejectCode.KEY_MISSING, "id: a column of the key is null or missing"),
    } == refused(made)


def test_events_of_debezium_upsert_and_delete() -> None:
    batch = batch_of(
        debezium("c", None, row(1)),
        debezium("r", None, row(2)),
        debezium("u", row(1), row(1, "Bob")),
        debezium("d", row(1), None),
        debezium("d", None, None),
        debezium("u", row(2), None),
        debezium("x", None, row(1)),
        {**debezium("m", None, None), "message": {}},
    )

    shown, made = changed(batch, envelope="debezium")

    assert [
        (0, 0, "upsert", row(1)),
        (1, 0, "upsert", row(2)),
        (2, 0, "upsert", row(1, "Bob")),
        (3, 0, "delete", {"id": 1}),
    ] == shown
    assert {"message": 1} == made.filtered
    assert {
        4: RejectCode.IMAGE_MISSING,
        5: RejectCode.IMAGE_MISSING,
        6: RejectCode.UNKNOWN_OPERATION,
    } == {offset: code for offset, (code, _) in refused(made).items()}


def test_a_delete_needs_nothing_but_its_key() -> None:
    batch = batch_of(
        debezium("d", {"id": 1}, None),
        debezium("d", {"id": 2, "name": 5}, None),
        debezium("d", {"id": 3, "name": "Ann", "more": {"deep": 1}}, None),
        debezium("d", {"id": "x", "name": 5}, None),
        debezium("d", {"name": "Ann"}, None),
    )

    shown, made = changed(batch, envelope="debezium")

    assert [(place, 0, "delete", {"id": place + 1}) for place in range(3)] == shown
    assert {
        3: ("P366", "id: the text is not a number"),
        4: ("P373", "id: a column of the key is null or missing"),
    } == refused(made)


def test_an_update_of_the_key_deletes_the_former_one_and_counts_once() -> None:
    batch = batch_of(
        debezium("u", row(1), row(2)),
        debezium("u", row("3"), row(3)),
        debezium("u", {"name": "Ann"}, row(4)),
        debezium("u", row(None), row(5)),
        debezium("u", None, row(6)),
        debezium("u", row(1), row(7, None)),
    )

    shown, made = changed(batch, envelope="debezium")

    assert [
        (0, 0, "delete former", {"id": 1}),
        (0, 1, "upsert", row(2)),
        *[(place, 0, "upsert", row(place + 2)) for place in (1, 2, 3, 4)],
    ] == shown
    assert {5: (RejectCode.MISSING, "name: a required column is null or missing")} == refused(made)


@pytest.mark.parametrize("types", ["quarantine", "drop_value"])
def test_a_former_key_that_cannot_be_read_rejects_its_record(types: str) -> None:
    batch = batch_of(
        debezium("u", row("x"), row(1)),
        debezium("u", [1], row(2)),
        b'{"op":"u","before":{"id":1,"id":2},"after":{"id":3,"name":"Ann"}}',
    )

    shown, made = changed(batch, envelope="debezium", types=types)

    assert [] == shown
    assert {
        0: (RejectCode.UNREADABLE, "former_key.id: the text is not a number"),
        1: (RejectCode.NO_ENVELOPE, "the former row is not an object"),
        2: (RejectCode.DUPLICATE_KEY, "the key 'id' occurs twice in one object"),
    } == refused(made)
    assert {} == made.dropped


def test_what_maxwell_and_canal_say_of_an_old_row_is_what_changed_of_it() -> None:
    schema = Struct((*SCHEMA.fields, Field("shop", Kind.STRING)))
    by_both = KeyedOptions(("shop", "id"))
    new = row(2, shop="a")
    maxwell = [
        {"type": "update", "data": new, "old": {"name": "Bob"}},
        {"type": "update", "data": new, "old": {"id": 1}},
        {"type": "delete", "data": new},
        {"type": "update", "data": new, "old": {"id": None}},
    ]
    canal = [
        {**each, "type": str(each["type"]).upper(), "data": [new]}
        | ({"old": [each["old"]]} if "old" in each else {})
        for each in maxwell
    ]

    found = [
        changed(batch_of(*events), schema=schema, envelope=envelope, keyed=by_both)[0]
        for envelope, events in (("maxwell", maxwell), ("canal", canal))
    ]

    key = {"id": 2, "shop": "a"}
    assert [
        (0, 0, "upsert", new),
        (1, 0, "delete former", {"id": 1, "shop": "a"}),
        (1, 1, "upsert", new),
        (2, 0, "delete", key),
        (3, 0, "upsert", new),
    ] == found[0]
    assert found[0] == found[1]


def test_a_flattened_event_deletes_by_its_operation_or_by_its_mark() -> None:
    schema = Struct((*SCHEMA.fields, Field("__op", Kind.STRING), Field("__deleted", Kind.STRING)))
    batch = batch_of(
        row(1, __op="c"),
        row(1, __op="d"),
        row(2, __deleted="true"),
        row(3, __deleted="false"),
        row(4),
        row(5, __op="?"),
    )

    shown, made = changed(batch, schema=schema, envelope="flattened")

    assert ["upsert", "delete", "delete", "upsert", "upsert"] == [done for _, _, done, _ in shown]
    assert {5: RejectCode.UNKNOWN_OPERATION} == {at: c for at, (c, _) in refused(made).items()}


@pytest.mark.parametrize("column", ["", "op"])
def test_plain_records_say_in_a_field_what_they_do(column: str) -> None:
    more = (Field(column, Kind.STRING),) if column else ()
    batch = batch_of(
        row(1, op="I"),
        {"id": 1, "op": "D"},
        row(1, op="X"),
        row(1),
        {"id": 2, "op": "U"},
        {"op": "D"},
    )

    shown, made = changed(batch, schema=Struct((*SCHEMA.fields, *more)), keyed=BY_FIELD)

    said = {"op": "I"} if column else {}
    assert [(0, 0, "upsert", row(1, **said)), (1, 0, "delete", {"id": 1})] == shown
    assert {
        2: (RejectCode.UNKNOWN_OPERATION, "op: the record's operation is not known"),
        3: (RejectCode.UNKNOWN_OPERATION, "op: the record's operation is not known"),
        4: (RejectCode.MISSING, "name: a required column is null or missing"),
        5: (RejectCode.KEY_MISSING, "id: a column of the key is null or missing"),
    } == refused(made)


def test_an_operation_in_a_column_of_numbers_is_read_by_its_digits() -> None:
    schema = Struct((*SCHEMA.fields, Field("op", Kind.INT)))
    keyed = KeyedOptions(("id",), {"1": "upsert", "3": "delete"}, operation_field="op")

    shown, made = changed(
        batch_of(row(1, op=1), row(1, op=3), row(1, op=2)), schema=schema, keyed=keyed
    )

    assert ["upsert", "delete"] == [done for _, _, done, _ in shown]
    assert [2] == [*refused(made)]


@pytest.mark.parametrize("column", ["", "kind"])
def test_plain_records_say_in_a_header_what_they_do(column: str) -> None:
    more = (Field(column, Kind.STRING),) if column else ()
    headers = {column: "op"} if column else {}
    keyed = replace(BY_FIELD, operation_field=None, operation_header="op")
    batch = batch_of(
        row(1),
        {"id": 2},
        row(3),
        row(4),
        headers=[{"op": b"I"}, {"op": b"D"}, {}, {"op": b"?"}],
    )

    shown, made = changed(
        batch, schema=Struct((*SCHEMA.fields, *more)), keyed=keyed, header_columns=headers
    )

    assert ["upsert", "delete"] == [done for _, _, done, _ in shown]
    assert {
        2: (RejectCode.UNKNOWN_OPERATION, "op: the record's operation is not known"),
        3: (RejectCode.UNKNOWN_OPERATION, "op: the record's operation is not known"),
    } == refused(made)


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([debezium("c", None, row(1)), debezium("t", None, None)], {"envelope": "debezium"}),
        (
            [
                {"type": "INSERT", "data": [row(1)]},
                {"type": "TRUNCATE", "isDdl": True, "data": None},
            ],
            {"envelope": "canal"},
        ),
        ([row(1, op="I"), {"op": "T"}], {"keyed": BY_FIELD}),
        ([row(1, op="I"), row(2, op="T")], {"keyed": BY_FIELD}),
    ],
)
def test_a_truncate_stops_the_table_at_its_place_unless_it_is_ignored(
    values: list[Any], options: dict[str, Any]
) -> None:
    keyed = options.get("keyed", BY_ID)
    with pytest.raises(DecisionNeededError) as stopped:
        changed(batch_of(*values), **options)
    shown, made = changed(
        batch_of(*values), **{**options, "keyed": replace(keyed, ignores_truncates=True)}
    )

    assert "P488" == stopped.value.code
    assert "shop.orders[3] offset 1" in str(stopped.value)
    assert [(0, 0, "upsert", row(1))] == shown
    assert {"truncate": 1} == made.filtered


def test_deletes_may_be_left_out_and_keys_still_change() -> None:
    batch = batch_of(
        debezium("u", row(1), row(2)),
        debezium("d", row(2), None),
        debezium("d", {"name": 5}, None),
        None,
        keys=[None, None, None, b"7"],
    )

    shown, made = changed(
        batch,
        envelope="debezium",
        keyed=replace(BY_ID, ignores_deletes=True),
        tombstones="delete",
        key_format="json",
    )

    assert ["delete former", "upsert"] == [done for _, _, done, _ in shown]
    assert {"delete": 3} == made.filtered


def test_a_key_that_the_table_lacks_stops_it() -> None:
    with pytest.raises(InvalidError) as stopped:
        changed(batch_of(row(1)), keyed=KeyedOptions(("number",)))

    assert "P490" == stopped.value.code


def test_a_batch_without_records_changes_nothing() -> None:
    shown, made = changed(batch_of(), envelope="debezium", tombstones="delete", key_format="json")

    assert ([], (), {}) == (shown, made.rejects, made.filtered)
    assert np.int8 == made.changes.sub.dtype


ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\x00\x00\x00\x00\x01" + out.getvalue()


@pytest.mark.parametrize(
    ("key_format", "type_", "written", "key", "registered"),
    [
        ("json", Kind.LONG, b'{"id":7,"more":1}', 7, None),
        ("json", Kind.LONG, b' {"id":"7"}', 7, None),
        ("json", Kind.LONG, b"7", 7, None),
        ("json", Kind.STRING, b'"a"', "a", None),
        ("text", Kind.STRING, b"a", "a", None),
        ("text", Kind.LONG, b"7", 7, None),
        ("bytes", Kind.BINARY, b"\xff", b"\xff", None),
        (
            "json-schema-envelope",
            Kind.LONG,
            connect(struct(field("id", "int64")), {"id": 7}),
            7,
            None,
        ),
        ("json-schema-envelope", Kind.LONG, connect({"type": "int32"}, 7), 7, None),
        ("avro", Kind.LONG, avro(ORDER, {"id": 7}), 7, ORDER),
        ("avro", Kind.LONG, avro("long", 7), 7, "long"),
    ],
)
def test_a_tombstone_deletes_the_row_of_its_key(
    key_format: Any, type_: Kind, written: bytes, key: Any, registered: Any
) -> None:
    schema = Struct((Field("id", type_), Field("name", Kind.STRING, required=True)))
    made = convert_changes(
        batch_of(None, keys=[written]),
        at=AT,
        lane=LANE,
        schema=schema,
        options=replace(OPTIONS, tombstones="delete", key_format=key_format),
        readers=ReaderCache(One(RegisteredSchema("avro", json.dumps(registered)))),
    )

    assert () == made.rejects
    assert [{"id": key, "name": None}] == made.changes.rows.to_pylist()
    assert ([False], [True]) == (made.changes.upsert.tolist(), made.changes.counts.tolist())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (None, ("P373", "the record has neither a value nor a key (in the record's key)")),
        (b"{", ("P302", None)),
        (b'{"id":1,"id":2}', ("P305", None)),
        (b'5},{"id":6', ("P302", "the key is not JSON (in the record's key)")),
        (b'{"number":7}', ("P373", None)),
        (b"null", ("P373", "id: a column of the key is null or missing (in the record's key)")),
        (b'"x"', ("P366", "id: the text is not a number (in the record's key)")),
        (b"[7]", ("P363", None)),
    ],
)
def test_a_tombstone_whose_key_cannot_be_read_is_rejected(
    written: bytes | None, expected: tuple[str, str | None]
) -> None:
    batch = batch_of(None, None, row(1), keys=[b"1", written, None])

    shown, made = changed(batch, tombstones="delete", key_format="json")
    code, message = refused(made)[1]

    assert ["delete", "upsert"] == [done for _, _, done, _ in shown]
    assert expected == (code, message if expected[1] else None)


def test_a_tombstone_of_several_columns_needs_a_member_for_each() -> None:
    schema = Struct((*SCHEMA.fields, Field("shop", Kind.STRING)))
    batch = batch_of(None, None, None, keys=[b'{"shop":"a","id":1}', b'{"id":1}', b"1"])

    shown, made = changed(
        batch,
        schema=schema,
        keyed=KeyedOptions(("shop", "id")),
        tombstones="delete",
        key_format="json",
    )

    assert [(0, 0, "delete", {"id": 1, "shop": "a"})] == shown
    assert {1: "P373", 2: "P306"} == {at: code for at, (code, _) in refused(made).items()}


def test_connect_s_records_without_a_payload_are_tombstones_too() -> None:
    schema = struct(field("id", "int64"), field("name", "string"))
    batch = batch_of(connect(schema, row(1)), connect(schema, None), keys=[None, b"1"])

    shown, made = changed(
        batch, format="json-schema-envelope", tombstones="delete", key_format="json"
    )

    assert ([(0, 0, "upsert", row(1)), (1, 0, "delete", {"id": 1})], ()) == (shown, made.rejects)


@pytest.mark.parametrize(
    ("tombstones", "filtered", "codes"),
    [("skip", {"tombstone": 1}, []), ("quarantine", {}, ["P309"])],
)
def test_tombstones_may_be_skipped_or_rejected(
    tombstones: Any, filtered: dict[str, int], codes: list[str]
) -> None:
    shown, made = changed(batch_of(None), tombstones=tombstones)

    assert ([], filtered, codes) == (shown, made.filtered, [each.code for each in made.rejects])


def test_what_stands_beside_a_record_may_be_its_key() -> None:
    schema = Struct((Field("_kafka_topic", Kind.STRING), *SCHEMA.fields, Field("k", Kind.BINARY)))
    options: dict[str, Any] = {
        "schema": schema,
        "source_columns": {"topic": "_kafka_topic", "offset": "_kafka_offset", "key": "k"},
        "tombstones": "delete",
    }
    batch = batch_of(row(1), None, row(2), keys=[b"a", b"a", None])

    shown, made = changed(batch, keyed=KeyedOptions(("_kafka_topic", "k")), **options)

    key = {"_kafka_topic": "shop.orders", "k": b"a"}
    assert [(0, 0, "upsert", row(1) | key), (1, 0, "delete", key)] == shown
    assert {2: ("P373", "k: a column of the key is null or missing")} == refused(made)


@pytest.mark.parametrize("types", ["quarantine", "drop_value"])
def test_many_former_keys_that_cannot_be_read_reject_their_records_alone(types: str) -> None:
    events = [debezium("u", row("x" if n % 2 else n), row(n + 1)) for n in range(200)]

    shown, made = changed(batch_of(*events), envelope="debezium", types=types)

    assert [n for n in range(0, 200, 2) for _ in "du"] == [offset for offset, *_ in shown]
    assert dict.fromkeys(range(1, 200, 2), "P366") == {
        at: c for at, (c, _) in refused(made).items()
    }
    assert {} == made.dropped


@pytest.mark.parametrize(
    ("name", "spelled", "case_sensitive"),
    [("id", "ID", False), ('a"b', 'a"b', True), ("ü", "ü", True), ("id", "id", True)],
)
def test_a_former_key_is_found_by_the_name_of_its_column(
    name: str, spelled: str, case_sensitive: bool
) -> None:
    schema = Struct((Field(name, Kind.LONG), Field("name", Kind.STRING)))
    events = [debezium("u", {spelled: 1, "name": "a"}, {spelled: n, "name": "b"}) for n in (1, 2)]

    shown, made = changed(
        batch_of(*events),
        schema=schema,
        envelope="debezium",
        keyed=KeyedOptions((name,)),
        case_sensitive=case_sensitive,
    )

    assert () == made.rejects
    assert [
        (0, 0, "upsert", {name: 1, "name": "b"}),
        (1, 0, "delete former", {name: 1}),
        (1, 1, "upsert", {name: 2, "name": "b"}),
    ] == shown


def test_an_operation_is_read_where_the_envelope_s_column_is_the_table_s_own() -> None:
    schema = Struct((*SCHEMA.fields, Field("_change_operation", Kind.STRING)))
    batch = batch_of(debezium("c", None, row(1)), debezium("d", row(1), None))

    shown, made = changed(
        batch,
        schema=schema,
        envelope="debezium",
        change_columns={"operation": "_change_operation"},
    )

    upserted = row(1) | {"_change_operation": "insert"}
    assert [(0, 0, "upsert", upserted), (1, 0, "delete", {"id": 1})] == shown
    assert () == made.rejects


def test_a_row_with_a_value_that_the_source_left_out_is_rejected_and_its_key_still_deletes() -> (
    None
):
    unavailable = "__debezium_unavailable_value"
    batch = batch_of(
        debezium("u", None, row(1, unavailable)),
        debezium("d", row(2, unavailable), None),
        debezium("u", row(3, unavailable), row(4)),
    )

    shown, made = changed(batch, envelope="debezium")

    assert ["delete", "delete former", "upsert"] == [done for _, _, done, _ in shown]
    assert {0: "P323"} == {at: code for at, (code, _) in refused(made).items()}


def test_an_event_of_canal_with_several_rows_is_rejected() -> None:
    batch = batch_of(
        {"type": "UPDATE", "data": [row(1), row(2)]},
        {"type": "DELETE", "data": [row(1), row(2)]},
        {"type": "INSERT", "data": [row(3)]},
    )

    shown, made = changed(batch, envelope="canal")

    assert [(2, 0, "upsert", row(3))] == shown
    assert [0, 1] == sorted(refused(made))


def test_of_a_million_changes_of_one_key_one_is_left() -> None:
    count = 1_000_000
    order = np.arange(count, dtype=np.int64)
    zeros = np.zeros(count, np.int8)
    rows = pa.record_batch({"id": pa.array(np.zeros(count, np.int64))})
    every = Changes(rows, zeros == 0, zeros == 0, zeros.astype(np.int32), order, zeros)
    net = net_by_lane(every, ["id"])

    assert ([count - 1], {0: count - 1}) == (net.changes.offset.tolist(), dict(net.superseded))


def test_texts_of_keys_are_equal_where_their_bytes_are() -> None:
    names = ["a", "A", "é", "e\u0301", "a "]
    columns = (np.ones(5, np.bool_), np.ones(5, np.bool_), np.zeros(5, np.int32))
    rows = pa.record_batch({"id": pa.array(names)})
    every = Changes(rows, *columns, np.arange(5), np.zeros(5, np.int8))

    assert names == sorted(
        net_by_lane(every, ["id"]).changes.rows.column("id").to_pylist(), key=names.index
    )
