# ruff: noqa: D102 - the names of the tests are their sentences, and rows are examples
"""The contract of `ports/increments.py`, as tests that any table format must pass.

Subclass `IncrementsContract` in a test module, give the hooks of `IncrementsBench`, and run pytest.
Other writers change the table, by the format's own writers; nothing sleeps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from penstock.core.errors import DecisionNeededError
from penstock.ports.increments import Effect, FileRows, Increments, SourceFile, TableHead
from penstock.ports.row_deletes import POSITION
from penstock.ports.sources import EpochLimit, Stands
from penstock.publishing.settings import Changes
from penstock.publishing.table_source import TableSource
from penstock.publishing.table_work import TableReader

TICKS = itertools.count()


class Ticks:
    """A clock that goes on by an hour whenever it is asked, so that nothing is taken for fresh."""

    def now_ms(self) -> int:
        """Return the time."""
        return next(TICKS) * 3_600_000

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return next(TICKS) * 3600.0

    def wait(self, seconds: float) -> None:
        """Wait for nothing."""
        del seconds


class IncrementsBench:
    """The hooks a subclass gives. Rows are whole numbers, in the column `id`."""

    def make(self, place: Path) -> None:
        """Make the table, without rows."""
        raise NotImplementedError

    def open_increments(self) -> Increments:
        """Open the table afresh."""
        raise NotImplementedError

    def open_file_rows(self) -> FileRows:
        """Open what workers read with."""
        raise NotImplementedError

    def append(self, *ids: int) -> None:
        """Append rows, in a file of their own."""
        raise NotImplementedError

    def compact(self) -> None:
        """Rewrite all files into one, and say that no row was changed."""
        raise NotImplementedError

    def delete(self, *ids: int) -> None:
        """Delete rows that are there."""
        raise NotImplementedError

    def overwrite(self, *ids: int) -> None:
        """Replace all rows."""
        raise NotImplementedError

    def roll_back(self, snapshot: int) -> None:
        """Make the table what it was at a snapshot."""
        raise NotImplementedError

    def expire(self) -> None:
        """Let go of the history below the newest snapshot."""
        raise NotImplementedError

    def make_again(self) -> None:
        """Drop the table and make it again, without rows."""
        raise NotImplementedError


class IncrementsContract(IncrementsBench):
    """The tests."""

    @pytest.fixture(autouse=True)
    def _made(self, tmp_path: Path) -> None:
        self.make(tmp_path)

    def ids_in(self, head: TableHead, files: Sequence[SourceFile], at: Increments) -> list[int]:
        """Read files as a worker does, in any order; the rows of one are in their order."""
        found, reader = [], self.open_file_rows()
        for file in files:
            places, given = [], (at.work(head), at.detail(head, file))
            for batch in reader.read(*given):
                found += batch.column("id").to_pylist()
                places += batch.column(POSITION).to_pylist()
                assert batch.schema.names[-1] == POSITION
                assert at.columns(head).equals(batch.drop_columns([POSITION]).schema)
            assert places == sorted(set(places))
            behind = places[len(places) // 2 :]
            for start in behind[:1]:
                again = [batch.column(POSITION) for batch in reader.read(*given, start=start)]
                assert behind == [row.as_py() for each in again for row in each][-len(behind) :]
            assert len(places) == file.live
            assert all(0 <= each < file.rows for each in places)
        return sorted(found)

    def live_ids(self) -> list[int]:
        """Read all live rows of the newest snapshot."""
        at = self.open_increments()
        head = at.head()
        files = at.live(head, head.snapshot)
        assert files is not None
        assert head.records == sum(each.live for each in files)
        return self.ids_in(head, files, at)

    def effects_since(self, former: TableHead) -> list[Effect] | None:
        """Return what the snapshots behind a former one did."""
        at = self.open_increments()
        found = at.since(at.head(), former.snapshot, former.sequence)
        assert not found.left
        return None if found.steps is None else [each.effect for each in found.steps]

    def test_what_is_appended_is_listed_once(self) -> None:
        self.append(1, 2)
        at = self.open_increments()
        former = at.head()
        self.append(3)
        self.append(4, 5)
        head = at.head()
        steps = at.since(head, former.snapshot, former.sequence).steps or ()

        assert [each.effect for each in steps] == [Effect.APPENDED] * 2
        assert [self.ids_in(head, at.added(head, each.snapshot), at) for each in steps] == [
            [3],
            [4, 5],
        ]
        assert head.snapshot == steps[-1].snapshot
        assert former.sequence < steps[0].sequence < steps[1].sequence == head.sequence
        assert self.live_ids() == [1, 2, 3, 4, 5]

    def test_nothing_is_behind_the_newest_snapshot(self) -> None:
        self.append(1)

        assert self.effects_since(self.open_increments().head()) == []

    def test_a_table_without_rows_has_none(self) -> None:
        at = self.open_increments()
        empty = at.head()
        self.append(1)

        assert empty.records == 0
        assert self.effects_since(empty) == [Effect.APPENDED]

    def test_a_compaction_keeps_all_rows(self) -> None:
        self.append(1)
        self.append(2)
        former = self.open_increments().head()
        self.compact()

        assert self.effects_since(former) == [Effect.KEPT]
        assert self.live_ids() == [1, 2]

    def test_a_delete_removes_rows(self) -> None:
        self.append(1, 2, 3, 4)
        former = self.open_increments().head()
        self.delete(2, 3)

        assert Effect.REMOVED in (self.effects_since(former) or ())
        assert self.live_ids() == [1, 4]

    def test_an_overwrite_removes_rows_where_there_were_some(self) -> None:
        self.append(1, 2)
        former = self.open_increments().head()
        self.overwrite(7)

        assert Effect.REMOVED in (self.effects_since(former) or ())
        assert self.live_ids() == [7]

    def test_an_overwrite_of_nothing_is_an_append(self) -> None:
        former = self.open_increments().head()
        self.overwrite(7)

        assert Effect.REMOVED not in (self.effects_since(former) or ())
        assert self.live_ids() == [7]

    def test_a_former_snapshot_shows_its_own_rows(self) -> None:
        self.append(1, 2)
        at = self.open_increments()
        former = at.head()
        self.delete(2)
        self.append(3)
        head = at.head()

        assert self.ids_in(head, at.live(head, former.snapshot) or (), at) == [1, 2]

    def test_a_file_with_other_deleted_rows_has_another_identity(self) -> None:
        self.append(2, 4)
        at = self.open_increments()
        head = at.head()
        before = {each.identity for each in at.live(head, head.snapshot) or ()}
        again = {
            each.identity for each in self.open_increments().live(at.head(), head.snapshot) or ()
        }
        self.delete(2)
        head = at.head()

        assert before == again
        assert before.isdisjoint(each.identity for each in at.live(head, head.snapshot) or ())

    def test_a_table_that_was_rolled_back_is_noticed(self) -> None:
        self.append(1)
        former = self.open_increments().head()
        self.append(2)
        source = self.source("whole")
        stands = source.starts("latest")
        self.roll_back(former.snapshot)
        self.append(3)

        assert source.fault(stands)
        with pytest.raises(DecisionNeededError) as caught:
            source.count(stands, source.ends())
        assert caught.value.code == "P826"

    def test_a_table_that_was_made_again_has_another_id(self) -> None:
        self.append(1)
        source = self.source("whole")
        stands = source.starts("latest")
        self.make_again()
        self.append(2)

        assert "has the id" in source.fault(stands)
        assert self.read(source, source.readable(stands))[0] == [2]

    def test_where_history_is_gone_rows_are_told_by_files_or_not_at_all(self) -> None:
        self.append(1)
        source = self.source("stop")
        stands = source.starts("latest")
        self.append(2)
        self.append(3)
        self.expire()

        assert source.fault(stands) or self.read(source, stands)[0] == [2, 3]

    def test_rows_that_were_rewritten_in_a_lost_history_are_not_guessed(self) -> None:
        self.append(1)
        source = self.source("stop")
        stands = source.starts("latest")
        self.append(2)
        self.compact()
        self.expire()

        assert source.fault(stands)

    def test_a_table_is_read_whole_and_then_what_comes(self) -> None:
        self.append(1, 2, 3)
        self.delete(2)
        self.append(4)
        source = self.source("stop")
        first, stands = self.read(source, source.starts("earliest"))
        self.compact()
        self.append(5)
        self.append(6, 7)
        second, stands = self.read(source, stands)

        assert (sorted(first), second) == ([1, 3, 4], [5, 6, 7])
        assert source.count(stands, source.ends()) == 0

    def test_rows_are_read_in_parts_of_any_size(self) -> None:
        self.append(1, 2, 3)
        self.append(4, 5, 6, 7)
        source = self.source("stop")

        assert sorted(self.read(source, source.starts("earliest"), rows_max=2)[0]) == [
            1,
            2,
            3,
            4,
            5,
            6,
            7,
        ]

    def test_a_table_is_read_whole_in_the_order_in_which_its_files_came(self) -> None:
        for number in range(8):
            self.append(number)
        source = self.source("stop")

        assert self.read(source, source.starts("earliest"))[0] == [*range(8)]

    @pytest.mark.parametrize(
        ("changes", "expected"), [("stop", None), ("skip", [5]), ("whole", [1, 4, 5])]
    )
    def test_what_removes_rows_is_gone_on_from_as_the_spec_says(
        self, changes: Changes, expected: list[int] | None
    ) -> None:
        self.append(1, 2, 4)
        source = self.source(changes)
        stands = source.starts("latest")
        self.delete(2)
        self.append(5)
        if expected is None:
            with pytest.raises(DecisionNeededError) as caught:
                source.plan(stands, source.ends(), EpochLimit(10, 1 << 30))
            assert caught.value.code == "P827"
            assert "removed rows" in caught.value.message
        else:
            assert expected == sorted(self.read(source, stands)[0])

    def source(self, changes: Changes) -> TableSource:
        """Open the table as a source."""
        clock: Callable[[], float] = Ticks().monotonic
        return TableSource(self.open_increments(), "lake.bronze.numbers", changes, clock)

    def read(
        self, source: TableSource, stands: Stands, *, rows_max: int = 1000
    ) -> tuple[list[int], Stands]:
        """Read all that is behind a position, as a worker does."""
        found: list[int] = []
        reader = TableReader(self.open_file_rows(), Ticks())
        while stretches := source.plan(stands, source.ends(), EpochLimit(rows_max, 1 << 30)):
            [stretch] = stretches
            for each in reader.read(stretch, deadline=float("inf")):
                found += each.rows.column("id").to_pylist() if each.rows.num_rows else []
                stands = {stretch.of: each.reached}
            assert stretch.stop == stands[stretch.of]
        return found, stands
