"""Keys go where librdkafka's partitioner for Java's keys puts them, on a real broker."""

import os

import pyarrow as pa
import pytest
from confluent_kafka import Message, Producer
from tests.processes.broker import Cluster

from penstock.connectors.kafka.native.partitioner import partitions_of
from penstock.dev.broker import Running

pytestmark = pytest.mark.broker


def test_keys_go_where_librdkafka_puts_them(broker: Running) -> None:
    topic = f"keys{os.urandom(3).hex()}"
    keys = [os.urandom(size) for size in range(1, 300)]
    Cluster(broker.bootstrap).create(topic, 7)
    settings = {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"}
    producer, sent = Producer(settings), dict[bytes, int]()

    def note(_: object, message: Message) -> None:
        sent[bytes(message.key() or b"")] = message.partition()

    for key in keys:
        producer.produce(topic, b"", key, on_delivery=note)
    producer.flush(30)

    assert [sent[key] for key in keys] == partitions_of(pa.array(keys), 7).to_pylist()
