"""What a worker is told of a stretch of a table, as versioned JSON, and how it reads it.

Invariants:
- parts that were written are read back as equal ones; another version is refused;
- the rows of a part come in the order of their file, and the position behind the last one of a
  stretch is its stop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
import pyarrow as pa

from penstock.core.errors import UnavailableError
from penstock.core.plain_data import reading
from penstock.core.positions import Position
from penstock.core.table_errors import FILE_MISSING
from penstock.ports.increments import FileRows
from penstock.ports.row_deletes import POSITION
from penstock.ports.runtime import Clock
from penstock.ports.sources import NO_ROWS, Rows, Stretch
from penstock.publishing.source_stops import file_gone
from penstock.publishing.table_positions import table_position

WORK_VERSION = 2


@dataclass(frozen=True, slots=True)
class FilePart:
    """Rows `start` to `stop` of a file; where they begin, and the position behind them.

    `detail` is how the file is read.
    """

    detail: str
    start: int
    stop: int
    begun: Position
    reached: Position

    def behind(self, row: int) -> Position:
        """Return the position behind so many rows of the file; behind the last one: of the part."""
        if row >= self.stop:
            return self.reached
        begun = table_position(self.begun)
        assert begun.within is not None, "a part is within its snapshot's files"
        return replace(begun, within=replace(begun.within, row=row)).to_position()


@dataclass(frozen=True, slots=True)
class TableWork:
    """Parts of a table's files that are read one after the other; `opened` is what they are opened
    with, `publication` who publishes them, for hints.
    """

    table: str
    opened: str
    parts: Sequence[FilePart]
    publication: str = "NAME"

    def to_json(self) -> str:
        """Write it."""
        return json.dumps(
            {
                "v": WORK_VERSION,
                "table": self.table,
                "opened": self.opened,
                "parts": [astuple(each) for each in self.parts],
                "publication": self.publication,
            }
        )

    @staticmethod
    def from_json(text: str) -> TableWork:
        """Read it. Raises InvalidError (P190, P191)."""
        with reading(text, "stretch of a table", WORK_VERSION) as data:
            parts = [FilePart(*each) for each in data["parts"]]
            return TableWork(data["table"], data["opened"], parts, data["publication"])


@dataclass(frozen=True, slots=True)
class TableReader:
    """Implements `ports.sources.RowReader` over the files of tables of one format."""

    files: FileRows
    clock: Clock

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Rows]:
        """Yield the rows of a stretch. Raises DecisionNeededError (P828): a file is gone."""
        work = TableWork.from_json(stretch.work)
        if not work.parts:  # what lies between moved no rows
            yield Rows(NO_ROWS, stretch.stop)
        try:
            for number, part in enumerate(work.parts, 1):
                last = stretch.stop if number == len(work.parts) else None
                batches = self.files.read(work.opened, part.detail, start=part.start)
                for found in _rows(batches, part, last):
                    yield found
                    if self.clock.monotonic() >= deadline:
                        return
        except UnavailableError as error:
            if error.code != FILE_MISSING:
                raise
            raise file_gone(work.publication, work.table, error.message) from error


def _rows(
    batches: Iterator[pa.RecordBatch], part: FilePart, last: Position | None
) -> Iterator[Rows]:
    """Yield the rows of a part; one batch is held back, for the last one ends at its stop."""
    held: pa.RecordBatch | None = None
    for batch in batches:
        places = batch.column(POSITION).to_numpy()
        if batch.num_rows and places[0] >= part.stop:
            break
        first, beyond = np.searchsorted(places, [part.start, part.stop])
        if first == beyond:
            continue
        if held is not None:
            yield Rows(_without_places(held), part.behind(_place_behind(held)))
        held = batch.slice(first, beyond - first)
    stop = last or part.reached
    if held is not None:
        yield Rows(_without_places(held), stop)
    elif last is not None:
        yield Rows(NO_ROWS, stop)


def _place_behind(batch: pa.RecordBatch) -> int:
    return int(batch.column(POSITION)[-1].as_py()) + 1


def _without_places(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.drop_columns([POSITION])
