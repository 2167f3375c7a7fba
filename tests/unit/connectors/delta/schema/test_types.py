import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connectors.delta.schema.types import (
    arrow_schema,
    delta_json,
    mapped_json,
    schema_of,
    without,
)
from penstock.core.errors import InvalidError
from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct

NOT_IN_DELTA = (Kind.UUID, Kind.TIME, Kind.UNKNOWN, Kind.TIMESTAMP_NS, Kind.TIMESTAMPTZ_NS)
SCALARS = st.one_of(
    st.sampled_from([k for k in Kind if k not in NOT_IN_DELTA]),
    st.integers(1, 38).flatmap(lambda p: st.builds(Decimal, st.just(p), st.integers(0, p))),
)
NAMES = st.lists(
    st.text("abcdefghé_.-$", min_size=1, max_size=6), min_size=1, max_size=4, unique_by=str.lower
)


def structs(types):
    return NAMES.flatmap(
        lambda names: st.tuples(
            *(st.builds(Field, st.just(name), types, st.booleans()) for name in names)
        ).map(Struct)
    )


TYPES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        structs(inner),
        st.builds(List, inner, st.booleans()),
        st.builds(Map, SCALARS, inner, st.booleans()),
    ),
    max_leaves=6,
)


@given(structs(TYPES))
def test_a_schema_written_as_delta_reads_back_equal(schema):
    assert schema == schema_of(delta_json(schema), "t")
    assert list(schema.names) == arrow_schema(schema).names


def test_arrow_types_are_those_of_the_rows():
    schema = Struct((Field("a", Kind.TIMESTAMPTZ, required=True), Field("b", List(Kind.STRING))))

    assert arrow_schema(schema).equals(
        pa.schema(
            [
                pa.field("a", pa.timestamp("us", "UTC"), nullable=False),
                pa.field("b", pa.list_(pa.field("element", pa.string()))),
            ]
        )
    )


@pytest.mark.parametrize(
    ("type_", "path"),
    [
        (Kind.UUID, "c"),
        (Fixed(4), "c"),
        (Struct((Field("x", Kind.TIME),)), "c.x"),
        (List(Kind.TIME), "c[]"),
        (Map(Kind.STRING, Kind.UUID), "c{value}"),
    ],
)
def test_what_delta_cannot_hold_is_refused_with_its_path(type_, path):
    with pytest.raises(InvalidError) as caught:
        delta_json(Struct((Field("c", type_),)))

    assert f"the column {path} has the type" in caught.value.message


TWICE = Struct((Field("id", Kind.LONG), Field("ID", Kind.LONG)))
SPACED = Struct((Field("my id", Kind.LONG),))


@pytest.mark.parametrize(
    "within",
    [
        lambda inner: inner,
        List,
        lambda inner: List(List(inner)),
        lambda inner: Map(Kind.STRING, inner),
        lambda inner: Map(inner, Kind.STRING),
        lambda inner: Struct((Field("deeper", List(inner)),)),
    ],
)
def test_names_that_delta_cannot_distinguish_are_refused_at_every_depth(within):
    twice, spaced = (Struct((Field("items", within(inner)),)) for inner in (TWICE, SPACED))
    for write, schema in ((delta_json, twice), (mapped_json, twice), (delta_json, spaced)):
        with pytest.raises(InvalidError) as caught:
            write(schema)
        assert "P435" == caught.value.code
    assert "my id" in mapped_json(spaced)


def test_partition_columns_are_left_out_of_files():
    schema = Struct((Field("a", Kind.LONG), Field("b", Kind.LONG), Field("c", Kind.LONG)))

    assert ("a", "c") == without(schema, ("b",)).names
