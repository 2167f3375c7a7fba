"""JSON with a schema of Connect lands the same by columns and one by one."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_avro import (
    INT,
    LONG,
    NAMES,
    WORDS,
    changed,
    known_type,
    outcome,
    with_rescue,
)

from penstock.core.schema import Struct
from penstock.rows.convert.blocks import ConversionPlan, convert_records, convert_typed_block
from penstock.rows.decode.connect.block_reader import connect_reader
from penstock.rows.decode.json.parser import parse_object
from penstock.rows.options import RowOptions

COUNTED = {
    "int32": ["org.apache.kafka.connect.data.Date", "org.apache.kafka.connect.data.Time"],
    "int64": [
        "org.apache.kafka.connect.data.Timestamp",
        *(f"io.debezium.time.{name}" for name in ("MicroTimestamp", "NanoTimestamp", "MicroTime")),
    ],
}
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | LONG | st.just("NaN")
BASE64 = st.binary(max_size=18).map(lambda data: base64.b64encode(data).decode())
STRAY = st.sampled_from([1.5, "x", True, [], {}, {"a": 1}, 2**70, "NaN", "AA=="])


@st.composite
def typed(draw: st.DrawFn, depth: int) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    kinds = ["int8", "int32", "int64", "float", "double", "boolean", "string", "bytes", "decimal"]
    kinds += ["array", "struct", *(["map"] if draw(st.integers(0, 5)) == 0 else [])] * bool(depth)
    match draw(st.sampled_from(kinds)):
        case "int8":
            return {"type": "int8"}, st.integers(-128, 127)
        case "int32" | "int64" as kind:
            name = draw(st.sampled_from(["", *COUNTED[kind]]))
            return {"type": kind, "name": name}, INT if kind == "int32" else LONG
        case "float" | "double" as kind:
            return {"type": kind}, NUMBERS
        case "boolean":
            return {"type": "boolean"}, st.booleans()
        case "string":
            return {"type": "string"}, WORDS
        case "bytes":
            return {"type": "bytes"}, BASE64
        case "decimal":
            parameters = {"scale": str(draw(st.integers(-1, 5)))}
            name = "org.apache.kafka.connect.data.Decimal"
            schema = {"type": "bytes", "name": name, "parameters": parameters}
            return schema, BASE64 | st.floats(-10, 10)
        case "array":
            items, values = draw(typed(depth - 1))
            return {"type": "array", "items": items}, st.lists(st.none() | values, max_size=3)
        case "map":
            inner, values = draw(typed(depth - 1))
            schema = {"type": "map", "keys": {"type": "string"}, "values": inner}
            return schema, st.dictionaries(NAMES, values, max_size=3)
        case _:
            return draw(structs(depth - 1))


@st.composite
def structs(draw: st.DrawFn, depth: int) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    members = {name: draw(typed(depth)) for name in names}
    fields = [{**schema, "field": name} for name, (schema, _) in members.items()]
    values = {name: st.none() | values for name, (_, values) in members.items()}
    return {"type": "struct", "fields": fields}, st.fixed_dictionaries({}, optional=values)


def spoilt(data: st.DataObject, payload: Any) -> Any:
    """Put a stray value somewhere into a payload."""
    if isinstance(payload, dict) and payload and data.draw(st.integers(0, 3)):
        name = data.draw(st.sampled_from(sorted(payload)))
        return {**payload, name: spoilt(data, payload[name])}
    return data.draw(STRAY)


@settings(max_examples=100)
@given(structs(2), st.data(), st.integers(1, 30))
def test_the_column_way_and_the_record_way_give_equal_rows_and_rejects(
    drawn: tuple[Any, st.SearchStrategy[Any]], data: st.DataObject, repeated: int
) -> None:
    schema, values = drawn
    payloads = data.draw(st.lists(values, min_size=1, max_size=4))
    texts = [json.dumps(payload).encode() for payload in payloads] * repeated
    if data.draw(st.booleans()):
        bad = spoilt(data, data.draw(st.sampled_from(payloads)))
        texts.insert(len(texts) // 2, json.dumps(bad).encode())
    reader = connect_reader(parse_object(json.dumps(schema).encode(), depth_max=64), 64)
    asked = known_type(reader.type)
    assert isinstance(asked, Struct)
    kept = [field for field in asked.fields if data.draw(st.integers(0, 9))]
    table = Struct(tuple(changed(data.draw, field) for field in kept))
    policies = st.sampled_from(["quarantine", "drop_value", "rescue", "freeze"])
    options = RowOptions({}, columns=data.draw(policies), types=data.draw(policies))
    plan = ConversionPlan.of(with_rescue(table), options)
    array = pa.array(texts, pa.binary())

    by_column = convert_typed_block(array, reader, plan)
    by_record = convert_records(array, np.arange(len(array)), plan, reader.record)

    by_column.rows.validate(full=True)
    assert outcome(by_record) == outcome(by_column)
    assert len(array) == len(by_column.rows) + len(by_column.rejects)
