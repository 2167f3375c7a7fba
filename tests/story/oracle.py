"""An oracle for tests: what should be in a table by Kafka's word, against what is in it.

Invariants:
- nothing of ours is used to read or to check: records come from a plain consumer under
  read_committed, are decoded by `json.loads`, and tables are read by their own libraries;
- it says every difference, each with its coordinate: silence means that each record is
  exactly once in its table xor in quarantine, value by value.

It shares no code with the audit of the app, which trusts our reader and compares coordinates only.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from penstock.rows.reject_codes import RejectCode

READ_SECONDS_MAX = 120.0
SOURCE_COLUMNS = ("_kafka_topic", "_kafka_partition", "_kafka_offset", "_kafka_timestamp")

Row = Mapping[str, Any]


class Coordinate(NamedTuple):
    """The place of a record in Kafka."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Record:
    """One committed record, as Kafka holds it."""

    at: Coordinate
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


ExpectedRow = Callable[[Record], Row | None]
"""Gives the columns that a record should have in a table, or None when it belongs in quarantine."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference: lost, doubled, changed, foreign, both, accepted, refused or mangled."""

    kind: str
    table: str
    at: Coordinate
    text: str

    def __str__(self) -> str:
        return f"{self.table} {self.at.topic}[{self.at.partition}]@{self.at.offset}: {self.text}"


def committed_records(bootstrap: str, topics: Iterable[str]) -> list[Record]:
    """Read topics whole, to the last stable offset. Raises KafkaException, TimeoutError."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "oracle",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "fetch.queue.backoff.ms": 5,
        "log_level": 0,
    }
    consumer = Consumer(settings)
    try:
        return list(_read(consumer, topics))
    finally:
        consumer.close()


def _read(consumer: Consumer, topics: Iterable[str]) -> Iterable[Record]:
    left = set()
    for topic in topics:
        partitions = consumer.list_topics(topic, timeout=READ_SECONDS_MAX).topics[topic].partitions
        for partition in partitions:
            ends = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            left.add((topic, partition, ends[0]))
    consumer.assign([TopicPartition(*each) for each in left])
    open_partitions = {(topic, partition) for topic, partition, _ in left}
    deadline = time.monotonic() + READ_SECONDS_MAX
    while open_partitions:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the end was not reached in {sorted(open_partitions)}")
        for message in consumer.consume(10_000, timeout=0.2):
            error = message.error()
            if error is None:
                yield _record(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard((message.topic(), message.partition()))
            else:
                raise KafkaException(error)


def _record(message: Any) -> Record:
    at = Coordinate(message.topic(), message.partition(), message.offset())
    headers = tuple(message.headers() or ())
    return Record(at, message.timestamp()[1], message.key(), message.value(), headers)


def iceberg_rows(uri: str, name: str, *, catalog: str = "lake") -> list[Row]:
    """Read an Iceberg table of a SQL catalog by PyIceberg; none when it does not exist."""
    lake = load_catalog(catalog, type="sql", uri=uri)
    try:
        return list(lake.load_table(name).scan().to_arrow().to_pylist())
    except NoSuchTableError:
        return []


def delta_rows(path: Path) -> list[Row]:
    """Read a Delta table by deltalake; none when it does not exist."""
    if not DeltaTable.is_deltatable(str(path)):
        return []
    return list(DeltaTable(str(path)).to_pyarrow_table().to_pylist())


def compare(
    table: str,
    records: Sequence[Record],
    expected_row: ExpectedRow,
    rows: Sequence[Row],
    rejects: Sequence[Row],
) -> list[Finding]:
    """Find every difference between what should be in a table and what is.

    `rejects` are rows of the quarantine table; those of other tables are passed over.
    """
    found: list[Finding] = []
    landed = _by_coordinate(rows, "_kafka_topic", "_kafka_partition", "_kafka_offset")
    mine = [row for row in rejects if row["table"] == table]
    refused = _by_coordinate(mine, "topic", "partition", "offset")
    expected = {record.at: record for record in records}
    for at in sorted({*landed, *refused} - set(expected)):
        where = "in the table" if at in landed else "in quarantine"
        found.append(Finding("foreign", table, at, f"{where}, unknown to Kafka"))
    for at, record in expected.items():
        places = (landed.get(at, []), refused.get(at, []))
        found += [
            Finding(kind, table, at, text)
            for kind, text in _differences(record, expected_row, *places)
        ]
    return found


def _differences(
    record: Record, expected_row: ExpectedRow, rows: Sequence[Row], rejects: Sequence[Row]
) -> Iterable[tuple[str, str]]:
    if not rows and not rejects:
        yield "lost", "neither in the table nor in quarantine"
    if rows and rejects:
        yield "both", "in the table and in quarantine"
    for name, places in (("the table", rows), ("quarantine", rejects)):
        if len(places) > 1:
            yield "doubled", f"{len(places)} times in {name}"
    columns = expected_row(record)
    if columns is None and rows:
        yield "accepted", "in the table, and does not fit it"
    if columns is not None and rejects:
        yield "refused", f"in quarantine ({rejects[0]['code']}), and fits the table"
    elif any(row["code"] == RejectCode.UNEXPECTED for row in rejects):
        yield "refused", f"by a fault of ours: {rejects[0]['message']}"
    wanted = None if columns is None else {**columns, **_source(record)}
    for row in rows:
        if wanted is not None and not same(wanted, row):
            yield "changed", f"is {_told(row, wanted)}, should be {_told(wanted, row)}"
    for row in rejects:
        if (row["key"], row["value"]) != (record.key, record.value):
            yield "mangled", "quarantine holds other bytes"


def _by_coordinate(rows: Iterable[Row], *columns: str) -> dict[Coordinate, list[Row]]:
    found: dict[Coordinate, list[Row]] = defaultdict(list)
    for row in rows:
        found[Coordinate(*(row[column] for column in columns))].append(row)
    return dict(found)


def _source(record: Record) -> Row:
    written = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    return dict(zip(SOURCE_COLUMNS, (*record.at, written), strict=True))


def _told(row: Row, other: Row) -> dict[str, Any]:
    """Return the columns in which a row differs from another."""
    names = sorted({*row, *other})
    return {name: row.get(name) for name in names if not same(row.get(name), other.get(name))}


def same(wanted: Any, found: Any) -> bool:
    """Compare values: an absent field is a null one, a boolean is no number, text is no bytes."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        names = {*wanted, *found}
        return all(same(wanted.get(name), found.get(name)) for name in names)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(same, wanted, found))
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    return bool(wanted == found)


def summary(findings: Sequence[Finding], shown_max: int = 10) -> str:
    """Return findings in a few lines: counts by kind, and the first of them."""
    counts = Counter(f"{finding.table} {finding.kind}" for finding in findings)
    lines = [f"{count} x {kind}" for kind, count in sorted(counts.items())]
    return "\n".join([*lines, *(str(finding) for finding in findings[:shown_max])])
