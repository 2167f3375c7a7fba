"""Where a publication stands in a table, and what lies between two such positions.

A position names a snapshot, how many rows are live there, and a digest of its files. `within` says
how far a list of its files has been read; without it all of the snapshot is behind the position.

Invariants:
- files are read in the order of (sequence number, path), which no later snapshot changes;
- records and digest are those of the whole snapshot, however far it was read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from penstock.core.positions import Position, Scalar, position_of, values_of
from penstock.ports.increments import NO_SNAPSHOT, SourceFile
from penstock.ports.sources import EpochLimit
from penstock.publishing.source_stops import foreign_position

_BITS_62 = (1 << 62) - 1


class Reading(StrEnum):
    """Which of a snapshot's files are read: all, those that it added, or those above a number."""

    TABLE = "table"
    ADDED = "added"
    SINCE = "since"


@dataclass(frozen=True, slots=True)
class Within:
    """How far the files of a snapshot were read: so many, and rows of the next one."""

    reading: Reading
    files: int = 0
    row: int = 0
    since: int = 0


@dataclass(frozen=True, slots=True)
class Moment:
    """What a snapshot holds: live rows, and a digest of its files, in whatever order."""

    records: int = 0
    digest: int = 0

    def plus(self, files: Iterable[SourceFile]) -> Moment:
        """Return what it is with more files."""
        records, digest = self.records, self.digest
        for each in files:
            records += each.live
            hashed = hashlib.sha256(each.identity.encode()).digest()
            digest += int.from_bytes(hashed[:8], "big")
        return Moment(records, digest & _BITS_62)


@dataclass(frozen=True, slots=True)
class TablePosition:
    """Where a publication stands in a table."""

    uuid: str
    snapshot: int
    sequence: int
    moment: Moment
    within: Within | None = None

    def to_position(self) -> Position:
        """Return it as it is kept."""
        values: dict[str, Scalar] = {
            "uuid": self.uuid,
            "snapshot": self.snapshot,
            "sequence": self.sequence,
            "records": self.moment.records,
            "digest": self.moment.digest,
        }
        if (at := self.within) is not None:
            values |= {"reading": str(at.reading), "files": at.files, "row": at.row}
            if at.reading is Reading.SINCE:
                values["since"] = at.since
        return position_of(values, "a table")

    def words(self) -> str:
        """Say it to people."""
        if self.snapshot == NO_SNAPSHOT:
            return "before the first snapshot"
        at, rows = self.within, f"{self.moment.records:,} rows"
        if at is None:
            return f"behind snapshot {self.snapshot} ({rows})"
        what = {
            Reading.TABLE: f"the {rows} of snapshot {self.snapshot}",
            Reading.ADDED: f"what snapshot {self.snapshot} added",
            Reading.SINCE: f"what was added up to snapshot {self.snapshot}",
        }[at.reading]
        if not at.files and not at.row:
            return f"at the first row of {what}"
        return f"in {what}, behind file {at.files} and row {at.row:,} of the next"


def table_position(position: Position) -> TablePosition:
    """Read a position. Raises InvalidError (P815) for one of another kind of source."""
    values = values_of(position)
    match values:
        case {
            "uuid": str(uuid),
            "snapshot": int(snapshot),
            "sequence": int(sequence),
            "records": int(records),
            "digest": int(digest),
        }:
            found = TablePosition(uuid, snapshot, sequence, Moment(records, digest))
        case _:
            raise foreign_position(values)
    match values:
        case {"reading": str(word), "files": int(files), "row": int(row)} if word in [*Reading]:
            since = values.get("since", 0)
            assert isinstance(since, int), "it is written as a number"
            return replace(found, within=Within(Reading(word), files, row, since))
        case {"reading": _}:
            raise foreign_position(values)
    return found


@dataclass(frozen=True, slots=True)
class Leg:
    """The files that are read of one snapshot, from `start` on, and where they lead to."""

    stop: TablePosition
    start: Within | None = None
    files: Sequence[SourceFile] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """Rows `start` to `stop` of a file; where they begin, and the position behind them."""

    file: SourceFile
    start: int
    stop: int
    begun: TablePosition
    reached: TablePosition


@dataclass(slots=True)
class Cut:
    """The parts of legs that a limit leaves, and where they end."""

    stop: TablePosition
    parts: list[Part] = field(default_factory=list)
    rows: int = 0


_NOTHING = Within(Reading.TABLE)


def in_order(files: Iterable[SourceFile]) -> list[SourceFile]:
    """Return files in the order in which they are read."""
    return sorted(files, key=lambda each: (each.sequence, each.written_ms, each.path))


def cut(start: TablePosition, legs: Sequence[Leg], limit: EpochLimit, end: TablePosition) -> Cut:
    """Take the parts of legs, in their order, up to a limit and an end; at least one row."""
    taken, bytes_left = Cut(start), limit.bytes_max
    for leg in legs:
        first = leg.start or _NOTHING
        files, last_row = _up_to(leg, end)
        for number in range(first.files, len(files)):
            file = files[number]
            row = first.row if number == first.files else 0
            fits = min(limit.rows_max - taken.rows, _rows_in(file, bytes_left))
            if not taken.rows:
                fits = max(fits, 1)
            last = last_row if number + 1 == len(files) else file.rows
            stop = min(row + fits, last)
            if stop <= row < file.rows:
                return taken
            taken.stop = _behind(leg, number, stop)
            taken.parts.append(Part(file, row, stop, _at(leg, number, row), taken.stop))
            taken.rows += stop - row
            bytes_left -= file.size_bytes * (stop - row) // max(file.rows, 1)
            if stop < file.rows:
                return taken
        if len(files) < len(leg.files):
            return taken
        taken.stop = leg.stop
    return taken


def _up_to(leg: Leg, end: TablePosition) -> tuple[Sequence[SourceFile], int]:
    """Return the files of a leg that are read, and the rows of the last one."""
    at, first = end.within, leg.start
    if at is None or first is None or leg.stop.snapshot != end.snapshot:
        return leg.files, leg.files[-1].rows if leg.files else 0
    if (at.reading, at.since) != (first.reading, first.since):
        return leg.files, leg.files[-1].rows if leg.files else 0
    if at.row:
        return leg.files[: at.files + 1], at.row
    files = leg.files[: at.files]
    return files, files[-1].rows if files else 0


def _behind(leg: Leg, number: int, row: int) -> TablePosition:
    if row < leg.files[number].rows:
        return _at(leg, number, row)
    return _at(leg, number + 1, 0) if number + 1 < len(leg.files) else leg.stop


def _at(leg: Leg, number: int, row: int) -> TablePosition:
    assert leg.start is not None, "a leg with files has a place in them"
    return replace(leg.stop, within=replace(leg.start, files=number, row=row))


def _rows_in(file: SourceFile, size_bytes: int) -> int:
    return max(file.rows * size_bytes // max(file.size_bytes, 1), 0)
