"""Whatever would change a paused table is refused before it is tried, until the pause is over."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.story.clock import ManualClock
from tests.story.observer import RecordingObserver

from penstock.commit.attempt import CommitContext
from penstock.commit.creation import begin
from penstock.commit.evolution import evolve
from penstock.commit.fence import fence_rollback
from penstock.commit.pauses import Pauses
from penstock.commit.two_phase import TwoPhase
from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.memory.tables import MemoryTable, MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.commits import Chain
from penstock.core.errors import UnavailableError
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.store import Pause
from penstock.ports.tables import TableDefinition
from penstock.testing.prepared import ORDERS, claim

NAME = "lake.bronze.orders"
OWN = Chain("shop", NAME)
WIDE = Struct((*ORDERS.fields, Field("more", Kind.STRING)))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def context(clock: ManualClock) -> CommitContext:
    pauses = Pauses()
    pauses.know([Pause(NAME, clock.now_ms(), clock.now_ms() + 60_000)])
    return CommitContext(claim(), RecordingObserver(), clock, lambda: 0.5, 25, pauses=pauses)


@pytest.fixture
def table() -> MemoryTable:
    return MemoryTables(Warehouse()).create("bronze.orders", TableDefinition(ORDERS), ())


def anchored(table: MemoryTable, context: CommitContext) -> None:
    begin(table, OWN, {}, cluster_id="c", rules_hash="r", context=context)


def widened(table: MemoryTable, context: CommitContext) -> None:
    assert evolve(table, OWN, table.state(OWN), WIDE, context)


@pytest.mark.parametrize("act", [anchored, widened])
def test_a_paused_table_is_changed_only_when_the_pause_is_over(
    table: MemoryTable,
    context: CommitContext,
    clock: ManualClock,
    act: Callable[[MemoryTable, CommitContext], None],
) -> None:
    before = table.state(OWN)
    with pytest.raises(UnavailableError, match="paused until") as refused:
        act(table, context)
    assert ("P445", before) == (refused.value.code, table.state(OWN))

    clock.advance(60)
    act(table, context)
    assert before != table.state(OWN)


def test_a_paused_table_is_not_fenced(
    table: MemoryTable, context: CommitContext, clock: ManualClock
) -> None:
    clock.advance(60)
    anchored(table, context)
    state = table.state(OWN)
    context.pauses.know([Pause(NAME, clock.now_ms(), clock.now_ms() + 1)])
    with pytest.raises(UnavailableError) as refused:
        fence_rollback(OWN, state, table, context)

    assert ("P445", state) == (refused.value.code, table.state(OWN))


def test_the_old_metadata_of_a_paused_table_stays(
    context: CommitContext, clock: ManualClock
) -> None:
    tidied: list[str] = []

    class Tidying(MemoryTable):
        def housekeep(self) -> None:
            tidied.append(NAME)

    table = MemoryTables(Warehouse()).create("bronze.orders", TableDefinition(ORDERS), ())
    table.__class__ = Tidying
    two_phase = TwoPhase("shop", MemoryStore(), context)
    two_phase.housekeep(NAME, table)
    assert [] == tidied
    clock.advance(60)
    two_phase.housekeep(NAME, table)
    assert [NAME] == tidied
