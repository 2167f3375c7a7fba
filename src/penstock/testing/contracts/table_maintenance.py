# ruff: noqa: D102, SIM300 - the names of the tests are their sentences, and ids are examples
"""The part of the table contract in which files are written again as fewer (docs/design/0291).

Tables are maintained as `penstock maintain` does it, and read by the format's own reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import pytest

from penstock.commit.attempt import CommitContext
from penstock.commit.maintaining import Maintenance
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.core.commits import Chain
from penstock.core.errors import BugError, ConflictError, DecisionNeededError
from penstock.core.maintenance import OURS
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.tables import Table, TableFormat, Verdict
from penstock.testing.contracts.copying import copying_engine
from penstock.testing.contracts.table_fixture import RETAIN, Meanwhile, StillClock
from penstock.testing.contracts.table_rewrites import RewriteTests, values_of
from penstock.testing.prepared import claim, origin

OTHERS = Chain("other", RewriteTests.chain.table)


class MaintenanceTests(RewriteTests):
    """Files of one table are rearranged while others commit."""

    going_back_is_a_rollback: ClassVar[bool] = False
    """Whether it is taken for a rollback when others take their own commit back."""

    # Acts.

    def maintain(
        self, table: Table, meanwhile: Callable[[], object] = lambda: 0
    ) -> RearrangedFiles:
        """Maintain a table; something may happen before the first request of it goes out."""
        context = CommitContext(claim(), Meanwhile(meanwhile), StillClock(), lambda: 0.5, RETAIN)
        work = Maintenance(self.chain, table, context, "0c0ffee1", list)
        engine = copying_engine(self.open_writer(), self.open_file_rows())
        return Rearranging(work, engine, "any").run()

    def files_of(self, table: Table) -> dict[str, str]:
        """Return the delete states of the live files."""
        files = table.live_files(table.state(self.chain))
        return {each.path: each.delete_state for each in files}

    # Promises.

    def test_files_become_one_and_the_chain_stays_as_it_was(
        self, catalog: TableFormat, table: Table
    ) -> None:
        self.land(table, {0: (0, 2)}, {0: (2, 4), 1: (0, 1)}, {0: (4, 5)})
        before, ids = self.landed(table), self.ids(table)
        assert table.layout(table.state(self.chain)).maintained is None
        history = table.history(self.chain)
        done = self.maintain(table)
        again = self.found(catalog)
        state, after = again.state(self.chain), again.history(self.chain)

        assert (1, 3, 1, 1, 0) == (
            done.groups,
            done.files_before,
            done.files_after,
            done.commits,
            done.given_up,
        )
        assert ids == self.ids(again)
        assert (Verdict.AGREED, before) == (state.verdict, state.landed)
        assert 1 == len(self.files_of(again))
        maintained = again.layout(state).maintained
        assert maintained is not None
        assert OURS == maintained.by
        assert (history.commits, history.began, 0) == (
            after.commits,
            after.began,
            after.foreign_commits,
        )
        assert RearrangedFiles() == self.maintain(again)

    def test_what_was_landed_before_it_is_gone_on_from(self, table: Table) -> None:
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        self.maintain(table)
        self.land(table, {0: (4, 6)}, {1: (0, 1)})

        assert Verdict.AGREED is table.state(self.chain).verdict
        assert [6, 1] == sorted(map(int, self.landed(table).offsets.values()), reverse=True)
        assert sum(self.offsets(table)) == len(self.ids(table))

    def test_a_commit_that_was_prepared_on_the_state_before_is_made_again(
        self, table: Table
    ) -> None:
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        state = table.state(self.chain)
        commit = self.append(state, {0: (4, 5)})
        self.maintain(table)
        with pytest.raises((ConflictError, *self.refused)):
            table.commit(state, commit, retain=RETAIN)
        table.commit(table.state(self.chain), commit, retain=RETAIN)

        assert sum(self.offsets(table)) == len(self.ids(table))

    def test_values_of_every_kind_stay(self, catalog: TableFormat) -> None:
        definition = replace(self.keyed, schema=self.kinds)
        table = catalog.create(self.name, definition, [origin(self.chain, {0: 0})])
        for numbers in (range(1, 5), range(5, 9)):
            state = table.state(self.chain)
            rows = [values_of(each) for each in numbers]
            kept = [{name: row[name] for name in self.kinds.names} for row in rows]
            ranges = {0: (numbers.start - 1, numbers.stop - 1)}
            commit = self.prepare(state, ranges, files=self.write(state, kept))
            table.commit(state, commit, retain=RETAIN)
        before = sorted(map(repr, self.rows(table)))
        self.maintain(table)

        assert before == sorted(map(repr, self.rows(table)))
        assert 1 == len(self.files_of(table))

    def test_deleted_rows_go_for_good_and_later_ones_are_deleted_as_ever(
        self, orders: Table
    ) -> None:
        self.change(orders, 10, upserts=[3], deletes=[0])
        names = self.names(orders)
        done = self.maintain(orders)
        states = {*self.files_of(orders).values()}

        assert (2, {""}) == (done.deleted, states)
        assert names == self.names(orders)
        self.change(orders, 12, upserts=[4], deletes=[1])
        assert names.keys() - {1} == self.names(orders).keys()
        assert Verdict.AGREED is orders.state(self.chain).verdict

    def test_it_lands_behind_whatever_landed_meanwhile(self, table: Table) -> None:
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        done = self.maintain(table, lambda: self.land(table, {0: (4, 6)}))

        assert (1, 2, 0) == (done.groups, done.files_before, done.given_up)
        assert sum(self.offsets(table)) == len(self.ids(table))
        assert ["", ""] == [*self.files_of(table).values()]

    def test_rows_that_others_delete_meanwhile_stay_deleted(self, orders: Table) -> None:
        names = self.names(orders)
        self.change(orders, 10, upserts=[12])
        done = self.maintain(orders, lambda: self.foreign_delete(orders, 2))

        assert (0, 1) == (done.given_up, done.carried)
        assert {*names, 12} - {2} == self.names(orders).keys()
        assert Verdict.AGREED is orders.state(self.chain).verdict
        self.change(orders, 11, upserts=[3], deletes=[1])
        assert {*names, 12} - {1, 2} == self.names(orders).keys()

    def test_keys_that_change_meanwhile_change_in_the_files_that_come(self, orders: Table) -> None:
        self.change(orders, 10, upserts=[3], deletes=[0])
        names = self.names(orders)

        def meanwhile() -> None:
            self.change(orders, 12, upserts=[4, 12], deletes=[1])
            self.change(orders, 15, upserts=[5], deletes=[2])

        done = self.maintain(orders, meanwhile)
        state = orders.state(self.chain)

        assert (0, 4, 1) == (done.given_up, done.carried, done.commits)
        assert (names.keys() | {12}) - {1, 2} == self.names(orders).keys()
        assert len(self.names(orders)) == sum(
            each.rows - each.deleted for each in orders.live_files(state)
        )
        assert Verdict.AGREED is state.verdict
        self.maintain(orders)
        assert (names.keys() | {12}) - {1, 2} == self.names(orders).keys()
        assert {""} == {*self.files_of(orders).values()}

    def test_rows_that_others_give_back_meanwhile_stay(self, orders: Table) -> None:
        self.change(orders, 10, upserts=[12])
        names, head = self.names(orders), orders.state(self.chain).head
        self.foreign_delete(orders, 2)
        if self.going_back_is_a_rollback:
            with pytest.raises(DecisionNeededError):
                self.maintain(orders, lambda: self.roll_back(orders, head))
        else:
            done = self.maintain(orders, lambda: self.roll_back(orders, head))
            assert 1 == done.given_up
        assert names == self.names(orders)

    def test_files_that_others_rewrite_meanwhile_are_theirs(self, orders: Table) -> None:
        self.change(orders, 10, upserts=[12])
        names = self.names(orders)
        done = self.maintain(orders, lambda: self.foreign_compaction(orders))

        assert (0, 1) == (done.groups, done.given_up)
        assert names == self.names(orders)

    def test_a_file_is_replaced_as_it_was_read_or_not_at_all(self, orders: Table) -> None:
        state = orders.state(self.chain)
        first = next(iter(self.files_of(orders)))
        for replaced in ({first: "other"}, {"/not/live.parquet": ""}):
            with pytest.raises(BugError) as raised:
                orders.rearrange(state, [Rearrangement(replaced, ())])
            assert "P848" == raised.value.code
        assert state.head == orders.state(self.chain).head

    def test_what_was_written_in_a_former_era_does_not_land(self, table: Table) -> None:
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        done = self.maintain(table, lambda: table.upkeep(table.state(self.chain)).raise_era())

        assert (1, 1, 1) == (done.given_up, done.groups, done.commits)
        assert sum(self.offsets(table)) == len(self.ids(table))

    def test_it_vouches_for_the_chains_of_all_pipelines(self, catalog: TableFormat) -> None:
        ledgers = [origin(self.chain, {0: 0}), origin(OTHERS, {0: 0})]
        table = self.create(catalog, *ledgers)
        self.land(table, {0: (0, 2)})
        self.anchor(table, {0: (0, 2)}, OTHERS)
        self.land(table, {0: (2, 4)})
        before = [table.state(chain).landed for chain in (self.chain, OTHERS)]
        self.maintain(table)
        states = [self.found(catalog).state(chain) for chain in (self.chain, OTHERS)]

        assert [Verdict.AGREED] * 2 == [each.verdict for each in states]
        assert before == [each.landed for each in states]

    def test_a_table_that_was_rolled_back_is_left_as_it_is(self, table: Table) -> None:
        self.land(table, {0: (0, 1)})
        last = self.land(table, {0: (1, 2)})
        self.land(table, {0: (2, 5)})
        self.roll_back(table, last)
        with pytest.raises(DecisionNeededError):
            self.maintain(table)
        with pytest.raises(DecisionNeededError) as raised:
            table.require_rearrangeable(table.state(OTHERS))
        assert "P846" == raised.value.code

    def test_a_rollback_to_it_or_below_it_is_noticed(self, table: Table) -> None:
        first = self.land(table, {0: (0, 2)}, {0: (2, 4)})
        self.maintain(table)
        maintained = table.state(self.chain).head
        self.land(table, {0: (4, 5)})
        self.roll_back(table, maintained)

        assert Verdict.ROLLED_BACK is table.state(self.chain).verdict
        self.roll_back(table, first)
        assert Verdict.ROLLED_BACK is table.state(self.chain).verdict
