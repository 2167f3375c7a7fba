"""Rows that are no messages: what is sent of them into the topic for rejects, or what is raised.

Invariants:
- headers of a reject say why its row is no message, and where it is: they are named as those of a
  dead letter, and are behind the record's own;
- a record of a topic has its key, value and headers in it, byte by byte, but for a value that a
  topic does not take as it comes: that is left out, and a header says so;
- of another row there is its key, and no other value: the place in its source is the value;
- too many are raised before anything is sent.

Source: docs/design/0381.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.accounting import Tally, too_many_rejects
from penstock.core.errors import DecisionNeededError
from penstock.core.positions import Position, SourcePartition, values_of
from penstock.core.schema import SOURCE_PREFIX
from penstock.ports.sources import MESSAGES, Rows
from penstock.publishing.places import part_words, place_words
from penstock.rows.encode.encoder import NO_KEY_TO_DELETE, Misfit
from penstock.rows.reject_codes import RejectCode

NO_MESSAGE = "P840"
RECORD_VALUE = f"{SOURCE_PREFIX}value"
"""What is wrong in a record of a topic that is no row."""
POISON = RejectCode.POISON
REJECT_BYTES_MAX = 1_000_000
"""Of a record in a reject: topics take 1,048,588 bytes, unless they are told otherwise."""
_PREFIX = "penstock."
_HEADERS = MESSAGES.field("headers").type
REASONS_SHOWN = 3
Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows that were read at once: so many of a source partition, before a position.

    `offsets` has those of records of a topic.
    """

    of: SourcePartition
    reached: Position
    rows: int
    offsets: npt.NDArray[np.int64] | None = field(default=None, repr=False, compare=False)

    def said_of(self, row: int) -> str:
        """Say where a row is."""
        if self.offsets is not None:
            return f"{part_words(self.of)}: offset {self.offsets[row]}"
        before = place_words(self.reached)
        return f"{part_words(self.of)}: row {row + 1} of the {self.rows} before {before}"


def misfits_of(rows: Rows) -> list[Misfit]:
    """Return the rows that a source could not read as such; they come behind the others."""
    return [
        Misfit(number, each.place, each.reason, each.code, each.key)
        for number, each in enumerate(rows.bad, rows.rows.num_rows)
    ]


def reject_messages(
    read: RowsRead,
    misfits: Sequence[Misfit],
    records: pa.RecordBatch | None,
    *,
    transactional_id: str,
    now_ms: int,
) -> pa.RecordBatch:
    """Return a message (MESSAGES) for each row that is none; `records` has those of a topic."""
    said = [
        {
            "transactional.id": transactional_id,
            "code": each.code,
            "column": each.column,
            "message": each.reason,
        }
        for each in misfits
    ]
    if records is None or read.offsets is None:
        keys, own = [each.key for each in misfits], [list[Header]() for _ in misfits]
        values: list[bytes | None] = [_place_of(read, each.row) for each in misfits]
    else:
        found = _found_at(records, read.offsets[[each.row for each in misfits]])
        keys, values, own = (found.column(at).to_pylist() for at in ("key", "value", "headers"))
        own = [[(each["key"], each["value"]) for each in has or ()] for has in own]
        for number, place in enumerate(_places_of(read.of, found)):
            said[number] |= place
            if _size_of(keys[number], values[number], own[number]) > REJECT_BYTES_MAX:
                said[number]["value.bytes"] = str(len(values[number] or b""))
                values[number] = None
    headers = [
        [*has, *((_PREFIX + name, text.encode()) for name, text in each.items())]
        for has, each in zip(own, said, strict=True)
    ]
    times = pa.repeat(pa.scalar(now_ms, pa.int64()), len(misfits))
    arrays = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        times.cast(MESSAGES.field("timestamp").type),
        pa.array([[{"key": k, "value": v} for k, v in each] for each in headers], _HEADERS),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def _place_of(read: RowsRead, row: int) -> bytes:
    """Return where a row is among those that were read at once."""
    place = {"row": row + 1, "rows": read.rows, "before": values_of(read.reached)}
    return json.dumps({"source": values_of(read.of), **place}, ensure_ascii=False).encode()


def _found_at(records: pa.RecordBatch, offsets: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Return the records at some offsets, with headers, which are null where none were read."""
    places = np.searchsorted(records.column("offset").to_numpy(), offsets)
    found = records.take(pa.array(places))
    if "headers" in found.schema.names:
        return found
    return found.append_column("headers", pa.nulls(len(found), _HEADERS))


def _places_of(of: SourcePartition, records: pa.RecordBatch) -> Iterator[dict[str, str]]:
    """Yield where each record is in its topic, and its time, if it has one."""
    topic = {name: str(values_of(of)[name]) for name in ("topic", "partition")}
    times = records.column("timestamp").cast(pa.timestamp("ms")).cast(pa.string())
    texts = pc.binary_join_element_wise(pc.replace_substring(times, " ", "T"), "Z", "")
    for offset, text in zip(records.column("offset").to_pylist(), texts.to_pylist(), strict=True):
        time = {} if text is None else {"timestamp": text}
        yield {**topic, "offset": str(offset), **time}


def _size_of(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    own = sum(len(name) + len(each or b"") for name, each in headers)
    return len(key or b"") + len(value or b"") + own


def poison() -> Misfit:
    """Return what is said of a row that is not read: it is the only one before its position."""
    return Misfit(0, "", "it kills the process that reads it", POISON)


def first_of(read: RowsRead, misfits: Sequence[Misfit]) -> Misfit:
    """Return the misfit that stands first in the source."""
    offsets = read.offsets
    return min(misfits, key=lambda each: each.row if offsets is None else offsets[each.row])


def no_message(read: RowsRead, misfits: Sequence[Misfit], cause: str = "") -> DecisionNeededError:
    """Return the error for rows that are no messages, where there is no topic for them.

    `cause` is why SQL has no answer for the first of them.
    """
    first, more = first_of(read, misfits), len(misfits) - 1
    others = f" ({more} more in the same batch)" if more else ""
    return DecisionNeededError(
        f"a row is no message: {read.said_of(first.row)}: {reason_of(first, cause)}{others}",
        code=NO_MESSAGE,
        hint=f"{_way_out(first)} or name a topic for them:  rejects: {{ into: … }};  then:"
        "  penstock publish",
    )


def reason_of(misfit: Misfit, cause: str = "") -> str:
    """Say what is wrong in which column, with the code; `cause` is why SQL has no answer."""
    code = f"{misfit.code}: {cause}" if cause else misfit.code
    return f"{misfit.column}: {misfit.reason} ({code})"


def _way_out(misfit: Misfit) -> str:
    """Say what keeps a row like this from being asked for."""
    if misfit.reason == NO_KEY_TO_DELETE or misfit.code == RejectCode.TOMBSTONE:
        return "leave records without a value out,  tombstones: skip  under  from;"
    if misfit.column == RECORD_VALUE:
        return "correct it where it comes from;"
    return "correct it where it comes from, leave such rows out with  where,"


def require_few(books: Tally, reasons: Counter[str], share_max: float) -> None:
    """Raise DecisionNeededError (P860) where more rows are no messages than the spec allows."""
    if not too_many_rejects(books, share_max):
        return
    most = "; ".join(f"{why}, {count} times" for why, count in reasons.most_common(REASONS_SHOWN))
    raise DecisionNeededError(
        f"{books.quarantined_total} of {books.examined} rows are no messages, more than"
        f" rejects.stop_above allows ({share_max:.1%}): {most}",
        code="P860",
        hint="correct the rules or the table, or raise  rejects.stop_above;  then:"
        "  penstock publish",
    )
