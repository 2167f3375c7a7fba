"""The floats that readers of Parquet files disagree on: NaN, which bounds leave out, and -0.0.

Spark takes NaN for the greatest number and 0.0 for equal to -0.0, but skips row groups by bounds
without NaN, and by dictionaries in which the two zeros differ. So a column with NaN has no
statistics, and one with -0.0 has no dictionary (docs/design/0232).

Invariants:
- only columns of floats at the top and within structs count, never within lists and maps, by which
  no reader skips;
- a null is no NaN, and neither is a member of a null struct;
- columns without either, nulls included, are told by their numbers as they lie in memory: a call of
  Arrow's costs as much as a look at thousands of them, and a small file has few;
- Parquet has one path for a column `a.b` and the member `b` of a struct `a`: what holds for one of
  them is taken to hold for both.

Source: Parquet format, `Statistics` and `ColumnOrder`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FloatColumn = tuple[str, tuple[int, ...]]
"""One column of floats: its path in Parquet's footer, and how it is reached by position."""


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
    """List the columns of floats that are counted."""
    return tuple(
        (".".join((name, *below)), (position, *steps))
        for position, (name, type_) in enumerate(zip(schema.names, schema.types, strict=True))
        for below, steps in _below(type_)
    )


def count_floats(columns: tuple[FloatColumn, ...], rows: pa.Table) -> FloatCounts:
    """Count in the columns of some rows."""
    nans = {path: 0 for path, _ in columns}
    zeros = set()
    for path, (top, *steps) in columns:
        column = rows.column(top)
        if not any(_may_be_odd(chunk, steps) for chunk in column.chunks):
            continue
        column = pc.struct_field(column, steps) if steps else column  # null where a struct above is
        nans[path] += sum(chunk.true_count for chunk in pc.is_nan(column).chunks)
        if any(_has_negative_zero(chunk) for chunk in column.chunks):
            zeros.add(path)
    return FloatCounts(nans, frozenset(zeros))


def _may_be_odd(values: pa.Array, steps: Sequence[int]) -> bool:
    """Return whether NaN or -0.0 lies in memory, be it where a null is."""
    for step in steps:
        values = values.field(step)
    if not len(values):
        return False
    kind = np.dtype(values.type.to_pandas_dtype())
    start = values.offset * kind.itemsize
    numbers = np.frombuffer(values.buffers()[1], kind, len(values), start)  # it may be any size
    zeros = np.signbit(numbers) & (numbers == 0)
    return bool((np.isnan(numbers) | zeros).any())


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
