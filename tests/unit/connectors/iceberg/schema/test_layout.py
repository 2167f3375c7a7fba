import pytest
from pyiceberg.table.sorting import SortOrder

from penstock.connectors.iceberg.schema.layout import (
    identifier_ids,
    parse_term,
    partition_spec,
    sort_order,
    with_required,
)
from penstock.connectors.iceberg.schema.types import to_iceberg
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Kind, List, Struct

SCHEMA = to_iceberg(
    Struct(
        (
            Field("id", Kind.LONG),
            Field("ts", Kind.TIMESTAMPTZ),
            Field("a b", Kind.STRING),
            Field("ts_day", Kind.STRING),
            Field("tags", List(Struct((Field("x", Kind.LONG),)))),
            Field("score", Kind.DOUBLE),
            Field("fine", Kind.TIMESTAMPTZ_NS),
        )
    ),
    3,
)


@pytest.mark.parametrize(
    ("text", "column", "transform"),
    [
        ("id", "id", "identity"),
        (" identity( id ) ", "id", "identity"),
        ("DAY(ts)", "ts", "day"),
        ("bucket(16,id)", "id", "bucket[16]"),
        ("truncate( 4 , a b )", "a b", "truncate[4]"),
        ("a b", "a b", "identity"),
    ],
)
def test_a_term_is_read(text, column, transform):
    term = parse_term(text)

    assert (column, transform) == (term.column, str(term.transform))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "day()",
        "day(ts, 3)",
        "day(3, ts)",
        "bucket(id)",
        "x(id)",
        "bucket(16, id",
        "day(day(ts))",
    ],
)
def test_what_is_no_term_is_refused_by_name(text):
    with pytest.raises(InvalidError) as raised:
        parse_term(text)
    assert "P434" == raised.value.code
    assert repr(text) in raised.value.message


def test_several_terms_get_ids_and_names_of_their_own():
    spec = partition_spec(["bucket(16, id)", "hour(ts)", "a b"], SCHEMA)

    assert [("id_bucket", 1000), ("ts_hour", 1001), ("a b", 1002)] == [
        (field.name, field.field_id) for field in spec.fields
    ]


@pytest.mark.parametrize(
    "texts", [["day(ts)"], ["id", "id"], ["bucket(2, id)", "bucket(3, id)"], ["tags.element.x"]]
)
def test_names_that_are_taken_and_columns_in_lists_are_refused(texts):
    with pytest.raises(InvalidError) as raised:
        partition_spec(texts, SCHEMA)
    assert "P434" == raised.value.code


def test_a_sort_order_is_read_with_its_direction():
    order = sort_order(["day(ts) desc", "ts_day ASC", "bucket(4, id)"], SCHEMA)

    assert [
        ("day", "desc", "nulls-last"),
        ("identity", "asc", "nulls-first"),
        ("bucket[4]", "asc", "nulls-first"),
    ] == [(str(f.transform), f.direction.value, f.null_order.value) for f in order.fields]
    assert SortOrder() == sort_order([], SCHEMA)


@pytest.mark.parametrize("text", ["nope desc", "day(ts_day) desc", "desc desc", "day(ts"])
def test_what_cannot_be_sorted_by_is_refused_by_name(text):
    with pytest.raises(InvalidError) as caught:
        sort_order([text], SCHEMA)

    assert "P434" == caught.value.code


@pytest.mark.parametrize("path", ["nope", "score", "tags"])
def test_what_distinguishes_no_rows_is_refused_by_name(path):
    with pytest.raises(InvalidError) as caught:
        identifier_ids(SCHEMA, [path])

    assert "P434" == caught.value.code
    assert path in caught.value.message


def test_identifier_columns_and_the_structs_around_them_become_required():
    inner = Struct((Field("zip", Kind.INT), Field("city", Kind.STRING)))
    schema = Struct((Field("id", Kind.LONG), Field("place", inner)))

    found = with_required(schema, ["place.zip"])

    assert not found.fields[0].required
    assert found.fields[1].required
    assert (True, False) == tuple(field.required for field in found.fields[1].type.fields)
