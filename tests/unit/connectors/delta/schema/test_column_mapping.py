"""Column mapping: names and ids of files, and values that stay what they are."""

import json
from itertools import pairwise

import pyarrow as pa
import pytest

from penstock.connectors.delta.schema.column_mapping import (
    LARGEST_ID,
    MODE,
    as_stored,
    mapped_anew,
    stored_as,
)
from penstock.connectors.delta.schema.types import arrow_schema, mapped_json, schema_of
from penstock.core.schema import Field, Kind, List, Map, Struct

INNER = Struct((Field("a.b", Kind.LONG), Field("c d", List(Struct((Field("e", Kind.STRING),))))))
SCHEMA = Struct(
    (
        Field("id", Kind.LONG, required=True),
        Field("inner", INNER),
        Field("items", List(INNER)),
        Field("more", Map(Kind.STRING, INNER)),
        Field("plain", List(Kind.LONG)),
    )
)
VALUE = {"a.b": 1, "c d": [{"e": "x"}, None, {"e": None}]}
ROWS = [
    {"id": 0, "inner": VALUE, "items": [VALUE, None], "more": [("k", VALUE)], "plain": [1, None]},
    {"id": 1, "inner": None, "items": None, "more": None, "plain": None},
    {"id": 2, "inner": {"a.b": None, "c d": None}, "items": [], "more": [], "plain": []},
    {"id": 3, "inner": VALUE, "items": [None, VALUE], "more": [("k", None), ("l", VALUE)]},
]


def mapped():
    text, largest = mapped_anew(json.loads(mapped_json(SCHEMA)), 7)
    return json.dumps(text), largest


def test_new_columns_get_ids_above_all_and_names_of_their_own():
    text, largest = mapped()
    stored = stored_as(text, schema_of(text, "t"), {MODE: "name", LARGEST_ID: str(largest)})

    assert SCHEMA == schema_of(text, "t")
    assert (*range(8, 22),) == stored.ids
    assert 21 == largest
    names = [field.name for field in stored.schema.fields]
    assert len(set(names)) == len(names)
    assert all(name.startswith("col-") for name in names)
    again, after = mapped_anew(json.loads(text), largest)
    assert (json.loads(text), largest) == (again, after)


@pytest.mark.parametrize("cut", [*pairwise(range(5)), (0, 4), (1, 4), (0, 0)])
def test_values_stay_what_they_are_in_slices_too(cut):
    text, _ = mapped()
    stored = stored_as(text, SCHEMA, {MODE: "id"})
    batch = pa.RecordBatch.from_pylist(ROWS, schema=arrow_schema(SCHEMA))
    start, stop = cut

    renamed = as_stored(batch.slice(start, stop - start), arrow_schema(stored.schema, stored.ids))

    assert arrow_schema(stored.schema, stored.ids) == renamed.schema
    renamed.validate(full=True)
    assert [bare(row) for row in batch.slice(start, stop - start).to_pylist()] == [
        bare(row) for row in renamed.to_pylist()
    ]


def bare(value):
    """Return members in order, without their names."""
    match value:
        case dict():
            return tuple(bare(member) for member in value.values())
        case list():
            return [bare(each) for each in value]
        case tuple():
            return tuple(bare(each) for each in value)
        case _:
            return value


def test_columns_are_found_under_the_names_that_files_have():
    text, _ = mapped()
    stored = stored_as(text, SCHEMA, {MODE: "name"})
    inner = stored.schema.fields[1]

    assert inner.name == stored.name_of(SCHEMA, "inner")
    assert f"{inner.name}.{inner.type.fields[0].name}" == stored.name_of(SCHEMA, "inner.a.b")
    assert "unknown.x" == stored.name_of(SCHEMA, "unknown.x")


def test_without_mapping_names_are_the_columns_own():
    stored = stored_as(mapped_json(SCHEMA), SCHEMA, {})

    assert (SCHEMA, ()) == (stored.schema, stored.ids)
    assert arrow_schema(SCHEMA) == arrow_schema(stored.schema, stored.ids)
