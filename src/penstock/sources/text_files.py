"""Lines of text become rows: of JSON, CSV, or as they are.

Invariants:
- a row depends on its own line alone, and is exact, or bad with the byte where it begins;
- a piece ends behind a whole record; what has no line end yet is kept back, unless the file ends.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.core.errors import DecisionNeededError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Struct
from penstock.ports.sources import BadRow
from penstock.rows.convert.batch import convert_batch
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode

PIECE_BYTES = 4 << 20
LINE_BYTES_MAX = 16 << 20
TAIL_BYTES = 4096
"""Of what is before a position, and has to stay as it is in a file that grows."""
_PLACE = TopicPartition("", 0, "")
_OPTIONS = RowOptions(source_columns={}, columns="drop_value", record_bytes_max=LINE_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of whole records, the byte behind them, and the last bytes before that."""

    rows: pa.RecordBatch
    bad: Sequence[BadRow]
    stop: int
    tail: bytes


Making = Callable[[Sequence[bytes], Sequence[int]], tuple[pa.RecordBatch, list[BadRow]]]


def pieces(
    file: pa.NativeFile, name: str, start: int, stop: int, *, making: Making, is_whole: bool
) -> Iterator[Piece]:
    """Yield the records between two bytes; of a file that is not `is_whole`, up to its last line.

    Raises DecisionNeededError (P857): a line is too long.
    """
    file.seek(start)
    held, at = b"", start
    while at < stop:
        read = file.read(min(PIECE_BYTES, stop - at))
        if not read:  # it is shorter than it was
            return
        at += len(read)
        held += read
        end = held.rfind(b"\n") + 1
        if at >= stop and is_whole:
            end = len(held)
        if not end:
            require_short(name, at - len(held), len(held))
            continue
        yield _piece(held[:end], at - len(held), making)
        held = held[end:]


def require_short(name: str, start: int, size: int) -> None:
    """Raise DecisionNeededError (P857) for a record that is longer than is read."""
    if size > LINE_BYTES_MAX:
        raise unreadable(name, f"the line at byte {start} has more than {LINE_BYTES_MAX:,} bytes")


def unreadable(name: str, fact: str) -> DecisionNeededError:
    """Return the error for a file whose records cannot be told apart."""
    return DecisionNeededError(
        f"the file {name} cannot be read: {fact}",
        code="P857",
        hint="correct or remove it; to leave it out:"
        f"  penstock seek NAME '{json.dumps({'file': name})}=latest'",
    )


def _piece(data: bytes, begin: int, making: Making) -> Piece:
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    lengths = np.fromiter((len(each) + 1 for each in lines), np.int64, len(lines))
    starts = begin + np.concatenate([[0], np.cumsum(lengths)[:-1]])
    rows, bad = making(lines, starts.tolist())
    return Piece(rows, bad, begin + len(data), data[-TAIL_BYTES:])


def json_rows(columns: Struct) -> Making:
    """Make rows of objects: the columns that are named, with these types."""

    def make(lines: Sequence[bytes], starts: Sequence[int]) -> tuple[pa.RecordBatch, list[BadRow]]:
        kept = [number for number, line in enumerate(lines) if line.strip()]
        return _converted([lines[each] for each in kept], [starts[each] for each in kept], columns)

    return make


def line_rows(lines: Sequence[bytes], starts: Sequence[int]) -> tuple[pa.RecordBatch, list[BadRow]]:
    """Make a row of each line, in the column `line`; one that is not UTF-8 is bad."""
    texts, bad = [], []
    for line, start in zip(lines, starts, strict=True):
        try:
            texts.append(line.removesuffix(b"\r").decode())
        except UnicodeDecodeError:
            bad.append(_bad(start, "it is not UTF-8", RejectCode.NOT_UTF8))
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], ["line"]), bad


def csv_rows(names: Sequence[str], columns: Struct, delimiter: str) -> Making:
    """Make rows of fields: each is read as its column's type, an empty one as null."""

    def make(lines: Sequence[bytes], starts: Sequence[int]) -> tuple[pa.RecordBatch, list[BadRow]]:
        objects, places, bad = list[bytes](), list[int](), list[BadRow]()
        for line, start in zip(lines, starts, strict=True):
            if not line.strip():
                continue
            try:
                fields = fields_of(line, delimiter)
            except UnicodeDecodeError:
                bad.append(_bad(start, "it is not UTF-8", RejectCode.NOT_UTF8))
                continue
            except csv.Error as error:
                bad.append(_bad(start, str(error).partition(":")[0], RejectCode.MALFORMED))
                continue
            if len(fields) != len(names):
                fact = f"it has {len(fields)} fields, and the header {len(names)}"
                bad.append(_bad(start, fact, RejectCode.MALFORMED))
                continue
            given = {name: each for name, each in zip(names, fields, strict=True) if each}
            objects.append(json.dumps(given).encode())
            places.append(start)
        rows, refused = _converted(objects, places, columns)
        return rows, sorted([*bad, *refused], key=_start_of)

    return make


def fields_of(line: bytes, delimiter: str) -> list[str]:
    """Return the fields of a line of CSV. Raises UnicodeDecodeError, csv.Error."""
    text = line.removesuffix(b"\r").decode()
    return next(csv.reader([text], delimiter=delimiter, strict=True), [])


def _bad(start: int, reason: str, code: str) -> BadRow:
    return BadRow(f"line at byte {start}", reason, code=code)


def _start_of(bad: BadRow) -> int:
    return int(bad.place.rpartition(" ")[2])


def _converted(
    values: Sequence[bytes], starts: Sequence[int], columns: Struct
) -> tuple[pa.RecordBatch, list[BadRow]]:
    """Read objects of JSON as landing reads records: exactly, or not."""
    count = len(values)
    records = pa.RecordBatch.from_arrays(
        [
            pa.array(starts, pa.int64()),
            pa.nulls(count, pa.timestamp("ms", "UTC")),
            pa.nulls(count, pa.binary()),
            pa.array(values, pa.binary()),
        ],
        ["offset", "timestamp", "key", "value"],
    )
    found = convert_batch(records, at=_PLACE, schema=columns, options=_OPTIONS)
    bad = [_bad(each.offset, each.message, each.code) for each in found.rejects]
    return found.rows, bad
