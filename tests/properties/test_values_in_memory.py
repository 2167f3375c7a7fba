"""What is told of columns by how they lie in memory is what Arrow's own functions tell of them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from penstock.files.float_statistics import FloatCounts, count_floats, floats_in
from penstock.files.texts import CHARACTERS, FOOTER_BYTES_MAX, beginnings, texts_in

NUMBERS = (math.nan, -0.0, 0.0, 1.0, -1.0, math.inf, -math.inf)
WIDTHS = (pa.float32(), pa.float64())
TEXTS = ("", "a", "é", "b" * FOOTER_BYTES_MAX, "c" * (FOOTER_BYTES_MAX + 1), "ü" * 2049)


def packed(members: pa.StructArray | pa.Array, mask: list[bool]) -> pa.Array:
    """Return an array with nulls under which values lie."""
    valid = pa.py_buffer(np.packbits(np.logical_not(mask), bitorder="little").tobytes())
    buffers = [valid, *members.buffers()[1:]]
    return pa.Array.from_buffers(members.type, len(members), buffers)


@st.composite
def floats(draw: st.DrawFn, type_: pa.DataType, rows: int) -> pa.Array:
    """Numbers of a width, or structs of them; whole ones may be null, or have never been there."""
    if draw(st.integers(0, 5)) == 0:
        return pa.nulls(rows, type_)
    mask = draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    if not pa.types.is_struct(type_):
        drawn = draw(st.lists(st.sampled_from(NUMBERS), min_size=rows, max_size=rows))
        values = pa.array(np.array(drawn, type_.to_pandas_dtype()), type_)
        return packed(values, mask) if draw(st.booleans()) else values
    members = [draw(floats(each.type, rows)) for each in type_ if each.name != "fixed"]
    members.append(pa.array([b"12345678901"] * rows, pa.binary(11)))
    over = pa.array(mask, pa.bool_()) if draw(st.booleans()) else None
    return pa.StructArray.from_arrays(members, fields=[*type_], mask=over)


def struct_of(*types: pa.DataType) -> pa.DataType:
    numbers = [pa.field(f"n{number}", each) for number, each in enumerate(types)]
    return pa.struct([*numbers, pa.field("fixed", pa.binary(11))])


TYPES = (*WIDTHS, struct_of(*WIDTHS), struct_of(struct_of(*WIDTHS), pa.float64()))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Stretches of columns in several pieces, cut anywhere."""
    columns = {}
    length = draw(st.integers(0, 12))
    for number, type_ in enumerate(TYPES):
        cut = draw(st.integers(0, length))
        spare = draw(st.integers(0, 3))
        pieces = [draw(floats(type_, n + spare)).slice(spare) for n in (cut, length - cut)]
        columns[f"c{number}"] = pa.chunked_array(pieces, type_)
    start = draw(st.integers(0, length))
    return pa.table(columns).slice(start, draw(st.integers(0, length)))


def counted_by_arrow(rows: pa.Table) -> FloatCounts:
    nans, zeros = {}, set()
    for path, (top, *steps) in floats_in(rows.schema):
        column = rows.column(top)
        values = (pc.struct_field(column, steps) if steps else column).to_pylist()
        known = [float(each) for each in values if each is not None]
        nans[path] = sum(map(math.isnan, known))
        if any(each == 0 and math.copysign(1, each) < 0 for each in known):
            zeros.add(path)
    return FloatCounts(nans, frozenset(zeros))


@given(tables())
def test_floats_are_counted_as_by_arrow(rows: pa.Table) -> None:
    assert counted_by_arrow(rows) == count_floats(floats_in(rows.schema), rows)


@st.composite
def texts(draw: st.DrawFn) -> pa.Array:
    """A stretch of texts, some of which lie under nulls; or of such as have never been there."""
    drawn = st.lists(st.tuples(st.sampled_from(TEXTS), st.booleans()), min_size=1, max_size=6)
    said, mask = zip(*draw(drawn), strict=True)
    values = pa.array(said, pa.string())
    if draw(st.booleans()):
        values = packed(values, [*mask])
    elif draw(st.booleans()):
        members = pa.struct([("t", pa.string()), ("fixed", pa.binary(37))])
        values = pa.nulls(len(said), members).field(0)
    return values.slice(draw(st.integers(0, len(said))), draw(st.integers(0, len(said))))


@given(pieces=st.lists(texts(), max_size=3))
def test_long_texts_are_found_as_by_arrow_and_never_bounded_wrongly(pieces: list[pa.Array]) -> None:
    rows = pa.table({"t": pa.chunked_array(pieces, pa.string())})

    found = beginnings(texts_in(rows.schema), rows)

    known = [each for each in rows.column("t").to_pylist() if each is not None]
    begun = [each[:CHARACTERS] for each in known]
    if any(len(each.encode()) > FOOTER_BYTES_MAX for each in known):
        assert {"t"} == found.keys()
    assert all((min(begun), max(begun)) == bounds for bounds in found.values())
