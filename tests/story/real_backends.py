"""Grounds of stories made of real parts: Iceberg or Delta on this disk, SQLite stores, a broker.

Invariants: those of `grounds`; topics have names of their own on a broker that stories share.
"""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from deltalake import DeltaTable, Field, Schema, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType
from tests.processes.broker import Cluster
from tests.story.backend import CATALOG, NOWHERE_REACHED, Ending, Held, LogInMemory

from penstock.connectors import delta, iceberg, kafka, sql
from penstock.core.crash_points import CrashPoint
from penstock.ports.exchange import ExchangeFactory
from penstock.ports.increments import FileRows
from penstock.ports.log import Log, RangeReader
from penstock.ports.runtime import Clock, Observer
from penstock.ports.store import PendingStore
from penstock.ports.tables import TableFormat
from penstock.ports.writers import WriterFactory
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.sent import Sent

_RUNS = itertools.count(1)
_SECRETS = ProcessSecrets({})
READ_SECONDS_MAX = 30.0


class MachineClock:
    """The machine's time, for readers of a real broker."""

    def now_ms(self) -> int:
        """Return wall-clock epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@cache
def _cluster(bootstrap: str) -> Cluster:
    """Keep one producer for all stories of a process: a new one takes half a second to be ready."""
    return Cluster(bootstrap)


@cache
def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "stories",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )


def read_all(consumer: Consumer, topic: str) -> Iterator[Held]:
    """Read a topic whole, message by message. Raises KafkaException, TimeoutError."""
    partitions = consumer.list_topics(topic, timeout=READ_SECONDS_MAX).topics[topic].partitions
    left = set(partitions)
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in partitions])
    while left:
        message = consumer.poll(READ_SECONDS_MAX)
        if message is None:
            raise TimeoutError(f"the end of {topic} was not reached")
        error = message.error()
        if error is None:
            yield Held(message.partition(), message.offset(), message.value())
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition())
        else:
            raise KafkaException(error)
    consumer.unassign()


class LogOfKafka:
    """The half of a ground that is Kafka's, on a real broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._cluster = _cluster(bootstrap)
        self._suffix = f"{os.getpid()}-{next(_RUNS)}"
        self._readers: list[RangeReader] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for reader in self._readers:
            reader.close()

    def topic(self, name: str) -> str:
        """Return a name that no other story has."""
        return f"{name}-{self._suffix}"

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        self._cluster.create(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to a number."""
        self._cluster.grow(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._cluster.delete(topic)

    def send(self, topic: str, partition: int, records: Sequence[Sent]) -> None:
        """Send records."""
        self._cluster.send(topic, partition, records)

    def begin(self, topic: str, partition: int, records: Sequence[Sent]) -> Ending:
        """Send records in a transaction and leave it open."""
        return self._cluster.begin(topic, partition, records)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete records as retention does."""
        self._cluster.delete_before(topic, partition, offset)

    def held(self, topic: str) -> list[Held]:
        """List the committed records by a plain consumer. Raises KafkaException, TimeoutError."""
        return list(read_all(_consumer(self.bootstrap), topic))

    def log_settings(self, topics: Sequence[str]) -> dict[str, Any]:
        """Return the settings that travel in jobs."""
        return {"brokers": self.bootstrap, "topics": list(topics)}

    def open_log(self, topics: Sequence[str]) -> Log:
        """Open the listing side."""
        return kafka.open_log(self.log_settings(topics), _SECRETS)

    def open_reader(self, topics: Sequence[str], clock: Clock) -> RangeReader:
        """Open the reading side; it is kept for later lives, as workers keep theirs."""
        del clock
        if not self._readers:
            self._readers.append(kafka.open_reader(self.log_settings(topics), _SECRETS))
        return self._readers[0]

    def worker_clock(self, clock: Clock) -> Clock:
        """Return the machine's clock: a real broker keeps no other."""
        del clock
        return MachineClock()


class StoresOnDisk:
    """A store file for each host, below a directory."""

    directory: Path

    def open_store(self, host: str) -> PendingStore:
        """Open the pending store of a host."""
        return sql.open_sqlite(f"sqlite:///{self._store(host)}", _SECRETS)

    def lose_store(self, host: str) -> None:
        """Delete a host's store."""
        for path in self.directory.glob(f"{self._store(host).name}*"):
            path.unlink()

    def save_store(self, host: str) -> Any:
        """Take a copy of a host's store."""
        return {
            path.name: path.read_bytes()
            for path in self.directory.glob(f"{self._store(host).name}*")
        }

    def restore_store(self, host: str, saved: Any) -> None:
        """Put a copy back."""
        self.lose_store(host)
        for name, content in saved.items():
            (self.directory / name).write_bytes(content)

    def remove_file(self, path: str) -> None:
        """Remove a data file without a commit."""
        Path(path.removeprefix("file://")).unlink()

    def _store(self, host: str) -> Path:
        return self.directory / f"{host}.db"


class IcebergLake(StoresOnDisk):
    """Iceberg tables in a SQLite catalog."""

    connector = "iceberg"
    unreached = NOWHERE_REACHED

    @property
    def _settings(self) -> dict[str, str]:
        place = self.directory / "lake"
        place.mkdir(exist_ok=True)
        return {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": str(place)}

    def open_catalog(self, observer: Observer) -> TableFormat:
        """Open the catalog."""
        return iceberg.open_catalog({"name": CATALOG, **self._settings}, _SECRETS, observer)

    def open_writer(self) -> WriterFactory:
        """Return the factory of writers."""
        return partial(iceberg.open_writer, secrets=_SECRETS)

    def open_exchange(self) -> ExchangeFactory | None:
        """Return the factory of exchanges."""
        return partial(iceberg.open_exchange, secrets=_SECRETS)

    def open_file_rows(self) -> FileRows:
        """Return what workers read files with."""
        assert iceberg.open_file_rows is not None
        return iceberg.open_file_rows(_SECRETS)

    def drop(self, name: str) -> None:
        """Drop a table as another writer."""
        self.foreign().drop_table(name)

    def roll_back(self, name: str, snapshot: str) -> None:
        """Make an older snapshot the table's newest."""
        table = self.foreign().load_table(name)
        table.manage_snapshots().rollback_to_snapshot(int(snapshot)).commit()

    def append(self, name: str) -> None:
        """Append a row as another writer."""
        table = self.foreign().load_table(name)
        schema = table.schema().as_arrow()
        table.append(pa.Table.from_pylist([dict.fromkeys(schema.names)], schema=schema))

    def change_columns(self, name: str) -> None:
        """Drop the column `extra`."""
        with self.foreign().load_table(name).update_schema() as update:
            update.delete_column("extra")

    def widen(self, name: str) -> None:
        """Add an optional column `later`."""
        with self.foreign().load_table(name).update_schema() as update:
            update.add_column("later", StringType())

    def expire(self, name: str) -> None:
        """Remove all snapshots but the newest and those that are tagged."""
        table = self.foreign().load_table(name)
        kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
        gone = [each.snapshot_id for each in table.snapshots() if each.snapshot_id not in kept]
        table.maintenance.expire_snapshots().by_ids(gone).commit()

    def foreign(self) -> SqlCatalog:
        """Open the catalog as another writer does."""
        return SqlCatalog(CATALOG, **self._settings)


class DeltaLake(StoresOnDisk):
    """Delta tables below a directory."""

    connector = "delta"
    unreached = frozenset({CrashPoint.MANIFEST_WRITTEN, *NOWHERE_REACHED})

    @property
    def _root(self) -> Path:
        return self.directory / "lake"

    def open_catalog(self, observer: Observer) -> TableFormat:
        """Open the catalog."""
        settings = {"name": CATALOG, "type": "delta", "root": str(self._root)}
        return delta.open_catalog(settings, _SECRETS, observer)

    def open_writer(self) -> WriterFactory:
        """Return the factory of writers."""
        return partial(delta.open_writer, secrets=_SECRETS)

    def open_exchange(self) -> ExchangeFactory | None:
        """Return the factory of exchanges."""
        return partial(delta.open_exchange, secrets=_SECRETS)

    def open_file_rows(self) -> FileRows:
        """Return what workers read files with."""
        assert delta.open_file_rows is not None
        return delta.open_file_rows(_SECRETS)

    def drop(self, name: str) -> None:
        """Drop a table as another writer."""
        shutil.rmtree(self.location(name))

    def roll_back(self, name: str, snapshot: str) -> None:
        """Restore an older version."""
        DeltaTable(self.location(name)).restore(int(snapshot))

    def append(self, name: str) -> None:
        """Append a row as another writer."""
        schema = pa.schema(DeltaTable(self.location(name)).schema().to_arrow())
        row = pa.Table.from_pylist([dict.fromkeys(schema.names)], schema=schema)
        write_deltalake(self.location(name), row, mode="append")

    def change_columns(self, name: str) -> None:
        """Add a column: this format drops none."""
        self.widen(name)

    def widen(self, name: str) -> None:
        """Add an optional column `later`."""
        fields = Schema([Field("later", "string")]).fields
        DeltaTable(self.location(name)).alter.add_columns(fields)

    def expire(self, name: str) -> None:
        """Write a checkpoint and remove the log entries before it."""
        table = DeltaTable(self.location(name))
        table.create_checkpoint()
        newest = table.version()
        for entry in self.location(name).glob("_delta_log/*.json"):
            if int(entry.stem) < newest:
                entry.unlink()

    def location(self, name: str) -> Path:
        """Return the table's directory."""
        return self._root.joinpath(*name.split("."))


class IcebergGround(LogOfKafka, IcebergLake):
    """A broker, Iceberg, SQLite."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        super().__init__(bootstrap)
        self.directory = directory


class IcebergWithoutBroker(LogInMemory, IcebergLake):
    """A log in memory, Iceberg, SQLite: for stories that are about tables."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory


class DeltaWithoutBroker(LogInMemory, DeltaLake):
    """A log in memory, Delta, SQLite: for stories that are about tables."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
