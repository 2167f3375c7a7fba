"""The live checker: checks all tables while it storms, and at every check everything must hold.

What holds at every moment, by the order in which a pipeline commits:
- a coordinate is there at most once, in the table or in its quarantine;
- below the highest coordinate of a partition in a table nothing is missing: each record that
  Kafka has committed there is in the table, or in the quarantine as it is read afterwards;
- what is there is committed in Kafka;
- in a file of ours offsets rise, and a file that came later begins after all that was there.

Invariants: tables are read by their own libraries, each file once; nothing of ours takes part. Tables
with keys, whose files have rows that are deleted, are left to the judgement at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from deltalake.exceptions import DeltaError
from pyarrow.lib import ArrowException
from pyiceberg.exceptions import RESTError
from tests.storm.stage import KEYED, TOPIC, Pipe, Stage, path_of

MOVED = "-maintenance-"
"""What the names of files have whose rows were in others before."""
SHIFT = 40
"""A coordinate is one number: the partition above 40 bits of offset."""
READ_SECONDS_MAX = 20.0
LAST_TRIES = 10
LOST_SIGHT = (OSError, DeltaError, RESTError, KafkaException, ArrowException)
Coordinates = npt.NDArray[np.int64]
NOWHERE: Coordinates = np.empty(0, np.int64)


def coordinates(partitions: Any, offsets: Any) -> Coordinates:
    """Number coordinates; rows without any, which are other writers', are left out."""
    known = pc.is_valid(offsets)
    whole = [np.asarray(pc.filter(each, known), np.int64) for each in (partitions, offsets)]
    return (whole[0] << SHIFT) + whole[1]


@dataclass(frozen=True, slots=True)
class Sight:
    """One thing seen that must not be: its kind, its table, the coordinate."""

    kind: str
    table: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.kind}: {self.table} [{self.partition}]@{self.offset}"


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a table and in its quarantine, and what Kafka has up to where it was read."""

    table: str
    landed: Coordinates
    refused: Coordinates
    committed: Coordinates
    ends: Mapping[int, int]


def wrong(contents: Contents) -> list[Sight]:
    """Find what must not be."""
    here = np.concatenate([contents.landed, contents.refused])
    unique, counts = np.unique(here, return_counts=True)
    found = [("doubled", unique[counts > 1])]
    seen = _below(unique, contents.ends)
    found.append(("foreign", seen[~np.isin(seen, contents.committed)]))
    tops = _tops(contents.landed)
    owed = _below(contents.committed, {at: top + 1 for at, top in tops.items()})
    found.append(("lost", owed[~np.isin(owed, unique)]))
    return [
        Sight(kind, contents.table, int(each >> SHIFT), int(each & ((1 << SHIFT) - 1)))
        for kind, those in found
        for each in those
    ]


def _tops(landed: Coordinates) -> dict[int, int]:
    parts = landed >> SHIFT
    offsets = landed & ((1 << SHIFT) - 1)
    return {int(part): int(offsets[parts == part].max()) for part in np.unique(parts)}


def _below(all_: Coordinates, ends: Mapping[int, int]) -> Coordinates:
    """Keep coordinates below an end of their partition; without one there is none."""
    if not all_.size:
        return NOWHERE
    limits = np.array([ends.get(part, 0) for part in range(int(all_.max() >> SHIFT) + 1)])
    return all_[(all_ & ((1 << SHIFT) - 1)) < limits[all_ >> SHIFT]]


@dataclass(slots=True)
class Follower:
    """Reads the topic as any consumer, under read_committed, and remembers what has a value.

    `ends` is how far records were seen, by partition; `reached` counts markers after them, too.
    """

    bootstrap: str
    ends: dict[int, int] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)
    _offsets: list[int] = field(default_factory=list)
    _consumer: Consumer = field(init=False)

    def __post_init__(self) -> None:
        self._consumer = self._opened()

    def follow(self, partitions: int) -> bool:
        """Read on to the last stable offsets of now; false when the broker does not let us.

        Then the next one reads by another consumer: this one may wait for a broker of before.
        """
        new = [part for part in range(partitions) if part not in self.ends]
        if new:
            self._consumer.incremental_assign([TopicPartition(TOPIC, part, 0) for part in new])
            self.ends.update(dict.fromkeys(new, 0))
        if self._reads_on(partitions):
            return True
        self._consumer.close()
        self._consumer = self._opened()
        self._consumer.assign([TopicPartition(TOPIC, *at) for at in self.ends.items()])
        return False

    def _opened(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 0,
                "group.id": "watch",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "topic.metadata.refresh.interval.ms": 5_000,
            }
        )

    def _reads_on(self, partitions: int) -> bool:
        deadline = time.monotonic() + READ_SECONDS_MAX
        try:
            stable = self._stable(partitions)
            while any(self.reached.get(part, 0) < end for part, end in stable.items()):
                if time.monotonic() > deadline:
                    return False
                for each in self._consumer.consume(10_000, timeout=0.1):
                    self._take(each)
        except KafkaException:
            return False
        return True

    @property
    def committed(self) -> Coordinates:
        """Return the coordinates of all records seen that have a value."""
        return np.array(self._offsets, np.int64)

    def _stable(self, partitions: int) -> dict[int, int]:
        places = {TopicPartition(TOPIC, part): OffsetSpec.latest() for part in range(partitions)}
        fresh = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        asked = fresh.list_offsets(  # an older one asks a restarted broker for a former epoch
            places, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=READ_SECONDS_MAX
        )
        return {at.partition: each.result().offset for at, each in asked.items()}

    def _take(self, message: Message) -> None:
        part, error = message.partition(), message.error()
        if error is None:
            self.ends[part] = self.reached[part] = message.offset() + 1
            if message.value() is not None:
                self._offsets.append((part << SHIFT) + message.offset())
        elif error.code() == KafkaError._PARTITION_EOF:
            self.reached[part] = message.offset()

    def close(self) -> None:
        self._consumer.close()


@dataclass(slots=True)
class Files:
    """The data files of one table by path, each read once for its coordinates."""

    stage: Stage
    table: str
    ours: tuple[str, ...]
    refused: bool = False
    read: dict[Path, dict[str, Coordinates]] = field(default_factory=dict)
    sights: list[Sight] = field(default_factory=list)
    _manifests: dict[str, list[Path]] = field(default_factory=dict)
    _tops: dict[int, int] = field(default_factory=dict)

    def now(self, of: str = "") -> Coordinates:
        """Return the coordinates that are there now; `of` is the table of refused records."""
        for again in (True, False):
            try:
                paths = self.live()
                self._take([path for path in paths if path not in self.read])
            except FileNotFoundError:
                if not again:
                    raise
                continue
            break
        found = [self.read[path].get(of, NOWHERE) for path in paths]
        return np.concatenate(found) if found else NOWHERE

    def live(self) -> list[Path]:
        """Name the live files."""
        if self.table.startswith("delta."):
            delta = self.stage.delta(self.table)
            return [] if delta is None else [Path(uri) for uri in delta.file_uris()]
        lake = self.stage.iceberg(self.table)
        head = None if lake is None else lake.current_snapshot()
        if lake is None or head is None:
            return []
        found: list[Path] = []
        for manifest in head.manifests(lake.io):
            if manifest.manifest_path not in self._manifests:
                self._manifests[manifest.manifest_path] = [
                    path_of(entry.data_file.file_path)
                    for entry in manifest.fetch_manifest_entry(lake.io, discard_deleted=True)
                ]
            found += self._manifests[manifest.manifest_path]
        return found

    def _take(self, new: list[Path]) -> None:
        """Read new files; those of ours must come in order, within and after what was there."""
        tops = dict(self._tops)
        for path in new:
            self.read[path] = self._refused(path) if self.refused else self._landed(path, tops)

    def _landed(self, path: Path, tops: dict[int, int]) -> dict[str, Coordinates]:
        rows = pq.ParquetFile(path).read(columns=["_kafka_partition", "_kafka_offset"])
        found = coordinates(rows["_kafka_partition"], rows["_kafka_offset"])
        for part in np.unique(found >> SHIFT).tolist():
            offsets = found[(found >> SHIFT) == part] & ((1 << SHIFT) - 1)
            rising = np.diff(offsets, prepend=tops.get(part, -1)) > 0
            lands = path.name.startswith(self.ours) and MOVED not in path.name
            if lands and not rising.all():
                at = int(offsets[np.argmin(rising)])
                self.sights.append(Sight("out of order", self.table, part, at))
            self._tops[part] = max(self._tops.get(part, -1), int(offsets.max()))
        return {"": found}

    def _refused(self, path: Path) -> dict[str, Coordinates]:
        rows = pq.ParquetFile(path).read(columns=["table", "partition", "offset"])
        return {
            name: coordinates(mine["partition"], mine["offset"])
            for name in pc.unique(rows["table"]).to_pylist()
            for mine in [rows.filter(pc.equal(rows["table"], name))]
        }


@dataclass(slots=True)
class Watch:
    """Checks all tables of a stage, from a thread of its own; `blind` says why checks failed."""

    stage: Stage
    every: float
    after_check: Callable[[], None] = lambda: None
    checks: int = 0
    sights: dict[Sight, float] = field(default_factory=dict)
    blind: list[str] = field(default_factory=list)
    _files: dict[str, Files] = field(default_factory=dict)
    _follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        self._follower = Follower(self.stage.direct)
        for pipe in self.stage.pipes:
            for table in self._kept_whole(pipe):
                self._files[table] = Files(self.stage, table, (f"{pipe.name}-", f"{pipe.name}+"))
            self._files[pipe.quarantine] = Files(self.stage, pipe.quarantine, (), refused=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Check again and again; check everything once more at the end."""
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(self.every):
                self._try_to_check()
                self.after_check()

        with ThreadPoolExecutor(1, thread_name_prefix="watch") as threads:
            watching = threads.submit(watch)
            try:
                yield
            finally:
                stop.set()
        watching.result()
        before = self.checks
        for _ in range(LAST_TRIES):
            self._try_to_check()
            if self.checks > before or self.blind:
                break
        assert self.checks > before or self.blind, "the broker is there when all is over"
        self._follower.close()

    def _kept_whole(self, pipe: Pipe) -> list[str]:
        return [table for table in pipe.tables if table not in KEYED]

    def _try_to_check(self) -> None:
        """Check; report once why it cannot."""
        try:
            self.check()
        except LOST_SIGHT as error:
            why = f"{type(error).__name__}: {error}"[:300]
            if why not in self.blind:
                self.blind.append(why)

    def check(self) -> list[Sight]:
        """Look once; give what is wrong now, and remember when it was seen first.

        Without the broker it is no whole check, and not counted.
        """
        pairs = [(pipe, t) for pipe in self.stage.pipes for t in self._kept_whole(pipe)]
        landed = {t: self._files[t].now() for _, t in pairs}
        refused = {t: self._files[pipe.quarantine].now(t) for pipe, t in pairs}
        self.checks += self._follower.follow(self.stage.partitions)
        committed, ends = self._follower.committed, self._follower.ends
        found: list[Sight] = []
        for table, rows in landed.items():
            found += wrong(Contents(table, rows, refused[table], committed, ends))
            found += self._files[table].sights
        for sight in found:
            self.sights.setdefault(sight, time.monotonic())
        return found
