"""What the PostgreSQL store does beyond the contract: refusals, silence, versions, backups."""

import threading

import psycopg
import pytest
from tests.servers.postgresql import PASSWORD, USER

from penstock.connectors.sql import open_postgresql, open_postgresql_as_found
from penstock.connectors.sql.addresses import postgresql_url
from penstock.connectors.sql.server import StoreServer
from penstock.connectors.sql.store import SqlStore
from penstock.core.errors import InvalidError, UnavailableError
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.store import commit_of, take


@pytest.fixture
def database(postgresql):
    return postgresql.database()


@pytest.fixture
def url(postgresql, database):
    return postgresql_url(postgresql.address(database), ProcessSecrets({}))


@pytest.fixture
def store(url):
    opened = SqlStore(StoreServer(url))
    yield opened
    opened.close()


def refusal(kind, code, act):
    with pytest.raises(kind) as refused:
        act()
    reported = f"{refused.value.message} {refused.value.hint} {refused.value!r}"
    assert code == refused.value.code
    assert refused.value.hint
    assert PASSWORD not in reported
    return refused.value.message


# Addresses.


def test_what_a_reference_gives_is_taken_as_it_is(postgresql, database, tmp_path):
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    login = f"${{env:WHO}}:${{file:{tmp_path}/password}}"
    secrets = ProcessSecrets({"WHO": USER})
    store = open_postgresql(postgresql.address(database, login), secrets)

    assert 1 == take(store).generation
    store.close()


@pytest.mark.parametrize("address", ["postgresql://", "postgresql://h", "postgresql://u@h:x/d"])
def test_an_address_without_a_database_is_refused(address):
    refusal(InvalidError, "P508", lambda: open_postgresql(address, ProcessSecrets({})))


def test_a_reference_that_is_not_there_is_named():
    message = refusal(
        InvalidError,
        "P123",
        lambda: open_postgresql("postgresql://u:${env:NOT_THERE}@h/d", ProcessSecrets({})),
    )

    assert "NOT_THERE" in message


# Refusals.


def test_a_wrong_password_and_a_missing_database_are_refused(postgresql):
    for address in (
        postgresql.address("postgres", f"{USER}:wrong"),
        postgresql.address("no_such_database"),
    ):
        store = open_postgresql(address, ProcessSecrets({}))
        refusal(InvalidError, "P511", lambda store=store: take(store))


def test_a_user_who_may_create_nothing_is_refused_until_there_is_a_schema(postgresql, database):
    postgresql.execute(f"CREATE ROLE guest_{database} LOGIN PASSWORD 'guest'")
    login = f"guest_{database}:guest"
    store = open_postgresql(postgresql.address(database, login), ProcessSecrets({}))
    message = refusal(InvalidError, "P511", lambda: take(store))
    postgresql.execute(f"CREATE SCHEMA penstock AUTHORIZATION guest_{database}", database)

    assert "permission denied" in message
    assert 1 == take(store).generation
    store.close()


def test_a_server_that_is_not_there_is_unavailable(url):
    store = SqlStore(StoreServer(url.set(port=1)))
    message = refusal(UnavailableError, "P512", lambda: take(store))

    assert f"{USER}@127.0.0.1:1/{url.database}" in message


def test_a_standby_is_unavailable(postgresql, database, url):
    postgresql.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    store = SqlStore(StoreServer(url))
    refusal(UnavailableError, "P504", lambda: take(store))
    store.close()


def test_a_schema_of_another_program_is_refused_and_left_alone(postgresql, database, store):
    postgresql.execute("CREATE SCHEMA penstock CREATE TABLE theirs (a int)", database)
    refusal(InvalidError, "P507", lambda: take(store))
    refusal(InvalidError, "P507", lambda: store.pending("shop"))


def test_a_newer_version_is_refused(postgresql, database, store):
    take(store)
    postgresql.execute("UPDATE penstock.layout SET version = 2", database)
    message = refusal(InvalidError, "P505", lambda: store.pending("shop"))

    assert "version 2" in message
    refusal(InvalidError, "P505", lambda: take(store))


def test_an_older_layout_is_left_as_it_is_while_it_is_looked_at(postgresql, database, store):
    held = take(store)
    postgresql.execute("DROP TABLE penstock.servers", database)
    address = postgresql.address(database)
    found = open_postgresql_as_found(address, ProcessSecrets({}))

    assert ("servers",) == found.adds
    assert held == found.store.holding("shop").claim
    found.store.close()
    again = open_postgresql_as_found(address, ProcessSecrets({}))
    assert ("servers",) == again.adds
    again.store.close()


# Silence.


def test_a_store_another_holds_locked_is_unavailable_and_then_goes_on(url, store):
    held = take(store)
    impatient = SqlStore(StoreServer(url, lock_wait_seconds=0.1))
    with StoreServer(url).writing("shop"):
        refusal(
            UnavailableError, "P503", lambda: impatient.prepare("shop", held, [commit_of(0)], {})
        )
        take(store, pipeline="bank")  # pipelines do not wait for each other
    impatient.prepare("shop", held, [commit_of(0)], {})

    assert [commit_of(0)] == list(store.pending("shop"))
    impatient.close()


def test_an_owner_that_falls_silent_in_mid_write_keeps_nobody_out(url, store):
    """As a stopped process or a cut cable would: the server ends its transaction."""
    take(store, "a")
    silent = StoreServer(url, idle_seconds=0.3)

    def write():
        with silent.writing("shop"):
            new = threading.Thread(target=take, args=(store, "b"))
            new.start()
            new.join(5)

    refusal(UnavailableError, "P512", write)
    assert "b" == store.holding("shop").claim.owner


def test_a_server_that_was_restarted_is_found_again(postgresql, database, store):
    held = take(store)
    cut_off(postgresql, database)
    store.prepare("shop", held, [commit_of(0)], {})

    assert [commit_of(0)] == list(store.pending("shop"))


# Backups.


def test_a_store_restored_from_an_old_backup_is_noticed(postgresql, database, store):
    take(store, "a")
    store.close()
    postgresql.execute(f"CREATE DATABASE {database}_saved TEMPLATE {database}")
    held = take(store, "b")
    store.prepare("shop", held, [commit_of(0)], {})
    cut_off(postgresql, database)
    store.close()
    postgresql.execute(f"DROP DATABASE {database}")
    postgresql.execute(f"ALTER DATABASE {database}_saved RENAME TO {database}")
    refusal(UnavailableError, "P502", lambda: store.prepare("shop", held, [commit_of(3)], {}))

    assert [] == list(store.pending("shop"))
    assert 8 == take(store, "b", above=7).generation


def test_a_backup_of_our_own_generation_loses_what_was_prepared_since_and_no_more(
    postgresql, database, store
):
    held = take(store)
    store.close()
    postgresql.execute(f"CREATE DATABASE {database}_saved TEMPLATE {database}")
    store.prepare("shop", held, [commit_of(0)], {})
    store.close()
    postgresql.execute(f"DROP DATABASE {database}")
    postgresql.execute(f"ALTER DATABASE {database}_saved RENAME TO {database}")
    store.settle("shop", held, commit_of(0), landed=True, reason="")
    store.prepare("shop", held, [commit_of(3)], {})

    assert [commit_of(3)] == list(store.pending("shop"))


def cut_off(postgresql, database):
    """End all sessions of a database, as a restart of the server does."""
    with psycopg.connect(
        host="127.0.0.1", port=postgresql.port, user=USER, password=PASSWORD, dbname="postgres"
    ) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database]
        )
