# ruff: noqa: D102 - the names of the tests are their sentences, and offsets are examples
"""The shards part of the table contract: chains that begin in each other's commits."""

from __future__ import annotations

from dataclasses import replace

from penstock.core.commits import NOBODY, Chain, landed_after
from penstock.ports.tables import Table, TableFormat, Verdict
from penstock.testing.contracts.table_fixture import RETAIN, TableBench
from penstock.testing.prepared import claim, ledger_after, orders, origin, positions

ONE, OTHER = "shop+0", "shop+1"


class ShardTests(TableBench):
    """Two shards of a pipeline in one table."""

    @property
    def one(self) -> Chain:
        """The chain of the shard that writes where both begin."""
        return Chain(ONE, self.chain.table)

    @property
    def other(self) -> Chain:
        """The chain of its sibling."""
        return Chain(OTHER, self.chain.table)

    def begin(
        self, table: Table, own: dict[int, int], theirs: dict[int, int], nonce: str = "begin"
    ) -> None:
        """Write start positions of both."""
        state = table.state(self.one)
        anchor = self.prepare(state, {}, chain=self.one, origins=own, nonce=nonce)
        anchor = replace(anchor, beside={OTHER: positions(theirs)})
        table.commit(state, anchor, retain=RETAIN)

    def land_rows(self, table: Table, chain: Chain, ranges: dict[int, tuple[int, int]]) -> str:
        """Land rows of a chain; return the snapshot."""
        state = table.state(chain)
        files = self.write(state, orders(ranges))
        commit = self.prepare(state, ranges, chain=chain, files=files, held=claim(3))
        return table.commit(state, commit, retain=RETAIN)

    def test_a_sibling_begins_in_the_same_commit_and_nobody_owns_it(self, table: Table) -> None:
        self.begin(table, {2: 40}, {3: 7})
        state = table.state(self.other)

        assert (Verdict.AGREED, origin(self.other, {3: 7}, NOBODY)) == (state.verdict, state.landed)
        assert positions({2: 40}) == self.landed(table, self.one).offsets
        assert {ONE, OTHER, self.chain.name} == {each.chain for each in table.ledgers(state)}

    def test_a_sibling_without_a_partition_begins_as_well(self, table: Table) -> None:
        self.begin(table, {2: 40}, {})

        assert origin(self.other, {}, NOBODY) == self.landed(table, self.other)

    def test_siblings_land_beside_each_other(self, table: Table) -> None:
        self.begin(table, {2: 0}, {3: 0})
        for turn in range(3):
            self.land_rows(table, self.one, {2: (turn, turn + 1)})
            self.land_rows(table, self.other, {3: (2 * turn, 2 * turn + 2)})

        assert positions({2: 3}) == self.landed(table, self.one).offsets
        assert positions({3: 6}) == self.landed(table, self.other).offsets
        assert [2000, 2001, 2002, *range(3000, 3006)] == self.ids(table)

    def test_what_a_sibling_has_landed_stays_when_it_is_given_more(self, table: Table) -> None:
        self.begin(table, {2: 0}, {3: 0})
        self.land_rows(table, self.other, {3: (0, 2)})
        before = self.landed(table, self.other)
        self.begin(table, {4: 9}, {3: 1, 5: 9}, nonce="more")
        after = table.state(self.other)

        assert Verdict.AGREED is after.verdict
        assert replace(before, offsets=positions({3: 2, 5: 9})) == after.landed
        self.land_rows(table, self.other, {5: (9, 10)})
        assert positions({3: 2, 5: 10}) == self.landed(table, self.other).offsets

    def test_a_rolled_back_sibling_stays_so(self, table: Table) -> None:
        self.begin(table, {2: 0}, {3: 0})
        first = self.land_rows(table, self.other, {3: (0, 2)})
        self.land_rows(table, self.other, {3: (2, 4)})
        self.roll_back(table, first)
        assert Verdict.ROLLED_BACK is table.state(self.other).verdict
        state = table.state(self.one)
        if not state.verdict.is_sound:  # of this format a rollback is seen by all chains
            return
        self.begin(table, {4: 9}, {5: 9}, nonce="more")

        assert Verdict.ROLLED_BACK is table.state(self.other).verdict

    def test_a_table_is_created_with_the_ledgers_of_all_shards(self, catalog: TableFormat) -> None:
        ledgers = [
            origin(chain, {number: 5}) for number, chain in enumerate((self.one, self.other))
        ]
        table = self.create(catalog, *ledgers)
        state = table.state(self.other)
        commit = self.prepare(state, {1: (5, 9)}, chain=self.other)
        table.commit(state, commit, retain=RETAIN)

        assert landed_after(ledgers[1], commit) == self.landed(table, self.other)
        assert ledger_after(ledgers[0]) == self.landed(table, self.one)

    def test_siblings_are_trimmed_as_one_and_each_keeps_its_newest(self, table: Table) -> None:
        if not self.trims:
            return
        self.begin(table, {2: 0}, {3: 0})
        self.land_rows(table, self.other, {3: (0, 2)})
        state = table.state(self.one)
        for turn in range(6):
            state = table.state(self.one)
            table.commit(
                state, self.prepare(state, {2: (turn, turn + 1)}, chain=self.one), retain=3
            )

        assert Verdict.AGREED is table.state(self.other).verdict
        assert positions({3: 2}) == self.landed(table, self.other).offsets
