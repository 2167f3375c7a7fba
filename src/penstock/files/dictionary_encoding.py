"""Chooses the columns of a file to write with a dictionary: those with values that repeat.

pyarrow begins every column with a dictionary and drops it when it outgrows a page. Where
values hardly repeat all of it is lost: a quarter of the time to write, and the bytes of a
dictionary that holds nearly each value once.

Theory of operation: in some stretches of the first row group of a file the different values are
counted. n rows of D values in any order hold D·(1 - exp(-n/D)) of them; a dictionary pays where
there are fewer than if each value were `TIMES_MIN` times in the row group.

Invariant: this changes how values are encoded, never what is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

STRETCHES = 8
STRETCH_ROWS = 256
GOLDEN = 0.618
"""Stretches lie evenly, yet at no round distance, at which values may come back."""
ROWS_MIN = 16_384
"""With fewer rows a dictionary is small, and a sample costs as much as it saves."""
PAGE_ROWS_MIN = 1_000
"""With fewer rows a dictionary is a page that costs more time, and more bytes once compressed; but
bytes keep theirs: DuckDB 2.0 finds all rows by `IS NULL` where plain ones have one value and nulls.
"""
TIMES_MIN = 5


def repeating(rows: pa.Table) -> Literal[True] | list[str]:
    """Return the paths of columns with repeating values, as `pq.ParquetWriter` names them; True is
    all of them.
    """
    if rows.num_rows < ROWS_MIN:
        return True
    space = rows.num_rows - STRETCH_ROWS
    starts = [int(turn * GOLDEN % 1 * space) for turn in range(STRETCHES)]
    sampled = pa.concat_tables([rows.slice(start, STRETCH_ROWS) for start in starts])
    share = sampled.num_rows / rows.num_rows
    columns = zip(rows.schema.names, sampled.combine_chunks().columns, strict=True)
    return [path for name, column in columns for path in _repeating(name, column.chunk(0), share)]


def _repeating(path: str, column: pa.Array, share: float) -> Iterator[str]:
    """Yield the paths at and below a column, of which a share is read."""
    type_ = column.type
    if isinstance(column, pa.ExtensionArray):
        yield from _repeating(path, column.storage, share)
    elif pa.types.is_struct(type_):
        for field, member in zip(type_, column.flatten(), strict=True):
            yield from _repeating(f"{path}.{field.name}", member, share)
    elif pa.types.is_map(type_):
        yield from _repeating(f"{path}.key_value.key", column.keys, share)
        yield from _repeating(f"{path}.key_value.value", column.items, share)
    elif pa.types.is_list(type_):
        yield from _repeating(f"{path}.list.element", column.flatten(), share)
    elif pa.types.is_nested(type_) or pa.types.is_null(type_) or _repeats(column, share):
        yield path


def _repeats(values: pa.Array, share: float) -> bool:
    known = len(values) - values.null_count
    if not known:
        return True
    most = known / share / TIMES_MIN
    return bool(pc.count_distinct(values).as_py() < most * (1 - exp(-known / most)))
