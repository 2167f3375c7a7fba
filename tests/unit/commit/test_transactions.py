"""Transactions in Kafka end in one place: the ledger first, and nothing after a refusal."""

import pytest

from penstock.commit.transactions import TransactionContext, end
from penstock.connectors.memory.cluster import MemoryCluster
from penstock.connectors.memory.transactions import (
    MemoryCoordinator,
    MemoryLedger,
    MemoryTerms,
)
from penstock.core.crash_points import CrashPoint
from penstock.ports.producers import Look, Refused, Term

NAME = "penstock-segments-0"
ENTRIES = [(b"position", b"7")]


class Listening:
    def __init__(self):
        self.points = []

    def __call__(self, event):
        raise AssertionError(event)

    def passed(self, point):
        self.points.append(point)


class Stage:
    def __init__(self):
        self.coordinator = MemoryCoordinator(MemoryCluster())
        self.terms, self.listening = MemoryTerms(self.coordinator), Listening()
        self.ledger = MemoryLedger(self.coordinator, "offsets")
        self.ledger.prepare()
        self.context = TransactionContext(self.terms, self.ledger, self.listening)


@pytest.fixture
def stage():
    return Stage()


def test_the_entries_count_with_the_end_and_the_next_term_is_returned(stage):
    term = stage.terms.take(NAME)
    following = end(NAME, term, ENTRIES, stage.context)

    assert Term(term.producer_id, term.epoch + 1) == following
    assert Look({b"position": b"7"}) == stage.ledger.look()
    assert [
        CrashPoint.LEDGER_BEFORE,
        CrashPoint.LEDGER_AFTER,
        CrashPoint.END_BEFORE,
        CrashPoint.END_AFTER,
    ] == stage.listening.points


def test_after_a_fence_nothing_is_written_and_nothing_ended(stage):
    term = stage.terms.take(NAME)
    stage.terms.take(NAME)
    found = end(NAME, term, ENTRIES, stage.context)

    assert isinstance(found, Refused)
    assert Look({}) == stage.ledger.look()
    assert [CrashPoint.LEDGER_BEFORE] == stage.listening.points


def test_an_end_that_came_too_late_is_not_taken_for_one(stage):
    term = stage.terms.take(NAME)

    class Slow(MemoryLedger):
        def append(self, transactional_id, term, entries):
            refused = super().append(transactional_id, term, entries)
            stage.coordinator.expire(transactional_id)
            return refused

    slow = Slow(stage.coordinator, "offsets")
    found = end(NAME, term, ENTRIES, TransactionContext(stage.terms, slow, stage.listening))

    assert isinstance(found, Refused)
    assert Look({}) == stage.ledger.look()
    assert CrashPoint.END_BEFORE == stage.listening.points[-1]
    assert isinstance(stage.terms.renew(NAME, term), Term)
