# ruff: noqa: D102, SIM300 - the names of the tests are their sentences, and ids are examples
"""The half of the table contract that keyed tables stand on: rows that a commit takes away.

Rows are found through the port, and what is left is read by the format's own reader. Each test
names what docs/design/0243 and `ports/row_deletes.py` promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from penstock.core.commits import CommitKind, Committable, Keyed
from penstock.core.errors import BugError, ConflictError
from penstock.core.maintenance import groups_of
from penstock.ports.row_deletes import POSITION, LiveFile, RowDeletes
from penstock.ports.tables import Table, TableDefinition, TableFormat, TableState, Verdict
from penstock.testing.contracts.table_fixture import RETAIN, TableBench
from penstock.testing.prepared import ORDERS, TOPIC, origin

Found = dict[int, tuple[LiveFile, int]]
"""The live rows of a table by their `id`: the file of each, and its position there."""


class RowDeleteTests(TableBench):
    """Row deltas of one table: files, row deletes and ledger in one compare-and-set."""

    keyed: ClassVar[TableDefinition] = TableDefinition(ORDERS, keys=("id",))
    """The definition of a table whose rows can be deleted."""

    # Hooks, to be given by the subclass.

    def foreign_delete(self, table: Table, number: int) -> None:
        """Delete the row of an id by the format's own writer, as a row delete next to its file."""
        raise NotImplementedError

    def foreign_compaction(self, table: Table) -> None:
        """Write all live rows into one new file in place of theirs, by the format's own writer."""
        raise NotImplementedError

    # What the tests are given.

    @pytest.fixture
    def orders(self, catalog: TableFormat) -> Table:
        """Create a table whose rows can be deleted, with the ids 0 to 9 in two files."""
        ledgers = [origin(self.chain, {0: 0})]
        table = catalog.create(self.name, self.keyed, ledgers)
        self.change(table, 0, upserts=range(5))
        self.change(table, 5, upserts=range(5, 10))
        return table

    # Acts.

    def located(self, table: Table, state: TableState) -> Found:
        """Find all live rows through the port."""
        found: Found = {}
        for file in table.live_files(state):
            for batch in table.read_live(state, file, ["id"]):
                for number, position in zip(
                    batch.column("id").to_pylist(), batch.column(POSITION).to_pylist(), strict=True
                ):
                    found[number] = (file, position)
        return found

    def deletes_of(
        self, table: Table, state: TableState, numbers: Iterable[int]
    ) -> list[RowDeletes]:
        """Find the row deletes that take away the rows of some ids, where they are there."""
        places = self.located(table, state)
        by_file: dict[str, tuple[LiveFile, list[int]]] = {}
        for number in numbers:
            if number in places:
                file, position = places[number]
                by_file.setdefault(file.path, (file, []))[1].append(position)
        return [
            RowDeletes(path, file.delete_state, np.array(sorted(positions), np.int64))
            for path, (file, positions) in sorted(by_file.items())
        ]

    def delta(
        self, state: TableState, offset: int, upserts: Sequence[int], records: int
    ) -> Committable:
        """Write a row for each id and prepare the row delta of so many records from an offset."""
        rows: list[dict[str, Any]] = [
            {
                "id": number,
                "name": f"order {number} at {offset}",
                "_kafka_topic": TOPIC,
                "_kafka_partition": 0,
                "_kafka_offset": offset + place,
            }
            for place, number in enumerate(upserts)
        ]
        files = self.write(state, rows) if rows else ()
        ranges = {0: (offset, offset + records)}
        return self.prepare(state, ranges, files=files, kind=CommitKind.ROW_DELTA)

    def change(
        self, table: Table, offset: int, *, upserts: Sequence[int] = (), deletes: Sequence[int] = ()
    ) -> str:
        """Upsert and delete ids as a keyed table does; give the snapshot."""
        state = table.state(self.chain)
        commit = self.delta(state, offset, upserts, len(upserts) + len(deletes))
        found = self.deletes_of(table, state, [*upserts, *deletes])
        return table.commit(state, commit, retain=RETAIN, row_deletes=found)

    def names(self, table: Table) -> dict[int, str]:
        """Read id and name of all live rows; fails where an id is there twice."""
        rows = self.rows(table)
        assert len(rows) == len({row["id"] for row in rows}), rows
        return {row["id"]: row["name"] for row in rows}

    def offsets(self, table: Table) -> list[int]:
        """Return the positions of the ledger."""
        return [int(each) for each in self.landed(table).offsets.values()]

    # Promises.

    def test_of_rows_that_are_sought_those_that_live_are_read(self, orders: Table) -> None:
        self.change(orders, 10, upserts=[1, 6], deletes=[3])
        state, wanted = orders.state(self.chain), {1, 2, 3, 6, 7}

        def sought(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
            return np.flatnonzero([each in wanted for each in rows.column("id").to_pylist()])

        found = [
            (row["id"], row["name"], (file.path, row[POSITION]))
            for file in orders.live_files(state)
            for batch in orders.read_live(state, file, ["name", "id"], sought)
            for row in batch.to_pylist()
        ]
        places = self.located(orders, state)
        expected = {number: (places[number][0].path, places[number][1]) for number in (1, 2, 6, 7)}

        assert expected == {number: place for number, _, place in found}
        assert {1: 10, 2: 0, 6: 10, 7: 5} == {
            number: int(name.rpartition(" ")[2]) for number, name, _ in found
        }

    def test_files_are_listed_as_they_lie_with_how_many_of_their_rows_are_deleted(
        self, orders: Table
    ) -> None:
        self.foreign_delete(orders, 3)
        state = orders.state(self.chain)

        layout = orders.layout(state)

        found = {each.path: (each.rows, each.size_bytes, each.deleted) for each in layout.files}
        assert found == {
            each.path: (each.rows, each.size_bytes, each.deleted)
            for each in orders.live_files(state)
        }
        assert [(5, 0), (5, 1)] == sorted((rows, deleted) for rows, _, deleted in found.values())
        assert 1 == len({each.partition for each in layout.files})
        assert [2] == [len(each.files) for each in groups_of(layout)]
        assert 256 << 20 == layout.target_bytes
        facts = orders.describe()
        assert (2, 9) == (facts.files, facts.rows)

    def test_a_table_made_with_keys_lets_its_rows_be_deleted(self, orders: Table) -> None:
        orders.require_row_deletes(orders.state(self.chain))

        assert orders.live_files(orders.state(self.chain))

    def test_a_table_is_made_with_keys_once(self, catalog: TableFormat, orders: Table) -> None:
        again = catalog.create(self.name, self.keyed, [origin(self.chain, {0: 0})])

        assert orders.state(self.chain).uuid == again.state(self.chain).uuid
        assert [10] == [int(each) for each in self.landed(again).offsets.values()]

    def test_every_live_row_is_found_once_with_its_place(self, orders: Table) -> None:
        state = orders.state(self.chain)
        found = self.located(orders, state)
        files = orders.live_files(state)

        assert set(range(10)) == set(found)
        assert sorted(number % 5 for number in range(10)) == sorted(at for _, at in found.values())
        assert [(5, 0, ""), (5, 0, "")] == [(f.rows, f.deleted, f.delete_state) for f in files]

    def test_an_upsert_replaces_the_row_and_moves_the_ledger_in_one_commit(
        self, orders: Table
    ) -> None:
        self.change(orders, 10, upserts=[3, 12])
        names = self.names(orders)

        assert {*range(10), 12} == set(names)
        assert ["order 3 at 10", "order 12 at 10"] == [names[3], names[12]]
        assert [12] == [int(each) for each in self.landed(orders).offsets.values()]

    def test_a_delete_takes_the_row_away_and_leaves_its_neighbours(self, orders: Table) -> None:
        self.change(orders, 10, deletes=[0, 7])

        assert {1, 2, 3, 4, 5, 6, 8, 9} == set(self.names(orders))
        assert {1, 2, 3, 4, 5, 6, 8, 9} == set(self.located(orders, orders.state(self.chain)))

    def test_deletes_of_one_file_add_up_over_commits(self, orders: Table) -> None:
        for offset, number in ((10, 0), (11, 3), (12, 4)):
            self.change(orders, offset, deletes=[number])
        [first] = [f for f in orders.live_files(orders.state(self.chain)) if f.deleted]

        assert {1, 2, *range(5, 10)} == set(self.names(orders))
        assert (5, 3) == (first.rows, first.deleted)

    def test_the_state_of_deletes_is_equal_as_long_as_they_are(self, orders: Table) -> None:
        self.change(orders, 10, deletes=[0])
        [before] = [f for f in orders.live_files(orders.state(self.chain)) if f.deleted]
        self.change(orders, 11, deletes=[9])
        files = {f.path: f.delete_state for f in orders.live_files(orders.state(self.chain))}
        self.change(orders, 12, deletes=[1])
        after = {f.path: f.delete_state for f in orders.live_files(orders.state(self.chain))}

        assert before.delete_state == files[before.path]
        assert before.delete_state != after[before.path]

    def test_a_file_of_which_no_row_is_left_leaves_the_table(self, orders: Table) -> None:
        self.change(orders, 10, deletes=range(5))

        assert 1 == len(orders.live_files(orders.state(self.chain)))
        assert set(range(5, 10)) == set(self.names(orders))

    def test_deletes_of_rows_that_are_not_there_land_progress_alone(self, orders: Table) -> None:
        before = self.names(orders)
        self.change(orders, 10, deletes=[77, 78])

        assert before == self.names(orders)
        assert [12] == [int(each) for each in self.landed(orders).offsets.values()]

    def test_a_row_of_the_commit_s_own_file_may_be_deleted_with_it(self, orders: Table) -> None:
        state = orders.state(self.chain)
        commit = self.delta(state, 10, [3, 12], 2)
        late = RowDeletes(commit.files[0].path, "", np.array([0], np.int64))
        orders.commit(state, commit, retain=RETAIN, row_deletes=[late])
        names = self.names(orders)

        assert {*range(10), 12} == set(names)
        assert "order 3 at 0" == names[3]

    def test_a_file_of_the_commit_s_own_of_which_no_row_is_left_never_comes(
        self, orders: Table
    ) -> None:
        """Late rows and superseded ones together may be all rows of a file (docs/design/0244)."""
        state = orders.state(self.chain)
        first, second = self.delta(state, 10, [3, 12], 2), self.delta(state, 12, [13], 1)
        ranges = {0: (10, 13)}
        files = (*first.files, *second.files)
        commit = self.prepare(state, ranges, files=files, kind=CommitKind.ROW_DELTA)
        dead = RowDeletes(commit.files[0].path, "", np.array([0, 1], np.int64))
        orders.commit(state, commit, retain=RETAIN, row_deletes=[dead])
        after = orders.state(self.chain)

        assert {*range(10), 13} == set(self.names(orders))
        assert commit.files[0].path not in {f.path for f in orders.live_files(after)}
        assert (Verdict.AGREED, [13]) == (after.verdict, self.offsets(orders))

    def test_a_commit_none_of_whose_own_rows_is_left_lands_progress_alone(
        self, orders: Table
    ) -> None:
        state, before = orders.state(self.chain), self.names(orders)
        commit = self.delta(state, 10, [3, 12], 2)
        dead = RowDeletes(commit.files[0].path, "", np.array([0, 1], np.int64))
        snapshot = orders.commit(state, commit, retain=RETAIN, row_deletes=[dead])
        after = orders.state(self.chain)

        assert before == self.names(orders)
        assert orders.live_files(state) == orders.live_files(after)
        assert (Verdict.AGREED, [12]) == (after.verdict, self.offsets(orders))
        self.change(orders, 12, upserts=[4])
        self.roll_back(orders, snapshot)
        assert Verdict.ROLLED_BACK is orders.state(self.chain).verdict

    def test_the_ledger_says_by_which_keys_rows_are_changed_since_the_first_row_delta(
        self, orders: Table
    ) -> None:
        appended = self.landed(orders).offsets
        state = orders.state(self.chain)
        commit = replace(self.delta(state, 10, [3], 1), keys=("id",), compares_offsets=True)
        found = self.deletes_of(orders, state, [3])
        orders.commit(state, commit, retain=RETAIN, row_deletes=found)
        first = self.landed(orders)
        state = orders.state(self.chain)
        later = replace(self.delta(state, 11, [4], 1), keys=("id",))
        orders.commit(state, later, retain=RETAIN, row_deletes=self.deletes_of(orders, state, [4]))
        [ledger] = orders.ledgers(orders.state(self.chain))

        assert Keyed(("id",), compares_offsets=True, since=appended) == first.keyed
        assert first.keyed == self.landed(orders).keyed == ledger.keyed

    def test_a_table_is_created_with_a_keyed_ledger(self, catalog: TableFormat) -> None:
        ledger = replace(origin(self.chain, {0: 0}), keyed=Keyed(("id", "na/me"), True))
        table = catalog.create(self.name, self.keyed, [ledger])

        assert ledger.keyed == self.landed(table).keyed
        assert [ledger.keyed] == [each.keyed for each in table.ledgers(table.state(self.chain))]

    def test_a_delete_of_a_row_that_is_deleted_already_is_refused(self, orders: Table) -> None:
        self.change(orders, 10, deletes=[0])
        state = orders.state(self.chain)
        [file] = [f for f in orders.live_files(state) if f.deleted]
        again = RowDeletes(file.path, file.delete_state, np.array([0], np.int64))
        former = RowDeletes(file.path, "", np.array([1], np.int64))
        beyond = RowDeletes(file.path, file.delete_state, np.array([5], np.int64))
        nowhere = RowDeletes(f"{file.path}.gone", "", np.array([0], np.int64))

        for wrong in (again, former, beyond, nowhere):
            with pytest.raises(BugError) as refused:
                orders.commit(
                    state, self.delta(state, 11, [], 1), retain=RETAIN, row_deletes=[wrong]
                )
            assert "P707" == refused.value.code
        assert set(range(1, 10)) == set(self.names(orders))

    def test_row_deletes_land_on_no_state_but_the_one_they_were_found_on(
        self, orders: Table
    ) -> None:
        acts: tuple[Callable[[], None], ...] = (
            partial(self.foreign_append, orders),
            partial(self.foreign_delete, orders, 1),
            partial(self.foreign_compaction, orders),
        )
        for act in acts:
            state = orders.state(self.chain)
            offset = int(next(iter(self.landed(orders).offsets.values())))
            commit = self.delta(state, offset, [3], 1)
            found = self.deletes_of(orders, state, [3])
            act()
            before = self.rows(orders)
            with pytest.raises((ConflictError, *self.refused)):
                orders.commit(state, commit, retain=RETAIN, row_deletes=found)
            assert sorted(map(str, before)) == sorted(map(str, self.rows(orders)))

    def test_what_others_did_to_rows_is_found_and_kept(self, orders: Table) -> None:
        self.change(orders, 10, deletes=[0])
        self.foreign_delete(orders, 1)
        assert {*range(2, 10)} == set(self.located(orders, orders.state(self.chain)))

        self.change(orders, 11, upserts=[2])
        assert {*range(2, 10)} == set(self.names(orders))

        self.foreign_compaction(orders)
        self.change(orders, 12, upserts=[3], deletes=[4])
        assert {2, 3, *range(5, 10)} == set(self.names(orders))
        assert {2, 3, *range(5, 10)} == set(self.located(orders, orders.state(self.chain)))

    def test_a_rollback_of_deletes_alone_is_noticed(self, orders: Table) -> None:
        snapshot = self.change(orders, 10, upserts=[3])
        self.change(orders, 11, deletes=[4])
        self.roll_back(orders, snapshot)

        assert Verdict.ROLLED_BACK is orders.state(self.chain).verdict

    def test_the_history_of_a_row_delta_is_its_chain_s(self, orders: Table) -> None:
        self.change(orders, 10, upserts=[3], deletes=[4])
        history = orders.history(self.chain)

        assert ["row-delta"] * 3 == [each.kind for each in history.commits]
        assert len(history.paths) == len(set(history.paths))
        assert [12] == [ranges[4] for ranges in history.commits[-1].progress]

    def test_source_coordinates_are_those_of_live_rows(self, orders: Table) -> None:
        self.change(orders, 10, upserts=[3], deletes=[4])
        columns = {
            "topic": "_kafka_topic",
            "partition": "_kafka_partition",
            "offset": "_kafka_offset",
        }
        offsets = orders.row_coordinates(columns)["offset"].to_pylist()

        assert [0, 1, 2, 5, 6, 7, 8, 9, 10] == sorted(offsets)
