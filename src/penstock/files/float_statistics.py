"""The floats that readers of Parquet files disagree on: NaN, which bounds leave out, and -0.0.

Spark takes NaN for the greatest number and 0.0 for equal to -0.0, but skips row groups by bounds
without NaN, and by dictionaries in which the two zeros differ. So a column with NaN has no
statistics, and one with -0.0 has no dictionary (docs/design/0232).

Invariants:
- looked at are columns of floats at the top and within structs, never within lists and maps, by
  which no reader skips;
- a null is no NaN, and neither is what lies below a struct that is null;
- Parquet gives a column `a.b` and the member `b` of a struct `a` one path: what holds for one of
  them is taken to hold for both.

Source: Parquet format, `Statistics` and `ColumnOrder`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class FloatColumn:
    """Name one column of floats as Parquet's footer does, and how it is reached by position."""

    path: str
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FloatCounts:
    """Count the NaN of each column of floats, by path, and name those that hold -0.0."""

    nans: Mapping[str, int]
    negative_zeros: frozenset[str]

    @property
    def with_nans(self) -> frozenset[str]:
        """Name the columns that hold NaN."""
        return frozenset(path for path, count in self.nans.items() if count)


def floats_in(schema: pa.Schema) -> tuple[FloatColumn, ...]:
    """List the columns of floats that are looked at."""
    return tuple(
        FloatColumn(".".join((name, *below)), (position, *steps))
        for position, (name, type_) in enumerate(zip(schema.names, schema.types, strict=True))
        for below, steps in _below(type_)
    )


def count_floats(columns: tuple[FloatColumn, ...], rows: pa.Table) -> FloatCounts:
    """Look through the columns of some rows."""
    nans = {each.path: 0 for each in columns}
    zeros = set()
    for floats in columns:
        column = _column(floats, rows)
        nans[floats.path] += sum(chunk.true_count for chunk in pc.is_nan(column).chunks)
        if any(_has_negative_zero(chunk) for chunk in column.chunks):
            zeros.add(floats.path)
    return FloatCounts(nans, frozenset(zeros))


def _column(floats: FloatColumn, rows: pa.Table) -> pa.ChunkedArray:
    top, *steps = floats.steps
    column = rows.column(top)
    return pc.struct_field(column, steps) if steps else column  # null where a struct above is


def _has_negative_zero(values: pa.Array) -> bool:
    zeros = values.filter(pc.equal(values, 0.0))
    return bool(np.signbit(zeros.to_numpy(zero_copy_only=False)).any())


def _below(type_: pa.DataType) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    if pa.types.is_floating(type_):
        yield (), ()
    elif pa.types.is_struct(type_):
        for position, field in enumerate(type_):
            for names, steps in _below(field.type):
                yield (field.name, *names), (position, *steps)
