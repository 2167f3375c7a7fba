"""Open and hanging transactions of a real cluster: found, named, aborted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from tests.processes.broker import Cluster, running_broker

from penstock.connectors.kafka import connector
from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions import produce
from penstock.connectors.kafka.transactions.offsets_topic import OffsetsTopic
from penstock.connectors.kafka.transactions.open_transactions import KafkaTransactions
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.dev.broker import Running
from penstock.ports.transactions import Scope, Transactions, TransactionState
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.sent import Sent

pytestmark = pytest.mark.broker
HANGING = "transaction.partition.verification.enable"
FORMER_PRODUCE = 11
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def lax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Run a broker as those before KIP-890: what no coordinator knows of may be written."""
    with running_broker(tmp_path_factory.mktemp("lax"), properties={HANGING: "false"}) as running:
        yield running


@pytest.fixture
def topic(lax: Running) -> str:
    name = f"held-{next(NUMBERS)}"
    Cluster(lax.bootstrap).create(name, 2)
    return name


def opened(broker: Running, *topics: str) -> Transactions:
    settings: dict[str, Any] = {"brokers": broker.bootstrap, "topics": list(topics)}
    assert connector.open_transactions is not None
    return connector.open_transactions(settings, ProcessSecrets())


def hang(broker: Running, topic: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Write into a transaction that was never begun; return its producer id."""
    settings = read_settings({"brokers": broker.bootstrap}, ProcessSecrets())
    name = f"hanging-{next(NUMBERS)}"
    term = KafkaTerms(settings, timeout_ms=60_000).take(name)
    monkeypatch.setattr(produce, "BY_NAME", FORMER_PRODUCE)
    monkeypatch.setattr(produce, "BY_ID", 99)  # which no broker has
    written = OffsetsTopic(settings, topic, now_ms=lambda: 0).append(name, term, [(b"k", b"v")])
    assert written is None
    return term.producer_id


def test_nothing_is_open_where_all_has_ended(lax: Running, topic: str) -> None:
    cluster = Cluster(lax.bootstrap)
    cluster.send(topic, 0, [Sent(b"1")])
    cluster.begin(topic, 1, [Sent(b"2")]).commit()

    assert [] == [*opened(lax, topic, "never-created").listed(Scope.SPEC)]


def test_an_open_transaction_is_named_with_what_it_holds_up(lax: Running, topic: str) -> None:
    cluster = Cluster(lax.bootstrap)
    cluster.send(topic, 0, [Sent(b"0")])
    held = cluster.begin(topic, 0, [Sent(b"1"), Sent(b"2")])
    cluster.send(topic, 0, [Sent(b"3")])
    (found,) = opened(lax, topic).listed(Scope.SPEC)

    assert TransactionState.OPEN == found.state
    assert found.transactional_id.startswith("testing-")
    assert 60_000 == found.timeout_ms
    assert found.began_ms is not None
    (place,) = found.partitions
    assert (topic, 0, 1, 3) == (
        place.topic,
        place.partition,
        place.first_offset,
        place.held_records,
    )
    held.commit()
    assert [] == [*opened(lax, topic).listed(Scope.SPEC)]


def test_an_open_transaction_is_aborted_and_its_producer_fenced(lax: Running, topic: str) -> None:
    cluster = Cluster(lax.bootstrap)
    held = cluster.begin(topic, 0, [Sent(b"1")])
    transactions = opened(lax, topic)
    (found,) = transactions.listed(Scope.SPEC)
    transactions.abort(found)

    assert [] == [*transactions.listed(Scope.SPEC)]
    with pytest.raises(KafkaException, match=r"fenced|epoch"):
        held.producer.commit_transaction(10)


def test_a_transaction_that_no_coordinator_knows_hangs_until_it_is_aborted(
    lax: Running, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer_id = hang(lax, topic, monkeypatch)
    transactions = opened(lax, topic)
    (found,) = transactions.listed(Scope.SPEC)

    assert TransactionState.HANGING == found.state
    assert producer_id == found.producer_id
    assert found.began_ms is None
    assert 1 == found.held_records
    transactions.abort(found)
    assert [] == [*transactions.listed(Scope.SPEC)]


def test_the_cluster_is_looked_through_only_where_that_is_asked_for(
    lax: Running, topic: str
) -> None:
    cluster = Cluster(lax.bootstrap)
    cluster.create(f"{topic}-other")
    held = cluster.begin(f"{topic}-other", 0, [Sent(b"1")])
    transactions = opened(lax, topic)

    assert [] == [*transactions.listed(Scope.SPEC)]
    assert [f"{topic}-other"] == [
        place.topic for each in transactions.listed(Scope.CLUSTER) for place in each.partitions
    ]
    held.abort()


def test_a_transaction_that_ends_while_coordinators_are_asked_is_not_said_to_hang(
    lax: Running, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Cluster(lax.bootstrap).begin(topic, 0, [Sent(b"1")])
    ask = KafkaTransactions._names

    def ask_late(self: KafkaTransactions, producers: set[int]) -> Any:
        monkeypatch.setattr(KafkaTransactions, "_names", ask)
        held.commit()
        return ask(self, producers)

    monkeypatch.setattr(KafkaTransactions, "_names", ask_late)

    assert [] == [*opened(lax, topic).listed(Scope.SPEC)]


def test_what_hangs_is_unknown_while_a_coordinator_is_missing(
    lax: Running, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hang(lax, topic, monkeypatch)
    listed = Brokers.listed

    def without_leaders(self: Brokers, topics: Any) -> list[Any]:
        found = listed(self, topics)
        for each in found[0].partitions if topics == ["__transaction_state"] else ():
            each.leader_id = -1
        return found

    transactions = opened(lax, topic)
    monkeypatch.setattr(KafkaTransactions, "_names", lambda *_: ({}, True))
    assert [TransactionState.HANGING] == [each.state for each in transactions.listed(Scope.SPEC)]
    monkeypatch.setattr(Brokers, "listed", without_leaders)

    assert [TransactionState.UNKNOWN] == [each.state for each in transactions.listed(Scope.SPEC)]


def test_a_coordinator_that_moves_while_brokers_are_asked_is_found(
    lax: Running, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Cluster(lax.bootstrap).begin(topic, 0, [Sent(b"1")])
    ask, asked = KafkaTransactions._names, []

    def miss(self: KafkaTransactions, producers: set[int]) -> Any:
        asked.append(producers)
        return ask(self, producers) if len(asked) > 1 else ({}, True)

    monkeypatch.setattr(KafkaTransactions, "_names", miss)

    assert [TransactionState.OPEN] == [each.state for each in opened(lax, topic).listed(Scope.SPEC)]
    held.abort()
