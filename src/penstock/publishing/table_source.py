"""A table as the source of a publication: what its snapshots added, behind a position.

Invariants:
- a snapshot's rows are read once, in its place: a compaction changes nothing, and what removes rows
  is gone on from only as the publication says (`changes`);
- what cannot be told from the snapshots is believed of files alone: those at the position are all
  still there, unaltered, so that every other one is new (docs/design/0284);
- what was read leads to as many rows as the newest snapshot has, or nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

import pyarrow as pa

from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.positions import Position, partition_of
from penstock.ports.increments import Effect, Increments, SourceFile, TableHead, TableStep
from penstock.ports.sources import NO_LIMIT, EpochLimit, Stands, Stretch
from penstock.publishing.settings import Changes
from penstock.publishing.source_stops import OTHER_TABLE, other_table, rows_removed
from penstock.publishing.table_positions import (
    Cut,
    Leg,
    Moment,
    Reading,
    TablePosition,
    Within,
    cut,
    in_order,
    table_position,
)
from penstock.publishing.table_work import FilePart, TableWork

FRESH_SECONDS = 1.0
"""How old the newest snapshot that is known may be: loops ask more often than catalogs like."""
_NAMED_MAX = 5
_SNAPSHOTS_KEPT = 1000


class TableSource:
    """Implements `ports.sources.Source` over the increments of a table.

    `publication` is who publishes it, for hints.
    """

    def __init__(
        self,
        increments: Increments,
        table: str,
        changes: Changes,
        monotonic: Callable[[], float],
        publication: str = "NAME",
    ) -> None:
        self._increments, self._table, self._changes = increments, table, changes
        self._monotonic, self._publication = monotonic, publication
        self._head: TableHead | None = None
        self._read_at = 0.0
        self._known: dict[tuple[str, int], Sequence[SourceFile]] = {}
        self._of = partition_of({"table": table}, table)

    def starts(self, word: str) -> Stands:
        """Return the first row of the newest snapshot, or the place behind it."""
        head = self._fresh()
        found = self._standing(head, Within(Reading.TABLE) if word == "earliest" else None)
        return {self._of: found.to_position()}

    def places(self, words: Sequence[str]) -> Stands:
        """Read `earliest` or `latest`: a table has no other places that a person names."""
        if words in (["earliest"], ["latest"]):
            return self.starts(words[0])
        raise InvalidError(
            f"{' '.join(words)[:120]!r} is not a place in the table {self._table}",
            code="P817",
            hint="write  earliest  or  latest",
        )

    def ends(self) -> Stands:
        """Return the place behind the newest snapshot."""
        head = self._fresh()
        moment = Moment(head.records)  # nothing is compared with its files
        end = TablePosition(head.uuid, head.snapshot, head.sequence, moment)
        return {self._of: end.to_position()}

    def require_known(self) -> None:
        """Require nothing: a table has one end."""

    def fault(self, stands: Stands) -> str:
        """Say why the table is not the one that was read."""
        if stands and self._of not in stands:
            return f"{', '.join(stands)} was read, and not {self._table}"
        try:
            if stands:
                self.count(stands, self.ends())
        except DecisionNeededError as error:
            return error.message if error.code == OTHER_TABLE else ""
        return ""

    def readable(self, stands: Stands) -> Stands:
        """Return the same positions, but the first row of a table that is not the one read."""
        return {**stands, **self.starts("earliest")} if self.fault(stands) else stands

    def count(self, start: Stands, stop: Stands) -> int:
        """Count the rows between positions.

        Raises DecisionNeededError: P826 another table, or another history; P827 rows are gone.
        """
        return self._cut(start, stop, NO_LIMIT)[1].rows

    def plan(self, stands: Stands, ends: Stands, limit: EpochLimit) -> Sequence[Stretch]:
        """Return one stretch, cut to the limit. Raises as `count` does."""
        start, taken = self._cut(stands, ends, limit)
        stop = taken.stop.to_position()
        if stop == start:
            return []
        head = self._fresh()
        parts = [
            FilePart(
                self._increments.detail(head, each.file),
                each.start,
                each.stop,
                each.begun.to_position(),
                each.reached.to_position(),
            )
            for each in taken.parts
        ]
        opened = self._increments.work(head)
        work = TableWork(self._table, opened, parts, self._publication)
        return [Stretch(self._of, start, stop, taken.rows, work.to_json())]

    def columns(self) -> pa.Schema:
        """Return the columns that the table has now."""
        return self._increments.columns(self._fresh())

    def close(self) -> None:
        """Let go of connections."""
        self._increments.close()

    def _cut(self, stands: Stands, ends: Stands, limit: EpochLimit) -> tuple[Position, Cut]:
        start = stands.get(self._of) or self.starts("earliest")[self._of]
        begun, end = table_position(start), table_position(ends[self._of])
        return start, cut(begun, self._legs(begun, end), limit, end)

    def _fresh(self) -> TableHead:
        now = self._monotonic()
        if self._head is None or now - self._read_at >= FRESH_SECONDS:
            self._head, self._read_at = self._increments.head(), now
        return self._head

    def _standing(self, head: TableHead, within: Within | None) -> TablePosition:
        moment = Moment().plus(self._live(head, head.snapshot))
        return TablePosition(head.uuid, head.snapshot, head.sequence, moment, within)

    def _live(self, head: TableHead, snapshot: int) -> Sequence[SourceFile]:
        found = self._increments.live(head, snapshot)
        if found is None:
            raise other_table(self._table, f"its snapshot {snapshot} is gone")
        return found

    def _legs(self, start: TablePosition, stop: TablePosition) -> list[Leg]:
        """Return what is read between two positions."""
        head = self._fresh()
        steps = self._require_known(head, start)
        if start.within is None and stop.sequence <= start.sequence:
            return []
        if steps is None:
            return self._by_files(head, start, stop)
        return self._by_steps(head, start, _up_to(steps, start, stop))

    def _require_known(self, head: TableHead, start: TablePosition) -> Sequence[TableStep] | None:
        """Return the snapshots behind a position, None where only the files tell.

        Raises DecisionNeededError (P826).
        """
        if head.uuid != start.uuid:
            raise other_table(self._table, f"it has the id {head.uuid}, and {start.uuid} was read")
        found = self._increments.since(head, start.snapshot, start.sequence)
        if found.left:
            raise other_table(self._table, found.left)
        if found.steps is None:
            self._require_same_files(head, start)
            return None
        for step in found.steps:
            if step.effect is Effect.RESTORED:
                raise other_table(self._table, f"snapshot {step.snapshot} was a {step.act}")
        return found.steps

    def _require_same_files(self, head: TableHead, start: TablePosition) -> None:
        """Raise DecisionNeededError (P826) unless all files of a position are there, unaltered."""
        former = [
            each for each in self._live(head, head.snapshot) if each.sequence <= start.sequence
        ]
        if Moment().plus(former) != start.moment:
            fact = (
                f"snapshot {start.snapshot} is expired, and its rows were changed or rewritten"
                " since; snapshots have to live until they are published"
            )
            raise other_table(self._table, fact)

    def _by_files(self, head: TableHead, start: TablePosition, stop: TablePosition) -> list[Leg]:
        """Return the rest of a position's own files, and all that are newer, up to the end.

        An end that is expired too is one where its files are the same; else it is the head.
        """
        files = in_order(self._live(head, head.snapshot))
        former = [each for each in files if each.sequence <= start.sequence]
        legs = [Leg(_behind(start), start.within, _read_of(start, former))] if start.within else []
        known = [each for each in files if each.sequence <= stop.sequence]
        if Moment().plus(known) != stop.moment:
            known, stop = files, self._standing(head, None)
        newer = [each for each in known if each.sequence > start.sequence]
        within = Within(Reading.SINCE, since=start.sequence)
        return [*legs, Leg(_behind(stop), within if newer else None, newer)]

    def _by_steps(
        self, head: TableHead, start: TablePosition, steps: Sequence[TableStep]
    ) -> list[Leg]:
        """Return the rest of a position's snapshot, and what each later one added."""
        rest = self._rest(head, start)
        if any(each.effect is Effect.REMOVED for each in steps):
            if self._changes == "stop":
                raise rows_removed(self._table, _named(steps))
            if self._changes == "whole":
                return rest if _loads(start) else [self._whole(head, steps[-1])]
        legs, at = rest, start.moment
        for step in steps:
            files: Sequence[SourceFile] = ()
            if step.effect is Effect.APPENDED:
                files = self._added(head, step.snapshot)
                at = at.plus(files)
            elif step.effect is not Effect.NONE:
                found = Moment().plus(self._live(head, step.snapshot))
                if step.effect is Effect.KEPT and found.records != at.records:
                    raise self._unbalanced(step, at.records, found.records)
                at = found
            reached = TablePosition(start.uuid, step.snapshot, step.sequence, at)
            legs.append(Leg(reached, Within(Reading.ADDED) if files else None, files))
        if steps and steps[-1].snapshot == head.snapshot and at.records != head.records:
            raise self._unbalanced(steps[-1], at.records, head.records)
        return legs

    def _added(self, head: TableHead, snapshot: int) -> Sequence[SourceFile]:
        """Return what a snapshot added, in order; what was asked for last is kept."""
        at = head.uuid, snapshot
        if at not in self._known:
            self._known[at] = in_order(self._increments.added(head, snapshot))
            while len(self._known) > _SNAPSHOTS_KEPT:
                del self._known[next(iter(self._known))]
        return self._known[at]

    def _rest(self, head: TableHead, start: TablePosition) -> list[Leg]:
        """Return what is left of the snapshot within which a position is."""
        if start.within is None:
            return []
        if start.within.reading is Reading.ADDED:
            files = self._added(head, start.snapshot)
        else:
            files = in_order(_read_of(start, self._live(head, start.snapshot)))
        return [Leg(_behind(start), start.within, files)]

    def _whole(self, head: TableHead, last: TableStep) -> Leg:
        files = in_order(self._live(head, last.snapshot))
        reached = TablePosition(head.uuid, last.snapshot, last.sequence, Moment().plus(files))
        return Leg(reached, Within(Reading.TABLE) if files else None, files)

    def _unbalanced(self, step: TableStep, read: int, there: int) -> DecisionNeededError:
        return other_table(
            self._table,
            f"what its snapshots added leads to {read:,} rows, and snapshot {step.snapshot}"
            f" ({step.act}) has {there:,}",
        )


def _loads(start: TablePosition) -> bool:
    return start.within is not None and start.within.reading is Reading.TABLE


def _behind(start: TablePosition) -> TablePosition:
    return TablePosition(start.uuid, start.snapshot, start.sequence, start.moment)


def _read_of(start: TablePosition, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Return those of the files that a position's snapshot sees which are read of it."""
    assert start.within is not None, "all of the snapshot is behind the position"
    match start.within.reading:
        case Reading.TABLE:
            return [*files]
        case Reading.ADDED:
            return [each for each in files if each.sequence == start.sequence]
        case Reading.SINCE:
            return [each for each in files if each.sequence > start.within.since]
        case other:
            assert_never(other)


def _up_to(
    steps: Sequence[TableStep], start: TablePosition, stop: TablePosition
) -> Sequence[TableStep]:
    """Return the steps up to the one where reading ends; all where that is expired."""
    if start.snapshot == stop.snapshot:
        return []
    found = [number for number, each in enumerate(steps, 1) if each.snapshot == stop.snapshot]
    return steps[: found[0]] if found else steps


def _named(steps: Sequence[TableStep]) -> str:
    removing = [each for each in steps if each.effect is Effect.REMOVED]
    words = [f"{each.snapshot} ({each.act})" for each in removing[:_NAMED_MAX]]
    more = len(removing) - len(words)
    some = "snapshot " if len(removing) == 1 else "snapshots "
    return f"{some}{', '.join(words)}{f' and {more} more' if more else ''} removed rows"
