# ruff: noqa: D102, SIM300 - the names of the tests are their sentences, and ids are examples
"""The part of the table contract in which snapshots expire and files are swept (docs/design/0308).

Files lie on real storage, and are told by its own clock; ages are short, for nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import pytest

from penstock.commit.attempt import CommitContext
from penstock.commit.expiring import expire
from penstock.commit.maintaining import Maintenance
from penstock.commit.sweeping import Sweeping
from penstock.connectors.memory.store import MemoryStore
from penstock.core.commits import Chain
from penstock.core.errors import DecisionNeededError
from penstock.core.sweeps import StoredObject, name_of
from penstock.ports.store import NOBODY, Owner
from penstock.ports.tables import Table, TableFormat, Verdict
from penstock.testing.contracts.table_fixture import (
    RETAIN,
    Quiet,
    StillClock,
    TableBench,
)
from penstock.testing.prepared import claim, orders, origin

OTHERS = Chain("other", TableBench.chain.table)


class LateClock(StillClock):
    """A clock that stands still in 2096."""

    def now_ms(self) -> int:
        """Return a time after everything."""
        return 4_000_000_000_000


class UpkeepTests(TableBench):
    """Snapshots of one table expire, and what nothing names goes."""

    expires: ClassVar[bool] = True
    """Whether snapshots expire by request; else by the format's own clean-up."""

    # Acts.

    def maintenance(self, table: Table) -> Maintenance:
        """Return what maintains a table long afterwards."""
        context = CommitContext(claim(), Quiet(), LateClock(), lambda: 0.5, RETAIN)
        return Maintenance(self.chain, table, context, "m1", list)

    def swept(self, table: Table, store: MemoryStore | None = None) -> list[StoredObject]:
        """Sweep a table; return what was deleted."""
        sweeping = Sweeping(self.maintenance(table), store or MemoryStore(), 0, 0)
        sweeping.run()
        return sweeping.deleted

    def orphan(self, table: Table) -> str:
        """Write a file that is never committed; return its name."""
        [file] = self.write(table.state(self.chain), orders({0: (90, 92)}))
        return name_of(file.path)

    def stored(self, table: Table) -> set[str]:
        """Name the files on storage."""
        storage = table.upkeep(table.state(self.chain)).storage()
        return {each.name for each in storage.listed()}

    # Promises.

    def test_old_snapshots_expire_and_the_chain_goes_on(
        self, catalog: TableFormat, table: Table
    ) -> None:
        heads = [self.land(table, each) for each in ({0: (0, 2)}, {0: (2, 4)})]
        self.land(table, {1: (0, 1)})
        before = self.ids(table)
        gone = expire(self.maintenance(table))
        again = self.found(catalog)
        found = again.upkeep(again.state(self.chain)).expiry(LateClock().now_ms())

        if not self.expires:
            assert (() == gone, found.unwanted != "") == (True, True)
            return
        assert heads == [each.id for each in gone]
        assert () == found.expired
        assert {"the head of"} == {each.reason.rpartition(" ")[0] for each in found.kept}
        assert (Verdict.AGREED, before) == (again.state(self.chain).verdict, self.ids(again))
        self.land(again, {0: (4, 6)})
        assert Verdict.AGREED is again.state(self.chain).verdict

    def test_an_expiry_on_a_state_that_has_moved_is_refused(self, table: Table) -> None:
        if not self.expires:
            return
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        state = table.state(self.chain)
        found = table.upkeep(state).expiry(LateClock().now_ms())
        head = self.land(table, {0: (4, 6)})
        with pytest.raises(self.refused):
            table.upkeep(state).expire(found)
        assert head == table.state(self.chain).head

    def test_young_snapshots_stay(self, table: Table) -> None:
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        found = table.upkeep(table.state(self.chain)).expiry(0)
        assert () == found.expired

    def test_a_table_that_was_rolled_back_is_left_as_it_is(self, table: Table) -> None:
        storage = table.upkeep(table.state(self.chain)).storage()
        self.rolled_back(table)
        orphan = self.orphan(table)
        acts: Iterable[Callable[[], object]] = (
            lambda: expire(self.maintenance(table)),
            lambda: self.swept(table),
        )
        for act in acts:
            with pytest.raises(DecisionNeededError):
                act()
        assert orphan in {each.name for each in storage.listed()}

    def test_where_another_chain_was_rolled_back_a_sweep_is_not_even_planned(
        self, catalog: TableFormat
    ) -> None:
        ledgers = [origin(self.chain, {0: 0}), origin(OTHERS, {0: 0})]
        table = self.create(catalog, *ledgers)
        self.land(table, {0: (0, 2)})
        mine = table.state(self.chain).head
        self.anchor(table, {0: (0, 2)}, OTHERS)
        self.roll_back(table, mine)
        with pytest.raises(DecisionNeededError):
            Sweeping(self.maintenance(table), MemoryStore(), 0, 0).plan()

    def test_a_file_that_nothing_names_goes_after_a_commit_that_came_since_it_was_noted(
        self, table: Table
    ) -> None:
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        orphan = self.orphan(table)
        names = [{each.name for each in self.swept(table)} for _ in range(3)]
        assert not any(orphan in each for each in names)

        self.land(table, {0: (4, 6)})
        assert orphan in {each.name for each in self.swept(table)}
        assert orphan not in self.stored(table)
        assert [*range(6)] == self.ids(table)
        assert Verdict.AGREED is table.state(self.chain).verdict

    def test_a_live_file_stays_whatever_the_list_of_names_says(
        self, table: Table, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.land(table, {0: (0, 2)}, {0: (2, 4)})
        upkeep = type(table.upkeep(table.state(self.chain)))
        monkeypatch.setattr(upkeep, "named", lambda _: ())
        live = {name_of(each.path) for each in table.live_files(table.state(self.chain))}
        self.swept(table)
        self.land(table, {0: (4, 6)})
        deleted = {each.name for each in self.swept(table)}

        assert live.isdisjoint(deleted)
        assert live <= self.stored(table)

    def test_a_young_file_is_not_looked_at(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        orphan = self.orphan(table)
        work = self.maintenance(table)
        found = Sweeping(work, MemoryStore(), horizon_ms=3_600_000).run()
        seen = Sweeping(work, MemoryStore(), horizon_ms=0).plan()

        assert orphan not in {each.name for each in found.unnamed}
        assert orphan in {each.name for each in seen.new}

    def test_a_file_that_was_noted_waits_for_the_time_of_grace(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        orphan = self.orphan(table)
        self.swept(table)
        self.land(table, {0: (2, 4)})
        sweeping = Sweeping(self.maintenance(table), MemoryStore(), 0, 3_600_000)
        found = sweeping.run()

        assert orphan in {each.name for each in found.waiting}
        assert ([], True) == (sweeping.deleted, orphan in self.stored(table))

    def test_a_file_that_the_store_names_stays(self, table: Table) -> None:
        store = MemoryStore()
        self.land(table, {0: (0, 2)})
        self.swept(table, store)
        state = table.state(self.chain)
        commit = self.append(state, {0: (2, 4)})
        held = store.claim(
            "shop",
            Owner("o1", "elsewhere", 12),
            above=NOBODY,
            now_ms=0,
            alive_until_ms=1,
            takeover=True,
        )
        store.prepare("shop", held, [commit], {})
        self.swept(table, store)
        self.land(table, {1: (0, 2)})
        self.swept(table, store)

        assert {name_of(each.path) for each in commit.files} <= self.stored(table)

    def test_a_raised_era_kills_what_was_prepared_before(self, table: Table) -> None:
        self.land(table, {0: (0, 2)})
        state = table.state(self.chain)
        landed, era = state.landed, table.upkeep(state).era()
        commit = self.append(state, {0: (2, 4)})
        table.upkeep(table.state(self.chain)).raise_era()
        with pytest.raises(self.refused):
            table.commit(state, commit, retain=RETAIN)
        after = table.state(self.chain)

        assert (era + 1, Verdict.AGREED) == (table.upkeep(after).era(), after.verdict)
        assert landed == after.landed
        table.commit(after, commit, retain=RETAIN)
        assert [0, 1, 2, 3] == sorted(row["_kafka_offset"] for row in self.rows(table))
