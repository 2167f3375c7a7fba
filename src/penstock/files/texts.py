"""The beginnings of the least and the greatest text, where a footer cannot hold them.

Arrow leaves both bounds of a row group out when one of them is longer than 4,096 bytes. Formats
keep the beginning of a text only, so of such row groups that is found while they are written.

Invariants:
- only columns of text at the top of a schema count;
- where a column has bounds of a row group here, they cover all its values there: the least and the
  greatest beginning, `CHARACTERS` long or the whole text.

Source: Arrow's `ColumnProperties::max_statistics_size`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

FOOTER_BYTES_MAX = 4096
CHARACTERS = 256
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")

Beginnings = Mapping[str, tuple[str, str]]


def texts_in(schema: pa.Schema) -> tuple[str, ...]:
    """Name the columns of text that have bounds."""
    return tuple(field.name for field in schema if pa.types.is_string(field.type))


def beginnings(columns: tuple[str, ...], rows: pa.Table) -> Beginnings:
    """Return the least and the greatest beginning of each column with a text above the limit."""
    found = {}
    for name in columns:
        column = rows.column(name)
        if column.null_count == len(column):
            continue
        if max(map(_longest, column.chunks), default=0) > FOOTER_BYTES_MAX:
            ends = pc.min_max(pc.utf8_slice_codeunits(column, 0, CHARACTERS))
            found[name] = (ends["min"].as_py(), ends["max"].as_py())
    return found


def _longest(texts: pa.Array) -> int:
    """Return how many bytes the longest text has, those that lie where a null is included."""
    if not len(texts):
        return 0
    kind = np.dtype(np.int32)
    start = texts.offset * kind.itemsize
    ends = np.frombuffer(texts.buffers()[1], kind, len(texts) + 1, start)
    return int(np.diff(ends).max())


def is_kept_whole(least: str, greatest: str) -> bool:
    """Return whether all rows have one text, which may be a topic's name: with bounds that have it
    whole, the column need not be read to know it (docs/design/0268).
    """
    return least == greatest and _TOPIC.fullmatch(least) is not None


def joined(known: Beginnings, more: Beginnings) -> Beginnings:
    """Join the bounds of two row groups."""
    both = {
        name: (min(known[name][0], more[name][0]), max(known[name][1], more[name][1]))
        for name in known.keys() & more.keys()
    }
    return {**known, **more, **both}
