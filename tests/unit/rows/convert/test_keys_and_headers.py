"""Keys with types and headers by name are in columns of their own, or refuse their record."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from tests.unit.rows.convert.test_batch import AT
from tests.unit.rows.schema.test_evolution import One
from tests.unit.rows.test_connect import field, struct
from tests.unit.rows.test_connect import value as connect

from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.ports.registry import RegisteredSchema
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.schema.inference import table_schema
from penstock.rows.schema.survey import survey

KEY = {"key": "_kafka_key"}
ID = Struct((Field("id", Kind.LONG),))
HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))


def batch(keys: list[bytes | None], headers: list[Any] | None = None) -> pa.RecordBatch:
    count = len(keys)
    return pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("ms", "UTC")),
            "key": pa.array(keys, pa.binary()),
            "value": pa.array([b'{"n":1}'] * count, pa.binary()),
            "headers": pa.array(headers or [None] * count, HEADERS),
        }
    )


def values_of(done: ConvertedBatch, column: str) -> list[Any]:
    found: list[Any] = [None] * (len(done.offsets) + len(done.rejects))
    for offset, value in zip(done.offsets, done.rows.column(column).to_pylist(), strict=True):
        found[offset] = value
    for reject in done.rejects:
        found[reject.offset] = reject.code
    return found


def landed(records: pa.RecordBatch, options: RowOptions, readers: ReaderCache | None = None) -> Any:
    """Create a table for records and land them: the type of keys, and each key or code."""
    asked = survey(records, options, readers or ReaderCache(), columns_max=100)
    schema = table_schema(asked, {}, options)
    done = convert_batch(records, at=AT, schema=schema, options=options, readers=readers)
    column = schema.field("_kafka_key")
    assert column is not None
    return column.type, values_of(done, "_kafka_key")


@pytest.mark.parametrize(
    ("key_format", "keys", "type_", "expected"),
    [
        ("bytes", [b"\xff", None], Kind.BINARY, [b"\xff", None]),
        ("text", ["é".encode(), b"\xff", b"", None], Kind.STRING, ["é", "P303", "", None]),
        ("json", [b'{"id":1}', b'{"id":"x"}', None, b"{"], ID, [{"id": 1}, "P366", None, "P302"]),
        ("json", [b'{"id":1}', b'{"id":2,"a b":3}'], ID, [{"id": 1}, "P361"]),
        ("json", [b"5", b'"x"', b"6"], Kind.LONG, [5, "P366", 6]),
        ("json", [b'"a"', b"5"], Kind.STRING, ["a", "P363"]),
        ("json", [b"5,6", b'5},{"value":6', b'5,"x":null'], Kind.STRING, ["P302"] * 3),
        (
            "json-schema-envelope",
            [connect(struct(field("id", "int64")), {"id": 7}), b'{"id":7}'],
            ID,
            [{"id": 7}, "P320"],
        ),
        (
            "json-schema-envelope",
            [connect({"type": "int32"}, 7)],
            Kind.INT,
            [7],
        ),
    ],
)
def test_a_key_is_read_as_it_is_encoded(
    key_format: Any, keys: list[Any], type_: Any, expected: list[Any]
) -> None:
    options = RowOptions(KEY, key_format=key_format)

    assert (type_, expected) == landed(batch(keys), options)


def test_a_key_names_its_schema_in_front_or_in_a_header() -> None:
    schema = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "long"}]}
    readers = ReaderCache(One(RegisteredSchema("avro", json.dumps(schema))))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"id": 7})
    head = b"\x00\x00\x00\x00\x01"
    named = [{"key": "__key_schema_id", "value": b"\x01" + bytes(16)}]
    records = batch([head + out.getvalue(), out.getvalue(), b"?"], [None, named, None])
    options = RowOptions(KEY, key_format="avro", schema_id="headers")

    assert (ID, [{"id": 7}, {"id": 7}, "P310"]) == landed(records, options, readers)


TABLE: Schema = Struct(
    (
        Field("n", Kind.LONG),
        Field("trace", Kind.STRING),
        Field("tries", Kind.INT),
        Field("at", Kind.TIMESTAMPTZ),
        Field("raw", Kind.BINARY),
    )
)
COLUMNS = {"trace": "x-trace", "tries": "x-tries", "at": "x-at", "raw": "x-raw"}


def header(column: str, *entries: tuple[str, bytes | None]) -> Any:
    records = batch([None], [[{"key": name, "value": value} for name, value in entries]])
    options = RowOptions({}, header_columns=COLUMNS)
    return values_of(convert_batch(records, at=AT, schema=TABLE, options=options), column)[0]


@pytest.mark.parametrize(
    ("column", "entries", "expected"),
    [
        ("trace", [("x-trace", b"a"), ("x-trace", "é".encode())], "é"),
        ("trace", [("X-Trace", b"a")], None),
        ("trace", [("x-trace", None)], None),
        ("trace", [("x-trace", b"\xff")], "P303"),
        ("tries", [("x-tries", b"3")], 3),
        ("tries", [("x-tries", b"three")], "P366"),
        ("at", [("x-at", b"1970-01-01T00:00:01Z")], datetime.fromtimestamp(1, UTC)),
        ("raw", [("x-raw", b"\xff")], b"\xff"),
    ],
)
def test_a_header_lands_in_its_column(column: str, entries: Any, expected: Any) -> None:
    assert expected == header(column, *entries)


def test_a_record_whose_header_does_not_fit_names_the_column_and_spoils_no_other() -> None:
    entries = [None, [{"key": "x-tries", "value": b"x"}], [{"key": "x-tries", "value": b"2"}]]
    options = RowOptions({}, header_columns=COLUMNS)

    done = convert_batch(batch([None] * 3, entries), at=AT, schema=TABLE, options=options)

    assert [None, 2] == done.rows.column("tries").to_pylist()
    assert [(1, "tries: the text is not a number")] == [(r.offset, r.message) for r in done.rejects]


def test_a_new_table_has_header_columns_of_text_or_of_hinted_types() -> None:
    options = RowOptions({}, header_columns={"trace": "x-trace", "tries": "x-tries"})

    made = table_schema(Struct((Field("TRACE", Kind.LONG),)), {"tries": Kind.INT}, options)

    assert Struct((Field("trace", Kind.STRING), Field("tries", Kind.INT))) == made


def test_a_required_header_that_is_missing_refuses_the_record() -> None:
    schema = Struct((Field("trace", Kind.STRING, required=True),))
    options = RowOptions({}, columns="drop_value", header_columns=COLUMNS)

    done = convert_batch(batch([None]), at=AT, schema=schema, options=options)

    assert ["P362"] == [reject.code for reject in done.rejects]
