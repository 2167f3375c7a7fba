# ruff: noqa: ARG002 - hooks are given more than a store in memory needs
"""Every pending store against the contract of its port."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.story.foreign_acts import PlayedShelf

from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.sql import open_postgresql
from penstock.connectors.sql.store import sqlite_store
from penstock.ports.store import PendingStore
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.store import StoreContract


class TestMemoryStore(StoreContract):
    def setup_method(self):
        self.shelf = PlayedShelf()

    def open_store(self, place: Path) -> PendingStore:
        return MemoryStore(self.shelf)

    def lose(self, place: Path) -> None:
        self.shelf.lose()


class TestSqliteStore(StoreContract):
    def open_store(self, place: Path) -> PendingStore:
        return sqlite_store(place / "state" / "shop.db")

    def lose(self, place: Path) -> None:
        (place / "state" / "shop.db").unlink()

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
from penstock.connectors.sql.store import sqlite_store
from penstock.core.errors import UnavailableError
from penstock.ports.store import Owner

path, turns, takeover, name = sys.argv[1:]
store, outcomes = sqlite_store(Path(path)), []
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
