"""What stories are played on: a cluster, one catalog of tables, pending stores; in memory or real.

Both grounds speak alike, so that one story runs on each. Tables are in the catalog `lake`.

Invariants:
- acts of other writers go around our ports, through the format's own library where it is real;
- a ground outlives the lives of coordinators that are lived on it; each life opens it afresh.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from tests.story.clock import START_MS
from tests.story.foreign_acts import PlayedCluster, PlayedStore, PlayedWarehouse

from penstock.connectors.memory.cluster import Message
from penstock.connectors.memory.file_rows import WarehouseRows
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.connectors.memory.tables import MemoryTables
from penstock.core.crash_points import OF_PUBLISHING, OF_UPKEEP, CrashPoint
from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.ports.exchange import ExchangeFactory
from penstock.ports.increments import FileRows
from penstock.ports.log import Log, RangeReader
from penstock.ports.runtime import Clock, Observer
from penstock.ports.store import PendingStore
from penstock.ports.tables import TableFormat
from penstock.ports.writers import WriterFactory
from penstock.testing.sent import Sent

CATALOG = "lake"
NOWHERE_REACHED = frozenset(
    {
        *(CrashPoint.EVOLVE_BEFORE, CrashPoint.EVOLVE_AFTER),
        *(CrashPoint.RESOLVE_BEFORE, CrashPoint.RESOLVE_AFTER),
        *(CrashPoint.FILES_REWRITTEN, CrashPoint.ROW_DELETES_WRITTEN),
        *OF_PUBLISHING,
        *OF_UPKEEP,
    }
)
"""Points of acts that no coordinator of these stories does; those of keyed tables are struck in
tests/crash/matrix.py."""


class Ending(Protocol):
    """A transaction that waits for its end."""

    def commit(self) -> None:
        """Make its records visible."""

    def abort(self) -> None:
        """Make its records never to be seen."""


@dataclass(frozen=True, slots=True)
class Held:
    """One committed record as the cluster holds it."""

    partition: int
    offset: int
    value: bytes | None


class Backend(Protocol):
    """Where a story is played. `unreached` are crash points that no life comes to here."""

    connector: str
    unreached: frozenset[CrashPoint]

    def topic(self, name: str) -> str:
        """Return the topic's name in this cluster."""

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to a number."""

    def delete(self, topic: str) -> None:
        """Delete a topic."""

    def send(self, topic: str, partition: int, records: Sequence[Sent]) -> None:
        """Send records."""

    def begin(self, topic: str, partition: int, records: Sequence[Sent]) -> Ending:
        """Send records in a transaction and leave it open."""

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete records as retention does."""

    def held(self, topic: str) -> list[Held]:
        """List the committed records."""

    def log_settings(self, topics: Sequence[str]) -> dict[str, Any]:
        """Return the settings that travel in jobs."""

    def open_log(self, topics: Sequence[str]) -> Log:
        """Open the listing side."""

    def open_reader(self, topics: Sequence[str], clock: Clock) -> RangeReader:
        """Open the reading side."""

    def worker_clock(self, clock: Clock) -> Clock:
        """Return the clock that readers go by: the story's, or the machine's for a real broker."""

    def open_catalog(self, observer: Observer) -> TableFormat:
        """Open the catalog."""

    def open_writer(self) -> WriterFactory:
        """Return the factory of writers."""

    def open_exchange(self) -> ExchangeFactory | None:
        """Return the factory of exchanges, if there is one."""

    def open_file_rows(self) -> FileRows:
        """Return what workers read files with."""

    def open_store(self, host: str) -> PendingStore:
        """Open the pending store of a host."""

    def lose_store(self, host: str) -> None:
        """Delete a host's store."""

    def save_store(self, host: str) -> Any:
        """Take a copy of a host's store."""

    def restore_store(self, host: str, saved: Any) -> None:
        """Put a copy back."""

    def remove_file(self, path: str) -> None:
        """Remove a data file without a commit."""

    def drop(self, name: str) -> None:
        """Drop a table as another writer."""

    def roll_back(self, name: str, snapshot: str) -> None:
        """Make an older snapshot the table's newest, by the format's own means."""

    def append(self, name: str) -> None:
        """Append a row as another writer."""

    def expire(self, name: str) -> None:
        """Forget all of the table's history that one may."""

    def change_columns(self, name: str) -> None:
        """Change the table's schema as another writer: drop the column `extra` where one can."""

    def widen(self, name: str) -> None:
        """Add an optional column `later` as another writer."""


class LogInMemory:
    """The half of a ground that is Kafka's, in this process; nothing waits."""

    def __init__(self) -> None:
        self.cluster = PlayedCluster()

    def topic(self, name: str) -> str:
        """Return the name as it is: the cluster is the story's alone."""
        return name

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic."""
        self.cluster.create(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to a number."""
        self.cluster.grow(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.cluster.delete(topic)

    def send(self, topic: str, partition: int, records: Sequence[Sent]) -> None:
        """Send records."""
        self.cluster.send(topic, *map(_message, records), partition=partition)

    def begin(self, topic: str, partition: int, records: Sequence[Sent]) -> Ending:
        """Send records in a transaction and leave it open."""
        transaction = self.cluster.begin()
        transaction.send(topic, *map(_message, records), partition=partition)
        return transaction

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete records as retention does."""
        self.cluster.delete_before(topic, partition, offset)

    def held(self, topic: str) -> list[Held]:
        """List the committed records."""
        return [
            Held(partition, offset, message.value)
            for partition, entries in self.cluster.records(topic).items()
            for offset, message in entries
        ]

    def log_settings(self, topics: Sequence[str]) -> dict[str, Any]:
        """Return the settings that travel in jobs."""
        return {"topics": list(topics)}

    def open_log(self, topics: Sequence[str]) -> Log:
        """Open the listing side."""
        return MemoryLog(self.cluster, self.log_settings(topics))

    def open_reader(self, topics: Sequence[str], clock: Clock) -> RangeReader:
        """Open the reading side."""
        del topics
        return MemoryReader(self.cluster, clock)

    def worker_clock(self, clock: Clock) -> Clock:
        """Return the story's clock."""
        return clock


class MemoryGround(LogInMemory):
    """Everything in this process."""

    connector = "memory"
    unreached = frozenset({CrashPoint.MANIFEST_WRITTEN, *NOWHERE_REACHED})

    def __init__(self) -> None:
        super().__init__()
        self.warehouse = PlayedWarehouse()
        self._stores: dict[str, PlayedStore] = {}

    def open_catalog(self, observer: Observer) -> TableFormat:
        """Open the catalog."""
        del observer
        return MemoryTables(self.warehouse)

    def open_writer(self) -> WriterFactory:
        """Return the factory of writers."""
        return MemoryTables(self.warehouse).open_writer

    def open_exchange(self) -> ExchangeFactory | None:
        """Return None: tables in memory have no partitions."""

    def open_file_rows(self) -> FileRows:
        """Return what workers read files with."""
        return WarehouseRows(self.warehouse)

    def open_store(self, host: str) -> PendingStore:
        """Open the pending store of a host."""
        return self.store(host)

    def store(self, host: str) -> PlayedStore:
        """Return a host's store."""
        return self._stores.setdefault(host, PlayedStore())

    def lose_store(self, host: str) -> None:
        """Delete a host's store."""
        self.store(host).lose()

    def save_store(self, host: str) -> Any:
        """Take a copy of a host's store."""
        store = self.store(host)
        with store.guard:
            return _copied((store.holdings, store.entries, store.noted, store.texts))

    def restore_store(self, host: str, saved: Any) -> None:
        """Put a copy back."""
        store = self.store(host)
        with store.guard:
            store.holdings, store.entries, store.noted, store.texts = _copied(saved)

    def remove_file(self, path: str) -> None:
        """Remove a data file without a commit."""
        self.warehouse.remove_file(path)

    def drop(self, name: str) -> None:
        """Drop a table as another writer."""
        self.warehouse.drop(name)

    def roll_back(self, name: str, snapshot: str) -> None:
        """Make an older snapshot the head."""
        self.warehouse.roll_back(name, snapshot)

    def append(self, name: str) -> None:
        """Append a row as another writer."""
        columns = [each.name for each in self.warehouse.get(name).contents.schema.fields]
        self.warehouse.foreign_append(name, [dict.fromkeys(columns)])

    def expire(self, name: str) -> None:
        """Remove all snapshots but the newest and those that are tagged."""
        self.warehouse.expire(name, keep=1)

    def change_columns(self, name: str) -> None:
        """Drop the column `extra`."""
        fields = self.warehouse.get(name).contents.schema.fields
        self._alter(name, Struct(tuple(each for each in fields if each.name != "extra")))

    def widen(self, name: str) -> None:
        """Add an optional column `later`."""
        fields = self.warehouse.get(name).contents.schema.fields
        self._alter(name, Struct((*fields, Field("later", Kind.STRING))))

    def _alter(self, name: str, schema: Schema) -> None:
        stored = self.warehouse.get(name)
        base = stored.contents
        changed = replace(base, schema=schema, schema_id=base.schema_id + 1)
        stored.apply(base, changed)


def _copied(parts: Any) -> Any:
    """Copy what a store holds: what can change, for values cannot."""
    holdings, entries, examined, rules = parts
    return (
        dict(holdings),
        [replace(each) for each in entries],
        {pipeline: dict(each) for pipeline, each in examined.items()},
        dict(rules),
    )


def numbered(numbers: Sequence[int], fields: Mapping[str, Any]) -> list[Sent]:
    """Return records `{"n": number, …fields}`, each a millisecond after the one numbered before."""
    return [
        Sent(json.dumps({"n": n, **fields}).encode(), timestamp_ms=START_MS + n) for n in numbers
    ]


def catalog_name(table: str) -> str:
    """Return the name of a table within its catalog."""
    return table.removeprefix(f"{CATALOG}.")


def _message(sent: Sent) -> Message:
    return Message(sent.value, sent.key, sent.timestamp_ms, sent.headers)
