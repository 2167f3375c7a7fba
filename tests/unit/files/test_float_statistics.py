"""NaN are counted where a footer's bounds would be taken for those of all rows."""

from math import nan

import pyarrow as pa

from penstock.files.float_statistics import count_floats, floats_in

INNER = pa.struct([pa.field("n", pa.int64()), pa.field("x", pa.float32())])
OUTER = pa.struct([pa.field("in", INNER), pa.field("y", pa.float64())])


def counted(rows: pa.Table) -> dict[str, int]:
    return dict(count_floats(floats_in(rows.schema), rows).nans)


def test_nan_are_counted_at_the_top_and_in_structs_and_nulls_are_none() -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.float64()), ("s", OUTER)])
    rows = [
        {"id": 1, "v": nan, "s": {"in": {"n": 1, "x": nan}, "y": 1.0}},
        {"id": 2, "v": None, "s": {"in": None, "y": nan}},
        {"id": 3, "v": 3.0, "s": None},
        {"id": 4, "v": nan, "s": {"in": {"n": 1, "x": None}, "y": nan}},
    ]

    assert {"v": 2, "s.in.x": 1, "s.y": 2} == counted(pa.Table.from_pylist(rows, schema=schema))


def test_what_a_null_struct_covers_is_not_counted() -> None:
    below = pa.array([nan, nan])
    column = pa.StructArray.from_arrays([below], names=["x"], mask=pa.array([False, True]))

    assert {"s.x": 1} == counted(pa.table({"s": column}))


def test_a_column_and_a_member_of_one_path_are_counted_as_one() -> None:
    for at_the_top, inside in ((nan, 1.0), (1.0, nan)):
        member = pa.StructArray.from_arrays([pa.array([inside])], names=["b"])
        dotted = pa.array([at_the_top])

        assert {"a.b": 1} == counted(pa.table({"a.b": dotted, "a": member}))
        assert {"a.b": 1} == counted(pa.table({"a": member, "a.b": dotted}))


def test_columns_in_lists_and_maps_are_not_counted() -> None:
    listed = pa.array([[nan]], pa.list_(pa.float64()))
    mapped = pa.array([[("a", nan)]], pa.map_(pa.string(), pa.float64()))

    assert {} == counted(pa.table({"l": listed, "m": mapped}))


def test_no_rows_hold_no_nan() -> None:
    assert {"v": 0} == counted(pa.table({"v": pa.array([], pa.float32())}))


def test_a_stretch_of_rows_is_counted_as_if_it_stood_alone() -> None:
    numbers = [nan, -0.0, 1.0, None, -0.0, nan, 0.0]
    column = pa.array(numbers, pa.float64())
    struct = pa.StructArray.from_arrays([column.cast(pa.float32())], names=["x"])
    rows = pa.table({"v": column, "s": struct})
    for start in range(len(numbers)):
        for stop in range(start, len(numbers) + 1):
            part = numbers[start:stop]
            found = count_floats(floats_in(rows.schema), rows.slice(start, stop - start))

            assert dict.fromkeys(("v", "s.x"), [*map(str, part)].count("nan")) == found.nans
            has_zero = "-0.0" in map(str, part)
            assert ({"v", "s.x"} if has_zero else set()) == found.negative_zeros


def test_members_may_lie_in_one_buffer_that_is_no_multiple_of_their_width() -> None:
    types = pa.struct([("x", pa.float64()), ("fixed", pa.binary(11))])

    assert {"s.x": 0} == counted(pa.table({"s": pa.nulls(3, types)}))
