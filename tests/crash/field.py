"""A field for one kind of table: a topic, one or three tables of it, a quarantine, an oracle.

Invariants:
- what is sent is counted, so that every record of a field is another;
- tables with keys take what is sent as changes: a key is in one partition, and its last record, if
  that has a value, is its row (`folded`);
- the oracle below is written from the shapes alone; records without value are left out by the spec.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import yaml
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from tests.crash.values import Compared, compared
from tests.processes.broker import Cluster
from tests.story.oracle import Finding, Record, Row, committed_records, compare

from penstock.testing.sent import Sent

PARTITIONS = 2
NAMES = ("one", "two", "three")
HINTS = {"id": "long", "text": "string"}
TRIMMED = {"history.expire.max-snapshot-age-ms": "0"}
"""Lets own snapshots go by number alone, so that commits trim here too."""
KEYS = 7
"""How many keys a partition of a field with keys has."""
BAD = (b"{", b"[1]", b'{"id": "seven"}', b"\xff\xfe")


def _remove(path: str) -> None:
    Path(path.removeprefix("file://")).unlink(missing_ok=True)


@dataclass(slots=True)
class Field:
    """One pipeline on tables of its own; `catalog` is the spec's entry for all of them.

    `room` is put before namespaces, where several fields share a catalog; `other_writer` are its settings for
    libraries that read these tables; `environment` is what a run needs of it; `remove` removes a file.
    """

    directory: Path
    bootstrap: str
    name: str
    connector: str
    count: int
    keyed: bool = False
    rewrites: bool = False
    catalog: dict[str, Any] = field(default_factory=dict)
    store: str = ""
    room: str = ""
    other_writer: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    remove: Callable[[str], None] = _remove
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True)
        place = self.directory / "lake"
        place.mkdir()
        local: dict[str, dict[str, Any]] = {
            "iceberg": {
                "type": "sql",
                "uri": f"sqlite:///{place}/catalog.db",
                "warehouse": str(place),
            },
            "delta": {"type": "delta", "root": str(place)},
        }
        self.catalog = self.catalog or local[self.connector]
        self.other_writer = self.other_writer or self.catalog
        Cluster(self.bootstrap).create(self.name, PARTITIONS)
        self.spec.write_text(yaml.safe_dump(self._spec(), sort_keys=False))

    @property
    def spec(self) -> Path:
        return self.directory / "penstock.yaml"

    @property
    def tables(self) -> dict[str, str]:
        """Return the name in the spec of each table, by its name in the catalog."""
        place = f"{self.room}field"
        return {f"{place}.{each}": f"lake.{place}.{each}" for each in NAMES[: self.count]}

    @property
    def refused(self) -> str:
        """Return the name of the quarantine in its catalog."""
        return f"{self.room}ops.quarantine"

    def _spec(self) -> dict[str, Any]:
        schema = {"create": True, "columns": "evolve", "hints": HINTS}
        rule = {"from": self.name, "continue": True, "tombstones": "skip", "schema": schema}
        own = {"properties": TRIMMED} if self.connector == "iceberg" else {}
        if self.keyed:
            changes = {"tombstones": "delete", "records": {"key_format": "json"}}
            rule |= {"mode": "upsert", "keys": ["id"], **changes}
        if self.rewrites:
            rule["row_deletes"] = "rewrite"
        return {
            "name": "field",
            "kafka": {"brokers": self.bootstrap, "topics": [self.name]},
            "catalogs": {"lake": self.catalog},
            "tables": [{**rule, **own, "into": name} for name in self.tables.values()],
            "commit": {"every": "100ms", "retain": 3},
            "quarantine": {"into": f"lake.{self.refused}", "stop_above": "100%"},
            "spark": {"master": "inline"},
            **({"pending": {"store": self.store}} if self.store else {}),
        }

    def send(self, *, bad: bool = True, wider: bool = False) -> None:
        """Send good records to every partition, and bad ones; `wider` ones have one more field."""
        if self.keyed:
            self._send_changes(bad=bad)
            return
        for partition in range(PARTITIONS):
            extra = {f"extra_{next(self._numbers)}": "new"} if wider else {}
            values: list[bytes | None] = [
                json.dumps({"id": next(self._numbers), "text": "a\u2028ü", **extra}).encode()
                for _ in range(5)
            ]
            if bad:
                values.insert(2, BAD[next(self._numbers) % len(BAD)])
            Cluster(self.bootstrap).send(self.name, partition, [Sent(value) for value in values])

    def _send_changes(self, *, bad: bool) -> None:
        """Put rows of a few keys, one of them twice, delete others, and send one that is bad."""
        for partition in range(PARTITIONS):
            first = next(self._numbers)
            ids = [partition + PARTITIONS * ((first + n) % KEYS) for n in (0, 1, 2, 0, 3, 4)]
            records = [_change(each, f"at {next(self._numbers)}") for each in ids[:4]]
            records += [_change(each, None) for each in (ids[1], *ids[4:])]
            records += [_change(ids[5], f"at {first}")]
            if bad:
                records.insert(2, Sent(BAD[first % len(BAD)], b"%d" % ids[0]))
            Cluster(self.bootstrap).send(self.name, partition, records)

    def send_nothing_to_land(self) -> None:
        """Send records that are left out: ledgers move, tables get no row."""
        for partition in range(PARTITIONS):
            Cluster(self.bootstrap).send(self.name, partition, [Sent(None), Sent(None)])

    def differences(self) -> list[Finding]:
        """Compare every table, and the quarantine, with Kafka, row by row."""
        records = committed_records(self.bootstrap, [self.name])
        records = (
            folded(records) if self.keyed else [each for each in records if each.value is not None]
        )
        rejects = self.rows(self.refused)
        return [
            finding
            for name, full in self.tables.items()
            for finding in compare(full, records, expected_row, self.rows(name), rejects)
        ]

    def compared(self) -> Compared:
        """Compare what metadata says of all live files with what they hold."""
        settings = {"type": self.catalog["type"], **self.other_writer}
        return compared(self.connector, settings, [*self.tables, self.refused])

    def rows(self, name: str) -> list[Row]:
        """Read a table by its own library; none when it does not exist."""
        if self.connector == "delta":
            return self._delta_rows(name)
        lake = load_catalog("lake", **{key: str(value) for key, value in self.other_writer.items()})
        try:
            return list(lake.load_table(name).scan().to_arrow().to_pylist())
        except NoSuchTableError:
            return []

    def _delta_rows(self, name: str) -> list[Row]:
        options = self.other_writer.get("storage_options")
        path = f"{self.other_writer['root']}/{name.replace('.', '/')}"
        if not DeltaTable.is_deltatable(path, storage_options=options):
            return []
        found = QueryBuilder().register("t", DeltaTable(path, storage_options=options))
        return pa.table(found.execute("SELECT * FROM t").read_all()).to_pylist()

    def lose_pending_files(self) -> None:
        """Remove one staged file of every table that has commits pending."""
        for body in self._pending_bodies():
            for file in body["files"]:
                self.remove(str(file["path"]))

    def _pending_bodies(self) -> list[Mapping[str, Any]]:
        store = self.directory / "state" / "field.db"
        with tempfile.TemporaryDirectory() as scratch:
            for path in store.parent.glob(f"{store.name}*"):
                shutil.copy(path, scratch)
            with closing(sqlite3.connect(Path(scratch) / store.name)) as copy:
                asked = copy.execute("SELECT body FROM commits WHERE state = 'PENDING'")
                return [json.loads(body) for (body,) in asked]

    def databases(self) -> list[Path]:
        """Name the files whose lock a stopped process might hold."""
        found = [self.directory / "state" / "field.db", self.directory / "lake" / "catalog.db"]
        return [path for path in found if path.exists()]


def expected_row(record: Record) -> Row | None:
    """Return the row of a record, or None when it belongs in quarantine."""
    try:
        data = json.loads((record.value or b"").decode())
    except ValueError:
        return None
    if not isinstance(data, dict) or not isinstance(data.get("id"), int):
        return None
    return data


def folded(records: Sequence[Record], key: str = "id") -> list[Record]:
    """Return the records of a table keyed by a field that must be a row, or in quarantine."""
    rows: dict[int, Record] = {}
    refused: list[Record] = []
    for record in sorted(records, key=lambda each: each.at):
        if record.value is None:
            rows.pop(json.loads(record.key or b""), None)
        elif (row := expected_row(record)) is None:
            refused.append(record)
        else:
            rows[row[key]] = record
    return [*rows.values(), *refused]


def _change(key: int, text: str | None) -> Sent:
    """Return a record that puts a row with a text, or deletes it."""
    value = None if text is None else json.dumps({"id": key, "text": text}).encode()
    return Sent(value, b"%d" % key)
