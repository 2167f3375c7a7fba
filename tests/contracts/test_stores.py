"""Every pending store against the contract of its port."""

import multiprocessing
from pathlib import Path

from penstock.connectors.memory.store import MemoryStore, Shelf
from penstock.connectors.sqlite.store import SqliteStore
from penstock.core.commits import Generation
from penstock.core.errors import UnavailableError
from penstock.ports.store import Owner, PendingStore
from penstock.testing.store_contract import NOW_MS, StoreContract


class TestMemoryStore(StoreContract):
    def setup_method(self):
        self.shelf = Shelf()

    def open_store(self, place: Path) -> PendingStore:
        return MemoryStore(self.shelf)

    def lose(self, place: Path) -> None:
        self.shelf.lose()


class TestSqliteStore(StoreContract):
    def open_store(self, place: Path) -> PendingStore:
        return SqliteStore(place / "state" / "shop.db")

    def lose(self, place: Path) -> None:
        (place / "state" / "shop.db").unlink()

    def test_of_processes_that_claim_at_once_one_gets_in(self, place):
        start = multiprocessing.get_context("spawn")
        with start.Pool(3) as pool:
            outcomes = pool.starmap(claim_in_child, [(str(place), f"p{n}") for n in range(3)])

        assert ["P510", "P510", 1] == sorted(outcomes, key=str)[::-1]

    def test_of_processes_that_take_over_each_gets_its_own_generation(self, place):
        start = multiprocessing.get_context("spawn")
        with start.Pool(3) as pool:
            claims = pool.starmap(take_over_in_child, [(str(place), f"p{n}") for n in range(3)])

        assert list(range(1, 31)) == sorted(number for each in claims for number in each)


def claim_in_child(place: str, name: str) -> int | str:
    store = SqliteStore(Path(place) / "shop.db")
    try:
        return claim(store, name, takeover=False)
    except UnavailableError as error:
        return error.code


def take_over_in_child(place: str, name: str) -> list[int]:
    store = SqliteStore(Path(place) / "shop.db")
    return [claim(store, f"{name}-{turn}", takeover=True) for turn in range(10)]


def claim(store: SqliteStore, name: str, *, takeover: bool) -> int:
    held = store.claim(
        "shop",
        Owner(name, "elsewhere", 12),
        above=Generation(0),
        now_ms=NOW_MS,
        alive_until_ms=NOW_MS + 60_000,
        takeover=takeover,
    )
    return held.generation
