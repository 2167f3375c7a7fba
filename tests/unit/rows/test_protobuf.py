"""Protobuf records: what each kind of field becomes, by columns and one by one."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime
from decimal import Decimal as Exact
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from penstock.connectors.registry import compiling
from penstock.connectors.registry.compiling import compiled
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.schema import Decimal, Field, Kind, List, Map, Struct, Type
from penstock.ports.registry import RegisteredSchema
from penstock.rows.convert.blocks import ConversionPlan, convert_records, convert_typed_block
from penstock.rows.decode.protobuf.block_reader import protobuf_reader
from penstock.rows.decode.protobuf.schema import DEPTH_MAX, message_class
from penstock.rows.decode.schema_id import group_by_schema, message_indexes
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/duration.proto";
import "confluent/type/decimal.proto";
import "confluent/meta.proto";

enum State { NEW = 0; OLD = 1; }
message Line { string sku = 1; int32 count = 2; }
message Order {
  int64 id = 1;
  optional string note = 2;
  google.protobuf.Timestamp at = 3;
  State state = 4 [(confluent.field_meta) = { doc: "where it stands" }];
  repeated Line lines = 5;
  map<string, double> extra = 6;
  oneof pay { string card = 7; int64 cash = 8; }
  uint64 big = 9;
  google.protobuf.Struct doc = 10;
  google.protobuf.Int64Value wrapped = 11;
  confluent.type.Decimal price = 12;
  map<int32, Line> by_number = 13;
  bytes raw = 14;
  google.protobuf.Duration took = 15;
  message Inner { bool yes = 1; }
  Inner inner = 16;
  float ratio = 17;
  repeated State states = 18;
}
message Tree { Tree left = 1; }
"""
OLD = """
syntax = "proto2";
message Old {
  required int32 id = 1;
  optional string name = 2 [default = "nobody"];
  enum Kind { A = 1; B = 2; }
  optional Kind kind = 3;
  repeated group Part = 4 { optional int32 size = 1; }
  extensions 100 to 200;
}
extend Old { optional int32 more = 100; }
"""
READ = Kind.STRING


@cache
def descriptors(text: str) -> bytes:
    found = compiled(RegisteredSchema("protobuf", text))
    assert "" == found.fault
    return found.descriptors


def message(text: str, *indexes: int) -> Any:
    return message_class(descriptors(text), indexes)


def landed(text: str, indexes: tuple[int, ...], table: Struct, *values: bytes) -> list[Any]:
    """Land values: the row of each, or its code; both ways must say the same."""
    plan = ConversionPlan.of(table, RowOptions({}, columns="drop_value"))
    reader = protobuf_reader(descriptors(text), indexes)
    array = pa.array(values, pa.binary())
    by_column = outcomes(convert_typed_block(array, reader, plan), len(values))
    by_record = convert_records(array, np.arange(len(values)), plan, reader.record)
    assert outcomes(by_record, len(values)) == by_column
    return by_column


def outcomes(fitted: Any, count: int) -> list[Any]:
    found: list[Any] = [None] * count
    for position, row in zip(fitted.positions.tolist(), fitted.rows.to_pylist(), strict=True):
        found[position] = row
    for position, reject in fitted.rejects.items():
        found[position] = str(reject.code)
    return found


def of_order(name: str, type_: Type, *values: bytes) -> list[Any]:
    """Land orders in a table with one of their columns."""
    return [
        row if isinstance(row, str) else row[name]
        for row in landed(SHOP, (1,), Struct((Field(name, type_),)), *values)
    ]


def order(**members: Any) -> bytes:
    data: bytes = message(SHOP, 1)(**members).SerializeToString()
    return data


def test_a_schema_asks_for_the_columns_of_its_message() -> None:
    line = Struct((Field("sku", Kind.STRING), Field("count", Kind.INT)))
    expected = {
        "id": Kind.LONG,
        "note": Kind.STRING,
        "at": Kind.TIMESTAMPTZ,
        "state": Kind.STRING,
        "lines": List(line),
        "extra": Map(Kind.STRING, Kind.DOUBLE),
        "card": Kind.STRING,
        "cash": Kind.LONG,
        "big": Kind.LONG,
        "doc": Kind.STRING,
        "wrapped": Kind.LONG,
        "price": Kind.UNKNOWN,
        "by_number": Map(Kind.INT, line),
        "raw": Kind.BINARY,
        "took": Struct((Field("seconds", Kind.LONG), Field("nanos", Kind.INT))),
        "inner": Struct((Field("yes", Kind.BOOLEAN),)),
        "ratio": Kind.FLOAT,
        "states": List(Kind.STRING),
    }

    asked = protobuf_reader(descriptors(SHOP), (1,)).type

    assert expected == {field.name: field.type for field in asked.fields}


NAMED = [
    ("id", Kind.LONG, 0, {"id": -5}, -5),
    ("note", Kind.STRING, None, {"note": ""}, ""),
    ("state", Kind.STRING, "NEW", {"state": 1}, "OLD"),
    (
        "extra",
        Map(Kind.STRING, Kind.DOUBLE),
        [],
        {"extra": {"b": 0.5, "a": 1}},
        [("a", 1), ("b", 0.5)],
    ),
    ("card", Kind.STRING, None, {"card": "x"}, "x"),
    ("cash", Kind.LONG, None, {"cash": 0}, 0),
    ("raw", Kind.BINARY, b"", {"raw": b"\x00"}, b"\x00"),
    ("doc", Kind.STRING, None, {"doc": {"b": [1, None], "a": "é"}}, '{"a":"é","b":[1.0,null]}'),
    ("inner", Struct((Field("yes", Kind.BOOLEAN),)), None, {"inner": {}}, {"yes": False}),
    ("states", List(Kind.STRING), [], {"states": [1, 0]}, ["OLD", "NEW"]),
    ("ratio", Kind.FLOAT, 0.0, {"ratio": 0.5}, 0.5),
]


@pytest.mark.parametrize(("name", "type_", "unset", "members", "value"), NAMED)
def test_unset_members_are_null_where_the_schema_tracks_presence(
    name: str, type_: Type, unset: Any, members: dict[str, Any], value: Any
) -> None:
    assert [unset, value] == of_order(name, type_, b"", order(**members))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def sized(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


EXTRA, BY_NUMBER = Map(Kind.STRING, Kind.DOUBLE), Map(Kind.INT, Struct((Field("sku", READ),)))
HALF, ONE = struct.pack("<Bd", 2 << 3 | 1, 0.5), struct.pack("<Bd", 2 << 3 | 1, 1.0)
KEY = sized(1, b"k")
REPEATED = {
    "a number": ("id", Kind.LONG, number(1, 7) + number(1, 8), 8),
    "a number, then its zero": ("id", Kind.LONG, number(1, 7) + number(1, 0), 0),
    "a number of too many bits": (
        "inner",
        Struct((Field("yes", Kind.BOOLEAN),)),
        sized(16, number(1, 2)),
        {"yes": True},
    ),
    "a text": ("note", READ, sized(2, b"a") + sized(2, b"b"), "b"),
    "a text over one that is none": ("note", READ, sized(2, b"\xff") + sized(2, b"b"), "P303"),
    "an enum": ("state", READ, number(4, 1) + number(4, 0), "NEW"),
    "an enum over an unknown number": ("state", READ, number(4, 7) + number(4, 1), "OLD"),
    "an unknown number over an enum": ("state", READ, number(4, 1) + number(4, 7), "P302"),
    "a message": (
        "inner",
        Struct((Field("yes", Kind.BOOLEAN),)),
        sized(16, number(1, 1)) + sized(16, b""),
        {"yes": True},
    ),
    "a time": (
        "at",
        Kind.TIMESTAMPTZ,
        sized(3, number(1, 5)) + sized(3, number(2, 1000)),
        datetime(1970, 1, 1, 0, 0, 5, 1, tzinfo=UTC),
    ),
    "a wrapped number": ("wrapped", Kind.LONG, sized(11, number(1, 5)) + sized(11, b""), 5),
    "one of several over another": ("card", READ, sized(7, b"c") + number(8, 1), None),
    "one of several": ("cash", Kind.LONG, sized(7, b"c") + number(8, 1), 1),
    "a list in parts, packed and not": (
        "states",
        List(READ),
        sized(18, b"\0\1") + number(18, 1) + sized(18, b"\0"),
        ["NEW", "OLD", "OLD", "NEW"],
    ),
    "a key": ("extra", EXTRA, sized(6, KEY + HALF) + sized(6, KEY + ONE), [("k", 1.0)]),
    "a key, first as it was": (
        "extra",
        EXTRA,
        sized(6, KEY + ONE) + sized(6, KEY + HALF),
        [("k", 0.5)],
    ),
    "a key after its value": ("extra", EXTRA, sized(6, HALF + KEY), [("k", 0.5)]),
    "a key and a value in one entry": (
        "extra",
        EXTRA,
        sized(6, sized(1, b"a") + ONE + KEY + HALF),
        [("k", 0.5)],
    ),
    "an entry of nothing": ("extra", EXTRA, sized(6, b"") + sized(6, b""), [("", 0.0)]),
    "a key whose messages are not merged": (
        "by_number",
        BY_NUMBER,
        sized(13, number(1, 7) + sized(2, sized(1, b"a"))) + sized(13, number(1, 7)),
        [(7, {"sku": ""})],
    ),
    "a key whose message is in one entry twice": (
        "by_number",
        BY_NUMBER,
        sized(13, number(1, 7) + sized(2, sized(1, b"a")) + sized(2, b"")),
        [(7, {"sku": "a"})],
    ),
}


@pytest.mark.parametrize("case", REPEATED)
def test_repeated_fields_on_the_wire_are_read_as_the_runtime_reads_them(case: str) -> None:
    name, type_, wire, expected = REPEATED[case]

    assert [expected] == of_order(name, type_, wire)


def test_a_wrapped_number_may_be_null_and_may_be_zero() -> None:
    assert [None, 0] == of_order("wrapped", Kind.LONG, b"", order(wrapped={"value": 0}))


def test_a_number_without_sign_lands_where_it_fits() -> None:
    values = [order(big=2**63 - 1), order(big=2**64 - 1)]

    assert [2**63 - 1, "P364"] == of_order("big", Kind.LONG, *values)
    assert [2**63 - 1, 2**64 - 1] == of_order("big", Decimal(20, 0), *values)


def test_entries_by_number_are_left_out_where_the_column_is_a_struct() -> None:
    found = of_order("by_number", Struct(()), order(by_number={7: {"count": 1}}))

    assert [{}] == found


def test_nanoseconds_are_not_rounded() -> None:
    values = [
        order(at={"seconds": -1, "nanos": 999_999_000}),
        order(at={"nanos": 1}),
        order(at={"nanos": -1}),
        order(at={"seconds": 253_402_300_800}),
    ]

    found = of_order("at", Kind.TIMESTAMPTZ, *values)

    assert "1969-12-31 23:59:59.999999+00:00" == str(found[0])
    assert ["P365", "P302", "P364"] == found[1:]


def test_a_timestamp_in_a_column_of_numbers_is_nanoseconds_on_both_ways() -> None:
    stamps = [(1, 5), (-1, 999_999_000), (9_223_372_035, 0), (253_402_300_799, 0)]
    values = [order(at={"seconds": seconds, "nanos": nanos}) for seconds, nanos in stamps]

    assert [10**9 + 5, -1000, 9_223_372_035 * 10**9, "P364"] == of_order("at", Kind.LONG, *values)
    assert ["1970-01-01 00:00:01+00:00", "9999-12-31 23:59:59+00:00"] == [
        str(stamp)
        for stamp in of_order(
            "at",
            Kind.TIMESTAMPTZ,
            order(at={"seconds": 1}),
            order(at={"seconds": 253_402_300_799}),
        )
    ]


def test_a_decimal_of_its_own_scale_lands_under_a_hint() -> None:
    price = {"value": (-1234).to_bytes(2, "big", signed=True), "precision": 4, "scale": 2}

    assert [None, Exact("-12.34")] == of_order("price", Decimal(38, 10), b"", order(price=price))


HOSTILE = {
    "a field that the schema does not have": (b"\xfa\x07\x01a", "P302"),
    "a field of another wire type": (b"\x0a\x01a", "P302"),
    "a state without a name": (b"\x20\x07", "P302"),
    "cut off": (order(note="abc")[:-1], "P302"),
    "text that is not UTF-8": (b"\x12\x01\xff", "P303"),
    "no message": (b"\xff\xff", "P302"),
    "a number in a Struct that JSON cannot show": (
        order(doc={"a": float("nan")}),
        "P302",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_bytes_that_are_no_message_are_refused(name: str) -> None:
    value, code = HOSTILE[name]
    table = Struct((Field("id", Kind.LONG), Field("doc", Kind.STRING), Field("state", READ)))
    good = order(id=1)

    found = landed(SHOP, (1,), table, good, value, good)

    row = {"id": 1, "doc": None, "state": "NEW"}
    assert [row, code, row] == [each if isinstance(each, str) else {**each} for each in found]


def test_proto2_defaults_are_not_landed_and_extensions_not_left_out() -> None:
    table = Struct((Field("id", Kind.INT), Field("name", READ), Field("kind", READ)))
    unset, unknown_kind = b"", b"\x18\x09"
    extended, not_utf8 = b"\x08\x01\xa0\x06\x05", b"\x12\x01\xff"

    assert [
        {"id": None, "name": None, "kind": None},
        "P302",
        "P302",
        "P303",
    ] == landed(OLD, (0,), table, unset, unknown_kind, extended, not_utf8)


BOOKING = """
syntax = "proto3";
message Booking {
  map<string, string> tags = 1;
  message Debit { int64 cents = 1; }
  map<string, string> more = 2;
  message Credit { int64 cents = 1; string note = 2; }
}
"""


def test_nested_messages_are_named_by_their_indexes_and_maps_count_none() -> None:
    names = [message(BOOKING, 0, index).DESCRIPTOR.name for index in (0, 1)]
    # What Confluent's Java serializer writes for the second message within the first.
    found, _ = group_by_schema(
        pa.array([b"\x00\x00\x00\x00\x07\x04\x00\x02\x08\x64"], pa.binary()),
        None,
        RowOptions({}, format="protobuf"),
    )
    table = Struct((Field("cents", Kind.LONG), Field("note", READ)))

    assert ["Debit", "Credit"] == names
    assert [{"cents": 100, "note": ""}] == landed(
        BOOKING, found[0].message, table, *found[0].values.to_pylist()
    )


def test_an_index_after_the_last_nested_message_names_none() -> None:
    with pytest.raises(RejectError) as refused:
        message(BOOKING, 0, 2)

    assert "P312" == refused.value.code


def test_fields_may_have_the_names_of_the_runtimes_methods() -> None:
    text = """
    syntax = "proto3";
    message A {
      optional string HasField = 1;
      int32 DiscardUnknownFields = 2;
      int32 SerializePartialToString = 3;
      message FromString {}
    }
    """
    table = Struct((Field("HasField", READ), Field("DiscardUnknownFields", Kind.INT)))

    assert [
        {"HasField": "x", "DiscardUnknownFields": 0},
        {"HasField": None, "DiscardUnknownFields": 5},
        "P302",
    ] == landed(text, (0,), table, b"\x0a\x01x", b"\x10\x05", b"\x78\x01")


def test_messages_are_nested_so_deep_and_no_deeper() -> None:
    chain = "".join(f"message A{n} {{ A{n + 1} f = 1; }}\n" for n in range(DEPTH_MAX))
    text = f'syntax = "proto3"; {chain} message A{DEPTH_MAX} {{ int32 x = 1; }}'

    assert ["f"] == list(protobuf_reader(descriptors(text), (1,)).type.names)
    with pytest.raises(RejectError) as refused:
        protobuf_reader(descriptors(text), (0,))
    assert ("P312", f"its messages are nested more than {DEPTH_MAX} deep") == (
        refused.value.code,
        refused.value.reason,
    )


def test_only_the_runtimes_own_files_declare_well_known_types() -> None:
    stamp = 'syntax = "proto3"; package google.protobuf; message Timestamp { string seconds = 1; }'
    decimal = 'syntax = "proto3"; package confluent.type; message Decimal { string value = 1; }'
    text = """
    syntax = "proto3";
    package google.protobuf;
    import "google/protobuf/timestamp.proto";
    import "confluent/type/decimal.proto";
    message Int32Value { string x = 2; }
    message Own { Int32Value a = 1; Timestamp b = 2; confluent.type.Decimal c = 3; }
    """
    references = (
        ("google/protobuf/timestamp.proto", stamp),
        ("confluent/type/decimal.proto", decimal),
    )

    found = compiled(RegisteredSchema("protobuf", text, references))

    asked = protobuf_reader(found.descriptors, (1,)).type
    assert {
        "a": Struct((Field("x", READ),)),
        "b": Kind.TIMESTAMPTZ,
        "c": Struct((Field("value", READ),)),
    } == {field.name: field.type for field in asked.fields}


@pytest.mark.parametrize("indexes", [(2,), (7,), (1, 99)])
def test_recursive_and_missing_messages_cannot_be_used(indexes: tuple[int, ...]) -> None:
    with pytest.raises(RejectError) as refused:
        protobuf_reader(descriptors(SHOP), indexes)

    assert "P312" == refused.value.code


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00rest", ((0,), 1)),
        (b"\x02\x00rest", ((0,), 2)),
        (b"\x02\x02", ((1,), 2)),
        (b"\x04\x02\x06x", ((1, 3), 3)),
        (b"\x02\x80\x02", ((128,), 3)),
        (b"", None),
        (b"\x02", None),
        (b"\x01\x02", None),
        (b"\x02\x01", None),
        (b"\xff\xff\xff\xff\xff\xff", None),
    ],
)
def test_the_indexes_of_a_message_are_read(data: bytes, expected: Any) -> None:
    assert expected == message_indexes(data)


def test_records_are_sorted_by_schema_and_message_in_front_and_in_headers() -> None:
    guid = bytes(range(16))
    values = [
        b"\x00\x00\x00\x00\x07\x00body",
        b"\x00\x00\x00\x00\x07\x02\x02body",
        b"body",
        b"\x00\x00\x00\x00\x07",
        b"body",
    ]
    heads = [None, None, b"\x01" + guid + b"\x02\x02", None, b"\x01" + guid]
    headers = pa.array(
        [None if h is None else [{"key": "__value_schema_id", "value": h}] for h in heads],
        pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    )
    options = RowOptions({}, format="protobuf", schema_id="headers")

    found, rejects = group_by_schema(pa.array(values, pa.binary()), headers, options)

    shown = {
        (each.key.kind, each.message): (each.positions.tolist(), each.values.to_pylist())
        for each in found
    }
    assert {
        ("id", (0,)): ([0], [b"body"]),
        ("id", (1,)): ([1], [b"body"]),
        ("guid", (1,)): ([2], [b"body"]),
    } == shown
    assert {3: "P310", 4: "P310"} == {at: str(reject.code) for at, reject in rejects.items()}


def test_a_schema_that_does_not_compile_says_so() -> None:
    found = compiled(RegisteredSchema("protobuf", 'syntax = "proto3"; message A { Nope b = 1; }'))

    assert 'it does not compile: schema:1:32: "Nope" is not defined.' == found.fault


FOREIGN = "it refers to a file outside of its registry"
NAMES = "the names or texts of its files cannot be written"


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (("/etc/x.proto",), FOREIGN),
        (("../x.proto",), FOREIGN),
        (("a/../../x.proto",), FOREIGN),
        (("",), FOREIGN),
        ((".",), FOREIGN),
        (("a", "a/b.proto"), NAMES),
        (("a/b.proto", "a"), NAMES),
        (("a" * 300,), NAMES),
        (("\ud800.proto",), NAMES),
    ],
)
def test_a_reference_stays_in_its_directory(names: tuple[str, ...], fault: str) -> None:
    references = tuple((name, "") for name in names)

    found = compiled(RegisteredSchema("protobuf", 'syntax = "proto3";', references))

    assert fault == found.fault


MONEY = 'syntax = "proto3"; import "confluent/meta.proto"; message Money { int64 cents = 1; }'
PRICED = (
    'syntax = "proto3"; import "shop/money.proto"; import "google/protobuf/timestamp.proto";'
    "message Priced { Money cost = 1; google.protobuf.Timestamp at = 2; }"
)


@pytest.mark.parametrize("is_money_serialized", [True, False])
def test_a_serialized_schema_reads_as_its_text_does(is_money_serialized: bool) -> None:
    """What `?format=serialized` answers, and what .NET clients register."""
    by_text = compiled(RegisteredSchema("protobuf", PRICED, (("shop/money.proto", MONEY),)))
    files = {each.name: each for each in FileDescriptorSet.FromString(by_text.descriptors).file}
    priced, money = (
        base64.b64encode(files[name].SerializeToString()).decode()
        for name in ("penstock_main.proto", "shop/money.proto")
    )

    reference = ("shop/money.proto", money if is_money_serialized else MONEY)
    found = compiled(RegisteredSchema("protobuf", priced, (reference,)))

    assert "" == found.fault
    reader = protobuf_reader(found.descriptors, (0,))
    assert protobuf_reader(by_text.descriptors, (0,)).type == reader.type
    assert {"cost": {"cents": 5}, "at": None} == reader.record(b"\x0a\x02\x08\x05")


def test_what_a_serialized_schema_lacks_is_a_fault_of_the_schema() -> None:
    file = FileDescriptorProto(name="a.proto", dependency=["none.proto"], syntax="proto3")
    text = base64.b64encode(file.SerializeToString()).decode()
    import_of = 'syntax = "proto3"; import "a.proto";'

    lacking = compiled(RegisteredSchema("protobuf", text)).fault
    no_file = compiled(RegisteredSchema("protobuf", "AAAABBBB")).fault
    mixed = compiled(RegisteredSchema("protobuf", import_of, (("a.proto", text),))).fault

    assert lacking.startswith("it does not compile:")
    assert "it is base64, and no serialized file" == no_file
    assert "it is text, and imports a serialized file" == mixed


def test_a_serialized_schema_that_protoc_does_not_take_in_is_a_fault_and_not_tried_again() -> None:
    file = FileDescriptorProto(name="a.proto", syntax="proto3")
    file.message_type.add(name="A B")
    text = base64.b64encode(file.SerializeToString()).decode()

    found = compiled(RegisteredSchema("protobuf", text))

    assert "it does not compile: schema: Invalid symbol name: A B" == found.fault


def test_a_text_that_is_no_unicode_is_a_fault() -> None:
    assert NAMES == compiled(RegisteredSchema("protobuf", "// \ud800")).fault


@pytest.mark.parametrize("name", ["no room for it", "killed", "its own output cannot be written"])
def test_a_machine_that_cannot_compile_is_no_fault_of_the_schema(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "no room for it":
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    elif name == "killed":
        monkeypatch.setattr(compiling, "_PROTOC", ("-c", "import os; os.kill(os.getpid(), 9)"))
    else:
        monkeypatch.setattr(compiling, "_OUT", "no/such")

    with pytest.raises(UnavailableError) as refused:
        compiled(RegisteredSchema("protobuf", 'syntax = "proto3"; message A { int32 b = 1; }'))

    assert "P677" == refused.value.code


def test_references_are_found_by_their_names() -> None:
    other = 'syntax = "proto3"; package common; message Money { int64 cents = 1; }'
    text = 'syntax = "proto3"; import "shop/money.proto"; message P { common.Money cost = 1; }'

    found = compiled(RegisteredSchema("protobuf", text, (("shop/money.proto", other),)))

    reader = protobuf_reader(found.descriptors, (0,))
    assert {"cost": {"cents": 5}} == reader.record(b"\x0a\x02\x08\x05")


def test_without_protoc_records_in_protobuf_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(compiling, "find_spec", lambda _: None)
    with pytest.raises(InvalidError) as raised:
        compiled(RegisteredSchema("protobuf", "message M {}"))

    assert "P676" == raised.value.code
