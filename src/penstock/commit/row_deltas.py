"""Find the rows that a row delta replaces, on exactly the state that it is committed on.

Theory of operation: the changes of a commit were prepared without reading the table. In the turn
that commits it, after `decide`, its keys are searched for in the live rows of the examined state;
the rows found are deleted in the same request (docs/design/0243). After a lost turn only files
that are new, or have other rows deleted by now, are searched again.

Invariants:
- every row delete is of a row that is live in the examined state, or of the commit's own files;
- a file is read unless its bounds say that no touched key is in it;
- of a touched key one row is left at most, whichever writer wrote the others;
- a change loses to a row of a higher sequence, where the table has one, and to a row of its own
  partition and sequence that is later: its row is deleted in its own file; the row of its own
  record it replaces, which may be of other rules. Offsets are compared only where the ledger says
  that they may be, and where the chain has read one topic of the name, this commit counted;
- a retry lands nothing of which it is not known whether the row is later, and brings no row for a
  key that has none unless it was asked to (docs/design/0249);
- rows of the commit's own files that later changes of it supersede are deleted with it, each once
  (docs/design/0244).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.commit.key_hits import Hits, hits_of, joined, last_of_each
from penstock.commit.known_sources import first_offsets, known_source
from penstock.core.commits import Committable, Landed
from penstock.core.offsets import TopicPartition
from penstock.ports.row_deletes import LiveFile, RowDeletes
from penstock.ports.tables import Table, TableState
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.keyed.file_bounds import KeyBounds
from penstock.rows.keyed.lookup import KeyLookup
from penstock.rows.keyed.merge import sides_of
from penstock.rows.keyed.sequence import numbers_of_both
from penstock.rows.keyed.touched import SOURCE, Retry, TouchedRows, touched_from_bytes


class Fate(IntEnum):
    """What becomes of a change that is retried: it wins, or loses to a later row, or its key has no
    row, or nothing says whether the row is later.
    """

    WINS = 0
    LOSES = 1
    ABSENT = 2
    UNDECIDED = 3


@dataclass(frozen=True, slots=True)
class ResolvedRows:
    """The rows that a commit takes away on one state, and what its changes do there.

    `searched` are live files by path, at least those that lose rows. `counts` are keys that were
    inserted, updated, deleted, absent, late, and further rows of a key that are healed. `moved`
    counts the keys whose row was of another partition, `across` those that the commit changes in
    two; `compares_offsets` says whether offsets were compared. `fates` has, of a retry, that of
    each key.
    """

    row_deletes: tuple[RowDeletes, ...]
    searched: Mapping[str, LiveFile]
    counts: Mapping[str, int]
    moved: int
    across: int
    compares_offsets: bool
    fates: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def is_withheld(self) -> bool:
        """Return whether it is a retry that must not land on this state."""
        return bool((self.fates > Fate.LOSES).any())

    @property
    def in_two_partitions(self) -> int:
        """Return the keys of which it is not known which change is the last, at least."""
        return max(self.across, self.moved)


@dataclass(slots=True)
class RowDeltaResolver:
    """Resolves one commit, turn after turn; `last` is what was found in the last one."""

    commit: Committable
    last: ResolvedRows | None = None
    _touched: TouchedRows = field(init=False)
    _lookup: KeyLookup = field(init=False)
    _first: Mapping[TopicPartition, int] = field(init=False)
    _bounds: KeyBounds = field(init=False)
    _known: dict[tuple[str, str], Hits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.commit.touched is not None, "a row delta touches keys"
        self._touched = touched_from_bytes(self.commit.touched)
        self._lookup = KeyLookup(self._touched.keys)
        self._first = first_offsets(self._touched)
        self._bounds = KeyBounds(self._touched.names, self._touched.keys)

    def resolve(self, state: TableState, table: Table, landed: Landed) -> ResolvedRows:
        """Find the rows that the commit replaces. Raises what reading the table raises."""
        files = table.live_files(state)
        compares = (
            _has_own_rows_alone(self.commit, state, table, rows=bool(files))
            if landed.keyed is None
            else landed.keyed.compares_offsets
        )
        examined = {(file.path, file.delete_state): file for file in files}
        self._known = {at: hits for at, hits in self._known.items() if at in examined}
        for at, file in examined.items():
            if at not in self._known and self._bounds.may_be_in(file.bounds):
                self._known[at] = self._found(state, table, file, landed)
        found = [(examined[at], hits) for at, hits in self._known.items()]
        every = joined([hits for _, hits in found], self._touched.sequence.values())
        numbers, above, tied = self._by_sequence(every)
        later = above | (tied & self._beyond(every, landed, compares=compares))
        undecided = np.zeros(len(later), np.bool_)
        if self._touched.retry:
            behind, undecided = self._order_of_retried(every, landed, tied, compares=compares)
            later |= behind
        late = np.zeros(len(self._touched.upsert), np.bool_)
        late[every.keys[later]] = True
        self.last = ResolvedRows(
            row_deletes=(
                *_deletes_in(found, last_of_each(every, later, numbers)),
                *self._own_deletes(late),
            ),
            searched={file.path: file for file, _ in found},
            counts=self._counted(every, late),
            moved=self._moved(every, landed, tied, compares=compares),
            across=self._touched.across,
            compares_offsets=compares,
            fates=self._fates(every, late, undecided),
        )
        return self.last

    def _found(self, state: TableState, table: Table, file: LiveFile, landed: Landed) -> Hits:
        source, sequence, types = self._touched.source, self._touched.sequence, self._touched.types
        known = known_source(file, source, self._first, _edges(landed))
        if sequence:  # of rows that are above a change the last one stays
            known.pop(SOURCE[-1], None)
        asked = [column for role, column in source.items() if role not in known]
        sought = partial(self._lookup.may_be_in, types=types)
        parts = []
        columns = [*dict.fromkeys([*types, *asked, *sequence])]
        for batch in table.read_live(state, file, columns, sought):
            found = self._lookup.in_rows(batch, types)
            rows = batch.take(pa.array(found.rows))
            parts.append(hits_of(rows, found.keys, source, known, sequence))
        return joined(parts, sequence.values())

    def _own_deletes(self, late: npt.NDArray[np.bool_]) -> list[RowDeletes]:
        """Return what is deleted of the commit's own files: late rows, and superseded ones."""
        touched = self._touched
        lost = np.flatnonzero(late & touched.upsert & (touched.file >= 0))  # a forecast has none
        files = np.concatenate([touched.superseded_file, touched.file[lost]])
        rows = np.concatenate([touched.superseded_row, touched.row[lost]])
        order = np.lexsort([rows, files])
        ordinals, begins = np.unique(files[order], return_index=True)
        return [
            RowDeletes(self.commit.files[file].path, "", positions)
            for file, positions in zip(
                ordinals.tolist(), np.split(rows[order], begins[1:]), strict=False
            )
        ]

    def _counted(self, hits: Hits, late: npt.NDArray[np.bool_]) -> dict[str, int]:
        """Count what the changes do to the rows that were found, where it is not 0."""
        deletes = self._touched.deletes
        rows = np.bincount(hits.keys, minlength=len(late))
        found = rows > 0
        counts = {
            "inserted": ~deletes & ~late & ~found,
            "updated": ~deletes & ~late & found,
            "deleted": deletes & ~late & found,
            "absent": deletes & ~late & ~found,
            "late": late,
            "healed": np.maximum(rows - 1, 0),
        }
        return {what: int(each.sum()) for what, each in counts.items() if each.any()}

    def _moved(
        self, hits: Hits, landed: Landed, tied: npt.NDArray[np.bool_], *, compares: bool
    ) -> int:
        """Count the keys that have a row of another partition whose changes this chain has read.

        A row that was appended before the table became keyed shows nothing, nor one of another
        sequence, nor one of before the change's partition was added, nor does the delete of a
        former key.
        """
        if not len(hits.keys):
            return 0
        topic, partition = self._places(hits.keys)
        topics = {at.topic for at in (*landed.offsets, *self.commit.progress)}
        known = pc.is_in(hits.topic, value_set=pa.array(sorted(topics), pa.string()))
        other = pc.not_equal(hits.topic, topic).fill_null(False)
        moved = (
            known.to_numpy(zero_copy_only=False)
            & (other.to_numpy(zero_copy_only=False) | (hits.partition != partition))
            & self._touched.counts[hits.keys]
            & tied
            & ~_appended(hits, landed)
            & ~self._of_known_order(hits, landed, compares=compares)
        )
        return len(np.unique(hits.keys[moved]))

    def _of_known_order(
        self, hits: Hits, landed: Landed, *, compares: bool
    ) -> npt.NDArray[np.bool_]:
        """Return which rows lie before a growth of the topic, and the changes of their keys behind.

        The reverse is known where changes are applied again, which a later one follows; else the
        log lost what lay there.
        """
        before, behind = self._across_growth(hits, landed)
        return before if compares else before | behind

    def _across_growth(
        self, hits: Hits, landed: Landed
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which rows lie before a growth and the changes of their keys behind it, and the
        reverse.

        Rows know a topic by its name: nothing is said of one that the chain has read two of.
        """
        earlier, later = np.zeros((2, len(hits.keys)), np.bool_)
        if not landed.grown:
            return earlier, later
        same = self._of_topic_of_change(hits, landed)
        lanes, lane = self._touched.lanes, self._touched.lane[hits.keys].astype(np.int64)
        pairs, which = np.unique(np.stack([lane, hits.partition]), axis=1, return_inverse=True)
        rows = [replace(lanes[at], partition=partition) for at, partition in pairs.T.tolist()]
        changes = self._touched.offset[hits.keys]
        for ends in landed.grown:
            before, behind = sides_of(ends, rows, which.reshape(-1), hits.offset)
            first, second = sides_of(ends, lanes, lane, changes)
            earlier |= before & second & same
            later |= behind & first & same
        return earlier, later

    def _of_topic_of_change(self, hits: Hits, landed: Landed) -> npt.NDArray[np.bool_]:
        """Return which rows are of the topic of the change of their key, if it has had its name for
        as long as the chain reads it.
        """
        topics, _ = self._places(hits.keys)
        at = (*landed.offsets, *self.commit.progress, *self._touched.lanes)
        single = pa.array(_single_topics(at), pa.string())
        same = pc.and_(pc.is_in(topics, value_set=single), pc.equal(hits.topic, topics))
        return mask_of(same.fill_null(False))

    def _order_of_retried(
        self, hits: Hits, landed: Landed, tied: npt.NDArray[np.bool_], *, compares: bool
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which rows are later by a growth, and of which nothing says whether they are."""
        if not compares or not self._touched.source or not len(hits.keys):
            return np.zeros_like(tied), tied
        _, partitions = self._places(hits.keys)
        here = self._of_topic_of_change(hits, landed) & (hits.partition == partitions)
        before, behind = self._across_growth(hits, landed)
        behind &= tied & ~here
        return behind, tied & ~here & ~before & ~behind

    def _fates(
        self, hits: Hits, late: npt.NDArray[np.bool_], undecided: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """Return the fate of each key of a retry."""
        touched = self._touched
        if touched.retry is None:
            return np.zeros(0, np.int64)
        found = np.zeros(len(late), np.bool_)
        found[hits.keys] = True
        fates = np.where(late, Fate.LOSES, Fate.WINS)
        fates[~found & ~touched.counts] = Fate.LOSES  # a former key has no row to delete
        if touched.retry is Retry.REPLACES:
            fates[~found & touched.upsert] = Fate.ABSENT
        fates[hits.keys[undecided]] = Fate.UNDECIDED
        return fates

    def _places(self, keys: npt.NDArray[np.int64]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """Return topic and partition of the changes of keys."""
        lanes, lane = self._touched.lanes, self._touched.lane[keys]
        topics = pa.array([at.topic for at in lanes], pa.string())
        return topics.take(pa.array(lane)), np.array([at.partition for at in lanes], np.int64)[lane]

    def _by_sequence(
        self, hits: Hits
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return numbers of the rows' sequences, and which are above and which are equal to that of
        the change of their key; all are equal where changes have none.
        """
        if not self._touched.sequence:
            none = np.zeros(len(hits.keys), np.int64)
            return none, none > 0, none == 0
        own, numbers = numbers_of_both([*self._touched.sequence.values()], hits.sequence)
        return numbers, numbers > own[hits.keys], numbers == own[hits.keys]

    def _beyond(self, hits: Hits, landed: Landed, *, compares: bool) -> npt.NDArray[np.bool_]:
        """Return which rows come later in the partition of the change of their key."""
        touched = self._touched
        if not compares or not touched.source or not len(hits.keys):
            return np.zeros(len(hits.keys), np.bool_)
        _, partitions = self._places(hits.keys)
        found: npt.NDArray[np.bool_] = (
            self._of_topic_of_change(hits, landed)
            & (hits.partition == partitions)
            & (hits.offset > touched.offset[hits.keys])
        )
        return found


def _appended(hits: Hits, landed: Landed) -> npt.NDArray[np.bool_]:
    """Return which rows are of records from before the chain changed rows."""
    found = np.zeros(len(hits.keys), np.bool_)
    for at, offset in _since(landed).items():
        here = (hits.partition == at.partition) & (hits.offset < offset)
        if here.any():
            topic = pc.equal(hits.topic, at.topic).fill_null(False)
            found |= here & topic.to_numpy(zero_copy_only=False)
    return found


def _since(landed: Landed) -> Mapping[TopicPartition, int]:
    """Return from which offsets on the chain has changed rows."""
    return landed.offsets if landed.keyed is None else landed.keyed.since


def _edges(landed: Landed) -> list[tuple[TopicPartition, int]]:
    """List the offsets before and behind which rows count as different."""
    return [each for positions in (_since(landed), *landed.grown) for each in positions.items()]


def _has_own_rows_alone(
    commit: Committable, state: TableState, table: Table, *, rows: bool
) -> bool:
    """Return whether a table that becomes keyed has no rows, or has them of this chain alone."""
    if not rows:
        return True
    chains = {ledger.chain for ledger in table.ledgers(state)}
    return chains == {commit.chain.name}


def _deletes_in(
    found: Sequence[tuple[LiveFile, Hits]], stays: npt.NDArray[np.bool_]
) -> Iterator[RowDeletes]:
    """Yield what is deleted of live files."""
    begin = 0
    for file, hits in found:
        stop = begin + len(hits.keys)
        deleted = np.sort(hits.positions[~stays[begin:stop]])
        if len(deleted):
            yield RowDeletes(file.path, file.delete_state, deleted)
        begin = stop


def _single_topics(places: Iterable[TopicPartition]) -> list[str]:
    """List the names of which there is one topic among partitions."""
    ids: dict[str, set[str]] = defaultdict(set)
    for at in places:
        ids[at.topic].add(at.topic_id)
    return sorted(name for name, known in ids.items() if len(known) == 1)
