"""The contract of `ports/log.py` against a real broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.processes.broker import Cluster

from penstock.connectors.kafka import connector
from penstock.dev.broker import Running
from penstock.ports.log import Log, RangeReader
from penstock.testing.contracts.log import LogBench, LogContract, OpenTransaction, ReadingTests
from penstock.testing.sent import Sent

pytestmark = pytest.mark.broker


class Plain:
    """Secrets that are none."""

    def resolve(self, text: str) -> str:
        return text


class OnABroker(LogBench):
    reader_name = "columnar"

    @pytest.fixture(autouse=True)
    def _cluster(self, broker: Running) -> None:
        self.cluster = Cluster(broker.bootstrap)

    def open_log(self, settings: Mapping[str, Any]) -> Log:
        return connector.open_log({"brokers": self.cluster.bootstrap, **settings}, Plain())

    def open_reader(self) -> RangeReader:
        settings = {
            "brokers": self.cluster.bootstrap,
            "topics": [],
            "reader": self.reader_name,
        }
        return connector.open_reader(settings, Plain())

    def create(self, topic: str, partitions: int) -> None:
        self.cluster.create(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        self.cluster.grow(topic, partitions)

    def delete(self, topic: str) -> None:
        self.cluster.delete(topic)

    def send(self, topic: str, partition: int, records: Sequence[Sent]) -> None:
        self.cluster.send(topic, partition, records)

    def begin(self, topic: str, partition: int, records: Sequence[Sent]) -> OpenTransaction:
        return self.cluster.begin(topic, partition, records)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        self.cluster.delete_before(topic, partition, offset)


class TestKafka(OnABroker, LogContract):
    pass


class TestKafkaReadByLibrdkafka(OnABroker, ReadingTests):
    reader_name = "librdkafka"
