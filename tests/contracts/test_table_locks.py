"""Locks of tables in PostgreSQL, and the turnstile that shards pass by them."""

import threading
from contextlib import ExitStack, closing

import pytest

from penstock.commit.turnstile import CROWDED_SECONDS, Turnstile
from penstock.connectors.sql import open_table_locks
from penstock.connectors.sql.addresses import postgresql_url
from penstock.connectors.sql.server import StoreServer
from penstock.connectors.sql.table_locks import SqlTableLocks
from penstock.core.errors import UnavailableError
from penstock.dev.ports import free_port
from penstock.spec.secrets import ProcessSecrets

SECRETS = ProcessSecrets({})
ORDERS, CLICKS = "lake.shop.orders", "lake.shop.clicks"
WAITS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
BOUND_SECONDS = 60.0


@pytest.fixture(scope="module")
def database(postgresql):
    return postgresql.database()


@pytest.fixture
def address(postgresql, database):
    return postgresql.address(database)


@pytest.fixture
def locks(address):
    with closing(open_table_locks(address, SECRETS)) as opened:
        yield opened


class Writer:
    """A process that wants the lock of a table, and notes when it has it."""

    def __init__(self, address, name, order):
        self.go, self.has = threading.Event(), threading.Event()
        self._given = address, name, order
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self):
        address, name, order = self._given
        with closing(open_table_locks(address, SECRETS)) as locks, locks.held(ORDERS):
            order.append(name)
            self.has.set()
            assert self.go.wait(BOUND_SECONDS)

    def ended(self):
        self.go.set()
        self._thread.join(BOUND_SECONDS)
        assert not self._thread.is_alive()


def end_sessions(postgresql, database):
    """End the sessions that hold a lock."""
    held = "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'"
    postgresql.execute(held, database)


def until_waiting(postgresql, database, count):
    with closing(postgresql.connect(database)) as connection:
        while connection.execute(WAITS).fetchone() != (count,):
            pass


def test_co_g4_writers_pass_one_at_a_time_in_the_order_in_which_they_came(
    postgresql, database, address
):
    order, writers = [], []
    for number in range(3):
        writers.append(Writer(address, number, order))
        if number == 0:
            assert writers[0].has.wait(BOUND_SECONDS)
        until_waiting(postgresql, database, number)
    assert [0] == order

    for writer in writers:
        assert writer.has.wait(BOUND_SECONDS)
        writer.ended()

    assert [0, 1, 2] == order


def test_tables_have_locks_of_their_own(locks, address):
    with (
        closing(open_table_locks(address, SECRETS)) as other,
        locks.held(ORDERS),
        other.held(CLICKS),
    ):
        pass


def test_a_holder_whose_session_ends_keeps_nobody_out(postgresql, database, locks, address):
    with closing(open_table_locks(address, SECRETS)) as dying, ExitStack() as held:
        held.enter_context(dying.held(ORDERS))
        end_sessions(postgresql, database)
        with locks.held(ORDERS):
            pass
        with pytest.raises(UnavailableError):
            held.close()


def test_who_has_waited_for_long_enough_passes_without(locks, address):
    server = StoreServer(postgresql_url(address, SECRETS), lock_wait_seconds=0.01)
    with closing(SqlTableLocks(server)) as hasty, locks.held(ORDERS), hasty.held(ORDERS):
        pass


def test_a_turnstile_is_open_until_an_attempt_loses_and_for_a_minute_after(locks, address):
    order = []
    with closing(open_table_locks(address, SECRETS)) as others:
        turnstile = Turnstile(others)
        with locks.held(ORDERS), turnstile.passing(ORDERS, 1.0):
            order.append("nobody was met")
        turnstile.lost(ORDERS, 1.0)
        with turnstile.passing(ORDERS, 1.0):
            writer = Writer(address, "waited", order)
            assert not writer.has.is_set()
            order.append("passes with the lock")
        writer.ended()
        with locks.held(ORDERS), turnstile.passing(ORDERS, 1.0 + CROWDED_SECONDS):
            order.append("open again")

    assert ["nobody was met", "passes with the lock", "waited", "open again"] == order


def test_a_turnstile_whose_server_is_gone_is_open_until_an_attempt_loses_again():
    nowhere = f"postgresql://a@127.0.0.1:{free_port()}/a"
    with closing(open_table_locks(nowhere, SECRETS)) as locks:
        with pytest.raises(UnavailableError), locks.held(ORDERS):
            pass
        turnstile = Turnstile(locks)
        turnstile.lost(ORDERS, 1.0)
        for _ in range(2):
            with turnstile.passing(ORDERS, 2.0):
                pass


def test_a_lock_that_is_lost_meanwhile_is_no_error_of_the_commit(postgresql, database, locks):
    turnstile = Turnstile(locks)
    turnstile.lost(ORDERS, 1.0)
    with turnstile.passing(ORDERS, 2.0):
        end_sessions(postgresql, database)
