"""The contract of `ports/producers.py`, packers and senders: a real broker, and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.processes.broker import Cluster
from tests.story.clock import ManualClock
from tests.story.foreign_acts import PlayedCluster

from penstock.connectors.kafka import connector
from penstock.connectors.kafka.native.record_batch_writer import KafkaPacker
from penstock.connectors.kafka.producers.sender import MessagePacker, ProducerSender
from penstock.connectors.kafka.producers.terms import ProducerTerms
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions.sender import KafkaSender
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.connectors.memory.sending import MemoryPacker, MemorySender
from penstock.connectors.memory.transactions import MemoryCoordinator, MemoryTerms
from penstock.dev.broker import Running
from penstock.ports.log import Log, RangeReader
from penstock.ports.producers import PROTOCOL_1, Packer, RecordsRefused, Sender, Terms
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.sending import (
    SendingContract,
    SendingFixture,
    noise,
    numbered,
)
from penstock.testing.contracts.transactions import LONG_MS

PARTITIONS = 2


class OnABroker(SendingFixture):
    @pytest.fixture(autouse=True)
    def find_broker(self, broker: Running) -> None:
        self.cluster = Cluster(broker.bootstrap)
        self.brokers = {"brokers": broker.bootstrap}
        self.settings = read_settings(self.brokers, ProcessSecrets())

    def open_terms(self, *, timeout_ms: int) -> Terms:
        return KafkaTerms(self.settings, timeout_ms=timeout_ms)

    def open_packer(self, *, batch_bytes_max: int) -> Packer:
        return KafkaPacker(codec="none", batch_bytes_max=batch_bytes_max)

    def open_sender(self) -> Sender:
        return KafkaSender(self.settings, patience_seconds=1.0)

    def open_log(self, topic: str) -> Log:
        return connector.open_log({**self.brokers, "topics": [topic]}, ProcessSecrets())

    def open_reader(self) -> RangeReader:
        return connector.open_reader({**self.brokers, "topics": []}, ProcessSecrets())

    def create(self, topic: str, *, batch_bytes_max: int, is_compacted: bool) -> None:
        policy = "compact" if is_compacted else "delete"
        self.cluster.create(
            topic, PARTITIONS, max_message_bytes=str(batch_bytes_max), cleanup_policy=policy
        )

    def delete(self, topic: str) -> None:
        self.cluster.delete(topic)


@pytest.mark.broker
class TestKafka(OnABroker, SendingContract):
    pass


@pytest.mark.broker
class TestLibrary(OnABroker):
    """Producers of librdkafka: they make batches themselves, and number what they send again."""

    test_keys = SendingContract.test_a_key_has_one_partition_among_so_many
    test_former_term = SendingContract.test_under_a_former_term_nothing_is_sent
    test_another_topic = SendingContract.test_a_topic_that_was_created_again_is_not_written

    def test_records_of_all_kinds_are_there_in_order(self, terms: Terms, name: str) -> None:
        places, term = self.made(name), terms.take(name)
        rows = [
            *numbered(0, 50),
            (1_700_000_000_000, None, None, []),
            (1_700_000_000_001, b"", b"", [("", b""), ("", None)]),
            (5, b"k", None, [("é", b"\xff"), ("é", b"2")]),
            (6, None, b"v" * 70_000, []),
        ]
        found = self.sent(name, term, self.packed(places, {0: rows, 1: numbered(50, 7)}))

        assert isinstance(found, Mapping)
        assert {places[0]: (0, 53, 54, None), places[1]: (0, 6, 7, None)} == {
            at: (each.first, each.last, each.records, each.crc_sum) for at, each in found.items()
        }
        self.ended(terms, name, term)
        assert rows == self.read(places[0], 54)
        assert numbered(50, 7) == self.read(places[1], 7)

    @pytest.mark.parametrize("time_ms", [None, 0])
    def test_a_record_without_a_time_has_the_time_of_sending(
        self, terms: Terms, name: str, time_ms: int | None
    ) -> None:
        places, term = self.made(name), terms.take(name)
        sent = self.sent(name, term, self.packed(places, {0: [(time_ms, b"k", b"v", [])]}))
        assert isinstance(sent, Mapping)
        self.ended(terms, name, term)

        (row,) = self.read(places[0], 1)
        assert row[0] is not None
        assert row[0] > 1_700_000_000_000

    def test_batches_are_as_small_as_the_topics_take_them(self, name: str) -> None:
        places = self.made(name, batch_bytes_max=5_000)
        terms = self.terms_for(name)
        term, rows = terms.take(name), [noise(n, 3_000) for n in range(3)]
        found = self.sent(name, term, self.packed(places, {0: rows}))

        assert isinstance(found, Mapping)
        self.ended(terms, name, term)
        assert rows == self.read(places[0], 3)

    @pytest.mark.parametrize("is_compacted", [False, True])
    def test_a_record_that_a_topic_does_not_take_is_named(
        self, name: str, *, is_compacted: bool
    ) -> None:
        places = self.made(name, batch_bytes_max=5_000, is_compacted=is_compacted)
        terms = self.terms_for(name)
        bad = (1_700_000_000_000, None, b"no key", []) if is_compacted else noise(1, 9_000)
        batches = self.packed(places, {1: [*numbered(0, 3), bad]})
        found = self.sent(name, terms.take(name), batches)

        assert isinstance(found, RecordsRefused)
        assert (places[1], 87 if is_compacted else 10) == (found.at, found.error)
        assert ((0,) if is_compacted else (3,)) == found.records
        assert is_compacted == ("one of 4 records" in found.reason)

    def terms_for(self, topic: str) -> Terms:
        """Return terms of producers that write a topic."""
        self.settings = replace(self.settings, topics=(topic,))
        return self.open_terms(timeout_ms=LONG_MS)

    def open_terms(self, *, timeout_ms: int) -> Terms:
        return ProducerTerms(
            self.settings, compression="none", timeout_ms=timeout_ms, protocol=PROTOCOL_1
        )

    def open_packer(self, *, batch_bytes_max: int) -> Packer:
        del batch_bytes_max
        return MessagePacker()

    def open_sender(self) -> Sender:
        return ProducerSender(self.settings, patience_seconds=10.0)


class TestMemory(SendingContract):
    def setup_method(self) -> None:
        self.cluster = PlayedCluster()
        self.coordinator = MemoryCoordinator(self.cluster)

    def open_terms(self, *, timeout_ms: int) -> Terms:
        del timeout_ms  # time does not pass there
        return MemoryTerms(self.coordinator)

    def open_packer(self, *, batch_bytes_max: int) -> Packer:
        return MemoryPacker(batch_bytes_max=batch_bytes_max)

    def open_sender(self) -> Sender:
        return MemorySender(self.coordinator)

    def open_log(self, topic: str) -> Log:
        return MemoryLog(self.cluster, {"topics": [topic]})

    def open_reader(self) -> RangeReader:
        return MemoryReader(self.cluster, ManualClock())

    def create(self, topic: str, *, batch_bytes_max: int, is_compacted: bool) -> None:
        self.cluster.create(
            topic, PARTITIONS, batch_bytes_max=batch_bytes_max, is_compacted=is_compacted
        )

    def delete(self, topic: str) -> None:
        self.cluster.delete(topic)
