"""Files as a source: each is published once, in the order of their times or names.

A part is a file. Its position is how far it was read: bytes of text, rows of Parquet, or that it is
done, with its size and time, by which a file that was changed is noticed. A file that grows is
known by a digest of what is before the position.

Invariants:
- a file that was published is not published again, whatever becomes of its name's order;
- nothing is read of a file that is not the one that was read before.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.errors import DecisionNeededError
from penstock.core.schema import Field, Struct
from penstock.core.type_text import parse_type
from penstock.ports.own_sources import Batch, OwnSource, Place, Replay
from penstock.rows.arrow_types import arrow_schema
from penstock.sources.listing import FoundFile, Listing, Order
from penstock.sources.text_files import (
    LINE_BYTES_MAX,
    TAIL_BYTES,
    Making,
    csv_rows,
    fields_of,
    json_rows,
    line_rows,
    pieces,
    unreadable,
)

FileFormat = Literal["json", "csv", "lines", "parquet"]
PARQUET_ROWS = 1 << 16
_NS = 1_000_000_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINES = pa.schema([("line", pa.string())])


class FilesSource(OwnSource):
    """The files of a pattern. Options are those of the spec's block (spec/settings)."""

    replay: Replay = "range"

    def __init__(
        self,
        *,
        files: str,
        format: FileFormat,  # noqa: A002  the spec's word
        columns: Mapping[str, str],
        delimiter: str,
        grows: bool,
        settle_seconds: float,
        order: Order,
        storage_options: Mapping[str, str],
    ) -> None:
        self._listing = Listing(files, order, storage_options)
        self._format, self._delimiter, self._grows = format, delimiter, grows
        self._settle_ns = round(settle_seconds * _NS)
        self._columns = Struct(tuple(Field(name, parse_type(t)) for name, t in columns.items()))
        self._listed: dict[str, FoundFile] = {}
        self._tails: dict[FoundFile, Place] = {}

    def parts(self) -> Iterable[Place]:
        """Return the files that have not been modified for a while."""
        newest = time.time_ns() - self._settle_ns
        files = [each for each in self._listing.files() if each.modified <= newest]
        self._listed = {each.name: each for each in files}
        return [{"file": each.name} for each in files]

    def end(self, part: Place) -> Place:
        """Return that a file is done, or where the last line ends of one that grows."""
        file = self._found(part)
        if not self._grows:
            return _done(file)
        if file not in self._tails:
            with self._listing.open(file.name) as opened:
                behind = _last_line_end(opened, file)
                self._tails[file] = _grown(behind, _tail(opened, behind))
        return self._tails[file]

    def gone(self, part: Place, at: Place) -> str:
        """Say that a file was removed before all of it was published."""
        if "done" in at or self._grows:
            return ""
        return f"the file {part['file']} was removed when a part of it was published: {dict(at)}"

    def columns(self) -> pa.Schema | None:
        """Return the columns that the spec says; of Parquet, those of the first file."""
        match self._format:
            case "lines":
                return LINES
            case "parquet":
                if not self._listed:
                    self.parts()
                for first in self._listed:
                    with self._listing.open(first) as opened:
                        return pq.ParquetFile(opened).schema_arrow
                return None
            case _:
                return arrow_schema(self._columns)

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Yield the rows of a file. Raises DecisionNeededError: it was changed (P856), or its rows
        cannot be told apart (P857).
        """
        file = self._listing.info(str(part["file"]))
        if at is not None and "done" in at:
            if not self._grows:
                _require_same(file, at, None)
            return
        with self._listing.open(file.name) as opened:
            if self._format == "parquet":
                yield from self._parquet(opened, file, at, until)
            elif self._grows:
                yield from self._growing(opened, file, at, until)
            else:
                yield from self._text(opened, file, at, until)

    def _text(
        self, opened: pa.NativeFile, file: FoundFile, at: Place | None, until: Place | None
    ) -> Iterator[Batch]:
        """Yield the rows of a text file that does not grow: its last line needs no end."""
        _require_same(file, at, until)
        stop = _number(until, "bytes", file.size) if until else file.size
        start, making = self._making(opened, file)
        start = max(start, _number(at, "bytes", 0) if at else 0)
        is_whole = stop == file.size
        for each in pieces(opened, file.name, start, stop, making=making, is_whole=is_whole):
            yield Batch(each.rows, _within(file, "bytes", each.stop), each.bad)
        if start >= file.size:
            yield Batch([], _done(file))

    def _growing(
        self, opened: pa.NativeFile, file: FoundFile, at: Place | None, until: Place | None
    ) -> Iterator[Batch]:
        """Yield the whole lines behind a position, if what is before it is as it was."""
        begun = _number(at, "bytes", 0) if at else 0
        tail = _tail(opened, begun)
        if at is not None and (begun > file.size or _grown(begun, tail) != dict(at)):
            raise _changed(file, at)
        stop = _number(until, "bytes", file.size) if until else file.size
        start, making = self._making(opened, file)
        start = max(start, begun)
        tail = _tail(opened, start)
        for each in pieces(opened, file.name, start, stop, making=making, is_whole=False):
            tail = (tail + each.tail)[-TAIL_BYTES:]
            yield Batch(each.rows, _grown(each.stop, tail), each.bad)

    def _parquet(
        self, opened: pa.NativeFile, file: FoundFile, at: Place | None, until: Place | None
    ) -> Iterator[Batch]:
        """Yield the rows of a Parquet file behind so many."""
        _require_same(file, at, until)
        start = _number(at, "rows", 0) if at else 0
        try:
            reader = pq.ParquetFile(opened)
            count = reader.metadata.num_rows
            stop = min(_number(until, "rows", count) if until else count, count)
            for begin, batch in _row_batches(reader, start, stop):
                behind = begin + batch.num_rows
                yield Batch(batch, _within(file, "rows", behind, count))
        except pa.ArrowException as error:
            raise unreadable(file.name, str(error).splitlines()[0][:300]) from error
        if start >= count:
            yield Batch([], _done(file))

    def _making(self, opened: pa.NativeFile, file: FoundFile) -> tuple[int, Making]:
        """Return the byte at which records begin, and what makes rows of them."""
        if self._format == "lines":
            return 0, line_rows
        if self._format == "json":
            return 0, json_rows(self._columns)
        if file.size <= len(_BYTE_ORDER_MARK):  # without a header there are no rows
            return file.size, line_rows
        opened.seek(0)
        head = opened.read(LINE_BYTES_MAX)
        line, end, _ = head.partition(b"\n")
        if not end and self._grows:
            return file.size, line_rows
        header = fields_of(line.removeprefix(_BYTE_ORDER_MARK), self._delimiter)
        names = [each.strip() for each in header]
        missing = [each.name for each in self._columns.fields if each.name not in names]
        if missing or len({*names}) < len(names):
            fact = f"lacks {', '.join(missing)}" if missing else "has a name twice"
            raise unreadable(file.name, f"its header {fact}: {line[:200].decode(errors='replace')}")
        return len(line) + len(end), csv_rows(names, self._columns, self._delimiter)

    def _found(self, part: Place) -> FoundFile:
        name = str(part["file"])
        return self._listed.get(name) or self._listing.info(name)


def _done(file: FoundFile) -> Place:
    return {"done": True, "size": file.size, "modified": file.modified}


def _within(file: FoundFile, unit: str, behind: int, count: int | None = None) -> Place:
    if behind >= (file.size if count is None else count):
        return _done(file)
    return {unit: behind, "size": file.size, "modified": file.modified}


def _number(at: Place, unit: str, otherwise: int) -> int:
    value = at.get(unit, otherwise)
    assert isinstance(value, int), "it is written as a number"
    return value


def _require_same(file: FoundFile, at: Place | None, until: Place | None) -> None:
    """Raise DecisionNeededError (P856) for a file that is not the one that was read before.

    One that is not the one that was listed is listed again: OSError.
    """
    own = file.size, file.modified
    if at is not None and (at.get("size"), at.get("modified")) != own:
        raise _changed(file, at)
    if until is not None and (until.get("size"), until.get("modified")) != own:
        raise OSError(f"the file {file.name} was changed since it was listed")


def _changed(file: FoundFile, at: Place) -> DecisionNeededError:
    named = json.dumps({"file": file.name})
    return DecisionNeededError(
        f"the file {file.name} was changed after rows of it were published: it has"
        f" {file.size:,} bytes now, and was read up to {json.dumps(dict(at))}",
        code="P856",
        hint=f"to publish all of it again:  penstock seek NAME '{named}=earliest';  to leave it as"
        f" it is:  penstock seek NAME '{named}=latest'",
    )


def _tail(opened: pa.NativeFile, behind: int) -> bytes:
    opened.seek(max(behind - TAIL_BYTES, 0))
    return bytes(opened.read(min(TAIL_BYTES, behind)))


def _grown(behind: int, tail: bytes) -> Place:
    """Return a position in a file that grows: its byte, and a digest of what is before it."""
    return {"bytes": behind, "digest": hashlib.sha256(tail).hexdigest()[:16]}


def _last_line_end(opened: pa.NativeFile, file: FoundFile) -> int:
    """Return the byte behind the last line end of a file."""
    stop = file.size
    while stop > 0:
        begin = max(stop - (1 << 16), 0)
        opened.seek(begin)
        found = bytes(opened.read(stop - begin)).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        stop = begin
    return 0


def _row_batches(
    reader: pq.ParquetFile, start: int, stop: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows between two numbers with the number of the first; whole groups are skipped."""
    at = 0
    for group in range(reader.metadata.num_row_groups):
        behind = at + reader.metadata.row_group(group).num_rows
        if behind > start and at < stop:
            begin = at
            for batch in reader.iter_batches(PARQUET_ROWS, row_groups=[group]):
                first, last = max(start - begin, 0), min(stop - begin, batch.num_rows)
                if first < last:
                    yield begin + first, batch.slice(first, last - first)
                begin += batch.num_rows
        at = behind
