"""What the columns of a file hold, counted while it is written: for formats whose footers pyarrow
cannot ask.

Invariants:
- only columns at the top and within structs are counted, never within lists and maps, by which no
  reader skips; a member of a null struct is null;
- bounds cover all values but nulls and NaN, or are not known: of UUIDs, which readers order in
  different ways (docs/design/0232), and of text that is not UTF-8;
- the least of floats is -0.0 and the greatest 0.0 where it is a zero;
- values of time are whole numbers of their unit, which no calendar of Python's bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Place = tuple[str, tuple[int, ...]]
"""One column: its path as Parquet writes it, and how it is reached by position."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Values, nulls among them, and the least and greatest of the others; both None where all are
    null or NaN. Where `is_bounded` is false they are not known.
    """

    values: int = 0
    nulls: int = 0
    least: Any = None
    greatest: Any = None
    is_bounded: bool = True

    def __add__(self, more: ColumnFacts) -> ColumnFacts:
        """Return the facts of both together."""
        known = self.is_bounded and more.is_bounded
        lows = [each.least for each in (self, more) if known and each.least is not None]
        highs = [each.greatest for each in (self, more) if known and each.greatest is not None]
        return ColumnFacts(
            self.values + more.values,
            self.nulls + more.nulls,
            min(lows, default=None),
            max(highs, default=None),
            known,
        )


def counted_in(schema: pa.Schema) -> tuple[Place, ...]:
    """List the columns that are counted."""
    return tuple(
        (".".join((field.name, *below)), (position, *steps))
        for position, field in enumerate(schema)
        for below, steps in _below(field.type)
    )


def facts_of(columns: tuple[Place, ...], rows: pa.Table) -> Mapping[str, ColumnFacts]:
    """Return the facts of some rows, by path."""
    return {path: _facts(_reached(rows, steps)) for path, steps in columns}


def joined(
    known: Mapping[str, ColumnFacts], more: Mapping[str, ColumnFacts]
) -> Mapping[str, ColumnFacts]:
    """Join the facts of two groups of rows."""
    return {path: known[path] + each for path, each in more.items()} if known else more


def _below(type_: pa.DataType) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    if pa.types.is_struct(type_):
        for position, field in enumerate(type_):
            for names, steps in _below(field.type):
                yield (field.name, *names), (position, *steps)
    elif not pa.types.is_nested(type_):
        yield (), ()


def _reached(rows: pa.Table, steps: tuple[int, ...]) -> pa.ChunkedArray:
    top, *below = steps
    column = rows.column(top)
    return pc.struct_field(column, below) if below else column  # null where a struct above is


def _facts(column: pa.ChunkedArray) -> ColumnFacts:
    counts = len(column), column.null_count
    if column.type == pa.uuid():
        return ColumnFacts(*counts, is_bounded=False)
    try:
        ends = pc.min_max(_ordered(column)).as_py()
    except ValueError:  # text that is not UTF-8
        return ColumnFacts(*counts, is_bounded=False)
    least, greatest = ends["min"], ends["max"]
    if pa.types.is_floating(column.type):
        least, greatest = _float_bounds(least, greatest)
    return ColumnFacts(*counts, least, greatest)


def _ordered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return column.cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    if pa.types.is_floating(kind):
        return column.filter(pc.invert(pc.is_nan(column)))
    return column


def _float_bounds(least: float | None, greatest: float | None) -> tuple[float | None, float | None]:
    return -0.0 if least == 0.0 else least, 0.0 if greatest == 0.0 else greatest
