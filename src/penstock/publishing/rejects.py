"""Rows that are no messages: what is sent of them into the topic for rejects, or what is raised.

Invariants:
- a reject says where its row is, its code and why; it has the key of the row, and no other value;
- too many are raised before anything is sent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
POISON = "P343"
"""Landing's code for the same: a record that kills the process that reads it."""
REASONS_SHOWN = 3


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
        Misfit(number, each.place, each.reason, each.key)
        for number, each in enumerate(rows.bad, rows.rows.num_rows)
    ]


def reject_messages(
    read: RowsRead, code: str, misfits: Sequence[Misfit], *, transactional_id: str, now_ms: int
) -> pa.RecordBatch:
    """Return a message (MESSAGES) for each row that is none: its coordinates, code and reason."""
    values = [
        json.dumps(
            {
                "code": code,
                "reason": each.reason,
                "column": each.column,
                **_place_of(read, each.row),
                "before": values_of(read.reached),
                "source": values_of(read.of),
                "transactional_id": transactional_id,
            },
            ensure_ascii=False,
        ).encode()
        for each in misfits
    ]
    times = pa.repeat(pa.scalar(now_ms, pa.int64()), len(values))
    arrays = [
        pa.array([each.key for each in misfits], pa.binary()),
        pa.array(values, pa.binary()),
        times.cast(MESSAGES.field("timestamp").type),
        pa.nulls(len(values), MESSAGES.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def _place_of(read: RowsRead, row: int) -> dict[str, int]:
    """Return where a row is among those that were read at once, and the offset of a record."""
    place = {"row": row + 1, "rows": read.rows}
    return place if read.offsets is None else {**place, "offset": int(read.offsets[row])}


def poison() -> Misfit:
    """Return what is said of a row that is not read: it is the only one before its position."""
    return Misfit(0, "", "it kills the process that reads it")


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
        f"a row is no message: {read.said_of(first.row)}: {first.column}: {first.reason}"
        f"{f' ({cause})' if cause else ''}{others}",
        code=NO_MESSAGE,
        hint=f"{_way_out(first)} or name a topic for them:  rejects: {{ into: … }};  then:"
        "  penstock publish",
    )


def _way_out(misfit: Misfit) -> str:
    """Say what keeps a row like this from being asked for."""
    if misfit.reason == NO_KEY_TO_DELETE or misfit.reason.endswith(f"({RejectCode.TOMBSTONE})"):
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
