"""Files through which rows of one partition meet in one task (docs/design/0377).

Theory of operation: rows wait until HELD_BYTES of them are there, are ordered by the range of their
partition's hash, and written as blocks: streams of Arrow, compressed, of one range each. A task of
the second stage reads the blocks of its ranges, neighbours in one request.

Invariants:
- the hash of a partition is the same in every process: it is one of the text of its values;
- rows of one range stay in the order in which they came;
- a block is read only if its bytes have the checksum that was described with it;
- nothing is synced: a file that does not survive is written again, with its epoch;
- only names that end as those of exchange files do are deleted.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from penstock.core.crash_points import CrashPoint
from penstock.core.exchange import EXCHANGE_ENDING, PARTS, Block, ExchangeFile, Share
from penstock.core.table_errors import storage_failed
from penstock.files.storage import Storage
from penstock.ports.runtime import Observer

if TYPE_CHECKING:
    import numpy.typing as npt

HELD_BYTES = 64 << 20
"""How much waits until it is written, of Arrow memory."""
BLOCK_BYTES = 1 << 20
"""How much a block holds at most, of Arrow memory, if it is not one row."""
READ_BYTES = 16 << 20
"""How much is read at once, where blocks are neighbours."""

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_PART_BITS = PARTS.bit_length() - 1
_PRIME = np.uint64(0x100000001B3)

KeysOf = Callable[[pa.RecordBatch], Sequence[pa.Array]]


class ExchangeFiles:
    """The exchange of one table's rows on a filesystem.

    `path_of` makes a new path of a prefix and an ending, `keys_of` gives the columns of the values
    by which the table is partitioned.
    """

    def __init__(
        self,
        *,
        filesystem: fs.FileSystem,
        path_of: Callable[[str, str], str],
        keys_of: KeysOf,
        observer: Observer,
    ) -> None:
        self._filesystem = filesystem
        self._storage = Storage(filesystem)
        self._path_of = path_of
        self._keys_of = keys_of
        self._observer = observer

    def writer(self, prefix: str) -> ExchangeFileWriter:
        """Open a writer; its file is made with the first rows that are written."""
        path = self._path_of(prefix, EXCHANGE_ENDING)
        return ExchangeFileWriter(self._storage, path, self._keys_of, self._observer)

    def read(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share. Raises UnavailableError (P481)."""
        for file in share:
            for blocks in _neighbours(file.blocks):
                tables = [*self._tables(file.path, blocks)]
                yield from pa.concat_tables(tables).combine_chunks().to_batches()

    def discard(self, paths: Iterable[str]) -> None:
        """Delete exchange files, as far as that can be done."""
        for path in paths:
            assert path.endswith(f".{EXCHANGE_ENDING}"), f"{path} is no exchange file"
            with contextlib.suppress(OSError):
                self._filesystem.delete_file(path)

    def _tables(self, path: str, blocks: Sequence[Block]) -> Iterator[pa.Table]:
        first, last = blocks[0], blocks[-1]
        size_bytes = last.start + last.size_bytes - first.start
        with (
            self._storage.translated("read", path),
            self._filesystem.open_input_file(path) as file,
        ):
            content = file.read_at(size_bytes, first.start)
        for block in blocks:
            begin = block.start - first.start
            piece = memoryview(content)[begin : begin + block.size_bytes]
            if len(piece) != block.size_bytes or zlib.crc32(piece) != block.checksum:
                raise storage_failed(f"the file {path}", "read", "it is not as it was written")
            with pa.ipc.open_stream(pa.py_buffer(piece)) as stream:
                table = stream.read_all()
            assert table.num_rows == block.rows, f"{path} has other rows than it was written with"
            yield table


class ExchangeFileWriter:
    """Writes what one task read for one table into one file."""

    def __init__(self, storage: Storage, path: str, keys_of: KeysOf, observer: Observer) -> None:
        self._storage, self._path, self._keys_of = storage, path, keys_of
        self._observer = observer
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._stream: pa.NativeFile | None = None
        self._blocks: list[Block] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows. Raises UnavailableError."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= HELD_BYTES:
            self._flush()

    def close(self) -> Sequence[ExchangeFile]:
        """Finish the file and describe it. Raises UnavailableError."""
        self._flush()
        if self._stream is None:
            return ()
        with self._storage.translated("finished", self._path):
            self._stream.close()
        self._observer.passed(CrashPoint.FILE_CLOSED)
        return (ExchangeFile(self._path, tuple(self._blocks)),)

    def abandon(self) -> None:
        """Let go of rows and the open file; deletes nothing."""
        self._held.clear()
        if self._stream is not None:
            self._storage.let_go(self._stream)

    def _flush(self) -> None:
        if not self._held:
            return
        rows = pa.concat_batches(self._held)
        self._held.clear()
        self._held_bytes = 0
        parts = parts_of(self._keys_of(rows))
        order = np.argsort(parts, kind="stable")
        rows = rows.take(pa.array(order))
        stops = np.cumsum(np.bincount(parts, minlength=PARTS)).tolist()
        step = max(1, rows.num_rows * BLOCK_BYTES // max(rows.nbytes, 1))
        for part, (start, stop) in enumerate(pairwise((0, *stops))):
            for first in range(start, stop, step):
                self._append(part, rows.slice(first, min(step, stop - first)))

    def _append(self, part: int, rows: pa.RecordBatch) -> None:
        if self._stream is None:
            self._stream = self._storage.open(self._path)
            self._observer.passed(CrashPoint.FILE_OPENED)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as stream:
            stream.write_batch(rows)
        content = sink.getvalue()
        with self._storage.translated("written", self._path):
            start = self._stream.tell()
            self._stream.write(content)
        checksum = zlib.crc32(content)
        self._blocks.append(Block(part, start, content.size, rows.num_rows, checksum))


def parts_of(keys: Sequence[pa.Array]) -> npt.NDArray[np.uint8]:
    """Return, for each row, the range of its partition's hash: a number below PARTS."""
    hashes = np.zeros(len(keys[0]), dtype=np.uint64)
    for values in keys:
        encoded = values.dictionary_encode("encode")
        distinct = np.array([_hash(each) for each in encoded.dictionary.to_pylist()], np.uint64)
        hashes = hashes * _PRIME ^ distinct[encoded.indices.to_numpy(zero_copy_only=False)]
    return (hashes >> np.uint64(64 - _PART_BITS)).astype(np.uint8)


def _hash(value: Any) -> int:
    return int.from_bytes(blake2b(repr(value).encode(), digest_size=8).digest())


def _neighbours(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield blocks that are one after another in a file, as many as are read at once."""
    group: list[Block] = []
    for block in blocks:
        far = group and (
            group[-1].start + group[-1].size_bytes != block.start
            or block.start + block.size_bytes - group[0].start > READ_BYTES
        )
        if far:
            yield group
            group = []
        group.append(block)
    if group:
        yield group
