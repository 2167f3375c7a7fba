"""The schema of a table to create, from the records of its first epoch."""

from __future__ import annotations

import json

import pyarrow as pa

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, List, Schema, Struct
from penstock.rows.convert.batch import convert_batch
from penstock.rows.options import RowOptions
from penstock.rows.schema.inference import infer, table_schema

SOURCES = {
    "topic": "_kafka_topic",
    "offset": "_kafka_offset",
    "partition": "_kafka_partition",
    "key": "_kafka_key",
}


def batch_of(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    return pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.nulls(count, pa.timestamp("ms", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )


def text(schema: Schema) -> list[str]:
    return [str(field) for field in schema.fields]


def test_each_json_type_asks_for_its_column_type() -> None:
    record = b'{"i":1,"d":1.0,"e":1e3,"b":true,"s":"2026-11-01","n":null,"l":[1],"o":{"x":"y"}}'

    expected = [
        "i: long",
        "d: double",
        "e: double",
        "b: boolean",
        "s: string",
        "n: unknown",
        "l: list<long>",
        "o: struct<x: string>",
    ]
    assert expected == text(infer(batch_of(record)))


def test_types_are_joined_over_records_and_over_all_elements_of_an_array() -> None:
    inferred = infer(batch_of(b'{"a":1,"l":[1,null,2.5]}', b'{"l":[],"a":2.5,"b":true}'))

    assert ["a: double", "l: list<double>", "b: boolean"] == text(inferred)


def test_on_a_clash_the_first_type_stays() -> None:
    assert ["a: long"] == text(infer(batch_of(b'{"a":1}', b'{"a":"x"}', b'{"a":{}}')))


def test_only_records_that_decode_count() -> None:
    values = [None, b"", b"{", b"[]", b'{"x":1,"x":1}', b'{"y":"\\ud800"}', b"\xff", b'{"a":1}']

    assert ["a: long"] == text(infer(batch_of(*values)))
    assert [] == text(infer(batch_of(b'{"a":1}'), record_bytes_max=6))
    assert [] == text(infer(batch_of(b'{"a":[]}'), depth_max=1))


def test_a_record_that_brings_too_many_columns_is_left_out() -> None:
    bomb = json.dumps({f"k{i}": i for i in range(50)}).encode()
    nested = json.dumps({"o": {f"k{i}": i for i in range(50)}}).encode()

    assert ["a: long"] == text(infer(batch_of(b'{"a":1}', bomb, nested), columns_max=20))


def test_names_that_no_table_can_carry_become_no_columns() -> None:
    hostile = ["", "a b", "x.y", "q'", 'q"', "l\n", "t\u202e", "(", "`", "x" * 256, "..\\"]
    record = {"good": 1, "Good": 2, "é": 3, "o": {"x": 1, "X": 2}} | dict.fromkeys(hostile, 1)

    inferred = infer(batch_of(json.dumps(record).encode()))

    assert ["good: long", "é: long", "o: struct<x: long>"] == text(inferred)


def test_of_names_that_a_reader_takes_for_one_the_first_becomes_a_column() -> None:
    turkish = {"t\u0131p": 1, "tip": 2, "T\u0130P": 3, "o": {"tip": 1, "t\u0131p": 2}}

    inferred = infer(batch_of(json.dumps(turkish).encode()))

    assert ["t\u0131p: long", "o: struct<tip: long>"] == text(inferred)


def test_hints_win_unknown_is_left_out_and_sources_come_last() -> None:
    inferred = infer(batch_of(b'{"at":"2026-11-01","n":null,"e":{},"l":[],"o":{"x":1,"y":null}}'))

    schema = table_schema(inferred, {"at": Kind.DATE, "o.x": Kind.DOUBLE}, RowOptions(SOURCES))

    expected = [
        "at: date",
        "o: struct<x: double>",
        "_kafka_topic: string",
        "_kafka_partition: int",
        "_kafka_offset: long",
        "_kafka_key: binary",
    ]
    assert expected == text(schema)


def test_a_hint_gives_a_type_to_a_column_of_nulls() -> None:
    assert ["at: timestamptz"] == text(
        table_schema(infer(batch_of(b'{"at":null}')), {"at": Kind.TIMESTAMPTZ}, RowOptions({}))
    )


def test_everything_is_optional_in_a_new_table() -> None:
    inner = Struct((Field("x", Kind.LONG, required=True),))
    strict = Struct((Field("l", List(inner, element_required=True), required=True),))

    expected = Struct((Field("l", List(Struct((Field("x", Kind.LONG),)))),))
    assert expected == table_schema(strict, {}, RowOptions({}))


def test_a_field_cannot_take_the_place_of_a_source_column() -> None:
    inferred = infer(batch_of(b'{"_kafka_topic":"x","_KAFKA_OFFSET":1,"a":1}'))

    expected = [
        "a: long",
        "_kafka_topic: string",
        "_kafka_partition: int",
        "_kafka_offset: long",
        "_kafka_key: binary",
    ]
    assert expected == text(table_schema(inferred, {}, RowOptions(SOURCES)))


def test_the_records_a_table_was_made_from_land_in_it() -> None:
    values = [
        b'{"a":1,"n":null,"e":{},"l":[],"o":{"p":null}}',
        b'{"a":2.5,"l":[1,2.5],"o":{"q":"x","p":[]}}',
        b'{"o":null,"n":[{}]}',
    ]
    batch = batch_of(*values)
    schema = table_schema(infer(batch), {}, RowOptions({}))

    done = convert_batch(
        batch, at=TopicPartition("id", 0, "t"), schema=schema, options=RowOptions({})
    )

    assert () == done.rejects
    assert [1.0, 2.5, None] == done.rows.column("a").to_pylist()
