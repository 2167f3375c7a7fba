"""Encodes rows as ORC, and says what its files hold: pyarrow keeps no statistics that can be asked.

Invariants:
- columns are written with the types and attributes of the file, and nothing is lost by it;
- nested columns are copied before they are written: Arrow's writer takes members of other rows
  where structs are a slice, or where the members of a null are not null (docs/design/0370);
- no more than one stripe ends in one call to the writer, so the place where each begins is known;
- a file holds no times and dates that Arrow or Spark get wrong in ORC, and no -0.0, which Java's
  readers take for less than 0.0 by ORC's own statistics: rows with either go into Parquet.

Source: Apache ORC specification v1, "Stripes".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import orc

from penstock.files.column_facts import ColumnFacts, Place, counted_in, facts_of, joined
from penstock.files.encoding import Encoding, FileOptions
from penstock.files.float_statistics import FloatCounts
from penstock.files.parquet import ParquetEncoding

_BATCH_ROWS_MAX = 8192
_BATCH_BYTES = 1 << 20
_HEADER_BYTES = len("ORC")
_ERROR_NUMBER = re.compile(r"\[errno (\d+)\]")
_GREGORIAN_DAY = -141_427  # 1582-10-15
_PER_SECOND = {"us": 1_000_000, "ns": 1_000_000_000}
_SECONDS_MAX = (1 << 63) // _PER_SECOND["ns"] - 1
"""How far from 1970 Arrow reads times of ORC."""


@dataclass(frozen=True, slots=True)
class OrcContents:
    """What one file holds: where its stripes begin, and its columns by path."""

    stripes: Sequence[int]
    columns: Mapping[str, ColumnFacts]


@dataclass(frozen=True, slots=True)
class OrcEncoding:
    """Implements `encoding.Encoding`. Rows come with the columns of `schema` and are written with
    those of `stored`; a stripe is as large as the options say of a row group, compressed.
    `otherwise` are the options of Parquet files, for rows that ORC cannot hold.
    """

    schema: pa.Schema
    stored: pa.Schema
    options: FileOptions = field(default_factory=FileOptions)
    otherwise: FileOptions = field(default_factory=FileOptions)

    @property
    def ending(self) -> str:
        """What the names of files end in."""
        return "orc"

    def fitting(self, rows: pa.Table, odd: FloatCounts) -> Encoding[pq.FileMetaData | OrcContents]:
        """Return itself, or Parquet where it cannot hold rows as they are."""
        return self if holds(rows, odd) else ParquetEncoding(self.schema, self.otherwise)

    def open(self, stream: pa.NativeFile, first: pa.Table, odd: FloatCounts) -> _OrcFile:
        """Begin a file. Raises OSError."""
        del first, odd
        writer = orc.ORCWriter(
            stream,
            batch_size=_BATCH_ROWS_MAX,
            stripe_size=min(self.options.row_group_bytes, self.options.target_file_bytes),
            compression=self.options.compression,
        )
        return _OrcFile(writer, stream, self.stored, counted_in(self.schema))


@dataclass(slots=True)
class _OrcFile:
    writer: orc.ORCWriter
    stream: pa.NativeFile
    stored: pa.Schema
    places: tuple[Place, ...]
    stripes: list[int] = field(default_factory=list)
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)
    is_between: bool = True
    """Whether no row was written since a stripe ended."""

    def takes(self, rows: pa.Table, odd: FloatCounts) -> bool:
        """Return whether ORC holds the rows as they are."""
        return holds(rows, odd)

    def write(self, rows: pa.Table) -> None:
        """Write rows, and stripes when they are full."""
        self.columns = joined(self.columns, facts_of(self.places, rows))
        stored = rows.cast(self.stored)
        size = max(1, rows.num_rows * _BATCH_BYTES // max(1, rows.nbytes))
        for start in range(0, rows.num_rows, min(size, _BATCH_ROWS_MAX)):
            self._write(_settled(stored.slice(start, min(size, _BATCH_ROWS_MAX))))

    def _write(self, batch: pa.Table) -> None:
        begun = self.stream.tell() if self.stripes else _HEADER_BYTES
        if self.is_between:
            self.stripes.append(begun)
        with _numbered():
            self.writer.write(batch)
        self.is_between = self.stream.tell() > begun

    def close(self) -> OrcContents:
        """Write the last stripe and the footer."""
        with _numbered():
            self.writer.close()
        return OrcContents(self.stripes, self.columns)

    def let_go(self) -> None:
        """Keep the destructor from writing a footer."""
        self.writer.is_open = False


@contextmanager
def _numbered() -> Iterator[None]:
    """Give errors of storage their number, which ORC's library leaves in the text alone."""
    try:
        yield
    except OSError as error:
        number = _ERROR_NUMBER.search(str(error))
        if error.errno is not None or number is None:
            raise
        raise OSError(int(number[1]), str(error)) from error


def holds(rows: pa.Table, odd: FloatCounts) -> bool:
    """Return whether Arrow's ORC holds rows so that all readers find them."""
    times = (each for column in rows.columns for each in _times_in(column))
    return not odd.negative_zeros and all(map(_are_held, times))


def _times_in(column: pa.ChunkedArray | pa.Array) -> Iterator[pa.ChunkedArray | pa.Array]:
    """Yield the dates and time stamps in a column, at all depths."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        yield column
    elif pa.types.is_nested(kind):
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for each in _below(chunk):
                yield from _times_in(each)


def _below(array: pa.Array) -> Sequence[pa.Array]:
    if pa.types.is_struct(array.type):
        return array.flatten()  # type: ignore[no-any-return]
    return [array.keys, array.items] if pa.types.is_map(array.type) else [array.flatten()]


def _are_held(times: pa.ChunkedArray | pa.Array) -> bool:
    """Return whether times are right in ORC: a count of nanoseconds holds them, and those before
    1970 are whole seconds, for Arrow gives others a negative fraction, which Java rejects.

    Dates are of the Gregorian calendar: Spark looks for others by the one before it.
    """
    if pa.types.is_date32(times.type):
        first = pc.min(times.cast(pa.int32())).as_py()
        return first is None or first >= _GREGORIAN_DAY
    counts = times.cast(pa.int64())
    ends = pc.min_max(counts)
    least, greatest = ends["min"].as_py(), ends["max"].as_py()
    second = _PER_SECOND[times.type.unit]
    most = _SECONDS_MAX * second
    if least is None or 0 <= least <= greatest <= most:
        return True
    if least < -most or greatest > most:
        return False
    early = counts.filter(pc.less(counts, 0))
    seconds = pc.multiply(pc.divide(early, second), second)
    return bool(pc.all(pc.equal(early, seconds)).as_py())


def _settled(rows: pa.Table) -> pa.Table:
    """Return rows with nested columns in one piece each, whose nulls are those of all below."""
    every = pa.array(np.arange(rows.num_rows))
    for position, column in enumerate(rows.columns):
        if pa.types.is_nested(column.type):
            whole = _with_nulls_below(pa.concat_arrays(column.chunks).take(every))
            rows = rows.set_column(position, rows.schema.field(position), whole)
    return rows


def _with_nulls_below(array: pa.Array) -> pa.Array:
    """Return an array that begins where its memory does, in which a member of null is null."""
    kind = array.type
    if pa.types.is_struct(kind):
        members = [_with_nulls_below(each) for each in array.flatten()]
        return pa.StructArray.from_arrays(members, fields=[*kind], mask=array.is_null())
    if pa.types.is_map(kind):
        items, mask = _with_nulls_below(array.items), array.is_null()
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, type=kind, mask=mask)
    if pa.types.is_list(kind):
        values, mask = _with_nulls_below(array.values), array.is_null()
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=mask)
    return array
