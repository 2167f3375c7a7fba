"""The contract of `ports/producers.py`, packers and senders: a real broker, and memory."""

from __future__ import annotations

import pytest
from tests.processes.broker import Cluster
from tests.story.clock import ManualClock
from tests.story.foreign_acts import PlayedCluster

from penstock.connectors.kafka import connector
from penstock.connectors.kafka.native.record_batch_writer import KafkaPacker
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions.sender import KafkaSender
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.connectors.memory.sending import MemoryPacker, MemorySender
from penstock.connectors.memory.transactions import MemoryCoordinator, MemoryTerms
from penstock.dev.broker import Running
from penstock.ports.log import Log, RangeReader
from penstock.ports.producers import Packer, Sender, Terms
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.sending import SendingContract

PARTITIONS = 2


@pytest.mark.broker
class TestKafka(SendingContract):
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
