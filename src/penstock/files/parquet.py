"""Writes rows to Parquet by partition: few files, large row groups, bounded memory.

Theory of operation: rows wait in one buffer per partition. A buffer that reaches `row_group_bytes`
becomes a row group of its partition's open file; when all buffers together exceed `buffer_bytes`,
the largest are written early. What is left at `close` is written one partition after another. So a
partition gets one file unless it outgrows `target_file_bytes`, or was closed to make room among
`open_writers`. Where an order is given, a buffer holds a run of up to a quarter of `buffer_bytes`,
which is sorted, for which it is copied twice, and then becomes row groups.

Invariants:
- rows of one partition stay in the order in which they came, or are in the given one within a run;
- at most `open_writers` files are open, at most `buffer_bytes` and one batch are buffered;
- a file is reported only when it is complete and, on a local disk, synced with its directories;
- the NaN of its columns of floats are counted, as the footer does not count them; a column with NaN
  has no statistics in its file, one with -0.0 no dictionary, and where rows with either come later
  a new file begins (`float_statistics.py`);
- where places are asked for, each row knows its file and its place there (`row_places.py`);
- nothing is ever deleted: files of a failed attempt stay (protocol.md 5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.files.dictionary_encoding import repeating
from penstock.files.float_statistics import FloatCounts, count_floats, floats_in
from penstock.files.leaves import uuids_of, without
from penstock.files.row_order import cuts
from penstock.files.row_places import numbered, places_of, taken_off
from penstock.files.storage import Storage
from penstock.files.texts import Beginnings, beginnings, joined, texts_in
from penstock.ports.runtime import Observer

if TYPE_CHECKING:
    from penstock.files.row_order import OrderOf
    from penstock.files.row_places import Numbers
    from penstock.ports.writers import Places

Partition = tuple[Any, ...]

# A piece that pins more than this many times its own bytes is copied, so that a few rows of a
# rare partition do not keep whole batches alive.
_PINNED_RATIO_MAX = 2
_RUNS_HELD = 4
_CODECS_WITH_LEVELS = {"zstd", "gzip", "brotli"}


@dataclass(frozen=True, slots=True)
class ParquetOptions:
    """How files are written; sizes are bytes, of Arrow memory where buffered.

    `buffer_bytes` bounds what all partitions of one writer hold together. `compression_level`
    counts only for codecs that know levels.
    """

    compression: str = "zstd"
    compression_level: int | None = 1
    row_group_bytes: int = 64 << 20
    target_file_bytes: int = 256 << 20
    open_writers: int = 64
    buffer_bytes: int = 512 << 20

    def __post_init__(self) -> None:
        assert self.row_group_bytes > 0, "a row group holds at least a byte"
        assert self.target_file_bytes > 0, "a file holds at least a byte"
        assert self.open_writers > 0, "at least one file can be open"
        assert self.buffer_bytes > 0, "at least a byte can be buffered"

    @classmethod
    def of_sizes(cls, sizes: Sequence[int]) -> ParquetOptions:
        """Return the options with the sizes of a target."""
        file_bytes, group_bytes, writers = sizes
        return cls(target_file_bytes=file_bytes, row_group_bytes=group_bytes, open_writers=writers)

    @property
    def sizes(self) -> list[int]:
        """Return the sizes that travel in a target."""
        return [self.target_file_bytes, self.row_group_bytes, self.open_writers]

    @property
    def level(self) -> int | None:
        """Return the compression level, or None where the codec has none."""
        return self.compression_level if self.compression in _CODECS_WITH_LEVELS else None


@dataclass(frozen=True, slots=True)
class Written:
    """Describe one complete file; `metadata` is what its writer put into the footer.

    `nans` is how many NaN the columns of floats hold, by their paths in the footer; a column
    within a list or a map is not in it. `texts` bounds columns of text by the beginnings of those
    that a footer has no room for (`texts.py`). `is_ordered`: all of it is in the order that the
    writer was given.
    """

    path: str
    partition: Partition
    records: int
    size_bytes: int
    metadata: pq.FileMetaData
    nans: Mapping[str, int]
    texts: Beginnings = field(default_factory=dict)
    is_ordered: bool = False


@dataclass(slots=True)
class _Buffer:
    pieces: list[pa.RecordBatch]
    size_bytes: int


@dataclass(slots=True)
class _OpenFile:
    path: str
    partition: Partition
    stream: pa.NativeFile
    writer: pq.ParquetWriter
    footers: list[pq.FileMetaData]
    nans: Counter[str]
    first: FloatCounts
    runs: set[int] = field(default_factory=set)
    texts: Beginnings = field(default_factory=dict)
    numbers: list[Numbers] = field(default_factory=list)

    def takes(self, odd: FloatCounts) -> bool:
        """Return whether rows can follow: what is odd in them was so in the first of the file."""
        return odd.with_nans <= self.first.with_nans and (
            odd.negative_zeros <= self.first.negative_zeros
        )


class PartitionedParquetWriter:
    """Writes the rows of one task for one table.

    `partition_of` splits a batch into pieces of one partition each, with exactly the columns of
    `schema`, and after them a last one that it does not know where `places` are asked for.
    `path_of` returns a new path on `filesystem` at every call. `order` finds the order in which
    rows of a partition are written. After an error only `abandon` may follow.
    """

    def __init__(
        self,
        *,
        schema: pa.Schema,
        filesystem: fs.FileSystem,
        path_of: Callable[[Partition], str],
        partition_of: Callable[[pa.RecordBatch], Iterable[tuple[Partition, pa.RecordBatch]]],
        options: ParquetOptions,
        observer: Observer,
        places: bool = False,
        order: OrderOf | None = None,
    ) -> None:
        self._schema = schema
        self._floats = floats_in(schema)
        self._texts = texts_in(schema)
        self._storage = Storage(filesystem)
        self._path_of = path_of
        self._partition_of = partition_of
        self._options = options
        self._observer = observer
        self._order = order
        self._group_bytes = min(options.row_group_bytes, options.target_file_bytes)
        longest = options.buffer_bytes // _RUNS_HELD if order else 0
        self._run_bytes = max(self._group_bytes, longest)
        self._runs = 0
        self._buffers: dict[Partition, _Buffer] = {}
        self._buffered_bytes = 0
        self._open: dict[Partition, _OpenFile] = {}  # in order of use, coldest first
        self._written: list[Written] = []
        self._placed: list[Numbers] | None = [] if places else None  # by file, as in `_written`
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Raises UnavailableError (disk full, no storage) with the path."""
        if self._placed is not None:
            batch = numbered(batch, self._rows)
            self._rows += batch.num_rows
        for partition, piece in self._partition_of(batch):
            if piece.num_rows:
                self._take(partition, piece)
        while self._buffered_bytes > self._options.buffer_bytes:
            self._flush(max(self._buffers, key=lambda each: self._buffers[each].size_bytes))

    def close(self) -> list[Written]:
        """Finish all files and describe them in the order they were finished.

        Raises UnavailableError (disk full, no storage) with the path.
        """
        for partition in dict.fromkeys((*self._open, *self._buffers)):
            self._flush(partition)
            self._finish(partition)
        self._storage.sync_directories()
        return self._written

    def places(self) -> Places:
        """Return, once closed, each row's place, if they were asked for."""
        assert self._placed is not None, "places are asked for when a writer is made"
        assert not self._open, "rows have places once their files are finished"
        assert not self._buffers, "rows have places once they are written"
        return places_of(self._placed)

    def abandon(self) -> None:
        """Let go of rows and open files without finishing them; deletes nothing, never fails."""
        self._buffers.clear()
        self._buffered_bytes = 0
        for file in self._open.values():
            file.writer.is_open = False  # or its destructor would write a footer
            self._storage.let_go(file.stream)
        self._open.clear()

    def _take(self, partition: Partition, piece: pa.RecordBatch) -> None:
        if piece.get_total_buffer_size() > _PINNED_RATIO_MAX * piece.nbytes:
            piece = pa.concat_batches([piece, piece.slice(0, 0)])
        buffer = self._buffers.setdefault(partition, _Buffer([], 0))
        buffer.pieces.append(piece)
        buffer.size_bytes += piece.nbytes
        self._buffered_bytes += piece.nbytes
        if buffer.size_bytes >= self._run_bytes:
            self._flush(partition)

    def _flush(self, partition: Partition) -> None:
        buffer = self._buffers.pop(partition, None)
        if buffer is None:
            return
        self._buffered_bytes -= buffer.size_bytes
        pieces, numbers = buffer.pieces, None
        if self._placed is not None:
            pieces, numbers = taken_off(pieces)
        borders = np.empty(0, np.int64)
        if self._order is not None:
            run = pa.concat_batches(pieces)
            order = self._order(run)
            pieces, borders = [run.take(pa.array(order.rows))], order.borders
            numbers = None if numbers is None else numbers[order.rows]
        table = pa.Table.from_batches(pieces, schema=self._schema)
        self._runs += 1
        groups = min(max(1, round(buffer.size_bytes / self._group_bytes)), table.num_rows)
        for start, stop in pairwise(cuts(table.num_rows, groups, borders)):
            part = None if numbers is None else numbers[start:stop]
            self._write_group(partition, table.slice(start, stop - start), part)

    def _write_group(self, partition: Partition, rows: pa.Table, numbers: Numbers | None) -> None:
        odd = count_floats(self._floats, rows)
        file = self._opened(partition, rows, odd)
        with self._storage.translated("written", file.path):
            file.writer.write_table(rows, row_group_size=rows.num_rows)
            size_bytes = file.stream.tell()
        file.runs.add(self._runs)
        file.nans.update(odd.nans)
        file.texts = joined(file.texts, beginnings(self._texts, rows))
        if numbers is not None:
            file.numbers.append(numbers)
        if size_bytes >= self._options.target_file_bytes:
            self._finish(partition)

    def _opened(self, partition: Partition, rows: pa.Table, odd: FloatCounts) -> _OpenFile:
        if partition in self._open and not self._open[partition].takes(odd):
            self._finish(partition)
        file = self._open.pop(partition, None)
        if file is None:
            while len(self._open) >= self._options.open_writers:
                self._finish(next(iter(self._open)))
            file = self._open_file(partition, rows, odd)
        self._open[partition] = file  # the hottest is last
        return file

    def _open_file(self, partition: Partition, first: pa.Table, odd: FloatCounts) -> _OpenFile:
        uuids = uuids_of(self._schema)
        coded = without(repeating(first), odd.negative_zeros | uuids, self._schema)
        path = self._path_of(partition)
        footers: list[pq.FileMetaData] = []
        stream = self._storage.open(path)
        try:
            with self._storage.translated("opened", path):  # it writes its first bytes at once
                writer = pq.ParquetWriter(
                    stream,
                    self._schema,
                    compression=self._options.compression,
                    compression_level=self._options.level,
                    use_dictionary=coded,
                    write_statistics=without(True, odd.with_nans | uuids, self._schema),
                    metadata_collector=footers,
                )
        except UnavailableError:
            self._storage.let_go(stream)
            raise
        self._observer.passed(CrashPoint.FILE_OPENED)
        return _OpenFile(path, partition, stream, writer, footers, Counter(), odd)

    def _finish(self, partition: Partition) -> None:
        file = self._open.get(partition)
        if file is None:
            return
        with self._storage.translated("finished", file.path):
            file.writer.close()
            size_bytes = file.stream.tell()
            self._observer.passed(CrashPoint.FILE_WRITTEN)
            file.stream.close()
        self._storage.sync(file.path)
        del self._open[partition]
        self._observer.passed(CrashPoint.FILE_CLOSED)
        (footer,) = file.footers
        written = Written(
            file.path,
            partition,
            footer.num_rows,
            size_bytes,
            footer,
            file.nans,
            file.texts,
            is_ordered=self._order is not None and len(file.runs) == 1,
        )
        self._written.append(written)
        if self._placed is not None:
            self._placed.append(np.concatenate(file.numbers))
