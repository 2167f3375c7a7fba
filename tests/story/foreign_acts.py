"""Memory connectors on which others act: operators, other writers, storage that loses files.

Each class is the connector's own and more, so that stories and contract suites can play what happens
to Kafka, tables and pending stores from outside.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from penstock.connectors.memory.cluster import (
    MemoryCluster,
    Message,
    Partition,
    Transaction,
)
from penstock.connectors.memory.store import MemoryStore
from penstock.connectors.memory.warehouse import Row, Snapshot, Stored, Warehouse
from penstock.core.commits import DataFile


class MemoryTransaction:
    """Records that are sent and not yet decided upon; each end writes one marker a partition."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._transaction = Transaction(committed=None)
        self._touched: dict[tuple[str, int], Partition] = {}

    def send(self, topic: str, *messages: Message, partition: int = 0) -> list[int]:
        """Send messages that nobody reads before `commit`; give their offsets."""
        assert self._transaction.committed is None, "the transaction has ended"
        with self._cluster.guard:
            found = self._cluster.partition(topic, partition)
            self._touched[topic, partition] = found
            return [found.add(message, self._transaction) for message in messages]

    def commit(self) -> None:
        """Make the records visible."""
        self._end(committed=True)

    def abort(self) -> None:
        """Make the records never to be seen."""
        self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        assert self._transaction.committed is None, "the transaction has ended"
        with self._cluster.guard:
            self._transaction.committed = committed
            for partition in self._touched.values():
                partition.add(None, Transaction(committed))


class PlayedCluster(MemoryCluster):
    """A cluster with transactions, retention, compaction, elections and outages."""

    def grow(self, name: str, partitions: int) -> None:
        """Add partitions up to a number."""
        with self.guard:
            held = self.topic(name).partitions
            held += [Partition() for _ in range(partitions - len(held))]

    def delete(self, name: str) -> None:
        """Delete a topic with its records."""
        with self.guard:
            del self._topics[name]

    def begin(self) -> MemoryTransaction:
        """Begin a transaction."""
        return MemoryTransaction(self)

    def delete_before(self, name: str, partition: int, offset: int) -> None:
        """Delete records before an offset, as retention does."""
        with self.guard:
            found = self.partition(name, partition)
            found.start = max(found.start, min(offset, found.end))
            found.entries = [each for each in found.entries if each.offset >= found.start]

    def compact(self, name: str, partition: int, offsets: Iterable[int]) -> None:
        """Remove single records; their offsets stay taken."""
        gone = set(offsets)
        with self.guard:
            found = self.partition(name, partition)
            found.entries = [each for each in found.entries if each.offset not in gone]

    def lose_leader(self, name: str, partition: int) -> None:
        """Leave a partition without a leader: it cannot be read or listed."""
        with self.guard:
            self.partition(name, partition).led = False

    def elect_leader(self, name: str, partition: int, *, truncate_to: int | None = None) -> None:
        """Elect a leader for a partition; an unclean one has lost the records after an offset."""
        with self.guard:
            found = self.partition(name, partition)
            found.led = True
            found.leader_epoch += 1
            if truncate_to is not None:
                found.end = min(found.end, truncate_to)
                found.entries = [each for each in found.entries if each.offset < found.end]

    def go_down(self) -> None:
        """Stop to answer."""
        self._down = True

    def come_back(self) -> None:
        """Answer again."""
        self._down = False

    def records(self, name: str) -> Mapping[int, Sequence[tuple[int, Message]]]:
        """List what a reader of committed records would get, by partition: a test's oracle."""
        with self.guard:
            return {
                number: [
                    (each.offset, each.message)
                    for each in partition.entries
                    if each.readable and each.message is not None
                ]
                for number, partition in enumerate(self.topic(name).partitions)
            }


class PlayedWarehouse(Warehouse):
    """A warehouse in which others append, roll back, expire, and lose tables and files."""

    def __init__(self) -> None:
        super().__init__()
        self._missing: set[str] = set()

    def find(self, name: str) -> Stored | None:
        """Find a table that is not hidden."""
        return None if name in self._missing else super().find(name)

    def foreign_append(self, name: str, rows: Sequence[Row]) -> str:
        """Append rows as another writer; give the snapshot."""
        contents = self.get(name).contents
        return self._change(name, (*contents.files, self._file(name, rows)), contents.deleted)

    def foreign_delete(self, name: str, matches: Callable[[Row], bool]) -> str:
        """Delete rows as another writer, next to their files; return the snapshot."""
        contents = self.get(name).contents
        deleted = dict(contents.deleted)
        for file in contents.files:
            rows = enumerate(self.rows_of([file]))
            found = frozenset(at for at, row in rows if matches(row))
            if found:
                deleted[file.path] = deleted.get(file.path, frozenset()) | found
        return self._change(name, contents.files, deleted)

    def foreign_compaction(self, name: str) -> str:
        """Write all live rows into one file, as another writer; give the snapshot."""
        return self._change(name, (self._file(name, self.rows(name)),), {})

    def _file(self, name: str, rows: Sequence[Row]) -> DataFile:
        path = f"memory:///{name}/foreign-{self.number()}"
        self.keep_file(path, rows, 100)
        return DataFile(path, len(rows), 100, {})

    def _change(
        self, name: str, files: tuple[DataFile, ...], deleted: Mapping[str, frozenset[int]]
    ) -> str:
        stored, number = self.get(name), self.number()
        contents = stored.contents
        snapshot = Snapshot(f"s{number}", contents.head, number, files, deleted=deleted)
        stored.apply(contents, contents.with_snapshot(snapshot))
        return snapshot.id

    def roll_back(self, name: str, snapshot: str) -> None:
        """Make an older snapshot the head; properties stay as they are."""
        stored = self.get(name)
        base = stored.contents
        assert snapshot in base.snapshots, f"{snapshot} cannot be read any more"
        stored.apply(base, replace(base, head=snapshot, log=(*base.log, snapshot)))

    def expire(self, name: str, *, keep: int) -> None:
        """Remove all snapshots but the newest of the ancestry and the tagged ones."""
        stored = self.get(name)
        base = stored.contents
        kept = {each.id for each in itertools.islice(base.ancestry(), keep)} | {*base.tags.values()}
        snapshots = {i: each for i, each in base.snapshots.items() if i in kept}
        stored.apply(base, replace(base, snapshots=snapshots))

    def hide(self, name: str) -> None:
        """Make a table missing for a while."""
        with self._guard:
            self._missing.add(name)

    def show(self, name: str) -> None:
        """Bring a hidden table back as it was."""
        with self._guard:
            self._missing.discard(name)

    def remove_file(self, path: str) -> None:
        """Remove a file from storage."""
        with self._guard:
            del self._files[path]

    def truncate_file(self, path: str) -> None:
        """Cut a file on storage to half."""
        with self._guard:
            rows, size_bytes = self._files[path]
            self._files[path] = (rows[: len(rows) // 2], size_bytes // 2)


class PlayedStore(MemoryStore):
    """A pending store that can be lost."""

    def lose(self) -> None:
        """Forget everything, as a deleted file does."""
        with self.guard:
            self.holdings.clear()
            self.entries.clear()
            self.noted.clear()
            self.texts.clear()
