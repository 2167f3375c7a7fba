# ruff: noqa: ARG002 - hooks are given more than a store in memory needs
"""Every pending store against the contract of its port."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.story.foreign_acts import PlayedStore

from penstock.connectors.sql import open_postgresql
from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.store import SqlStore
from penstock.core.errors import UnavailableError
from penstock.ports.store import Pause, PendingStore
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.store import StoreContract, take


class TestMemoryStore(StoreContract):
    def setup_method(self):
        self.store = PlayedStore()

    def open_store(self, place: Path) -> PendingStore:
        return self.store

    def lose(self, place: Path) -> None:
        self.store.lose()


class TestSqliteStore(StoreContract):
    def open_store(self, place: Path) -> PendingStore:
        return SqlStore(StoreFile(place / "state" / "shop.db"))

    def lose(self, place: Path) -> None:
        (place / "state" / "shop.db").unlink()

    def test_a_file_of_an_earlier_release_gets_the_table_of_pauses(self, place):
        store = self.open_store(place)
        take(store)
        store.close()
        with closing(sqlite3.connect(place / "state" / "shop.db")) as file:
            file.execute("DROP TABLE pauses")
        keeps_pauses(self.open_store(place))

    def test_of_processes_that_claim_at_once_one_gets_in(self, place):
        outcomes = in_processes(3, place / "shop.db", turns=1, takeover=False)

        assert [["P510"], ["P510"], [1]] == sorted(outcomes, key=str)

    def test_of_processes_that_take_over_each_gets_generations_of_its_own(self, place):
        claims = in_processes(3, place / "shop.db", turns=10, takeover=True)

        assert list(range(1, 31)) == sorted(number for each in claims for number in each)


class TestPostgresqlStore(StoreContract):
    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, postgresql):
        return postgresql.database()

    @pytest.fixture(autouse=True)
    def database(self, postgresql, shared):
        self.server, self.name = postgresql, shared
        yield
        postgresql.execute("DROP SCHEMA IF EXISTS penstock CASCADE", shared)

    def open_store(self, place: Path) -> PendingStore:
        return open_postgresql(self.server.address(self.name), ProcessSecrets({}))

    def lose(self, place: Path) -> None:
        self.server.execute("DROP SCHEMA penstock CASCADE", self.name)

    def test_a_schema_of_an_earlier_release_gets_the_table_of_pauses(self, place):
        store = self.open_store(place)
        take(store)
        self.server.execute("DROP TABLE penstock.pauses", self.name)
        assert not store.resume("shop", "t")
        keeps_pauses(store)

    def test_a_store_that_another_server_has_now_is_lost_to_its_owner_and_told_to_the_next(
        self, place
    ):
        store = self.open_store(place)
        held = take(store)
        assert not store.holding("shop").elsewhere
        self.server.execute("UPDATE penstock.servers SET server = '1/00000001'", self.name)

        with pytest.raises(UnavailableError, match="lost"):
            store.heartbeat("shop", held, alive_until_ms=2)
        assert store.holding("shop").elsewhere
        take(store)
        assert not store.holding("shop").elsewhere
        store.close()

    def test_a_replica_that_is_promoted_is_another_store(self, place):
        store = self.open_store(place)
        held = take(store)
        with self.server.promoted() as replica:
            other = open_postgresql(replica.address(self.name), ProcessSecrets({}))
            assert held == other.holding("shop").claim
            assert other.holding("shop").elsewhere
            with pytest.raises(UnavailableError, match="lost"):
                other.heartbeat("shop", held, alive_until_ms=2)
            store.heartbeat("shop", held, alive_until_ms=2)
            other.close()
        store.close()


def keeps_pauses(store: PendingStore) -> None:
    """Let a store that was claimed keep a pause."""
    assert [] == list(store.pauses("shop"))
    held = take(store)
    assert [] == list(store.heartbeat("shop", held, alive_until_ms=2))
    store.pause("shop", Pause("t", 1, 2))
    assert [Pause("t", 1, 2)] == list(store.heartbeat("shop", held, alive_until_ms=2))
    store.close()


def in_processes(count: int, path: Path, *, turns: int, takeover: bool) -> list[list[int | str]]:
    """Claim in several processes at once; give the generations, or the code of the refusal."""
    arguments = [sys.executable, "-c", CLAIMING, str(path), str(turns), str(int(takeover))]
    children = [
        subprocess.Popen(
            [*arguments, f"p{n}"], stdout=subprocess.PIPE, text=True, stdin=subprocess.PIPE
        )
        for n in range(count)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    return [json.loads(child.communicate(timeout=60)[0]) for child in children]


CLAIMING = """
import json, sys
from pathlib import Path
from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.store import SqlStore
from penstock.core.errors import UnavailableError
from penstock.core.errors import UnavailableError
from penstock.ports.store import Owner

path, turns, takeover, name = sys.argv[1:]
store, outcomes = SqlStore(StoreFile(Path(path))), []
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(turns)):
    try:
        owner = Owner(f"{name}-{turn}", "elsewhere", 12)
        held = store.claim(
            "shop", owner, above=0, now_ms=1, alive_until_ms=60_000, takeover=takeover == "1"
        )
        outcomes.append(held.generation)
    except UnavailableError as error:
        outcomes.append(error.code)
print(json.dumps(outcomes))
"""
