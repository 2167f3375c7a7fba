"""Reads a source of one's own in this process, checks what it gives, and makes rows of it.

Invariants:
- a position is plain data, moves with rows, and comes back to none of the last ones;
- what was opened is kept at the position that it reached: the next stretch goes on with it, and one
  from any other position opens the source again;
- a stretch has at least one batch, and beyond that no more than the limit; a batch is never cut;
- a batch that the source gave whole is published, though it fails behind it;
- where the source says where transactions end, a stretch is what it gave up to the next boundary,
  whole, and of what has no boundary yet nothing.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.core.errors import PenstockError
from penstock.core.plain_data import reading
from penstock.core.positions import Position, SourcePartition, position_of, values_of
from penstock.ports.own_sources import Batch, Boundary, OwnSource, PositionGoneError
from penstock.ports.runtime import Clock
from penstock.ports.sources import NO_LIMIT, NO_ROWS, EpochLimit, Rows, Stretch
from penstock.publishing.own_stops import (
    SOURCE_RAISED,
    no_rows,
    place_of,
    position_gone,
    position_returns,
    takes_back,
    unit_too_large,
    wrong_shape,
)

BEGINNING = Position("{}")
"""The position before anything was read; no source gives it."""
OPEN = Position("")
"""An end that is not known: reading ends where the source gives no more."""
WORK_VERSION = 1
ABORTED = "aborted"
"""Why rows are left out that their source took back."""
KEPT_MAX = 64
"""How many parts of a source are kept open."""
POSITIONS_COMPARED = 100


@dataclass(frozen=True, slots=True)
class OwnWork:
    """What a worker is told of a stretch: the limit of all stretches of a job; which is `first`."""

    limit: EpochLimit
    first: bool

    def to_json(self) -> str:
        """Write it."""
        limit = [self.limit.rows_max, self.limit.bytes_max]
        return json.dumps({"v": WORK_VERSION, "limit": limit, "first": self.first})

    @staticmethod
    def from_json(text: str) -> OwnWork:
        """Read it. Raises InvalidError (P190, P191)."""
        with reading(text, "stretch of a source", WORK_VERSION) as data:
            return OwnWork(EpochLimit(*data["limit"]), data["first"])


Unit = tuple[Rows, ...]
"""What is published together: a batch, or all up to where the source says that it ends."""


@dataclass(slots=True)
class _Reading:
    """What is open: the position that it reached, and the unit behind it that was looked at."""

    at: Position
    until: Position
    units: Generator[Unit]
    held: Unit = ()

    def peek(self) -> Unit:
        if not self.held:
            self.held = next(self.units, ())
        return self.held

    def take(self) -> Unit:
        taken, self.held = self.held, ()
        assert taken, "it was looked at"
        self.at = taken[-1].reached
        return taken


@dataclass(slots=True)
class OwnReadings:
    """Implements `ports.sources.RowReader` over a source, and looks at what waits in it.

    With `unit_max` the source says where transactions end, and none is larger than that.
    `publication` is who publishes it, for hints.
    """

    source: OwnSource
    name: str
    clock: Clock
    unit_max: EpochLimit | None = None
    publication: str = "NAME"
    seen: pa.Schema | None = None
    _open: dict[SourcePartition, _Reading] = field(default_factory=dict)
    _left: EpochLimit = NO_LIMIT

    @property
    def ends_where_told(self) -> bool:
        """Return whether the source says where transactions end."""
        return self.unit_max is not None

    def waiting(self, of: SourcePartition, at: Position, until: Position) -> Unit:
        """Return what is published next behind a position; () where there is nothing now.

        Raises InvalidError (P290, P293, P294, P851, P852, P853), DecisionNeededError (P855), and
        what the source raises.
        """
        self._reading(of, at, until)
        found = self._peek(of)
        if not found:
            self._drop(of)
        return found

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Rows]:
        """Yield batches up to the limit of the job, or the end of what there is for now.

        Where the source fails behind batches of the same job, what it gave is published: who looks
        for more finds out whether it still fails.
        """
        work = OwnWork.from_json(stretch.work)
        if work.first:
            self._left = work.limit
        elif min(self._left.rows_max, self._left.bytes_max) <= 0:
            return
        opened, is_first = self._reading(stretch.of, stretch.start, stretch.stop), work.first
        while found := self._peek(stretch.of, ends_quietly=not is_first):
            rows, size = _size_of(found)
            left = EpochLimit(self._left.rows_max - rows, self._left.bytes_max - size)
            if not is_first and min(left.rows_max, left.bytes_max) < 0:
                return
            self._left, is_first = left, False
            yield from opened.take()
            is_full = min(left.rows_max, left.bytes_max) <= 0
            if is_full or self.ends_where_told or self.clock.monotonic() >= deadline:
                return
        self._drop(stretch.of)

    def close(self) -> None:
        """Let go of everything."""
        for of in [*self._open]:
            self._drop(of)
        self.source.close()

    def _peek(self, of: SourcePartition, *, ends_quietly: bool = False) -> Unit:
        """Look at the next unit of what is open; what has failed is opened again."""
        try:
            return self._open[of].peek()
        except PenstockError as error:
            self._drop(of)
            if ends_quietly and error.code == SOURCE_RAISED:
                return ()
            raise

    def _reading(self, of: SourcePartition, at: Position, until: Position) -> _Reading:
        kept = self._open.pop(of, None)
        if kept is None or (kept.at, kept.until) != (at, until):
            kept = _Reading(at, until, self._units(of, at, until))
        self._open[of] = kept
        while len(self._open) > KEPT_MAX:
            self._drop(next(iter(self._open)))
        return kept

    def _drop(self, of: SourcePartition) -> None:
        dropped = self._open.pop(of, None)
        if dropped is not None:
            dropped.units.close()

    def _units(self, of: SourcePartition, at: Position, until: Position) -> Generator[Unit]:
        """Yield what is published together. Raises what `waiting` raises."""
        found, count, size = list[Rows](), 0, 0
        with closing(self._rows(of, at, until)) as batches:
            for rows, boundary in batches:
                place = place_of(self.name, of, rows.reached)
                if self.unit_max is None:
                    if boundary == "abort":
                        raise takes_back(place)
                    yield (rows,)
                    continue
                found.append(rows)
                count, size = count + rows.count, size + rows.rows.nbytes
                if count > self.unit_max.rows_max or size > self.unit_max.bytes_max:
                    raise unit_too_large(place, count, size)
                if boundary is None:
                    continue
                taken_back = Rows(NO_ROWS, rows.reached, left_out={ABORTED: count})
                if count or rows.reached != at:  # at the boundary of nothing nothing ends
                    yield (taken_back,) if boundary == "abort" else tuple(found)
                found, count, size, at = [], 0, 0, rows.reached

    def _rows(
        self, of: SourcePartition, at: Position, until: Position
    ) -> Generator[tuple[Rows, Boundary | None]]:
        """Yield what the source gives, checked, with the boundaries. Raises as `waiting` does."""
        former, place = deque([at], POSITIONS_COMPARED), place_of(self.name, of, at)
        try:
            for batch in self.source.read(
                values_of(of),
                None if at == BEGINNING else values_of(at),
                None if until == OPEN else values_of(until),
            ):
                found = self._checked(batch, place, former)
                if found.count or found.reached != former[-1] or batch.boundary:
                    former.append(found.reached)
                    yield found, batch.boundary
                place = place_of(self.name, of, found.reached)
        except PositionGoneError as error:
            raise position_gone(self.publication, place, str(error)) from error

    def _checked(self, batch: Any, place: str, former: Sequence[Position]) -> Rows:
        if not isinstance(batch, Batch):
            raise wrong_shape(self.name, f"it gave a {type(batch).__name__}, and no penstock.Batch")
        if batch.boundary not in {None, "commit", "abort"}:
            raise wrong_shape(self.name, f"the boundary of a batch is {batch.boundary!r}")
        values: Any = batch.next
        if not isinstance(values, Mapping):
            fact = f"the position of a batch is a {type(values).__name__}, and no object"
            raise wrong_shape(self.name, fact)
        reached = position_of(values, self.name)
        if reached == BEGINNING:
            raise wrong_shape(self.name, "the position of a batch is empty, as the beginning is")
        rows = record_batch(batch.rows, self.source.columns, place)
        found = Rows(rows, reached, tuple(batch.bad))
        returns = reached in former
        if returns and (found.count or reached != former[-1]):
            raise position_returns(place, reached)
        if found.rows.num_columns:
            self.seen = found.rows.schema
        return found


def _size_of(unit: Sequence[Rows]) -> tuple[int, int]:
    """Return how many rows and bytes are published together."""
    return sum(each.count for each in unit), sum(each.rows.nbytes for each in unit)


def record_batch(rows: Any, columns: Callable[[], pa.Schema | None], place: str) -> pa.RecordBatch:
    """Make a record batch of Arrow or of dicts. Raises InvalidError (P853)."""
    match rows:
        case pa.RecordBatch():
            return rows
        case pa.Table():
            merged = rows.combine_chunks().to_batches()
            return merged[0] if merged else pa.RecordBatch.from_pylist([], rows.schema)
        case str() | bytes():
            raise no_rows(place, f"a {type(rows).__name__}")
        case Sequence():
            return _of_dicts(rows, columns(), place) if rows else NO_ROWS
        case _:
            raise no_rows(place, f"a {type(rows).__name__}")


def _of_dicts(rows: Sequence[Any], columns: pa.Schema | None, place: str) -> pa.RecordBatch:
    """Make columns of dicts: a name that a dict does not have is null in its row."""
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            raise no_rows(place, f"row {number} is a {type(row).__name__}, and no dict")
    try:
        if columns is not None:
            return pa.RecordBatch.from_pylist([*rows], columns)
        names = [*dict.fromkeys(name for row in rows for name in row)]
        arrays = [pa.array([row.get(name) for row in rows]) for name in names]
        return pa.RecordBatch.from_arrays(arrays, names)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise no_rows(place, str(error).splitlines()[0][:300]) from error
