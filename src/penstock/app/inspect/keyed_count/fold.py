"""The last change of each key, folded from Kafka by the workers' own code.

Theory of operation: the records of each partition are converted to changes as tasks convert them;
of a change its key's digest and its place are kept. They are netted by key and partition whenever
as many have come as were left of those before, so what is held follows the keys, not the records.

Invariants:
- what is in quarantine is left out before it is converted: it is no change, and may kill;
- values and fields that do not fit are dropped here, not rejected: a record that is not in
  quarantine has landed, by whichever rules;
- no more is held than twice the keys of each partition, and one portion of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.app.assembly.functions import function_at
from penstock.app.assembly.schema_readers import schema_readers as readers_of
from penstock.core.growth import FormerEnds
from penstock.core.offsets import TopicPartition
from penstock.landing.foreign_errors import CONVERT, converting, range_text
from penstock.landing.task.convert import convert_changes_for_table
from penstock.landing.task.coordinates import offsets_of
from penstock.landing.task.messages import TableJob
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.decode.portions import Growth, portions
from penstock.rows.keyed.changes import key_column
from penstock.rows.keyed.digest import key_digests
from penstock.rows.keyed.merge import sides_of
from penstock.rows.keyed.net import Changes, net_by_lane
from penstock.rows.keyed.sequence import sequence_numbers
from penstock.rows.keyed.soft import are_until
from penstock.rows.route.router import Router

Offsets = npt.NDArray[np.int64]
NETTED_AT_LEAST = 1 << 18
_DIGEST = "digest"
_NONE: Offsets = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class LastChanges:
    """The last change of each key in each partition: its key's digest, and its place in the log.

    Where changes have sequences, only those of the highest one of their key. `gone` says which
    bring the row of a deleted key, `purged` of which of them the row may have been purged.
    """

    digests: pa.Array
    lane: npt.NDArray[np.int64]
    offset: Offsets
    upsert: npt.NDArray[np.bool_]
    gone: npt.NDArray[np.bool_]
    purged: npt.NDArray[np.bool_]

    def but_for_outgrown(self, lanes: Sequence[TopicPartition], grown: FormerEnds) -> LastChanges:
        """Leave out what lies before a growth of its topic where its key has a change behind it."""
        key = self.digests.dictionary_encode().indices.to_numpy().astype(np.int64)
        stays = np.ones(len(key), np.bool_)
        for ends in grown:
            before, behind = sides_of(ends, lanes, self.lane, self.offset)
            stays &= ~(before & np.isin(key, key[behind]))
        if stays.all():
            return self
        return LastChanges(
            self.digests.filter(pa.array(stays)),
            self.lane[stays],
            self.offset[stays],
            self.upsert[stays],
            self.gone[stays],
            self.purged[stays],
        )


@dataclass(slots=True)
class Fold:
    """Takes changes, keeps the last one of each key in each partition.

    `kind` is the type of digests, `sequence` are the columns by which changes compare before the
    order of the log, `soft` are those that say of a row that its key was deleted, and when; until
    `purged_through_ms` such rows may have been purged. `counted` is how many records were changes,
    `filtered` how many were none; `unknown` are the offsets of those
    that cannot be converted any more, by lane, `left_out` those of the newest batch that are not
    the table's.
    """

    kind: pa.DataType
    sequence: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    purged_through_ms: int | None = None
    counted: int = 0
    filtered: int = 0
    unknown: dict[int, Offsets] = field(default_factory=dict)
    left_out: list[Offsets] = field(default_factory=list)
    _parts: list[Changes] = field(default_factory=list)
    _size: int = 0
    _netted: int = 0

    def add(self, changes: Changes, keys: Iterable[str]) -> None:
        """Take the changes of a portion."""
        if not len(changes.offset):
            return
        digests = key_digests([changes.rows.column(name) for name in keys])
        names = [*self.sequence, *self.soft]
        columns = [digests, *(changes.rows.column(name) for name in names)]
        rows = pa.RecordBatch.from_arrays(columns, [_DIGEST, *names])
        self.counted += int(changes.counts.sum())
        self._parts.append(replace(changes, rows=rows))
        self._size += len(changes.offset)
        if self._size > max(2 * self._netted, NETTED_AT_LEAST):
            self._net()

    def last(self) -> LastChanges:
        """Return what is left."""
        if not self._parts:
            none, no = np.zeros(0, np.int64), np.zeros(0, np.bool_)
            return LastChanges(pa.array([], self.kind), none, none, no, no, no)
        [left] = self._net()
        if self.sequence:
            left = left.take(np.flatnonzero(self._are_highest(left.rows)))
        gone = purged = np.zeros_like(left.upsert)
        if self.soft:
            flag, time = (left.rows.column(name) for name in self.soft)
            gone = mask_of(flag)
            purged = gone & are_until(time, self.purged_through_ms)
        lane = left.lane.astype(np.int64)
        return LastChanges(left.rows.column(0), lane, left.offset, left.upsert, gone, purged)

    def _net(self) -> list[Changes]:
        left = net_by_lane(Changes.concat(self._parts), (_DIGEST,), self.sequence).changes
        self._parts, self._size, self._netted = [left], len(left.offset), len(left.offset)
        return self._parts

    def _are_highest(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return which changes have the highest sequence of their key, in whatever partition."""
        numbers = sequence_numbers([rows.column(name) for name in self.sequence])
        key = rows.column(_DIGEST).dictionary_encode().indices.to_numpy()
        best = np.full(len(numbers), np.iinfo(np.int64).min)
        np.maximum.at(best, key, numbers)
        found: npt.NDArray[np.bool_] = numbers == best[key]
        return found


@dataclass(frozen=True, slots=True)
class Folder:
    """Folds records of a table's partitions, as its tasks do."""

    name: str
    job: TableJob

    @classmethod
    def of(cls, name: str, job: TableJob) -> Folder:
        """Let values and fields that do not fit be dropped, and truncates be passed over."""
        keyed = job.options.keyed
        assert keyed is not None, "the table has keys"
        options = replace(
            job.options,
            columns="drop_value",
            types="drop_value",
            keyed=replace(keyed, ignores_truncates=True),
        )
        return cls(name, replace(job, options=options))

    @property
    def keys(self) -> tuple[str, ...]:
        """Name the columns of the key."""
        return self.job.options.keys

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return the types of the key's columns. Raises InvalidError (P490)."""
        columns = (key_column(self.job.schema, name) for name in self.keys)
        return {column.name: arrow_type(column.type) for column in columns}

    def nothing(self, purged_through_ms: int | None = None) -> Fold:
        """Begin a fold; rows of keys deleted until then may have been purged.

        Raises InvalidError (P490).
        """
        kind = key_digests([pa.array([], each) for each in self.types.values()]).type
        options = self.job.options
        soft = tuple(each.name for each in options.soft_columns)
        return Fold(kind, options.sequence, soft, purged_through_ms)

    def fold(
        self,
        into: Fold,
        at: TopicPartition,
        lane: int,
        batches: Iterable[pa.RecordBatch],
        rejected: Offsets,
    ) -> Iterator[Offsets]:
        """Fold records of a partition but for those rejected; yield the offsets as they come.

        Raises BugError (P486), InvalidError and UnavailableError, as a task does.
        """
        growth = Growth.of(self.job.schema, self.job.options)
        for batch in batches:
            offsets = offsets_of(batch)
            into.left_out = [_NONE]
            fresh = batch.filter(pa.array(~np.isin(offsets, rejected)))
            for portion in portions(fresh, [growth]):
                with converting(self.name, CONVERT, range_text(at, offsets_of(portion))):
                    self._add(into, at, lane, portion)
            yield offsets

    def _add(self, into: Fold, at: TopicPartition, lane: int, batch: pa.RecordBatch) -> None:
        readers = readers_of(self.job.registry)
        unknown: list[int] = []
        gate = self.job.filter_of(at.topic)
        if not gate.passes_all:
            share = Router(batch, at).route(gate, self.job.options, readers=readers)
            into.filtered += sum(int(mask.sum()) for mask in share.filtered.values())
            unknown += [reject.offset for reject in share.rejected.values()]
            into.left_out += [offsets_of(batch)[mask] for mask in share.filtered.values()]
            batch = batch.filter(pa.array(share.mine))
        if not batch.num_rows:
            _note(into.unknown, lane, unknown)
            return
        made = convert_changes_for_table(self.job, batch, at, lane, readers, function_at)
        into.filtered += sum(made.filtered.values())
        into.add(made.changes, self.keys)
        _note(into.unknown, lane, [*unknown, *(reject.offset for reject in made.rejects)])


def _note(unknown: dict[int, Offsets], lane: int, offsets: list[int]) -> None:
    if offsets:
        known = unknown.get(lane, np.zeros(0, np.int64))
        unknown[lane] = np.sort(np.concatenate([known, np.array(offsets, np.int64)]))
