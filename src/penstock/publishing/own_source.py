"""A source of one's own, as a publication plans it.

Invariants:
- where a part ends is what the source says, or not known: then it is read until it gives no more;
- a part without a position is read from its beginning;
- what waits is found by looking at the next batch, which is kept for whoever reads it here;
- where the source says where transactions end, one has rows of one part, and parts take turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.positions import Position, SourcePartition, partition_of, position_of, values_of
from penstock.ports.sources import EpochLimit, Stands, Stretch
from penstock.publishing.own_rows import BEGINNING, OPEN, OwnReadings, OwnWork
from penstock.publishing.own_stops import wrong_shape

PARTS_MAX = 1000
"""How many parts of a source one transaction moves."""


class PlannedSource:
    """Implements `ports.sources.Source` over a source of one's own.

    It is asked what is new once in `fresh_seconds`.
    """

    def __init__(
        self, readings: OwnReadings, monotonic: Callable[[], float], fresh_seconds: float
    ) -> None:
        self._readings, self._monotonic = readings, monotonic
        self._source, self._name = readings.source, readings.name
        self._fresh_seconds = fresh_seconds
        self._ends: tuple[float, Stands] | None = None
        self._nothing: dict[SourcePartition, tuple[Position, Position, float]] = {}
        self._gone: dict[SourcePartition, Position] = {}
        self._turn: SourcePartition | None = None

    def starts(self, word: str) -> Stands:
        """Return nothing for `earliest`, where parts begin without a position; else the ends."""
        return {} if word == "earliest" else self._known_ends()

    def places(self, words: Sequence[str]) -> Stands:
        """Read `earliest`, `latest`, a position as JSON, or PART=POSITION with both."""
        if words == ["earliest"]:
            return dict.fromkeys(self.ends(), BEGINNING)
        if words == ["latest"]:
            return self._known_ends()
        return dict(self._place(word) for word in words)

    def ends(self) -> Stands:
        """Return where each part ends now, as far as it is known, and honoured when it is read."""
        return self._fresh_ends()

    def require_known(self) -> None:
        """Require nothing: what a source gives is all that is known of it."""

    def fault(self, stands: Stands) -> str:
        """Say what is lost with a part that is no longer there; reading finds everything else."""
        ends = self.ends()
        for of, at in stands.items():
            if of not in ends and self._gone.get(of) != at:
                if fact := self._source.gone(values_of(of), values_of(at)):
                    return fact
                self._gone[of] = at
        return ""

    def readable(self, stands: Stands) -> Stands:
        """Return the positions of the parts that are there."""
        return {of: at for of, at in stands.items() if of in self.ends()}

    def count(self, start: Stands, stop: Stands) -> int:
        """Count the rows that are known to wait: those of the next batch of the first part."""
        waiting = (self._waiting(of, start.get(of, BEGINNING), end) for of, end in stop.items())
        return next((rows for rows in waiting if rows), 0)

    def plan(self, stands: Stands, ends: Stands, limit: EpochLimit) -> Sequence[Stretch]:
        """Return a stretch of each part that has rows, in their order; they share the limit.

        There is none of a former range where the source does not give it again.
        """
        found: list[Stretch] = []
        parts_max = 1 if self._readings.ends_where_told else PARTS_MAX
        for of, end in self._in_turn(ends):
            at = stands.get(of, BEGINNING)
            if end != OPEN and not self._gives_ranges:
                continue
            known = found and end not in (OPEN, at)  # it is opened where it is read
            if len(found) < parts_max and (rows := known or self._waiting(of, at, end)):
                work = OwnWork(limit, first=not found)
                found.append(Stretch(of, at, end, rows, work.to_json()))
        if self._readings.ends_where_told and found:
            self._turn = found[0].of
        return found

    def columns(self) -> pa.Schema | None:
        """Return the columns that the source says, or those of its last batch."""
        return self._source.columns() or self._readings.seen

    def close(self) -> None:
        """Let go of the source."""
        self._readings.close()

    def _waiting(self, of: SourcePartition, at: Position, end: Position) -> int:
        if at == end:
            return 0
        former, now = self._nothing.get(of), self._monotonic()
        if former and former[:2] == (at, end) and now - former[2] < self._fresh_seconds:
            return 0
        found = self._readings.waiting(of, at, end)
        if not found:
            self._nothing[of] = at, end, now
            return 0
        self._nothing.pop(of, None)
        return max(sum(each.count for each in found), 1)

    def _in_turn(self, ends: Stands) -> list[tuple[SourcePartition, Position]]:
        """Return parts in their order, beginning behind the one whose turn it was."""
        parts = [*ends.items()]
        behind = next((n for n, (of, _) in enumerate(parts, 1) if of == self._turn), 0)
        return parts[behind:] + parts[:behind]

    @property
    def _gives_ranges(self) -> bool:
        return self._source.replay == "range"

    def _fresh_ends(self) -> Stands:
        now = self._monotonic()
        if self._ends is None or now - self._ends[0] >= self._fresh_seconds:
            self._ends = now, self._read_ends()
        return self._ends[1]

    def _read_ends(self) -> Stands:
        found: dict[SourcePartition, Position] = {}
        for part in self._source.parts():
            if not isinstance(part, Mapping):
                raise wrong_shape(self._name, f"a part of it is a {type(part).__name__}")
            of = partition_of(part, self._name)
            if of in found:
                raise wrong_shape(self._name, f"it has two parts {of}")
            found[of] = self._end_of(of) if self._gives_ranges else OPEN
        return found

    def _end_of(self, of: SourcePartition) -> Position:
        end = self._source.end(values_of(of))
        return OPEN if end is None else position_of(end, self._name)

    def _known_ends(self) -> Stands:
        ends = {of: self._end_of(of) for of in self._fresh_ends()}
        if unknown := [of for of, end in ends.items() if end == OPEN]:
            raise InvalidError(
                f"the source {self._name} does not say where {unknown[0]} ends",
                code="P817",
                hint="give it a method  end;  or begin  earliest,  or at a position",
            )
        return ends

    def _place(self, word: str) -> tuple[SourcePartition, Position]:
        """Read one place: a position of the only part, or of the one that is named before `=`."""
        ends = self._fresh_ends()
        try:
            first, behind = json.JSONDecoder().raw_decode(word)
            rest = word[behind:].removeprefix("=")
            if not rest and len(ends) == 1:
                return next(iter(ends)), position_of(first, self._name)
            of = partition_of(first, self._name)
            if rest == "earliest":
                at = BEGINNING
            elif rest == "latest":
                at = self._end_of(of) if of in ends else OPEN
            else:
                at = position_of(json.loads(rest), self._name)
            if of in ends and at != OPEN:
                return of, at
        except (ValueError, TypeError, AttributeError):
            pass
        raise InvalidError(
            f"{word[:120]!r} is not a place in the source {self._name}",
            code="P817",
            hint="write  earliest,  latest,  a position as JSON, or PART=POSITION;  see them:"
            "  penstock status --json",
        )
