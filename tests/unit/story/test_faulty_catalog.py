"""Each fault does to table and caller what the table in `tests/story/faulty_catalog.py` says."""

import pytest
from tests.story.faulty_catalog import Fault, FaultPlan, FaultyTables
from tests.story.observer import Crash

from penstock.connectors.memory.tables import MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.commits import Chain
from penstock.core.errors import (
    ConflictError,
    InvalidError,
    OutcomeUnknownError,
    UnavailableError,
)
from penstock.ports.tables import TableDefinition
from penstock.testing.prepared import ORDERS, origin, positions, prepared

CHAIN = Chain("shop", "lake.bronze.orders")
NAME = "bronze.orders"


@pytest.fixture
def plan():
    return FaultPlan()


@pytest.fixture
def catalog(plan):
    return FaultyTables(MemoryTables(Warehouse()), plan)


@pytest.fixture
def table(catalog):
    return catalog.create(NAME, TableDefinition(ORDERS), [origin(CHAIN, {0: 0})])


def commit(table, state=None):
    state = state or table.state(CHAIN)
    return table.commit(state, prepared(CHAIN, {0: (0, 3)}, uuid=state.uuid), retain=5)


def offset(table):
    return table.state(CHAIN).landed.offsets[next(iter(positions({0: 0})))]


@pytest.mark.parametrize(
    ("fault", "seen", "landed"),
    [
        (Fault.LOSE_ANSWER, OutcomeUnknownError, 3),
        (Fault.LOSE_REQUEST, OutcomeUnknownError, 0),
        (Fault.DELAY, OutcomeUnknownError, 0),
        (Fault.REFUSE, UnavailableError, 0),
        (Fault.FORBID, InvalidError, 0),
        (Fault.CONFLICT, ConflictError, 0),
        (Fault.OK_UNAPPLIED, None, 0),
        (Fault.TWICE, None, 3),
        (Fault.CRASH_BEFORE, Crash, 0),
        (Fault.CRASH_AFTER, Crash, 3),
    ],
)
def test_a_fault_does_what_it_says_once(plan, table, fault, seen, landed):
    plan.queue(NAME, fault)
    if seen is None:
        assert commit(table)
    else:
        with pytest.raises(seen):
            commit(table)

    assert landed == offset(table)
    assert [(NAME, fault)] == plan.played
    assert plan.next(NAME) is None


def test_faults_are_used_up_in_order(plan, table):
    plan.queue(NAME, Fault.CONFLICT, Fault.REFUSE)
    with pytest.raises(ConflictError):
        commit(table)
    with pytest.raises(UnavailableError):
        commit(table)
    commit(table)

    assert 3 == offset(table)


def test_a_delayed_commit_lands_when_released_and_the_table_has_not_moved(plan, table):
    plan.queue(NAME, Fault.DELAY)
    with pytest.raises(OutcomeUnknownError):
        commit(table)
    (outcome,) = plan.release()

    assert 3 == offset(table)
    assert "Error" not in outcome
    assert [] == plan.release()


def test_a_delayed_commit_that_comes_too_late_conflicts(plan, table):
    plan.queue(NAME, Fault.DELAY)
    with pytest.raises(OutcomeUnknownError):
        commit(table)
    commit(table)

    assert ["ConflictError"] == plan.release()
    assert 3 == offset(table)


def test_a_table_that_is_away_is_not_found_and_refuses(plan, catalog, table):
    plan.take_away(NAME)

    assert catalog.load(NAME) is None
    with pytest.raises(UnavailableError):
        table.state(CHAIN)
    with pytest.raises(UnavailableError):
        catalog.create(NAME, TableDefinition(ORDERS), [])
    plan.give_back(NAME)
    assert 0 == offset(catalog.load(NAME))


def test_an_act_is_played_between_examination_and_request(plan, table):
    state = table.state(CHAIN)
    plan.before_commit(NAME, lambda: commit(table))
    with pytest.raises(ConflictError):
        commit(table, state)

    assert 3 == offset(table)
