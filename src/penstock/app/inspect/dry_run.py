"""Runs the workers' own code and lands nothing: rows and rejects stay in memory.

What `plan` and `peek` show is therefore what a run would do, down to the last record.

Invariant: nothing is written; a writer here is a list.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from penstock.app.assembly.worker import work_with
from penstock.core.commits import DataFile
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.engines.inline import InlineEngine
from penstock.ports.log import Fetched
from penstock.ports.runtime import Engine, Observer
from penstock.ports.tables import FileWriter

if TYPE_CHECKING:
    import pyarrow as pa

Rows = list[Mapping[str, Any]]


@dataclass(slots=True)
class CachedReader:
    """Implements `ports.log.RangeReader` over batches that were read before, with headers."""

    batches: Mapping[TopicPartition, pa.RecordBatch] = field(default_factory=dict)

    def read(
        self,
        at: TopicPartition,
        covered: OffsetRange,
        *,
        deadline: float,
        headers: bool = False,
        leader_epoch: int | None = None,
    ) -> Iterator[Fetched]:
        """Yield the held records of a range."""
        del deadline, leader_epoch
        batch = self.batches[at]
        offsets = batch.column("offset")
        inside = pc.and_(pc.greater_equal(offsets, covered.start), pc.less(offsets, covered.stop))
        chosen = batch.filter(inside)
        names = [name for name in chosen.schema.names if headers or name != "headers"]
        yield Fetched(chosen.select(names), covered.stop)

    def close(self) -> None:
        """Let go of nothing."""


@dataclass(slots=True)
class DryRun:
    """What jobs read, and the `rows` that would have landed, by a job's target."""

    reader: CachedReader = field(default_factory=CachedReader)
    rows: dict[str, Rows] = field(default_factory=lambda: defaultdict(list))

    @property
    def engine(self) -> Engine:
        """Return what runs jobs on these records, in this process, one after the other."""
        return InlineEngine(
            lambda job: work_with(job, lambda _: self.reader, lambda _: self._writer)
        )

    def _writer(self, target: str, *, prefix: str, observer: Observer) -> FileWriter:
        del prefix, observer
        return _ListWriter(self.rows[target])


@dataclass(slots=True)
class _ListWriter:
    """Implements `ports.tables.FileWriter` over a list."""

    into: Rows
    _rows: Rows = field(default_factory=list)
    _size_bytes: int = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; they are kept once this is closed."""
        self._rows += rows.to_pylist()
        self._size_bytes += rows.nbytes

    def close(self) -> Sequence[DataFile]:
        """Keep the rows, and describe them as if they were a file."""
        self.into += self._rows
        return (DataFile("kept in memory", len(self._rows), self._size_bytes, {}),)

    def abandon(self) -> None:
        """Forget the rows; those of other writers stay."""
        self._rows.clear()
