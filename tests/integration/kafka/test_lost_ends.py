"""Terms and the ledger over a network that loses, doubles and delays: each entry counts once."""

from __future__ import annotations

import itertools

import pytest
from tests.processes.broker import wait_until
from tests.servers.kafka_proxy import FrameFault, KafkaProxy, Kind

from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions.offsets_topic import OffsetsTopic
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.ports.producers import Refused, Term
from penstock.spec.secrets import ProcessSecrets

pytestmark = pytest.mark.broker
KINDS = [
    Kind.PRODUCE,
    Kind.FETCH,
    Kind.LIST_OFFSETS,
    Kind.FIND_COORDINATOR,
    Kind.INIT_PRODUCER_ID,
    Kind.END_TRANSACTION,
]
NUMBERS = itertools.count()
ENTRIES = [(b"position", b"7")]


class Life:
    """One publisher of one id, through the proxy."""

    def __init__(self, proxy: KafkaProxy) -> None:
        settings = read_settings({"brokers": f"127.0.0.1:{proxy.port}"}, ProcessSecrets())
        self.name = f"penstock-lost-{next(NUMBERS)}"
        self.terms = KafkaTerms(settings, timeout_ms=60_000)
        self.ledger = OffsetsTopic(settings, f"{self.name}-offsets", now_ms=lambda: 0)
        self.ledger.prepare()

    def publish(self, term: Term) -> Term | Refused:
        """Write the entries and end the transaction."""
        return self.ledger.append(self.name, term, ENTRIES) or self.terms.end(self.name, term)


@pytest.mark.parametrize("fault", FrameFault)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_network_does_to_a_request_an_entry_counts_once(
    proxy: KafkaProxy, kind: Kind, fault: FrameFault
) -> None:
    life = Life(proxy)
    proxy.queue(kind, fault)
    term = life.terms.take(life.name)
    following = life.publish(term)
    if isinstance(following, Refused):  # a fence that arrived twice has fenced us
        assert (Kind.INIT_PRODUCER_ID, FrameFault.TWICE) == (kind, fault)
        following = life.publish(life.terms.take(life.name))
    assert isinstance(following, Term)
    life.terms.take(life.name)

    assert dict(ENTRIES) == life.ledger.look().entries
    assert (kind, fault) in proxy.played


def test_an_end_that_is_never_answered_is_in_doubt_and_a_renewal_finds_that_it_ended(
    proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.kafka.transactions.terms.END_SECONDS_MAX", 0.3)
    life = Life(proxy)
    term = life.terms.take(life.name)
    proxy.queue(Kind.END_TRANSACTION, *[FrameFault.LOSE_ANSWER] * 50)
    try:
        found = life.publish(term)
    finally:
        proxy.clear()

    assert isinstance(found, Refused)
    renewed = life.terms.renew(life.name, term)
    assert isinstance(renewed, Term)
    assert dict(ENTRIES) == life.ledger.look().entries
    assert renewed == life.terms.renew(life.name, term)


def test_an_end_that_never_arrived_is_in_doubt_and_a_renewal_aborts(
    proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.kafka.transactions.terms.END_SECONDS_MAX", 0.3)
    life = Life(proxy)
    term = life.terms.take(life.name)
    proxy.queue(Kind.END_TRANSACTION, *[FrameFault.LOSE_REQUEST] * 50)
    try:
        found = life.publish(term)
        renewed = life.terms.renew(life.name, term)
    finally:  # a request that is still on its way is of a former term by now
        proxy.clear()

    assert isinstance(found, Refused)
    assert isinstance(renewed, Term)
    wait_until(lambda: not life.ledger.look().undecided, "the abort is written")
    assert {} == life.ledger.look().entries
    assert isinstance(life.publish(renewed), Term)
