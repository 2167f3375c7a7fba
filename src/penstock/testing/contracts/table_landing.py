# ruff: noqa: D102, SIM300 - the names of the tests are their sentences, and offsets are examples
"""The landing half of the table contract: one compare-and-set, files and ledger together.

Each test names what protocol.md 5 promises of `Table.commit` and `TableFormat.create`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from penstock.core.commits import Chain, Committable, landed_after
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.ports.tables import Table, TableDefinition, TableFormat, TableState, Verdict
from penstock.testing.contracts.table_fixture import RETAIN, TableBench
from penstock.testing.prepared import (
    ORDERS,
    claim,
    ledger_after,
    orders,
    origin,
    positions,
    progress,
)

HOSTILE_NAMES = (
    "bronze." + "x" * 10_000,
    "bronze.",
    ".orders",
    "bronze..orders",
    "bronze.../../orders",
    "../orders.orders",
    "bronze/orders.orders",
    "bronze.or\x00ders",
    "bronze.or\nders",
    'bronze.or"ders',
    "bronze.or'; drop table orders; --",
    "bronze.or`ders",
    "",
)

Prepare = Callable[[TableBench, TableState], Committable]


any_kind = pytest.mark.parametrize(
    "prepare",
    [
        lambda bench, state: bench.append(state, {0: (0, 3)}),
        lambda bench, state: bench.prepare(state, {0: (0, 3)}),
        lambda bench, state: bench.fence(state),
    ],
    ids=["append", "anchor", "fence"],
)


class LandingTests(TableBench):
    """Commits of one table, alone and in races."""

    def test_tables_are_listed_by_namespace(self, catalog: TableFormat) -> None:
        for name in ("bronze.orders", "bronze.items", "silver.orders"):
            catalog.create(name, TableDefinition(ORDERS), ())

        assert ["bronze.items", "bronze.orders"] == sorted(catalog.names("bronze"))
        assert [] == list(catalog.names("gold"))

    def test_a_catalog_that_answers_passes_its_check(self, catalog: TableFormat) -> None:
        catalog.check()

    def test_a_table_that_is_not_there_is_not_found(self, catalog: TableFormat) -> None:
        assert catalog.load(self.name) is None

    def test_properties_are_checked_without_making_a_table(self, catalog: TableFormat) -> None:
        catalog.require_properties(self.name, {})

        assert catalog.load(self.name) is None

    def test_a_created_table_is_at_its_first_ledger(self, catalog: TableFormat) -> None:
        first = origin(self.chain, {0: 5, 1: 0})
        state = self.create(catalog, first).state(self.chain)

        assert (Verdict.AGREED, first) == (state.verdict, state.landed)
        assert ORDERS == state.schema
        assert [] == self.rows(self.found(catalog))

    def test_creating_a_table_again_gives_the_first_one(self, catalog: TableFormat) -> None:
        first = origin(self.chain, {0: 5})
        created = self.create(catalog, first)
        again = self.create(catalog, origin(self.chain, {0: 7}, claim(2)))

        assert created.state(self.chain).uuid == again.state(self.chain).uuid
        assert first == self.landed(again)

    def test_creating_a_table_is_idempotent_under_a_race(
        self, catalog: TableFormat, place: Path
    ) -> None:
        catalogs = [catalog, self.open_catalog(place)]
        ledgers = [origin(self.chain, {0: 0}, claim(1, owner)) for owner in ("a", "b")]
        together = Barrier(2)

        def create(turn: int) -> TableState:
            together.wait()
            return self.create(catalogs[turn], ledgers[turn]).state(self.chain)

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(create, range(2))
        catalogs[1].close()

        assert first.uuid == second.uuid
        assert first.landed == second.landed
        assert first.landed in ledgers

    @pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
    def test_a_hostile_name_is_refused(self, catalog: TableFormat, name: str) -> None:
        with pytest.raises(InvalidError):
            catalog.create(name, TableDefinition(ORDERS), [origin(self.chain, {0: 0})])

    def test_a_table_without_a_ledger_for_a_chain_says_so(self, table: Table) -> None:
        state = table.state(Chain("another", self.chain.table))

        assert (Verdict.ABSENT, None) == (state.verdict, state.landed)

    def test_the_first_commit_of_a_chain_brings_its_ledger(self, table: Table) -> None:
        chain = Chain("another", self.chain.table)
        state = table.state(chain)
        anchor = self.prepare(state, {}, chain=chain, origins={0: 40, 1: 2}, nonce="start")
        table.commit(state, anchor, retain=RETAIN)

        assert ledger_after(origin(chain, {0: 40, 1: 2}), anchor) == self.landed(table, chain)
        assert origin(self.chain, {0: 0, 1: 0}) == self.landed(table)

    def test_a_commit_lands_files_and_ledger_together(self, table: Table) -> None:
        state = table.state(self.chain)
        commit = self.append(state, {0: (0, 3), 1: (0, 2)})
        assert [] == self.ids(table)
        table.commit(state, commit, retain=RETAIN)

        assert [0, 1, 2, 1000, 1001] == self.ids(table)
        assert orders({0: (0, 3), 1: (0, 2)}) == sorted(
            self.rows(table), key=lambda row: int(row["id"])
        )
        assert positions({0: 3, 1: 2}) == self.landed(table).offsets

    def test_the_new_ledger_is_the_old_one_after_the_commit(self, table: Table) -> None:
        for turn in range(3):
            state = table.state(self.chain)
            assert state.landed is not None
            held = claim(turn + 1, f"host-{turn}")
            commit = self.append(
                state, {0: (turn * 2, turn * 2 + 2)}, held=held, valid_through_ms=1000 - turn
            )
            table.commit(state, commit, retain=RETAIN)

            assert landed_after(state.landed, commit) == self.landed(table)
        found = self.landed(table)
        reported = (found.generation, found.owner, found.rules_hash, found.valid_through_ms)
        assert (3, "host-2", "rules-1", 1000) == reported

    def test_several_files_land_in_one_commit(self, table: Table) -> None:
        state = table.state(self.chain)
        files = [file for n in range(5) for file in self.write(state, orders({0: (n, n + 1)}))]
        commit = self.prepare(state, {0: (0, 5)}, files=files)
        table.commit(state, commit, retain=RETAIN)

        assert [0, 1, 2, 3, 4] == self.ids(table)
        assert commit.digest == self.landed(table).digest_of(commit.commit_id)

    def test_a_ledger_of_many_partitions_comes_back_whole(self, catalog: TableFormat) -> None:
        table = self.create(catalog, origin(self.chain, dict.fromkeys(range(200), 10**12)))
        ranges = {number: (10**12, 10**12 + number + 1) for number in range(200)}
        self.anchor(table, ranges)

        assert positions({n: stop for n, (_, stop) in ranges.items()}) == self.landed(table).offsets

    def test_a_new_partition_joins_with_its_origin(self, table: Table) -> None:
        self.land(table, {2: (7, 9)}, origins={0: 99, 2: 7})

        assert positions({0: 0, 1: 0, 2: 9}) == self.landed(table).offsets

    def test_an_anchor_moves_progress_without_files(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        self.anchor(table, {0: (2, 50), 1: (0, 7)})

        assert positions({0: 50, 1: 7}) == self.landed(table).offsets
        assert [0, 1] == self.ids(table)

    def test_a_fence_moves_the_head_and_no_offset(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        before = table.state(self.chain)
        assert before.landed is not None
        fence = self.fence(before, held=claim(9))
        table.commit(before, fence, retain=RETAIN)
        after = table.state(self.chain)

        assert before.head != after.head
        assert landed_after(before.landed, fence) == after.landed
        assert before.landed.offsets == self.landed(table).offsets
        assert [0, 1] == self.ids(table)

    @any_kind
    def test_a_commit_on_a_stale_state_changes_nothing(
        self, table: Table, prepare: Prepare
    ) -> None:
        stale = table.state(self.chain)
        late = prepare(self, stale)
        self.land(table, {0: (0, 5)}, held=claim(2))
        before = table.state(self.chain)
        with pytest.raises(self.refused):
            table.commit(stale, late, retain=RETAIN)
        after = table.state(self.chain)

        assert (before.head, before.landed) == (after.head, after.landed)
        assert [0, 1, 2, 3, 4] == self.ids(table)

    @any_kind
    def test_an_anchor_in_between_makes_a_state_stale(self, table: Table, prepare: Prepare) -> None:
        stale = table.state(self.chain)
        late = prepare(self, stale)
        self.anchor(table, {1: (0, 9)}, held=claim(2))
        with pytest.raises(self.refused):
            table.commit(stale, late, retain=RETAIN)

        assert positions({0: 0, 1: 9}) == self.landed(table).offsets
        assert [] == self.ids(table)

    @any_kind
    def test_a_fence_keeps_an_older_attempt_from_landing(
        self, table: Table, prepare: Prepare
    ) -> None:
        stale = table.state(self.chain)
        attempt = prepare(self, stale)
        table.commit(stale, self.fence(stale, held=claim(2), nonce="other"), retain=RETAIN)
        with pytest.raises(self.refused):
            table.commit(stale, attempt, retain=RETAIN)

        assert positions({0: 0, 1: 0}) == self.landed(table).offsets
        assert [] == self.ids(table)

    def test_one_commit_from_two_holders_of_a_state_lands_once(
        self, catalog: TableFormat, place: Path, table: Table
    ) -> None:
        other = self.open_catalog(place)
        state, theirs = table.state(self.chain), self.found(other).state(self.chain)
        commit = self.append(state, {0: (0, 3)})
        table.commit(state, commit, retain=RETAIN)
        time.sleep(0.002)  # the same words in the same millisecond are the same entry
        with pytest.raises(self.refused):
            self.found(other).commit(theirs, commit, retain=RETAIN)
        other.close()

        assert [0, 1, 2] == self.ids(self.found(catalog))

    def test_of_two_racing_commits_one_lands_and_the_other_conflicts(
        self, catalog: TableFormat, place: Path, table: Table
    ) -> None:
        others = [catalog, self.open_catalog(place)]
        tables = [self.found(other) for other in others]
        states = [each.state(self.chain) for each in tables]
        commits = [
            self.append(state, {0: (0, 2 + turn)}, held=claim(1, f"racer-{turn}"))
            for turn, state in enumerate(states)
        ]
        together = Barrier(2)

        def race(turn: int) -> str:
            together.wait()
            try:
                tables[turn].commit(states[turn], commits[turn], retain=RETAIN)
            except self.refused:
                return "refused"
            return "landed"

        with ThreadPoolExecutor(2) as pool:
            outcomes = list(pool.map(race, range(2)))
        others[1].close()
        winner = commits[outcomes.index("landed")]

        assert ["landed", "refused"] == sorted(outcomes)
        assert ledger_after(origin(self.chain, {0: 0, 1: 0}), winner) == self.landed(table)
        assert list(range(winner.rows)) == self.ids(table)

    @any_kind
    def test_a_foreign_append_in_between_loses_and_doubles_nothing(
        self, table: Table, prepare: Prepare
    ) -> None:
        stale = table.state(self.chain)
        commit = prepare(self, stale)
        self.foreign_append(table)
        try:
            table.commit(stale, commit, retain=RETAIN)
        except self.refused:
            assert origin(self.chain, {0: 0, 1: 0}) == self.landed(table)
            assert [-1] == self.ids(table)
            table.commit(table.state(self.chain), commit, retain=RETAIN)

        assert ledger_after(origin(self.chain, {0: 0, 1: 0}), commit) == self.landed(table)
        assert [-1, *range(commit.rows)] == self.ids(table)

    def test_foreign_appends_leave_the_ledger_alone(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        before = self.landed(table)
        self.foreign_append(table)
        self.foreign_append(table)
        state = table.state(self.chain)

        assert (Verdict.AGREED, before) == (state.verdict, state.landed)

    def test_chains_of_one_table_do_not_disturb_each_other(self, catalog: TableFormat) -> None:
        chains = [Chain(f"shop/{name}", "lake.ops.quarantine") for name in ("lake.b.a", "*")]
        table = self.create_quarantine(catalog, *(origin(chain, {0: 0}) for chain in chains))
        for turn, chain in enumerate(chains):
            self.anchor(table, {0: (0, 4 + turn)}, chain)
        self.anchor(table, {0: (4, 9)}, chains[0])

        assert [positions({0: 9}), positions({0: 5})] == [
            self.landed(table, chain).offsets for chain in chains
        ]

    def test_a_race_of_two_chains_loses_and_doubles_nothing(self, catalog: TableFormat) -> None:
        chains = [Chain(f"shop/lake.b.{name}", "lake.ops.quarantine") for name in ("a", "b")]
        table = self.create_quarantine(catalog, *(origin(chain, {0: 0}) for chain in chains))
        second = table.state(chains[1])
        self.anchor(table, {0: (0, 3)}, chains[0])
        commit = self.prepare(second, {0: (0, 4)}, chain=chains[1])
        try:
            table.commit(second, commit, retain=RETAIN)
        except self.refused:
            table.commit(table.state(chains[1]), commit, retain=RETAIN)

        assert [positions({0: 3}), positions({0: 4})] == [
            self.landed(table, chain).offsets for chain in chains
        ]

    def test_a_dropped_table_is_unavailable_and_takes_nothing(
        self, catalog: TableFormat, table: Table
    ) -> None:
        state = table.state(self.chain)
        commit = self.append(state, {0: (0, 3)})
        self.drop(catalog, self.name)

        assert catalog.load(self.name) is None
        with pytest.raises(UnavailableError):
            table.state(self.chain)
        with pytest.raises(PenstockError):
            table.commit(state, commit, retain=RETAIN)
        assert catalog.load(self.name) is None

    def test_a_recreated_table_is_another_and_takes_no_old_commit(
        self, catalog: TableFormat, table: Table
    ) -> None:
        self.land(table, {0: (0, 2)})
        state = table.state(self.chain)
        commit = self.append(state, {0: (2, 5)})
        self.drop(catalog, self.name)
        again = self.create(catalog, origin(self.chain, {0: 0, 1: 0}))

        assert state.uuid != again.state(self.chain).uuid
        with pytest.raises((*self.refused, UnavailableError, InvalidError)):
            table.commit(state, commit, retain=RETAIN)
        assert origin(self.chain, {0: 0, 1: 0}) == self.landed(again)
        assert [] == self.ids(again)

    def test_progress_of_a_topic_made_again_is_next_to_the_old(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        state = table.state(self.chain)
        commit = self.prepare(state, {5: (3, 4)}, origins={5: 3})
        table.commit(state, commit, retain=RETAIN)

        assert {**positions({0: 2, 1: 0}), **positions({5: 4})} == self.landed(table).offsets
        assert progress({5: (3, 4)}) == commit.progress
