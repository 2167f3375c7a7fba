"""Credentials that a catalog lends are renewed in time, and nothing else of a table changes."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.story.backend import CATALOG, MemoryGround
from tests.story.world import World

from penstock.core.errors import UnavailableError
from penstock.landing.repair import replay as replaying
from penstock.landing.tables.credentials import renewed
from penstock.ports.leases import Lease
from penstock.ports.tables import TableState, Verdict
from penstock.testing.prepared import ORDERS

STATE = TableState("u", "h", ORDERS, 1, None, Verdict.ABSENT, "", "old keys", None)


def always():
    return True


def lent(renew, is_due=always):
    return replace(STATE, lease=Lease(is_due, renew))


def test_a_lease_is_renewed_when_its_time_has_come_and_not_before():
    following = Lease(always, lambda: ("newest keys", None))
    come = []
    state = lent(lambda: ("new keys", following), is_due=lambda: bool(come))

    assert state is renewed(state)
    come.append(True)
    assert replace(state, target="new keys", lease=following) == renewed(state)


def test_a_table_without_a_lease_stays_as_it_is():
    assert STATE is renewed(STATE)


class Foreign(Exception):  # noqa: N818  as some clients of catalogs name theirs
    """Derives from no error that Python has."""


@pytest.mark.usefixtures("fence")
@pytest.mark.parametrize(
    "error", [UnavailableError("no answer", code="P430", hint="wait"), Foreign(), KeyError("key")]
)
def test_a_catalog_that_does_not_answer_leaves_the_old_credentials(error):
    def silent():
        raise error

    state = lent(silent)

    assert state is renewed(state)


def test_no_representation_shows_what_was_lent():
    assert "keys" not in repr(lent(lambda: ("x", None)))


class LendingTables:
    """A catalog in memory with tables that lend something that ends at once."""

    def __init__(self, tables, renewals):
        self._tables, self._renewals = tables, renewals

    def __getattr__(self, name):
        return getattr(self._tables, name)

    def load(self, name):
        table = self._tables.load(name)
        return None if table is None else LendingTable(table, self._renewals)

    def create(self, name, definition, ledgers):
        return LendingTable(self._tables.create(name, definition, ledgers), self._renewals)


class LendingTable:
    def __init__(self, table, renewals):
        self._table, self._renewals = table, renewals

    def __getattr__(self, name):
        return getattr(self._table, name)

    def state(self, chain):
        state = self._table.state(chain)

        def renew():
            self._renewals.append(self._table.name)
            return state.target, Lease(always, renew)

        return replace(state, lease=Lease(always, renew))


class LendingGround(MemoryGround):
    def __init__(self):
        super().__init__()
        self.renewals = []

    def open_catalog(self, observer):
        return LendingTables(super().open_catalog(observer), self.renewals)


@pytest.mark.parametrize("epochs", [3])
def test_a_run_renews_what_its_tables_and_its_quarantine_were_lent_before_each_epoch(epochs):
    ground = LendingGround()
    world = World(ground, records_max=2)
    world.send("orders", 2 * epochs)
    world.run()

    assert epochs == ground.renewals.count("ops.quarantine")
    assert epochs - 1 == ground.renewals.count("bronze.orders")  # it is created in the first one
    assert [] == world.breaks()


def test_a_replay_renews_what_its_table_and_its_quarantine_were_lent_before_each_epoch():
    ground = LendingGround()
    world = World(ground, records_max=2)
    world.send("orders", 6)
    world.run()
    ground.renewals.clear()

    def replay(held):
        track = held.settle_pending(f"{CATALOG}.bronze.orders")
        bounds = held.environment.log.bounds(held.environment.log.partitions())
        return replaying.land_again(
            held, track, replaying.plan_replay(track, {("orders", None): None}, bounds)
        )

    assert replaying.Replayed(6, 6, {}) == world.life().change(replay).changed
    assert {"ops.quarantine": 3, "bronze.orders": 3} == Counter(ground.renewals)
