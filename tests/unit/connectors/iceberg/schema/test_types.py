import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import schema_to_pyarrow

from penstock.connectors.iceberg.schema.types import file_schema, to_core, to_iceberg
from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Struct

scalars = st.one_of(
    st.sampled_from([kind for kind in Kind if kind is not Kind.UNKNOWN]),
    st.builds(Decimal, st.integers(10, 38), st.integers(0, 9)),
    st.builds(Fixed, st.integers(1, 64)),
)


def structs(types):
    names = st.lists(
        st.text("abcXYZ_ é", min_size=1, max_size=6), min_size=1, max_size=4, unique=True
    )
    return names.flatmap(
        lambda given_names: st.tuples(
            *(st.builds(Field, st.just(name), types, st.booleans()) for name in given_names)
        ).map(Struct)
    )


trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        structs(inner),
        st.builds(List, inner, st.booleans()),
        st.builds(Map, st.just(Kind.STRING), inner, st.booleans()),
    ),
    max_leaves=8,
)


@given(structs(trees))
@settings(max_examples=80)
def test_a_schema_comes_back_as_it_went(schema):
    there = to_iceberg(schema, 3)

    assert schema == to_core(there, "t")
    assert len(there.field_ids) == there.highest_field_id


@given(structs(trees))
@settings(max_examples=40)
def test_files_have_the_columns_and_ids_of_the_library(schema):
    there = to_iceberg(schema, 3)
    ours, theirs = file_schema(there), schema_to_pyarrow(there)

    assert ids(theirs) == ids(ours)
    assert theirs.names == ours.names


def ids(fields):
    """List the field ids of a tree of Arrow fields, depth first."""
    found = []
    for field in fields:
        found.append(field.metadata[b"PARQUET:field_id"])
        kind = field.type
        if pa.types.is_struct(kind):
            found += ids([kind.field(n) for n in range(kind.num_fields)])
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            found += ids([kind.value_field])
        elif pa.types.is_map(kind):
            found += ids([kind.key_field, kind.item_field])
    return found
