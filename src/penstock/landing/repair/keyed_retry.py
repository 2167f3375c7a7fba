"""What becomes of rejected records of a keyed table that are retried: which changes still win.

Theory of operation: the records are converted to changes, and of each key the last one is compared
with the live rows of the key, by the code of the turn that commits. Records whose changes do not
win stay open. Then the others are looked at again: of a key, an earlier change may be the last now.

Invariants:
- nothing is written here, so a dry run decides as the retry does, on the state that it reads;
- what is given to be landed wins in that state; in another one its commit decides again
  (docs/design/0249).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.commit.chain_position import NO_EPOCH, ChainPosition, CommitLabels, commit_at
from penstock.commit.row_deltas import Fate, RowDeltaResolver
from penstock.core.commits import CommitKind, Landed
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.landing.repair.reconvert import Reconverted, Record, WriteContext, reconverted
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.changes import touched_by
from penstock.ports.tables import Table, TableState
from penstock.rows.keyed.net import Changes, net_by_key
from penstock.rows.keyed.sequence import sequence_numbers
from penstock.rows.keyed.touched import Retry
from penstock.rows.options import RowOptions

WORDS: Mapping[Fate, str] = {
    Fate.LOSES: "a later change of its key has landed",
    Fate.ABSENT: "its key has no row, and may have been deleted since",
    Fate.UNDECIDED: "nothing says whether the row of its key is later",
}
"""Why a record is left open."""


@dataclass(frozen=True, slots=True)
class Tried:
    """What a retry would do with records: `found` are rows, or why not, `withheld` are those whose
    changes do not win. For a keyed table `changes` are to be landed, one for each key.
    """

    found: Reconverted
    withheld: Mapping[Record, Fate]
    changes: Changes | None = None


def tried(
    quarantine: Table,
    progress: TableProgress,
    followers: Sequence[TableProgress],
    records: Sequence[Record],
    context: WriteContext,
    *,
    retry: Retry,
) -> Tried:
    """Convert rejected records by the present rules, and compare those of a keyed table with its
    rows. Writes nothing.

    Raises InvalidError (P492 nothing has landed), what `reconverted` raises, and what reading the
    table raises.
    """
    found = reconverted(quarantine, progress, followers, records, context)
    if progress.target.options.keyed is None or not found.changes:
        return Tried(found, {})
    assert progress.position is not None, "changes were made for a table that is there"
    judge = _Judge(progress.position, progress.target.options, found.lanes, retry)
    changes, withheld = judge.judged(
        Changes.concat(found.changes), found.coordinates[progress.name]
    )
    landed = [each for each in found.coordinates[progress.name] if each not in withheld]
    found.coordinates[progress.name] = landed
    return Tried(found, withheld, changes)


def ledger_of(position: ChainPosition, state: TableState) -> Landed:
    """Return the ledger of a state. Raises InvalidError (P492) where nothing has landed."""
    if state.landed is None:
        raise InvalidError(
            f"nothing has landed in {position.chain.table} for {position.chain.name}",
            code="P492",
            hint="run the pipeline first:  penstock run --until-caught-up",
        )
    return state.landed


@dataclass(frozen=True, slots=True)
class _Judge:
    position: ChainPosition
    options: RowOptions
    lanes: Sequence[TopicPartition]
    retry: Retry

    def judged(
        self, changes: Changes, records: Sequence[Record]
    ) -> tuple[Changes | None, dict[Record, Fate]]:
        """Return the last change of each key among those that win, and the records that do not."""
        state = self.position.read()
        number = {(each.at, each.offset): at for at, each in enumerate(records)}
        places = zip(changes.lane.tolist(), changes.offset.tolist(), strict=True)
        owner = np.array([number[self.lanes[lane], offset] for lane, offset in places], np.int64)
        withheld: dict[Record, Fate] = {}
        while len(owner):
            net, place = net_by_key(changes, self.options.keys, self.options.sequence)
            of_changes = self._fates(net, state)[place]
            of_changes[self._across(changes, place)] = Fate.UNDECIDED
            fates = _of_records(owner, of_changes, len(records))
            left_out = {at: Fate(fates[at]) for at in {*owner.tolist()} if fates[at] != Fate.WINS}
            if not left_out:
                return net, withheld
            withheld |= {records[at]: fate for at, fate in left_out.items()}
            stays = np.flatnonzero(~np.isin(owner, [*left_out]))
            changes, owner = changes.take(stays), owner[stays]
        return None, withheld

    def _fates(self, net: Changes, state: TableState) -> npt.NDArray[np.int64]:
        """Return what becomes of each change in a state, as the commit of all would find it."""
        landed, options = ledger_of(self.position, state), self.options
        count = len(net.offset)
        nowhere = np.full(count, -1, np.int32), np.full(count, -1, np.int64)
        commit = commit_at(
            self.position,
            {},
            (),
            CommitLabels(landed.claim, landed.cluster_id, NO_EPOCH, landed.rules_hash, "retry"),
            kind=CommitKind.ROW_DELTA,
            touched=touched_by(net, options, self.lanes, nowhere, self.retry),
            keys=options.keys,
            sequence=options.sequence,
        )
        return RowDeltaResolver(commit).resolve(state, self.position.table, landed).fates

    def _across(self, changes: Changes, place: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which changes are of keys that change in two partitions, in no known order."""
        last = np.ones(len(place), np.bool_)
        if self.options.sequence:
            columns = [changes.rows.column(name) for name in self.options.sequence]
            numbers = sequence_numbers(columns)
            highest = np.full(len(place), np.iinfo(np.int64).min)
            np.maximum.at(highest, place, numbers)
            last = numbers == highest[place]
        least, most = np.full(len(place), len(self.lanes)), np.full(len(place), -1)
        np.minimum.at(least, place[last], changes.lane[last])
        np.maximum.at(most, place[last], changes.lane[last])
        found: npt.NDArray[np.bool_] = (least < most)[place]
        return found


def _of_records(
    owner: npt.NDArray[np.int64], of_changes: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.int64]:
    """Return the fate of each record: it wins with one change, where nothing speaks against one."""
    first = (Fate.UNDECIDED, Fate.ABSENT, Fate.WINS)
    have = [np.bincount(owner[of_changes == fate], minlength=count) > 0 for fate in first]
    return np.select(have, [np.int64(fate) for fate in first], np.int64(Fate.LOSES))
