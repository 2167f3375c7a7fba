"""What a process of the produce figure does: have the rows, then send them in one transaction.

Invariants: both ways send the same rows, all replicas acknowledge them, and the time ends when the
transaction has been committed.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import records
from benchmarks.topics import CLIENT, PATIENCE_SECONDS

BLOCK_ROWS = 25_000
MIX = 7919
"""A prime: keys do not come in the order of partitions."""
KEYS = 1_000_000


def rows_of(order: Mapping[str, Any]) -> tuple[list[bytes | None], list[bytes]]:
    """Return keys and values."""
    count = order["records"]
    keys: list[bytes | None] = [None] * count
    if order["keyed"]:
        keys = [b"c%06d" % (number * MIX % KEYS) for number in range(count)]
    return keys, list(records.values(0, count))


def own(order: Mapping[str, Any]) -> Callable[[], None]:
    """Pack in columns and send under a term."""
    from penstock.connectors.kafka import connector
    from penstock.connectors.kafka.native.partitioner import partitions_of
    from penstock.connectors.kafka.native.record_batch_writer import KafkaPacker
    from penstock.connectors.kafka.settings import read_settings
    from penstock.connectors.kafka.transactions.sender import KafkaSender
    from penstock.connectors.kafka.transactions.terms import KafkaTerms
    from penstock.ports.producers import Term
    from penstock.spec.secrets import ProcessSecrets

    keys, values = rows_of(order)
    now = pa.array(np.full(len(keys), time.time_ns() // 1_000_000))
    columns = {
        "timestamp": now.cast(pa.timestamp("ms", tz="UTC")),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
    }
    rows, topic, count = pa.record_batch(columns), order["topic"], order["partitions"]
    given = {"brokers": order["brokers"], "topics": [topic]}
    settings = read_settings({"brokers": order["brokers"]}, ProcessSecrets())
    places = connector.open_log(given, ProcessSecrets()).partitions()
    terms, sender = KafkaTerms(settings, timeout_ms=600_000), KafkaSender(settings)
    packer = KafkaPacker(codec=order["codec"])
    term = terms.take(topic)

    def send() -> None:
        packed: dict[Any, list[Any]] = {at: [] for at in places}
        for turn, begin in enumerate(range(0, rows.num_rows, BLOCK_ROWS)):
            block = rows.slice(begin, BLOCK_ROWS)
            partitions = partitions_of(block["key"], count).fill_null(turn % count)
            for number, batches in packer.pack(block, partitions).items():
                packed[places[number]] += batches
        sent = sender.send(topic, term, packed)
        assert isinstance(sent, Mapping), sent
        assert isinstance(terms.end(topic, term), Term)

    return send


def librdkafka(order: Mapping[str, Any]) -> Callable[[], None]:
    """Produce record by record, as its Python client is used."""
    from confluent_kafka import Producer

    keys, values = rows_of(order)
    topic = order["topic"]
    settings = {
        **CLIENT,
        "bootstrap.servers": order["brokers"],
        "compression.type": order["codec"],
        "linger.ms": 20,
        "partitioner": "murmur2_random",
        "transactional.id": topic,
        "transaction.timeout.ms": 600_000,
        "batch.size": 1_000_000,
    }
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_SECONDS)

    def send() -> None:
        producer.begin_transaction()
        for key, value in zip(keys, values, strict=True):
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.commit_transaction(PATIENCE_SECONDS)

    return send


def main(order: Mapping[str, Any]) -> None:
    """Send as ordered; tell when it begins and what it took."""
    _, values = rows_of(order)
    size = sum(map(len, values)) / len(values)
    del values
    send = {"own": own, "librdkafka": librdkafka}[order["way"]](order)
    print(json.dumps({"event": "Began"}), flush=True)
    used, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    send()
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime - used.ru_utime + after.ru_stime - used.ru_stime
    told = {"event": "Sent", "seconds": seconds, "cpu": cpu, "record_bytes": size}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
