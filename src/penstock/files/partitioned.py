"""Writes rows to files by partition: few files, large groups of rows, bounded memory.

Theory of operation: rows wait in one buffer per partition. A buffer that reaches `row_group_bytes`
becomes a group of rows of its partition's open file; when all buffers together exceed
`buffer_bytes`, the largest are written early. What is left at `close` is written one partition
after another. So a partition gets one file unless it outgrows `target_file_bytes`, or was closed to
make room among `open_writers`. Where an order is given, a buffer holds a run of up to a quarter of
`buffer_bytes`, which is sorted, for which it is copied twice, and then becomes groups. How groups
become bytes is the encoding's (`encoding.py`).

Invariants:
- rows of one partition stay in the order in which they came, or are in the given one within a run;
- at most `open_writers` files are open, at most `buffer_bytes` and one batch are buffered;
- a file is reported only when it is complete and, on a local disk, synced with its directories;
- the NaN of its columns of floats are counted; where rows come later that the encoding of an open
  file does not take, for what is odd in them, a new file begins, in another where it cannot hold
  them (`encoding.py`);
- where places are asked for, each row knows its file and its place there (`row_places.py`);
- nothing is ever deleted: files of a failed attempt stay (protocol.md 5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import pyarrow as pa
from pyarrow import fs

from penstock.core.crash_points import CrashPoint
from penstock.core.errors import UnavailableError
from penstock.files.encoding import Encoder, Encoding, Said_co
from penstock.files.float_statistics import FloatCounts, count_floats, floats_in
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


@dataclass(frozen=True, slots=True)
class Written(Generic[Said_co]):
    """Describe one complete file; `metadata` is what its encoding says of it, as a footer does.

    `nans` is how many NaN the columns of floats hold, by their paths in a footer; a column
    within a list or a map is not in it. `texts` bounds columns of text by the beginnings of those
    that a footer has no room for (`texts.py`). `is_ordered`: all of it is in the order that the
    writer was given.
    """

    path: str
    partition: Partition
    records: int
    size_bytes: int
    metadata: Said_co
    nans: Mapping[str, int]
    texts: Beginnings = field(default_factory=dict)
    is_ordered: bool = False


@dataclass(slots=True)
class _Buffer:
    pieces: list[pa.RecordBatch]
    size_bytes: int


@dataclass(slots=True)
class _OpenFile(Generic[Said_co]):
    path: str
    partition: Partition
    stream: pa.NativeFile
    encoder: Encoder[Said_co]
    records: int = 0
    nans: Counter[str] = field(default_factory=Counter)
    runs: set[int] = field(default_factory=set)
    texts: Beginnings = field(default_factory=dict)
    numbers: list[Numbers] = field(default_factory=list)


class PartitionedWriter(Generic[Said_co]):
    """Writes the rows of one task for one table.

    `partition_of` splits a batch into pieces of one partition each, with exactly the columns of the
    encoding, and after them a last one that it does not know where `places` are asked for.
    `path_of` returns a new path on `filesystem` at every call, with the ending that it is given.
    `order` finds the order in which rows of a partition are written. After an error only `abandon`
    may follow.
    """

    def __init__(
        self,
        *,
        encoding: Encoding[Said_co],
        filesystem: fs.FileSystem,
        path_of: Callable[[Partition, str], str],
        partition_of: Callable[[pa.RecordBatch], Iterable[tuple[Partition, pa.RecordBatch]]],
        observer: Observer,
        places: bool = False,
        order: OrderOf | None = None,
    ) -> None:
        self._encoding = encoding
        self._schema = encoding.schema
        self._floats = floats_in(encoding.schema)
        self._texts = texts_in(encoding.schema)
        self._storage = Storage(filesystem)
        self._path_of = path_of
        self._partition_of = partition_of
        self._options = options = encoding.options
        self._observer = observer
        self._order = order
        self._group_bytes = min(options.row_group_bytes, options.target_file_bytes)
        longest = options.buffer_bytes // _RUNS_HELD if order else 0
        self._run_bytes = max(self._group_bytes, longest)
        self._runs = 0
        self._buffers: dict[Partition, _Buffer] = {}
        self._buffered_bytes = 0
        self._open: dict[Partition, _OpenFile[Said_co]] = {}  # in order of use, coldest first
        self._written: list[Written[Said_co]] = []
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

    def close(self) -> list[Written[Said_co]]:
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
            file.encoder.let_go()
            self._storage.let_go(file.stream)
        self._open.clear()

    def _take(self, partition: Partition, piece: pa.RecordBatch) -> None:
        size_bytes = piece.nbytes
        if piece.get_total_buffer_size() > _PINNED_RATIO_MAX * size_bytes:
            piece = pa.concat_batches([piece, piece.slice(0, 0)])
        buffer = self._buffers.setdefault(partition, _Buffer([], 0))
        buffer.pieces.append(piece)
        buffer.size_bytes += size_bytes
        self._buffered_bytes += size_bytes
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
            file.encoder.write(rows)
            size_bytes = file.stream.tell()
        file.records += rows.num_rows
        file.runs.add(self._runs)
        file.nans.update(odd.nans)
        file.texts = joined(file.texts, beginnings(self._texts, rows))
        if numbers is not None:
            file.numbers.append(numbers)
        if size_bytes >= self._options.target_file_bytes:
            self._finish(partition)

    def _opened(self, partition: Partition, rows: pa.Table, odd: FloatCounts) -> _OpenFile[Said_co]:
        if partition in self._open and not self._open[partition].encoder.takes(rows, odd):
            self._finish(partition)
        file = self._open.pop(partition, None)
        if file is None:
            while len(self._open) >= self._options.open_writers:
                self._finish(next(iter(self._open)))
            file = self._open_file(partition, rows, odd)
        self._open[partition] = file  # the hottest is last
        return file

    def _open_file(
        self, partition: Partition, first: pa.Table, odd: FloatCounts
    ) -> _OpenFile[Said_co]:
        encoding = self._encoding.fitting(first, odd)
        path = self._path_of(partition, encoding.ending)
        stream = self._storage.open(path)
        try:
            with self._storage.translated("opened", path):  # it writes its first bytes at once
                encoder = encoding.open(stream, first, odd)
        except UnavailableError:
            self._storage.let_go(stream)
            raise
        self._observer.passed(CrashPoint.FILE_OPENED)
        return _OpenFile(path, partition, stream, encoder)

    def _finish(self, partition: Partition) -> None:
        file = self._open.get(partition)
        if file is None:
            return
        with self._storage.translated("finished", file.path):
            metadata = file.encoder.close()
            size_bytes = file.stream.tell()
            self._observer.passed(CrashPoint.FILE_WRITTEN)
            file.stream.close()
        self._storage.sync(file.path)
        del self._open[partition]
        self._observer.passed(CrashPoint.FILE_CLOSED)
        written = Written(
            file.path,
            partition,
            file.records,
            size_bytes,
            metadata,
            file.nans,
            file.texts,
            is_ordered=self._order is not None and len(file.runs) == 1,
        )
        self._written.append(written)
        if self._placed is not None:
            self._placed.append(np.concatenate(file.numbers))
