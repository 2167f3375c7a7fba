"""The changes of keyed tables that a job holds: netted by key, and written when they are many.

Theory of operation: changes are kept until the job ends, so that of a key that changes often one
row is written. Where they are too many, those of the fullest table are netted; where that leaves
more than half of them, the rows that stay are written, and the table goes on with nothing. So a
table may give several touched parts, and the driver merges them with those of other jobs
(docs/design/0244).

Invariants:
- all that is held together is at most `bytes_max` and one portion of a batch;
- a touched part lists each key of a partition once, and where its row lies among the files that
  the table gets from this job;
- a change that a later one of its key and partition replaces here is counted as superseded, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.commits import DataFile
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.landing.foreign_errors import WRITE, converting, failing_rows, ranges_text
from penstock.landing.task.messages import Job
from penstock.ports.writers import FileWriter
from penstock.rows import bisection
from penstock.rows.keyed.net import Changes, net_by_lane
from penstock.rows.keyed.touched import SOURCE, Retry, touched_to_bytes
from penstock.rows.options import RowOptions

Places = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
PLACES_BYTES = 15
"""How much a change holds besides its row: two flags, lane, offset and place in its record."""


def lanes_of(job: Job) -> list[TopicPartition]:
    """Return the partitions of a job in the order of the fold; their places number its lanes."""
    return sorted({lane.at for lane in job.lanes})


@dataclass(frozen=True, slots=True)
class WrittenChanges:
    """What was written of a table's changes: its files, and the touched part of each chunk."""

    files: tuple[DataFile, ...] = ()
    touched: tuple[bytes, ...] = ()


@dataclass(slots=True)
class _Held:
    parts: list[Changes] = field(default_factory=list)
    size_bytes: int = 0
    written: WrittenChanges = field(default_factory=WrittenChanges)


@dataclass(slots=True)
class ChangeBuffers:
    """Holds changes by table. `open` gives a writer that tells the places of rows; `superseded` is
    called with how many changes of a table and partition were replaced by later ones.
    """

    job: Job
    open: Callable[[str], FileWriter]
    superseded: Callable[[str, TopicPartition, int], None]
    _lanes: list[TopicPartition] = field(init=False)
    _tables: dict[str, _Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lanes = lanes_of(self.job)

    @property
    def names(self) -> list[str]:
        """List the tables that got changes."""
        return [*self._tables]

    def append(self, name: str, changes: Changes) -> None:
        """Take the changes of a portion of a batch."""
        if len(changes.offset):
            self._hold(self._tables.setdefault(name, _Held()), changes)

    @property
    def too_full(self) -> str | None:
        """Name the table that holds most, where all hold too much together."""
        held = {name: each.size_bytes for name, each in self._tables.items()}
        if sum(held.values()) <= self.job.held_bytes_max:
            return None
        return max(held, key=held.__getitem__)

    def shrink(self, name: str) -> None:
        """Net what a table holds, and write it where that leaves more than half of it.

        Raises what writers raise; unexpected errors with the records that raise them.
        """
        held = self._tables[name]
        before = held.size_bytes
        changes = self._netted(name, held)
        if _size_of(changes) > before // 2:
            self._write(name, held, changes)
        else:
            self._hold(held, changes)

    def close(self, name: str) -> WrittenChanges:
        """Net and write what a table still holds; describe all it got. Raises like `shrink`."""
        held = self._tables[name]
        if held.parts:
            self._write(name, held, self._netted(name, held))
        return self._tables.pop(name).written

    def abandon(self, name: str) -> None:
        """Let go of a table's changes and files; deletes nothing."""
        self._tables.pop(name, None)

    def _hold(self, held: _Held, changes: Changes) -> None:
        held.parts.append(changes)
        held.size_bytes += _size_of(changes)

    def _netted(self, name: str, held: _Held) -> Changes:
        """Take what is held out, netted."""
        found = net_by_lane(Changes.concat(held.parts), self._keys(name), self._sequence(name))
        held.parts, held.size_bytes = [], 0
        for lane, count in found.superseded.items():
            self.superseded(name, self._lanes[lane], count)
        return found.changes

    def _write(self, name: str, held: _Held, changes: Changes) -> None:
        stays = np.flatnonzero(changes.upsert)
        file = np.full(len(changes.upsert), -1, np.int32)
        row = np.full(len(changes.upsert), -1, np.int64)
        files, before = held.written.files, len(held.written.files)
        if len(stays):
            writer = self.open(name)
            rows = changes.rows.take(pa.array(stays))
            try:
                writer.write(rows)
                files = (*files, *writer.close())
            except bisection.UNEXPECTED_ERRORS:
                first, last = failing_rows(rows, lambda part: self._attempt(name, part))
                with converting(name, WRITE, self._named(changes, stays[first : last + 1])):
                    raise
            in_file, in_row = writer.places()
            file[stays], row[stays] = in_file + before, in_row
        part = touched_by(changes, self.job.tables[name].options, self._lanes, (file, row))
        held.written = WrittenChanges(files, (*held.written.touched, part))

    def _attempt(self, name: str, rows: pa.RecordBatch) -> None:
        """Write rows to files that no commit knows."""
        writer = self.open(name)
        try:
            writer.write(rows)
        finally:
            writer.abandon()

    def _named(self, changes: Changes, places: npt.NDArray[np.int64]) -> str:
        """Name the stretches of records that changes at some places come from."""
        found: dict[TopicPartition, OffsetRange] = {}
        for lane in np.unique(changes.lane[places]).tolist():
            offsets = changes.offset[places][changes.lane[places] == lane]
            found[self._lanes[lane]] = OffsetRange(offsets.min(), offsets.max() + 1)
        return ranges_text(found)

    def _sequence(self, name: str) -> Sequence[str]:
        return self.job.tables[name].options.sequence

    def _keys(self, name: str) -> Sequence[str]:
        return self.job.tables[name].options.keys


def touched_by(
    changes: Changes,
    options: RowOptions,
    lanes: Sequence[TopicPartition],
    places: Places,
    retry: Retry | None = None,
) -> bytes:
    """Write the keys that net changes of a table touch; as `touched_to_bytes`."""
    columns = options.source_columns
    source = {role: columns[role] for role in SOURCE} if {*SOURCE} <= columns.keys() else {}
    return touched_to_bytes(
        changes,
        options.keys,
        lanes,
        places,
        source,
        flag=next((each.name for each in options.soft_columns), None),
        sequence=options.sequence,
        retry=retry,
    )


def _size_of(changes: Changes) -> int:
    return int(changes.rows.nbytes) + PLACES_BYTES * len(changes.offset)
