"""The script that one would write by hand to publish a topic or a table: librdkafka, from Python.

Invariants: each transaction holds so many rows, all replicas acknowledge them, and a line says so
when it has been committed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.specs import TABLE
from benchmarks.topics import CLIENT, PATIENCE_SECONDS

TARGET = "script"
POLLED = 10_000


class Sending:
    """Rows that go into one transaction after another."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        from confluent_kafka import Producer

        settings = {
            **CLIENT,
            "bootstrap.servers": order["brokers"],
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "partitioner": "murmur2_random",
            "transactional.id": TARGET,
        }
        self.producer = Producer(settings)
        self.producer.init_transactions(PATIENCE_SECONDS)

    def send(self, **record: Any) -> None:
        """Hand over a record, waiting where the client's queue is full."""
        while not self._taken(record):
            self.producer.poll(0.05)

    def commit(self, rows: int) -> None:
        """Commit, and say so."""
        self.producer.commit_transaction(PATIENCE_SECONDS)
        print(json.dumps({"event": "Committed", "rows": rows}), flush=True)

    def _taken(self, record: Mapping[str, Any]) -> bool:
        try:
            self.producer.produce(TARGET, **record)
        except BufferError:
            return False
        return True


def topic(order: Mapping[str, Any]) -> None:
    """Copy a topic; its positions are in the transactions."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": order["brokers"], "group.id": TARGET, "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([TopicPartition("source", number, 0) for number in range(order["partitions"])])
    sending, left = Sending(order), order["records"]
    while left:
        wanted = min(left, order["transaction_records"])
        sending.producer.begin_transaction()
        for number in range(0, wanted, POLLED):
            sent = 0
            while sent < min(POLLED, wanted - number):
                found = consumer.consume(min(POLLED, wanted - number) - sent, 0.2)
                for each in found:
                    sending.send(
                        value=each.value(),
                        key=each.key(),
                        partition=each.partition(),
                        timestamp=each.timestamp()[1],
                        headers=each.headers(),
                    )
                sent += len(found)
        positions = consumer.position(consumer.assignment())
        group = consumer.consumer_group_metadata()
        sending.producer.send_offsets_to_transaction(positions, group, PATIENCE_SECONDS)
        sending.commit(wanted)
        left -= wanted


def table(order: Mapping[str, Any]) -> None:
    """Send the rows of a table as keyed messages of JSON."""
    sending, rows = Sending(order), _messages(order)
    while part := list(islice(rows, order["transaction_records"])):
        sending.producer.begin_transaction()
        for key, value in part:
            sending.send(key=key, value=value)
        sending.commit(len(part))


def _messages(order: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield key and value of each row of the table."""
    import duckdb

    connection = duckdb.connect()
    for batch in _batches(Path(order["folder"]), order["format"]):
        connection.register("row", pa.table(batch))
        yield from connection.execute("select id::varchar, to_json(row) from row").fetchall()


def _batches(folder: Path, table_format: str) -> Iterator[Any]:
    """Yield the rows of the table as Arrow batches."""
    if table_format == "delta":
        from deltalake import DeltaTable, QueryBuilder

        found = DeltaTable(str(folder / "delta" / "bench" / "events"))
        yield from QueryBuilder().register("it", found).execute("select * from it")
        return

    from pyiceberg.catalog import load_catalog

    uri = f"sqlite:///{folder}/catalog.db"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{folder}/lake")
    yield from catalog.load_table(TABLE).scan().to_arrow_batch_reader()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"topic": topic, "table": table}[given["what"]](given)
