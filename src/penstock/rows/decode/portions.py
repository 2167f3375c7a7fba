"""A batch is cut into portions that memory can hold, whatever its records grow to.

A few bytes of a record may become many: a thousand times as many with gzip, and an empty object
in a list takes a place in each column of the list's items. So a portion is bounded by what its
records become, and that is reckoned before anything is made of them.

Invariants:
- the portions of a batch hold each of its records once, in order;
- the records of a portion grow to at most `PORTION_BYTES_MAX`, or the portion is one record; what
  is not reckoned is a small factor, such as that of a list of numbers over their text;
- no bytes are kept to reckon them: a value that has to be unpacked for it is let go at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Decimal, List, Map, Schema, Struct, Type
from penstock.core.schema_walk import walk, within
from penstock.rows.arrow_arrays import counts_of, lengths_of, validity_of
from penstock.rows.decode.compression import count_in_uncompressed, uncompressed_sizes
from penstock.rows.decode.json.block_parser import BLOCK_BYTES_MAX
from penstock.rows.options import Format, RowOptions

Weights = npt.NDArray[np.int64]

PORTION_BYTES_MAX = BLOCK_BYTES_MAX
"""The limit of bytes parsed at once: neither the values nor the rows of a portion exceed it."""
_CELL_BYTES, _DECIMAL_BYTES = 8, 32
_OBJECT = b"{"
_ITEM_BYTES_MIN = {"avro": 1, "protobuf": 2}
"""The least number of bytes of a list item in a record, where items are not counted."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The size of records in a table, in bytes: `row_bytes` for each, and `item_bytes` for each
    item of a list or map that holds objects, in addition to the bytes of their values.
    """

    format: Format
    is_packed: bool
    record_bytes_max: int
    row_bytes: int
    item_bytes: int

    @classmethod
    def of(cls, schema: Schema, options: RowOptions) -> Growth:
        """Reckon it from a table's columns, and from how its records are read."""
        return cls(
            options.format,
            options.compression != "none",
            options.record_bytes_max,
            _cells(schema),
            max(_items(schema), default=0),
        )

    def weights(self, values: pa.BinaryArray) -> Weights:
        """Return what each value grows to at most; larger ones than allowed stay unread."""
        if self.is_packed:
            sizes = uncompressed_sizes(values, self.record_bytes_max)
        else:
            sizes = np.where(validity_of(values), lengths_of(values), 0).astype(np.int64)
        sizes = np.minimum(sizes, self.record_bytes_max)
        weights: Weights = sizes + self.row_bytes
        if not self.item_bytes:
            return weights
        least = _ITEM_BYTES_MIN.get(self.format, len(_OBJECT) + 1)
        crude: Weights = weights + self.item_bytes * (sizes // least)
        if self.format in _ITEM_BYTES_MIN or crude.sum() <= PORTION_BYTES_MAX:
            return crude
        if self.is_packed:
            objects = count_in_uncompressed(values, _OBJECT, self.record_bytes_max)
        else:
            objects = counts_of(values, _OBJECT)
        return weights + self.item_bytes * objects


def portions(batch: pa.RecordBatch, growths: Iterable[Growth]) -> Iterator[pa.RecordBatch]:
    """Cut a batch (as in `ports.log.Fetched`) of which tables get rows."""
    heaviest = np.zeros(len(batch), np.int64)
    for growth in _most(growths):
        heaviest = np.maximum(heaviest, growth.weights(batch.column("value")))
    ends = np.cumsum(heaviest)
    start = 0
    while start < len(batch):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + PORTION_BYTES_MAX, side="right"))
        stop = max(stop, start + 1)
        yield batch.slice(start, stop - start)
        start = stop


def _most(growths: Iterable[Growth]) -> Iterator[Growth]:
    """Yield one growth for all tables that read records alike."""
    alike: dict[tuple[Format, bool, int], list[Growth]] = {}
    for each in growths:
        alike.setdefault((each.format, each.is_packed, each.record_bytes_max), []).append(each)
    for reading, group in alike.items():
        rows = max(each.row_bytes for each in group)
        yield Growth(*reading, rows, max(each.item_bytes for each in group))


def _cells(type_: Type) -> int:
    """Count the bytes of a value in its columns, without texts and what lists hold."""
    match type_:
        case Struct(fields):
            return sum(_cells(field.type) for field in fields)
        case Decimal():
            return _DECIMAL_BYTES
        case _:
            return _CELL_BYTES


def _items(type_: Type) -> Iterator[int]:
    """Yield the bytes of an item, in its columns, of each list or map that holds objects."""
    for _, each in walk(type_):
        if isinstance(each, List | Map):
            yield from (_cells(inner) for _, inner in within(each) if isinstance(inner, Struct))
