"""A catalog's compare-and-set is measured, and one that does not compare is found out."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.commit.rehearsal import rehearse
from penstock.connectors.memory.tables import MemoryTable, MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.errors import BugError, ConflictError, InvalidError
from penstock.testing.clock import ManualClock


class Careless(MemoryTables):
    """Sets without comparing: each commit is applied to whatever stands there now."""

    def __init__(self, warehouse: Warehouse) -> None:
        super().__init__(warehouse)
        self._careless = warehouse

    def create(self, name: str, definition: Any, ledgers: Any) -> MemoryTable:
        super().create(name, definition, ledgers)
        return CarelessTable(self._careless, name)


class CarelessTable(MemoryTable):
    def commit(self, state: Any, commit: Any, *, retain: int) -> str:
        from dataclasses import replace

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
    """Takes each state once, as Delta tables do, and does not compare the table behind it."""

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


def test_a_catalog_that_compares_passes_and_keeps_nothing() -> None:
    warehouse = Warehouse()
    measured = rehearse(MemoryTables(warehouse), "shop", "t1", ManualClock())

    assert None is measured.ahead_seconds
    assert [] == warehouse.names()


@pytest.mark.parametrize(
    ("catalog", "told"),
    [
        (Careless, "the second landed as well"),
        (UsedUp, "the second landed as well"),
        (Deaf, "none landed"),
    ],
)
def test_a_catalog_that_does_not_compare_is_found_out(catalog: Any, told: str) -> None:
    warehouse = Warehouse()
    with pytest.raises(InvalidError, match=told) as caught:
        rehearse(catalog(warehouse), "shop", "t1", ManualClock())

    assert "P443" == caught.value.code
    assert [] == warehouse.names()


def test_no_other_table_can_be_dropped() -> None:
    with pytest.raises(BugError) as caught:
        MemoryTables(Warehouse()).discard("shop.orders")

    assert "P705" == caught.value.code
