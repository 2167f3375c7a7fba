"""Compare the last changes of keys with the rows that a table has of them.

Theory of operation: keys are numbered by their digests. Within a partition the last change of a key
is known, so its row is too: one after an upsert, none after a delete. A key that changed in several
partitions has the row of one of its last changes there, or none if one of them is a delete: which
of them counts is decided by the order of commits (docs/design/0243).

Invariants:
- what Kafka does not show is no break: keys whose changes are gone, or began after the row, are not
  compared, and what may be explained by changes that are not known is excused;
- no value of a key is in an outcome, only places of records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.app.inspect.keyed_count.fold import LastChanges
from penstock.app.inspect.keyed_count.live_rows import LiveRows
from penstock.core.audit import Break

SHOWN_MAX = 5
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LogLane:
    """One partition that is compared: what is known of its records.

    Records are changes from `since` on; `start` is the first that was read, `stop` where the table
    has read to, `grew` where the partition ended when its topic was last given others. `held` are
    the offsets of rows at which Kafka has a record, `unknown` the records that cannot be converted
    any more, `retried` those that were rejected and have landed after all.
    """

    name: str
    since: int
    start: int
    stop: int
    held: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    unknown: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    retried: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    grew: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was found. `matched` rows are those of last changes, `unchecked` ones were not compared.

    `keys` had changes; of them `across` had some in several partitions. `moved` keys are excused,
    for they change again between the ledger and the end of the log, `unknown` ones for records that
    cannot be converted any more. `removed` deleted keys have no row, flagged or not; `purged` ones
    neither, and were deleted before what the table says was purged; `brought` ones have the row of
    a record that was retried. `apart` rows are of no
    partition that the chain has read, `holes` at offsets that Kafka has no record at.
    `again` is, by lane, the first change to apply again so that all is mended.
    """

    matched: int
    unchecked: int
    keys: int
    across: int
    moved: int
    unknown: int
    removed: int
    purged: int
    brought: int
    apart: int
    holes: int
    breaks: tuple[Break, ...]
    again: Mapping[int, int]


def compare(
    last: LastChanges,
    rows: LiveRows,
    lanes: Sequence[LogLane],
    *,
    later: pa.Array | None = None,
    alone: bool = True,
    by_sequence: bool = False,
) -> Outcome:
    """Compare rows with the last changes of their keys.

    `later` are the digests of keys that change between the ledger and the end of the log, where
    the table may have been put back; `alone` says that no rows may have come from elsewhere before,
    `by_sequence` that a change need not be later than those before it.
    """
    return _Comparison(last, rows, lanes, later, alone=alone, by_sequence=by_sequence).outcome()


class _Comparison:
    def __init__(
        self,
        last: LastChanges,
        rows: LiveRows,
        lanes: Sequence[LogLane],
        later: pa.Array | None,
        *,
        alone: bool,
        by_sequence: bool,
    ) -> None:
        self.last, self.rows, self.lanes = last, rows, lanes
        more = [] if later is None else [later]
        codes = pa.concat_arrays([last.digests, rows.digests, *more]).dictionary_encode()
        indices = codes.indices.to_numpy().astype(np.int64)
        self.size = len(codes.dictionary)
        changes, found = len(last.offset), len(rows.offset)
        self.changed, self.key = indices[:changes], indices[changes : changes + found]
        self.back = later is not None
        self.alone, self.by_sequence = alone, by_sequence
        self.entry = self._entries()
        self.moved = self._any(indices[changes + found :])
        self._describe_rows()
        self._describe_keys()

    def _entries(self) -> Numbers:
        """Return, of each row, which change is the last of its key in its partition; -1: none."""
        wide = len(self.lanes) + 1
        changes = self.changed * wide + self.last.lane
        rows = self.key * wide + np.where(self.rows.lane < 0, len(self.lanes), self.rows.lane)
        order = np.argsort(changes)
        place = np.searchsorted(changes[order], rows)
        known = place < len(order)
        found = np.full(len(rows), -1, np.int64)
        found[known] = order[place[known]]
        found[known] = np.where(changes[found[known]] == rows[known], found[known], -1)
        return found

    def _of_lanes(self, name: str) -> Numbers:
        """Return a number of each row's lane; 0 of rows that have none."""
        numbers = np.array([*(getattr(each, name) for each in self.lanes), 0], np.int64)
        return numbers[self.rows.lane]

    def _describe_rows(self) -> None:
        entry, offset = self.entry, self.rows.offset
        known = entry >= 0
        at = np.where(known, entry, 0)
        self.placed = self.rows.lane >= 0
        if len(self.last.offset):
            self.reached = np.where(known, self.last.offset[at], -1)
            self.is_last = known & self.last.upsert[at] & (offset == self.reached)
        else:
            self.reached = np.full(len(offset), -1, np.int64)
            self.is_last = np.zeros(len(offset), np.bool_)
        self.era = self.placed & (offset >= self._of_lanes("since"))
        self.above = self.placed & (offset >= self._of_lanes("stop"))
        self.read = self.placed & (offset >= self._of_lanes("start")) & ~self.above
        self.held = self._among("held")
        self.unknown = self._among("unknown")

    def _among(self, name: str) -> Mask:
        """Return which rows are at one of the offsets of their lane that have this name."""
        found = np.zeros(len(self.key), np.bool_)
        for number, lane in enumerate(self.lanes):
            mine = np.flatnonzero(self.rows.lane == number)
            found[mine] = np.isin(self.rows.offset[mine], getattr(lane, name))
        return found

    def _describe_keys(self) -> None:
        self.rows_of = np.bincount(self.key, minlength=self.size)
        self.changes_of = np.bincount(self.changed, minlength=self.size)
        self.puts_of = np.bincount(self.changed[self.last.upsert], minlength=self.size)
        self.touched = self.changes_of > 0
        self.removed = self._any(self.changed[self.last.gone]) & (self.rows_of == 0)
        self.purged = self.removed & self._any(self.changed[self.last.purged])
        gone = ~self.read & ~self.above & (self.by_sequence | ((self.entry < 0) & self.era))
        self.elsewhere = self._any(self.key[gone & self.touched[self.key]])
        deleted = (self.puts_of == 0) | self._any(self.changed[self.last.gone])
        retried = self._any(self.key[self._among("retried")])
        self.brought = self.touched & deleted & retried & (self.rows_of == 1)
        self.speaks = self._speaking()
        self.good = self._any(self.key[self.is_last])
        if self.back:
            self.moved |= self._any(self.key[self.above])
        ends = [int(lane.unknown.max()) if lane.unknown.size else -1 for lane in self.lanes]
        upset = np.array([*ends, -1], np.int64)[self.last.lane] > self.last.offset
        self.doubtful = self._any(self.key[self.unknown]) | (
            self._any(self.changed[upset]) & (self.rows_of == 0)
        )

    def _any(self, keys: Numbers) -> Mask:
        found = np.zeros(self.size, np.bool_)
        found[keys] = True
        return found

    def outcome(self) -> Outcome:
        """Return what was found."""
        breaks: list[Break] = []
        wrong, stray = self._wrong(), self._stray()
        excused = self.moved & wrong
        doubted = self.doubtful & wrong & ~excused
        broken = wrong & ~excused & ~doubted
        stray &= ~self.unknown
        for kind, keys, what in self._kinds(broken):
            places = np.flatnonzero(self.speaks & keys[self.changed])
            text = self._at_change if kind == "lost" else self._with_rows
            breaks += self._texts(kind, self.last.lane[places], places, what, text)
        twice = np.flatnonzero((broken & ~self.touched)[self.key] & self.era)
        breaks += self._texts("doubled", self.rows.lane[twice], twice, _TWICE, self._at_row)
        rows = np.flatnonzero(stray)
        breaks += self._texts("foreign", self.rows.lane[rows], rows, _STRAY, self._at_row)
        matched = self.is_last & ~wrong[self.key]
        faulty = broken[self.key] | stray
        return Outcome(
            matched=int(matched.sum()),
            unchecked=int((~matched & ~faulty).sum()) + self.rows.keyless,
            keys=int((self.touched & ~excused & ~doubted).sum()),
            across=int((self.changes_of > 1).sum()),
            moved=int(excused.sum()),
            unknown=int(doubted.sum()),
            removed=int((self.removed & ~self.purged).sum()),
            purged=int(self.purged.sum()),
            brought=int((self.brought & ~self.good).sum()),
            apart=int((~self.placed & ~broken[self.key]).sum()),
            holes=int((self._untouched_read & ~self.held & ~stray).sum()),
            breaks=tuple(breaks),
            again=self._again(broken & self.touched),
        )

    @property
    def _untouched_read(self) -> Mask:
        found: Mask = self.read & ~self.touched[self.key]
        return found

    def _wrong(self) -> Mask:
        """Return the keys whose rows are not as their changes say."""
        rows, puts, changes = self.rows_of, self.puts_of, self.changes_of
        lost = (rows == 0) & (puts == changes) & ~self.removed
        risen = (rows > 0) & (puts == 0) & ~self.elsewhere
        stale = (rows == 1) & (puts > 0) & ~self.good & ~self.elsewhere
        wrong: Mask = self.touched & (lost | risen | stale | (rows > 1))
        wrong &= ~self.brought  # a person asked for it (quarantine retry --insert)
        if self.alone:
            wrong |= ~self.touched & (np.bincount(self.key[self.era], minlength=self.size) > 1)
        return wrong

    def _stray(self) -> Mask:
        """Return the rows of keys without changes that are of no change of theirs."""
        if not self.alone:
            return np.zeros(len(self.key), np.bool_)
        above = self.above & ~self.touched[self.key] & (not self.back)
        found: Mask = above | (self._untouched_read & self.held)
        return found

    def _kinds(self, broken: Mask) -> list[tuple[str, Mask, str]]:
        """Sort broken keys that had changes by what is wrong with their rows."""
        rows, changed = self.rows_of, broken & self.touched
        put = changed & (self.puts_of > 0)
        foreign = put & (rows == 1) & self._any(self.key[self._is_foreign(broken)])
        return [
            ("lost", put & (rows == 0), "keys without the row of their last change"),
            ("stale", put & (rows == 1) & ~foreign, "keys with the row of an earlier change"),
            ("resurrected", changed & ~put, "keys with a row after their delete"),
            ("doubled", put & (rows > 1), "keys with several rows"),
            ("foreign", foreign, "keys with a row of no change of theirs"),
        ]

    def _is_foreign(self, broken: Mask) -> Mask:
        """Return the rows in the place of others that are of no earlier change of their key."""
        single = broken & (self.rows_of == 1) & (self.puts_of > 0)
        earlier = (self.entry >= 0) & (self.rows.offset < self.reached)
        earlier |= self.held & (self.rows.offset < self._of_lanes("grew"))
        if self.by_sequence:  # a row whose change lost may be of any place in the log
            earlier = self.held
        found: Mask = single[self.key] & ~earlier & (~self.placed | self.read | self.above)
        return found

    def _speaking(self) -> Mask:
        """Return which change speaks for its key: an upsert before a delete, of the last lane."""
        order = np.lexsort([self.last.lane, self.last.upsert, self.changed])
        ends = np.ones(len(order), np.bool_)
        ends[:-1] = self.changed[order][1:] != self.changed[order][:-1]
        speaks = np.zeros(len(order), np.bool_)
        speaks[order[ends]] = True
        return speaks

    def _at_change(self, change: int) -> str:
        return str(self.last.offset[change])

    def _at_row(self, row: int) -> str:
        return str(self.rows.offset[row])

    def _with_rows(self, change: int) -> str:
        rows = np.flatnonzero(self.key == self.changed[change])
        shown = ", ".join(self._place(row, int(self.last.lane[change])) for row in rows[:SHOWN_MAX])
        return f"{self.last.offset[change]} (found: {shown})"

    def _place(self, row: int, near: int) -> str:
        """Name the record of a row; one of a partition that is not `near` with its partition."""
        lane, offset = int(self.rows.lane[row]), int(self.rows.offset[row])
        if lane < 0:
            return "another writer's"
        return str(offset) if lane == near else f"{self.lanes[lane].name} {offset}"

    def _texts(
        self, kind: str, lanes: Numbers, places: Numbers, what: str, text: Callable[[int], str]
    ) -> Iterator[Break]:
        for lane in np.unique(lanes).tolist():
            mine = places[lanes == lane]
            name = self.lanes[lane].name
            some = ", ".join(text(int(each)) for each in mine[:SHOWN_MAX])
            more = f" and {len(mine) - SHOWN_MAX} more" if len(mine) > SHOWN_MAX else ""
            yield Break(kind, name, f"{name}: {what}: {len(mine)}, at {some}{more}")

    def _again(self, keys: Mask) -> dict[int, int]:
        places = np.flatnonzero(keys[self.changed])
        lanes = self.last.lane[places]
        return {
            lane: int(self.last.offset[places[lanes == lane]].min())
            for lane in np.unique(lanes).tolist()
        }


_TWICE = "rows of keys that have several"
_STRAY = "rows of no change of their key"
