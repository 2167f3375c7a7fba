"""A table in memory with a history that anybody may change: what sources of tables are tried on.

It behaves as Iceberg's format version 2: sequence numbers only grow, a compaction may keep the
number of the snapshot that it began with, and expired snapshots leave no trace.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.core.table_errors import file_missing
from penstock.ports.increments import (
    NO_SNAPSHOT,
    Effect,
    SourceFile,
    StepsSince,
    TableHead,
    TableStep,
)
from penstock.ports.row_deletes import POSITION

BATCH_ROWS = 3


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file: the ids of its rows, and the places of those that are deleted."""

    path: str
    ids: tuple[int, ...]
    sequence: int
    deleted: frozenset[int] = frozenset()

    @property
    def live(self) -> tuple[int, ...]:
        """Return the ids of the rows that are not deleted."""
        return tuple(each for at, each in enumerate(self.ids) if at not in self.deleted)


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A snapshot, with its parent and its files."""

    number: int
    parent: int
    sequence: int
    act: str
    effect: Effect
    files: tuple[HeldFile, ...]


@dataclass(slots=True)
class MemoryHistory:
    """One table's history; its acts are those of other writers."""

    uuid: str = "t0"
    snapshots: dict[int, HeldSnapshot] = field(default_factory=dict)
    head: int = NO_SNAPSHOT
    sequence: int = 0
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    paths: Iterator[int] = field(default_factory=itertools.count)

    @property
    def files(self) -> tuple[HeldFile, ...]:
        """Return the files of the head."""
        return self.snapshots[self.head].files if self.head in self.snapshots else ()

    @property
    def rows(self) -> list[int]:
        """Return the ids of live rows."""
        return [each for file in self.files for each in file.live]

    def append(self, *groups: Sequence[int]) -> None:
        """Append rows, a file for each group."""
        self._commit("append", [*self.files, *(self._file(each) for each in groups)])

    def compact(self, paths: Sequence[str], *, keeps_sequence: bool) -> None:
        """Rewrite files into one, under a new sequence number, or the lowest that is allowed."""
        taken = [each for each in self.files if each.path in paths]
        merged = self._file([each for file in taken for each in file.live])
        if keeps_sequence:
            newest = max((each.sequence for each in taken), default=self.sequence)
            changed = any(each.deleted for each in taken)
            merged = replace(merged, sequence=self.sequence if changed else newest)
        self._commit("replace", [*self._without(paths), merged])

    def delete(self, wanted: Callable[[int], bool], *, by_position: bool) -> None:
        """Delete rows, at their places or by writing their files again."""
        files: list[HeldFile] = []
        for each in self.files:
            places = frozenset(at for at, row in enumerate(each.ids) if wanted(row))
            if not places - each.deleted:
                files.append(each)
            elif by_position:
                files.append(replace(each, deleted=each.deleted | places))
            elif kept := [row for row in each.live if not wanted(row)]:
                files.append(self._file(kept))
        self._commit("delete", files)

    def overwrite(self, rows: Sequence[int]) -> None:
        """Replace all rows."""
        self._commit("overwrite", [self._file(rows)] if rows else [])

    def roll_back(self, snapshot: int) -> None:
        """Make a former snapshot the head."""
        self.head = snapshot

    def expire(self, kept: int) -> None:
        """Forget all but the newest snapshots on the head's ancestry, and all others."""
        ancestry = [each.number for each in self.ancestry()][:kept]
        self.snapshots = {number: self.snapshots[number] for number in ancestry}

    def make_again(self) -> None:
        """Drop the table and create it with the same name."""
        self.uuid = f"t{next(self.paths)}"
        self.snapshots, self.head, self.sequence = {}, NO_SNAPSHOT, 0

    def ancestry(self) -> Iterator[HeldSnapshot]:
        """Walk from the head, newest first, as far as snapshots are there."""
        at = self.head
        while at in self.snapshots:
            yield self.snapshots[at]
            at = self.snapshots[at].parent

    def _file(self, rows: Sequence[int]) -> HeldFile:
        return HeldFile(f"f{next(self.paths):05}", tuple(rows), self.sequence + 1)

    def _without(self, paths: Sequence[str]) -> list[HeldFile]:
        return [each for each in self.files if each.path not in paths]

    def _commit(self, act: str, files: Sequence[HeldFile]) -> None:
        self.sequence += 1
        number, effect = next(self.numbers), _effect(act, self.files, files)
        found = HeldSnapshot(number, self.head, self.sequence, act, effect, tuple(files))
        self.snapshots[number], self.head = found, number


class MemoryIncrements:
    """Implements `ports.increments.Increments` over a history in memory.

    Files are listed in another order each time: the order is the caller's to make.
    """

    def __init__(self, history: MemoryHistory) -> None:
        self._history = history
        self._turns = itertools.cycle([1, -1])

    def head(self) -> TableHead:
        """Return the newest snapshot."""
        history = self._history
        sequence = history.snapshots[history.head].sequence if history.snapshots else 0
        return TableHead(history.uuid, history.head, sequence, len(history.rows))

    def since(self, head: TableHead, snapshot: int, sequence: int) -> StepsSince:
        """List the steps from a snapshot to the head."""
        del head
        steps: list[TableStep] = []
        for each in self._history.ancestry():
            if each.number == snapshot:
                return StepsSince(steps[::-1])
            if each.sequence <= sequence:
                return _left(snapshot)
            steps.append(TableStep(each.number, each.sequence, each.effect, each.act))
        if snapshot in self._history.snapshots:
            return _left(snapshot)
        from_first = snapshot == NO_SNAPSHOT and (not steps or steps[-1].sequence == 1)
        return StepsSince(steps[::-1] if from_first else None)

    def added(self, head: TableHead, snapshot: int) -> Sequence[SourceFile]:
        """List the files of a snapshot with its own sequence number."""
        del head
        found = self._history.snapshots[snapshot]
        files = [each for each in found.files if each.sequence == found.sequence]
        return [_source_file(each) for each in files[:: next(self._turns)]]

    def live(self, head: TableHead, snapshot: int) -> Sequence[SourceFile] | None:
        """List the files of a snapshot."""
        del head
        if snapshot == NO_SNAPSHOT:
            return []
        found = self._history.snapshots.get(snapshot)
        if found is None:
            return None
        return [_source_file(each) for each in found.files[:: next(self._turns)]]

    def columns(self, head: TableHead) -> pa.Schema:
        """Return the ids."""
        del head
        return pa.schema([("id", pa.int64())])

    def work(self, head: TableHead) -> str:
        """Return nothing: files hold all that is read."""
        del head
        return ""

    def detail(self, head: TableHead, file: SourceFile) -> str:
        """Return the ids of a file's rows, and the places of those that are deleted."""
        del head
        held: HeldFile = file.handle
        return json.dumps([held.path, held.ids, sorted(held.deleted)])

    def close(self) -> None:
        """Let go of nothing."""


class MemoryFileRows:
    """Implements `ports.increments.FileRows`: a file's rows are in what is said of it."""

    def __init__(self, gone: Sequence[str] = ()) -> None:
        self.gone = gone

    def read(self, work: str, detail: str, *, start: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield a few rows at a time."""
        del work
        path, ids, deleted = json.loads(detail)
        if path in self.gone:
            raise file_missing("memory", path)
        places = [at for at in range(start, len(ids)) if at not in deleted]
        for begin in range(0, len(places), BATCH_ROWS):
            at = places[begin : begin + BATCH_ROWS]
            columns = [pa.array([ids[each] for each in at]), pa.array(np.array(at, np.int64))]
            yield pa.RecordBatch.from_arrays(columns, names=["id", POSITION])


def _effect(act: str, before: Sequence[HeldFile], after: Sequence[HeldFile]) -> Effect:
    if act == "replace":
        return Effect.KEPT
    if set(before) - set(after):
        return Effect.REMOVED
    return Effect.APPENDED if len(after) > len(before) else Effect.NONE


def _left(snapshot: int) -> StepsSince:
    return StepsSince(left=f"it was rolled back: snapshot {snapshot} is not in its history")


def _source_file(file: HeldFile) -> SourceFile:
    deleted = sorted(file.deleted)
    return SourceFile(
        path=file.path,
        rows=len(file.ids),
        live=len(file.live),
        sequence=file.sequence,
        size_bytes=len(file.ids),
        identity=f"{file.path} {deleted}" if deleted else file.path,
        handle=file,
    )
