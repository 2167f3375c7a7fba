"""Kafka's own Java client reads a partition: the classes that our broker runs on, by py4j."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from penstock.dev.jars import BROKER, jars_of
from penstock.engines.java import find_java

CONSUMER = {
    "isolation.level": "read_committed",
    "check.crcs": "true",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "max.poll.records": "10000",
    "fetch.max.bytes": str(64 << 20),
    "max.partition.fetch.bytes": str(64 << 20),
    "key.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    "value.deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
}
POLL_MS = 500

Read = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Time, key, value, headers."""


class JavaConsumer:
    """Reads whole partitions."""

    def __init__(self, java: Any, brokers: str) -> None:
        self._java, self._brokers = java, brokers

    def read(self, topic: str, partition: int, count: int) -> list[Read]:
        """Return the first committed records, once so many are read."""
        clients = self._java.org.apache.kafka
        settings = self._java.java.util.HashMap()
        for name, value in {**CONSUMER, "bootstrap.servers": self._brokers}.items():
            settings.put(name, value)
        at = clients.common.TopicPartition(topic, partition)
        consumer = clients.clients.consumer.KafkaConsumer(settings)
        try:
            consumer.assign(self._java.java.util.List.of(at))
            found: list[Read] = []
            while len(found) < count:
                polled = consumer.poll(self._java.java.time.Duration.ofMillis(POLL_MS))
                found += map(_read, polled.records(at).toArray())  # PySpark replaces how lists end
            return found
        finally:
            consumer.close()


@contextmanager
def running(brokers: str) -> Iterator[JavaConsumer]:
    """Run a Java process with the broker's jars."""
    java = find_java(os.environ)
    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
    port = launch_gateway(
        jarpath=str(py4j),
        classpath=f"{jars_of(BROKER, java)}/*",
        java_path=str(java.path),
        javaopts=["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
        die_on_exit=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    try:
        yield JavaConsumer(gateway.jvm, brokers)
    finally:
        gateway.shutdown()


def _read(record: Any) -> Read:
    headers = [(each.key(), _bytes(each.value())) for each in record.headers().toArray()]
    return record.timestamp(), _bytes(record.key()), _bytes(record.value()), headers


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
