"""Fields that have another name of their column in the table's name mapping."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from tests.unit.rows.cast.test_case_insensitive import landed

from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, List, Map, Struct
from penstock.rows.cast.spellings import require_one_column, respelled, spelled_as
from penstock.rows.convert.blocks import ConversionPlan, convert_group, convert_records
from penstock.rows.decode.avro.block_reader import avro_reader
from penstock.rows.decode.avro.schema import parse_schema
from penstock.rows.decode.decoder import ReaderGroup
from penstock.rows.options import RowOptions
from penstock.rows.schema.evolution import widened

LINE = Struct((Field("sku", Kind.STRING), Field("count", Kind.LONG)))
SCHEMA = Struct(
    (
        Field("id", Kind.LONG),
        Field("title", Kind.STRING),
        Field("place", Struct((Field("post code", Kind.LONG),))),
        Field("lines", List(LINE)),
        Field("more", Map(Kind.STRING, LINE)),
    )
)
NAMES = {
    "": {"name": "title", "caption": "title", "items": "lines"},
    "place": {"zip": "post code"},
    "lines[]": {"n": "count"},
    "more{}": {"n": "count", "article": "sku"},
}
MAPPED = RowOptions({}, names=NAMES, match="name_mapping")


def former(number: int) -> dict[str, Any]:
    """Return a record as producers of before the renaming write it."""
    return {
        "id": number,
        "name": "t",
        "place": {"zip": 1},
        "items": [{"sku": "a", "n": 2}],
        "more": {"n": {"article": "b", "n": 3}},
    }


def present(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "title": "t",
        "place": {"post code": 1},
        "lines": [{"sku": "a", "count": 2}],
        "more": {"n": {"sku": "b", "count": 3}},
    }


def row(number: int) -> dict[str, Any]:
    return {**present(number), "more": [("n", {"sku": "b", "count": 3})]}


@pytest.mark.parametrize("columns", ["quarantine", "drop_value"])
def test_fields_land_in_the_columns_that_have_their_names(columns: Any) -> None:
    options = RowOptions({}, names=NAMES, columns=columns)
    mixed = [(former if n % 3 else present)(n) for n in range(12)]

    for records in (mixed, [*map(former, range(200))], [*map(present, range(200))]):
        wanted = [row(n) for n in range(len(records))]
        assert (wanted, []) == landed(*records, schema=SCHEMA, options=options)


def test_two_fields_for_one_column_and_names_of_another_struct_refuse_the_record() -> None:
    twice = b'{"name": "a", "caption": "a"}', b'{"place": {"zip": 1, "post code": 1}}'
    found = landed(former(0), *twice, {"zip": 1}, {"n": 2}, schema=SCHEMA, options=MAPPED)

    assert ([row(0)], [(1, "P305"), (2, "P305"), (3, "P361"), (4, "P361")]) == found


def test_a_field_by_another_name_widens_its_column_and_adds_none() -> None:
    young = Struct((Field("title", Kind.STRING), Field("lines", List(LINE))))
    options = RowOptions({}, names=NAMES, columns="evolve", types="evolve")

    wide = widened(young, [b'{"caption": "a", "items": [{"n": 1, "price": 2}]}'], options, 9)
    line = Struct((*LINE.fields, Field("price", Kind.LONG)))
    assert Struct((Field("title", Kind.STRING), Field("lines", List(line)))) == wide
    assert ("title",) == spelled_as(Struct((Field("name", Kind.LONG),)), SCHEMA, MAPPED).names


def test_a_name_of_two_columns_is_refused() -> None:
    one = {"place": {"zip": ("post code",)}}
    assert {"place": {"zip": "post code"}} == require_one_column(one, "lake.shop.orders")
    with pytest.raises(InvalidError, match=r"place\.zip and place\.code, .* called zip") as raised:
        require_one_column({"place": {"zip": ("zip", "code")}}, "lake.shop.orders")
    assert "P435" == raised.value.code


FORMER_LINE = {"type": "record", "name": "Line", "fields": [{"name": "n", "type": "long"}]}
FORMER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {
            "name": "place",
            "type": {
                "type": "record",
                "name": "Place",
                "fields": [{"name": "zip", "type": "long"}],
            },
        },
        {"name": "items", "type": {"type": "array", "items": FORMER_LINE}},
        {"name": "more", "type": {"type": "map", "values": "Line"}},
    ],
}


def of_schema(schema: dict[str, Any], *records: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Land records of Avro: their rows, and their rejects; both ways must say the same."""
    values = []
    for each in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, each)
        values.append(out.getvalue())
    plan, reader = ConversionPlan.of(SCHEMA, MAPPED), avro_reader(parse_schema(json.dumps(schema)))
    group = ReaderGroup(np.arange(len(values)), pa.array(values, pa.binary()), reader)
    [by_block] = convert_group(group, plan)
    read = respelled(reader, plan.payload, MAPPED).record
    by_record = convert_records(group.values, group.positions, plan, read)
    found = [
        (each.rows.to_pylist(), [(at, str(why.code)) for at, why in each.rejects.items()])
        for each in (by_block, by_record)
    ]
    assert found[0] == found[1]
    return found[0]


def test_records_of_a_schema_land_in_the_columns_that_have_their_names() -> None:
    line = {"sku": None, "count": 3}
    record = {
        "id": 1,
        "name": "t",
        "place": {"zip": 1},
        "items": [{"n": 3}, {"n": 3}],
        "more": {"n": {"n": 3}},
    }
    wanted = {
        "id": 1,
        "title": "t",
        "place": {"post code": 1},
        "lines": [line, line],
        "more": [("n", line)],
    }
    bare = {**record, "id": 2, "name": None, "items": []}
    rows = [wanted, {**wanted, "id": 2, "title": None, "lines": []}]

    assert (rows, []) == of_schema(FORMER, record, bare)


def test_a_schema_with_two_fields_for_one_column_refuses_its_records() -> None:
    fields = [{"name": each, "type": "string"} for each in ("name", "caption")]
    twice = {"type": "record", "name": "Twice", "fields": fields}

    assert ([], [(0, "P305")]) == of_schema(twice, {"name": "a", "caption": "b"})


def test_a_schema_by_another_name_widens_no_table() -> None:
    reader = respelled(avro_reader(parse_schema(json.dumps(FORMER))), SCHEMA, MAPPED)

    assert SCHEMA.names == reader.type.names
    lines, more = reader.type.field("lines"), reader.type.field("more")
    assert lines is not None
    assert more is not None
    assert [("count",), ("count",)] == [lines.type.element.names, more.type.value.names]
