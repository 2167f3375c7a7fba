"""The world of a publication of rows: a list of them in memory, and the messages that they make.

The oracle says in plain Python what a reader of the target has to find.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from tests.story.publishing import INTO, PARTITIONS, Act, PublishingWorld

from penstock.connectors.memory.cluster import Message
from penstock.core.positions import Position, SourcePartition, partition_of, position_of, values_of
from penstock.ports.sources import EpochLimit, Rows, Stands, Stretch
from penstock.publishing.messages import Encoding, job_from_json, result_to_json
from penstock.publishing.publisher import Publisher, Until
from penstock.publishing.row_worker import RowWorker
from penstock.publishing.settings import Rejects
from penstock.rows.encode.rules import MessageRules

OF: SourcePartition = partition_of({"table": "lake.shop.rows"}, "rows")
REJECTS = "orders.rejects"
RULES = MessageRules(key=("k",), bytes_of="v", where="v <> 'left out'", delete_when="v = 'gone'")
NO_MESSAGE = (None, "gone")
"""It would delete, and has no key."""
Row = tuple[str | None, str]
"""Key and value."""


def at(row: int) -> Position:
    """Return the position before a row."""
    return position_of({"row": row}, "rows")


def row_of(position: Position) -> int:
    """Return the number of the row behind a position."""
    number = values_of(position)["row"]
    assert isinstance(number, int)
    return number


@dataclass
class ListSource:
    """Implements `ports.sources.Source` and `RowReader` over rows in memory."""

    rows: list[Row] = field(default_factory=list)
    batch_rows: int = 3
    names: Sequence[str] = ("k", "v")

    def starts(self, word: str) -> Stands:
        """Return the first row, or the end."""
        return {OF: at(0 if word == "earliest" else len(self.rows))}

    def ends(self) -> Stands:
        """Return the end."""
        return {OF: at(len(self.rows))}

    def require_known(self) -> None:
        """Require nothing: all is known."""

    def fault(self, stands: Stands) -> str:
        """Find nothing."""
        del stands
        return ""

    def readable(self, stands: Stands) -> Stands:
        """Return the same positions."""
        return stands

    def count(self, start: Stands, stop: Stands) -> int:
        """Count rows."""
        return row_of(stop[OF]) - row_of(start.get(OF, at(0)))

    def plan(self, stands: Stands, ends: Stands, limit: EpochLimit) -> Sequence[Stretch]:
        """Return one stretch."""
        start, end = row_of(stands[OF]), row_of(ends[OF])
        stop = min(end, start + limit.rows_max)
        return [Stretch(OF, at(start), at(stop), stop - start)] if stop > start else []

    def columns(self) -> pa.Schema:
        """Return the columns of its rows."""
        return pa.schema([(name, pa.string()) for name in self.names])

    def close(self) -> None:
        """Close nothing."""

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Rows]:
        """Yield rows, a few at a time."""
        del deadline
        start, stop = row_of(stretch.start), row_of(stretch.stop)
        for begin in range(start, stop, self.batch_rows):
            own = self.rows[begin : min(begin + self.batch_rows, stop)]
            columns = [pa.array(each, pa.string()) for each in zip(*own, strict=True)]
            batch = pa.RecordBatch.from_arrays(columns, [*self.names])
            yield Rows(batch, at(begin + len(own)))


def said_of(reject: Message) -> dict[str, Any]:
    """Return what a reject says: its own headers, and the place of a row that is no record."""
    prefix, said = "penstock.", dict[str, Any]()
    for name, value in reject.headers:
        if name.startswith(prefix):
            said[name.removeprefix(prefix)] = value.decode()
    if "offset" in said:
        return {**said, "offset": int(said["offset"])}
    return {**said, **json.loads(reject.value)}


@dataclass(slots=True)
class RowsWorld(PublishingWorld):
    """Rows that are published by their keys."""

    table: ListSource = field(default_factory=ListSource)
    rules: MessageRules = RULES
    rejects: Rejects | None = None

    def source(self) -> ListSource:
        """Return the rows."""
        return self.table

    def publisher(
        self, until: Until = "caught-up", *, act: Act = lambda _: "", **changes: object
    ) -> Publisher:
        """Return a run that has not begun."""
        own = {"messages": self.rules, "rejects": self.rejects, **changes}
        return PublishingWorld.publisher(self, until, act=act, **own)

    def reject(self, stop_above_share: float = 1.0) -> None:
        """Give rows that are no messages a topic."""
        if self.rejects is None:
            self.cluster.create(REJECTS, 1)
        self.rejects = Rejects(REJECTS, stop_above_share)

    def rejected(self) -> list[dict[str, Any]]:
        """Return what a reader finds in the topic for rejects."""
        if self.rejects is None:
            return []
        entries = self.cluster.partition(REJECTS, 0).entries
        return [said_of(each.message) for each in entries if each.readable]

    def _work(self, text: str) -> str:
        job = job_from_json(text)
        assert isinstance(job.work, Encoding)
        return result_to_json(RowWorker(job, job.work, self.table, self.tools(job)).work())

    def found(self) -> dict[bytes | None, list[bytes | None]]:
        """Return what a reader finds: the values of each key in order; of no key, sorted."""
        found: dict[bytes | None, list[bytes | None]] = {}
        for number in range(PARTITIONS):
            for each in self.cluster.partition(INTO, number).entries:
                if each.readable:
                    found.setdefault(each.message.key, []).append(each.message.value)
        return _sorted(found)

    def expected(self, rows: int) -> dict[bytes | None, list[bytes | None]]:
        """Return what the first rows make: by Python, row by row."""
        made: dict[bytes | None, list[bytes | None]] = {}
        for key, value in self.table.rows[:rows]:
            if value != "left out" and (key, value) != NO_MESSAGE:
                said = None if value == "gone" else value.encode()
                made.setdefault(key if key is None else key.encode(), []).append(said)
        return _sorted(made)

    def reached(self) -> int:
        """Return how many rows are published, as the offsets topic says."""
        positions = [v for k, v in self.offsets().items() if b'"table"' in k]
        return row_of(Position(positions[0].decode())) if positions else 0


def _sorted(found: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
    return {key: sorted(each) if key is None else each for key, each in found.items()}
