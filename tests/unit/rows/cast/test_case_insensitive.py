"""Fields that are spelled otherwise than their columns (`case_sensitive: false`)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, List, Map, Struct
from penstock.rows.cast.spellings import require_distinct, spelled_as
from penstock.rows.convert.batch import convert_batch
from penstock.rows.options import RowOptions
from penstock.rows.schema.evolution import widened

AT = TopicPartition("id", 0, "events")
SCHEMA = Struct(
    (
        Field("Id", Kind.LONG),
        Field("straße", Kind.STRING),
        Field("place", Struct((Field("zip", Kind.LONG), Field("City", Kind.STRING)))),
        Field("items", List(Struct((Field("sku", Kind.STRING),)))),
    )
)
BLIND = RowOptions({}, case_sensitive=False)


def landed(*records: Any, schema: Struct = SCHEMA, options: RowOptions = BLIND) -> Any:
    values = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in records]
    count = len(values)
    batch = pa.record_batch(
        {
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.nulls(count, pa.timestamp("ms", "UTC")),
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    done = convert_batch(batch, at=AT, schema=schema, options=options)
    return done.rows.to_pylist(), [(each.offset, each.code) for each in done.rejects]


def row(number: int) -> dict[str, Any]:
    return {
        "Id": number,
        "straße": "s",
        "place": {"zip": 1, "City": "c"},
        "items": [{"sku": "k"}],
    }


def shouted(value: Any) -> Any:
    match value:
        case dict():
            return {name.upper(): shouted(member) for name, member in value.items()}
        case list():
            return [shouted(each) for each in value]
        case _:
            return value


def test_fields_land_in_their_columns_however_they_are_spelled() -> None:
    mixed = [row(0), shouted(row(1)), {**row(2), "PLACE": {"ZIP": 1, "city": "c"}}]
    del mixed[2]["place"]

    assert ([row(0), row(1), row(2)], []) == landed(*mixed)
    many = [shouted(row(n)) for n in range(200)]
    assert ([row(n) for n in range(200)], []) == landed(*many)


@pytest.mark.parametrize(
    "record",
    [
        b'{"id": 1, "ID": 2}',
        b'{"Id": 1, "id": null}',
        b'{"place": {"zip": 1, "Zip": 1}}',
        b'{"items": [{"sku": "a"}, {"SKU": "a", "sku": "b"}]}',
        '{"strasse": "a", "straße": "b"}'.encode(),
    ],
)
@pytest.mark.parametrize("columns", ["quarantine", "drop_value"])
def test_two_fields_for_one_column_refuse_the_record_alone(record: bytes, columns: Any) -> None:
    options = RowOptions({}, case_sensitive=False, columns=columns)

    assert ([row(0), row(2)], [(1, "P305")]) == landed(row(0), record, row(2), options=options)


def test_keys_of_maps_are_data() -> None:
    schema = Struct((Field("more", Map(Kind.STRING, Struct((Field("a", Kind.LONG),)))),))

    assert ([{"more": [("k", {"a": 1}), ("K", {"a": 2})]}], []) == landed(
        {"MORE": {"k": {"A": 1}, "K": {"a": 2}}}, schema=schema
    )


def test_exact_names_are_asked_for_unless_the_spec_says_otherwise() -> None:
    _, refused = landed(shouted(row(1)), options=RowOptions({}))

    assert [(0, "P361")] == refused


def test_a_table_whose_columns_differ_in_case_only_is_refused() -> None:
    inner = Struct((Field("a", Kind.LONG), Field("A", Kind.LONG)))
    for schema in (inner, Struct((Field("b", List(inner)),))):
        with pytest.raises(InvalidError) as caught:
            require_distinct(schema, "lake.shop.orders")
        assert "P435" == caught.value.code


def test_a_field_of_a_column_in_other_case_widens_it_and_adds_none() -> None:
    young = Struct((Field("Id", Kind.INT), Field("place", Struct((Field("zip", Kind.INT),)))))
    options = RowOptions({}, case_sensitive=False, columns="evolve", types="evolve")

    wide = widened(young, [b'{"ID": 4294967296, "Place": {"ZIP": 1, "City": "x"}}'], options, 9)

    place = Struct((Field("zip", Kind.INT), Field("City", Kind.STRING)))
    assert Struct((Field("Id", Kind.LONG), Field("place", place))) == wide


def test_what_records_show_is_reported_under_the_columns_names() -> None:
    shown = Struct((Field("ID", Kind.LONG), Field("Place", Struct((Field("ZIP", Kind.LONG),)))))

    found = spelled_as(shown, SCHEMA, BLIND)
    assert ("Id", "place") == found.names
    assert Struct((Field("zip", Kind.LONG),)) == found.fields[1].type
    assert shown == spelled_as(shown, SCHEMA, RowOptions({}))


names = st.sampled_from(["id", "Id", "ID", "iD", "other", "OTHER", "x"])
objects = st.lists(st.tuples(names, st.integers(0, 9)), max_size=4, unique_by=lambda pair: pair[0])


@given(st.lists(objects, min_size=1, max_size=30))
def test_an_oracle_agrees(records: list[list[tuple[str, int]]]) -> None:
    schema = Struct((Field("Id", Kind.LONG), Field("other", Kind.LONG)))
    options = RowOptions({}, case_sensitive=False, columns="drop_value")
    expected, refused = [], []
    for offset, pairs in enumerate(records):
        folded = [name.lower() for name, _ in pairs]
        if any(folded.count(name) > 1 for name in ("id", "other")):
            refused.append((offset, "P305"))
            continue
        found = dict(zip(folded, (value for _, value in pairs), strict=True))
        expected.append({"Id": found.get("id"), "other": found.get("other")})

    values = [dict(pairs) for pairs in records]
    assert (expected, refused) == landed(*values, schema=schema, options=options)
