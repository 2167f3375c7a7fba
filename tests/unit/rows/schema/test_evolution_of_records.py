"""A schema grows so that what fitted fits, and nothing that was written is read otherwise."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.core.schema import Decimal, Field, Kind, List, Map, Schema, Struct, Type
from penstock.core.schema_join import united
from penstock.rows.options import RowOptions
from penstock.rows.schema.evolution import changes_between, widened

EVOLVE = RowOptions(source_columns={"offset": "_kafka_offset"}, columns="evolve", types="evolve")
INNER = Struct((Field("a", Kind.INT), Field("must", Kind.STRING, required=True)))
TABLE: Schema = Struct(
    (
        Field("n", Kind.INT),
        Field("f", Kind.FLOAT),
        Field("price", Decimal(5, 2)),
        Field("inner", INNER),
        Field("items", List(INNER, element_required=True)),
        Field("by_name", Map(Kind.STRING, INNER)),
        Field("_kafka_offset", Kind.LONG),
    )
)


def after(*records: object, options: RowOptions = EVOLVE, room: int = 100) -> list[str]:
    values = [json.dumps(record).encode() for record in records]
    return changes_between(TABLE, widened(TABLE, values, options, room))


@pytest.mark.parametrize(
    ("record", "changes"),
    [
        ({"new": 1}, ["new long added"]),
        ({"new": {"x": [{"y": 1.5}]}}, ["new struct<x: list<struct<y: double>>> added"]),
        ({"inner": {"must": "m", "b": True}}, ["inner.b boolean added"]),
        ({"items": [{"must": "m"}, {"must": "m", "b": "x"}]}, ["items[].b string added"]),
        ({"by_name": {"k": {"must": "m", "b": 1}}}, ["by_name{}.b long added"]),
        ({"n": 1 << 31}, ["n int to long"]),
        ({"n": -(1 << 31)}, []),
        ({"n": 1 << 63}, []),
        ({"n": 1.5}, []),
        ({"n": "x"}, []),
        ({"f": 0.1}, ["f float to double"]),
        ({"f": 0.5}, []),
        ({"price": 12345678.25}, ["price decimal(5,2) to decimal(10,2)"]),
        ({"price": 1.125}, []),
        ({"inner": {"a": 1}}, ["inner.must optional"]),
        (
            {"inner": {"a": 1 << 40, "c": 1, "must": None}},
            ["inner.a int to long", "inner.must optional", "inner.c long added"],
        ),
        ({"items": [None]}, []),
        ({"new": None, "empty": {}, "none": []}, []),
        ({"X": None, "x": 1}, ["x long added"]),
        ({"N": 1, "_KAFKA_offset": 2, "a b": 3, "": 4}, []),
        ({"pr\u0131ce": 1, "PR\u0130CE": 2, "\u017fold": 3, "sold": 4}, ["\u017fold long added"]),
    ],
)
def test_what_a_refused_record_asks_of_a_schema(record: object, changes: list[str]) -> None:
    assert changes == sorted(after(record), key=changes.index)


def test_columns_and_types_evolve_each_by_its_own_leave() -> None:
    record = {"n": 1 << 40, "new": 1}
    columns = RowOptions(source_columns={}, columns="evolve")
    types = RowOptions(source_columns={}, types="evolve")

    assert ["new long added"] == after(record, options=columns)
    assert ["n int to long"] == after(record, options=types)


def test_a_record_that_brings_more_columns_than_there_is_room_for_is_left_out() -> None:
    wide = {f"c{n}": n for n in range(5)}

    assert ["one long added"] == after(wide, {"one": 1}, room=4)


def test_requests_of_several_tasks_are_joined_and_where_they_clash_the_first_counts() -> None:
    requests = [
        widened(TABLE, [json.dumps(record).encode()], EVOLVE, 100)
        for record in ({"x": 1, "n": 1 << 40}, {"x": "text", "y": 2}, {"y": 2.5})
    ]
    both = united(requests)

    types: dict[str, Type] = {field.name: field.type for field in both.fields}
    assert (Kind.LONG, Kind.DOUBLE, Kind.LONG) == (types["x"], types["y"], types["n"])


def test_identifiers_stay_required_whatever_records_lack_them() -> None:
    options = replace(EVOLVE, identifiers=("inner.must",))
    table = Struct((Field("inner", INNER, required=True), Field("id", Kind.LONG, required=True)))
    records = [b'{"inner": {"a": 1}}', b'{"id": 1}', b'{"id": 1, "inner": null}']

    free = changes_between(table, widened(table, records, EVOLVE, 9))
    assert {"inner optional", "inner.must optional", "id optional"} == set(free)
    assert ["id optional"] == changes_between(table, widened(table, records, options, 9))


def test_a_reserved_name_becomes_no_column_and_one_that_is_there_stays() -> None:
    options = replace(EVOLVE, reserved=("_file", "N"))

    assert ["new long added", "n int to long"] == sorted(
        after({"new": 1, "_FILE": 2, "_file": 3, "n": 1 << 40}, options=options), reverse=True
    )
    assert ["inner._file long added"] == after(
        {"inner": {"must": "m", "_file": 1}, "by_name": {}},
        options=replace(options, types="freeze"),
    )
