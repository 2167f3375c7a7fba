"""A catalog's compare-and-set is measured, and one that does not compare is found out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.story.clock import ManualClock

from penstock.commit.catalog_probe import probe
from penstock.connectors.memory.tables import MemoryTable, MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.errors import BugError, ConflictError, InvalidError


class Careless(MemoryTables):
    """Sets without comparing: each commit is applied to the state that is there now."""

    def __init__(self, warehouse: Warehouse) -> None:
        super().__init__(warehouse)
        self._careless = warehouse

    def create(self, name: str, definition: Any, ledgers: Any) -> MemoryTable:
        super().create(name, definition, ledgers)
        return CarelessTable(self._careless, name)


class CarelessTable(MemoryTable):
    def commit(self, state: Any, commit: Any, *, retain: int) -> str:
        now = self.state(commit.chain)
        return super().commit(replace(state, handle=now.handle), commit, retain=retain)


class Deaf(Careless):
    """Answers that all is well, and does nothing."""

    def create(self, name: str, definition: Any, ledgers: Any) -> MemoryTable:
        super().create(name, definition, ledgers)
        return DeafTable(self._careless, name)


class DeafTable(MemoryTable):
    def commit(self, state: Any, commit: Any, *, retain: int) -> str:
        del state, commit, retain
        return "s1"


class UsedUp(Careless):
    """Takes each state once, as Delta tables do, and does not compare the table itself."""

    def create(self, name: str, definition: Any, ledgers: Any) -> MemoryTable:
        super().create(name, definition, ledgers)
        return UsedUpTable(self._careless, name)


class UsedUpTable(CarelessTable):
    def __init__(self, warehouse: Warehouse, name: str) -> None:
        super().__init__(warehouse, name)
        self._used: list[Any] = []

    def commit(self, state: Any, commit: Any, *, retain: int) -> str:
        if any(state is each for each in self._used):
            raise ConflictError("used", code="P401", hint="")
        self._used.append(state)
        return super().commit(state, commit, retain=retain)


class Timed(Careless):
    """Is of a storage that reports its own time."""

    def __init__(self, warehouse: Warehouse, stored_ms: int) -> None:
        super().__init__(warehouse)
        self._stored_ms = stored_ms

    def create(self, name: str, definition: Any, ledgers: Any) -> MemoryTable:
        table = MemoryTables.create(self, name, definition, ledgers)
        facts = replace(table.describe(), stored_ms=self._stored_ms)
        table.describe = lambda: facts  # type: ignore[method-assign]
        return table


@pytest.mark.parametrize(
    ("by_ms", "ahead"), [(5000, 5.0), (1, 0.001), (0, 0.0), (-1000, 0.0), (-3000, -2.0)]
)
def test_a_clock_of_the_storage_that_differs_is_reported_beyond_its_whole_seconds(
    by_ms: int, ahead: float
) -> None:
    clock = ManualClock()
    catalog = Timed(Warehouse(), clock.now_ms() + by_ms)

    assert ahead == probe(catalog, "shop", "t1", clock).ahead_seconds


def test_a_catalog_that_compares_passes_and_keeps_nothing() -> None:
    warehouse = Warehouse()
    measured = probe(MemoryTables(warehouse), "shop", "t1", ManualClock())

    assert None is measured.ahead_seconds
    assert [] == warehouse.names()


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        (Careless, "the second landed as well"),
        (UsedUp, "the second landed as well"),
        (Deaf, "none landed"),
    ],
)
def test_a_catalog_that_does_not_compare_is_found_out(catalog: Any, message: str) -> None:
    warehouse = Warehouse()
    with pytest.raises(InvalidError, match=message) as caught:
        probe(catalog(warehouse), "shop", "t1", ManualClock())

    assert "P443" == caught.value.code
    assert [] == warehouse.names()


class Slow(Careless):
    """Takes two seconds for a table and one and a half for a commit."""

    def __init__(self, warehouse: Warehouse, clock: ManualClock) -> None:
        super().__init__(warehouse)
        self._clock = clock

    def create(self, name: str, definition: Any, ledgers: Any) -> MemoryTable:
        self._clock.advance(2.0)
        table = MemoryTables.create(self, name, definition, ledgers)
        commit = table.commit

        def slowly(state: Any, prepared: Any, *, retain: int) -> str:
            self._clock.advance(1.5)
            return commit(state, prepared, retain=retain)

        table.commit = slowly  # type: ignore[method-assign]
        return table


def test_what_a_table_and_its_commits_took_is_reported() -> None:
    clock = ManualClock()
    clock.advance(100)
    measured = probe(Slow(Warehouse(), clock), "shop", "t1", clock)

    assert (2.0, 3.0) == (measured.create_seconds, measured.commit_seconds)


def test_no_other_table_can_be_dropped() -> None:
    with pytest.raises(BugError) as caught:
        MemoryTables(Warehouse()).discard("shop.orders")

    assert "P705" == caught.value.code
