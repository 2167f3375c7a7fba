"""Which columns of a file are written with a dictionary: those whose values repeat.

pyarrow begins every column with a dictionary and gives it up when that outgrows a page. Where
values hardly repeat all of it is lost: a fifth of what writing takes, and the bytes of a dictionary
that holds nearly each value once.

Theory of operation: of the first row group of a file some rows are drawn at random, and the
different values among them are counted. n draws from D values find D·(1 - exp(-n/D)) of them; a
dictionary pays where fewer are found than if each value stood `TIMES_MIN` times in the row group.

Invariant: this changes how values are encoded, never what is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, exp

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DRAWS = 2048
ROWS_MIN = 2 * DRAWS
"""With fewer rows a dictionary is small, and costs little."""
BATCHES_MAX = 32
"""Rows are drawn from about so many batches at most: each takes its time."""
TIMES_MIN = 5
SEED = 1


def repeating(batches: Sequence[pa.RecordBatch]) -> bool | list[str]:
    """Give the paths of the columns whose values repeat, as `pq.ParquetWriter` names them; True is
    all of them. `batches` have one schema.
    """
    rows = sum(batch.num_rows for batch in batches)
    if rows < ROWS_MIN:
        return True
    drawn = _drawn(batches[:: ceil(len(batches) / BATCHES_MAX)])
    share = drawn.num_rows / rows
    columns = zip(drawn.schema.names, drawn.columns, strict=True)
    return [path for name, column in columns for path in _repeating(name, column, share)]


def _drawn(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Draw about `DRAWS` rows, from each batch its share."""
    share = DRAWS / sum(batch.num_rows for batch in batches)
    draw = np.random.default_rng(SEED)
    pieces = []
    for batch in batches:
        count = min(batch.num_rows, ceil(share * batch.num_rows))
        places = draw.choice(batch.num_rows, count, replace=False, shuffle=False)
        pieces.append(batch.take(pa.array(places)))
    return pa.concat_batches(pieces)


def _repeating(path: str, column: pa.Array, share: float) -> Iterator[str]:
    """Give the paths at and below a column, of which a share was drawn."""
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
    elif pa.types.is_null(type_) or _repeats(column, share):
        yield path


def _repeats(values: pa.Array, share: float) -> bool:
    draws = len(values) - values.null_count
    if not draws:
        return True
    most = draws / share / TIMES_MIN
    return bool(pc.count_distinct(values).as_py() < most * (1 - exp(-draws / most)))
