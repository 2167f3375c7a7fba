"""One batch of rows as the source of a publication: a run's, or one of a streaming query.

Invariants:
- a batch is published whole, in one transaction, or not at all: its position is its id;
- the batch that was published last is not published again, and none before it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Literal

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.positions import Position, SourcePartition, partition_of, position_of, values_of
from penstock.ports.sources import NO_LIMIT, NO_ROWS, EpochLimit, Rows, Stands, Stretch

Kind = Literal["runs", "batches"]


class FrameBatch:
    """Rows, what they are of, and the position behind them; evaluated once, when asked for."""

    def __init__(self, of: SourcePartition, place: Position, rows: Callable[[], pa.Table]) -> None:
        self.of, self.place, self._rows = of, place, rows

    @cached_property
    def rows(self) -> pa.Table:
        """Return the rows."""
        return self._rows()


def run_of(run: str, rows: Callable[[], pa.Table]) -> FrameBatch:
    """Return the rows of a run, which has an id for ever. Raises InvalidError (P277): it has none.

    An empty one, as of a variable that is not set, would be every later run's, too.
    """
    if not isinstance(run, str) or not run.strip():
        raise InvalidError(
            f"a run has no id: {run!r}",
            code="P277",
            hint="give each run a text of its own, such as its date:  run='2026-11-23'",
        )
    place = position_of({"published": True}, "a run")
    return FrameBatch(partition_of({"run": run}, "a run"), place, rows)


def batch_of(query: str, number: int, rows: Callable[[], pa.Table]) -> FrameBatch:
    """Return the rows of one batch of a streaming query."""
    of = partition_of({"query": query}, "a query")
    return FrameBatch(of, position_of({"batch": number}, "a query"), rows)


class BatchSource:
    """Implements `ports.sources.Source` and `RowReader`; without a batch nothing is new."""

    def __init__(self, kind: Kind, batch: FrameBatch | None = None) -> None:
        self._kind, self._batch = kind, batch

    def starts(self, word: str) -> Stands:
        """Return nothing: a batch has a position when it is published."""
        del word
        return {}

    def places(self, words: Sequence[str]) -> Stands:
        """Raise InvalidError (P817): no place in a DataFrame can be named."""
        raise InvalidError(
            f"{' '.join(words)[:120]!r} is not a place of DataFrames, which are not kept",
            code="P817",
            hint="publish the rows again under another id",
        )

    def ends(self) -> Stands:
        """Return the place behind the batch."""
        return {} if self._batch is None else {self._batch.of: self._batch.place}

    def require_known(self) -> None:
        """Require nothing: the batch is here."""

    def fault(self, stands: Stands) -> str:
        """Say that the batches of another query were published, or later ones of this query."""
        if self._batch is None or self._kind == "runs":
            return ""
        if others := sorted(stands.keys() - {self._batch.of}):
            return f"it publishes {', '.join(others)}, and this is {self._batch.of}"
        asked, last = self._batch.place, stands.get(self._batch.of)
        if last is not None and _number(asked) < _number(last):
            return f"{last} is published, and this is {asked}: the checkpoint went back"
        return ""

    def readable(self, stands: Stands) -> Stands:
        """Return no positions where the batch does not follow them."""
        return {} if self.fault(stands) else stands

    def count(self, start: Stands, stop: Stands) -> int:
        """Count the rows of the batch, unless it is published."""
        return sum(each.rows for each in self.plan(start, stop, NO_LIMIT))

    def plan(self, stands: Stands, ends: Stands, limit: EpochLimit) -> Sequence[Stretch]:
        """Return the batch, whole, unless it is published."""
        del limit
        batch = self._batch
        if batch is None or batch.of not in ends or stands.get(batch.of) == batch.place:
            return []
        start = stands.get(batch.of, _BEFORE)
        return [Stretch(batch.of, start, batch.place, batch.rows.num_rows)]

    def columns(self) -> pa.Schema | None:
        """Return the columns of the batch."""
        return None if self._batch is None else self._batch.rows.schema

    def close(self) -> None:
        """Let go of nothing."""

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Rows]:
        """Yield the rows; what is in memory is read in time."""
        del deadline
        assert self._batch is not None, "a stretch is one of a batch"
        pieces = self._batch.rows.combine_chunks().to_batches() or [NO_ROWS]
        for each in pieces[:-1]:
            yield Rows(each, stretch.start)
        yield Rows(pieces[-1], stretch.stop)


_BEFORE = position_of({"published": False}, "a run")


def _number(place: Position) -> int:
    number = values_of(place).get("batch")
    assert isinstance(number, int), "it is written as a number"
    return number
