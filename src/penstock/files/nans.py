"""How many NaN the float columns of a file hold, which no Parquet footer tells.

Invariants:
- counted are columns of floats at the top and within structs, never within lists and maps;
- a null is no NaN, and neither is what lies below a struct that is null;
- bounds leave NaN out, so a bound of a column that is not counted must not be told: Iceberg and
  Delta take it for a bound of all rows, and delete whole files by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Floats:
    """Name one column of floats as Parquet's footer does, and how it is reached by position."""

    path: str
    steps: tuple[int, ...]


def floats_in(schema: pa.Schema) -> tuple[Floats, ...]:
    """List the columns of floats whose NaN are counted."""
    return tuple(
        Floats(".".join((name, *below)), (position, *steps))
        for position, (name, type_) in enumerate(zip(schema.names, schema.types, strict=True))
        for below, steps in _below(type_)
    )


def nans_of(floats: Floats, rows: pa.Table) -> int:
    """Count the NaN of one column."""
    top, *steps = floats.steps
    column = rows.column(top)
    if steps:
        column = pc.struct_field(column, steps)  # null where a struct above is
    return sum(chunk.true_count for chunk in pc.is_nan(column).chunks)


def _below(type_: pa.DataType) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
    if pa.types.is_floating(type_):
        yield (), ()
    elif pa.types.is_struct(type_):
        for position, field in enumerate(type_):
            for names, steps in _below(field.type):
                yield (field.name, *names), (position, *steps)
