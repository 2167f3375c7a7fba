"""Changes of random keys, by Penstock and by other systems: one topic, one machine, one run.

A table of `table_rows` is made by each system, then each lands the same `changes`, one after the
other; at last Spark reads all tables with all their deletes applied, each next to a compacted copy,
and each must be the fold: the last record of each key.

The others are no part of this project. A folder holds one program for each of `PEERS`, by its name:
`NAME load` makes a table of Iceberg's format version 2 and appends the topic, `NAME upsert` lands
it from an offset of each partition on; both end at the topic's end. They are told by their
environment: PEER_BROKERS, PEER_TOPIC, PEER_PARTITIONS, PEER_FIRST (that offset),
PEER_COMMIT_RECORDS (what one commit is to land, where a system can be told that) and PEER_FOLDER,
where the table is to be, as `benchmarks/peers.py` has it. deltalake's `merge` lands Arrow tables in
memory: without Kafka and JSON, and with one row for each key already.

Rate and CPU are those between the first commit and the last but one, as in `benchmarks/peers.py`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import keyed, peers, spark_reads, topics
from benchmarks.children import Child, FailedError
from benchmarks.meter import usage_of, watched
from benchmarks.peers import Leg, Reading
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.spark_reads import Place
from benchmarks.specs import FORMATS

MERGE = "deltalake_merge"
PEERS = {
    "spark_merge": "Spark's MERGE in foreachBatch, Iceberg",
    "flink": "Flink's upsert, Iceberg",
}
POLL_SECONDS = 0.1
SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True)
class Options:
    """`epochs` of `changes` each, into so many rows; each table is read `rounds` times."""

    programs: str = "peers"
    table_rows: int = 1_000_000
    changes: int = 100_000
    epochs: int = 6
    partitions: int = 4
    rounds: int = 3

    @property
    def keyed(self) -> keyed.Options:
        """Return what `benchmarks/keyed.py` is to make: of its epochs, one warms up."""
        return keyed.Options(
            table_rows=self.table_rows,
            changes=self.changes,
            epochs=self.epochs - 1,
            partitions=self.partitions,
            peer_epochs=self.epochs,
        )


def measure(options: Options, place: Scratch) -> Measured:
    """Measure Penstock into both formats, each peer for which there is a program, and all reads."""
    programs = {name: Path(options.programs) / name for name in PEERS}
    programs = {name: path for name, path in programs.items() if os.access(path, os.X_OK)}
    if not programs:
        raise FailedError(f"{options.programs} holds none of {', '.join(PEERS)}; see  --programs")
    made = options.keyed
    place.topic(keyed.TOPIC, options.partitions)
    topics.fill(place.brokers, keyed.TOPIC, options.partitions, options.table_rows)
    ours = {f"penstock_{each}": replace(made, format=each) for each in FORMATS}
    folders = {name: place.subfolder(name) for name in (*ours, *programs)}
    for name, each in ours.items():
        keyed.make(folders[name], place, each, keyed.KEYED)
    for name, path in programs.items():
        child = _program(path, "load", options, place, folders[name])
        for _ in child.lines(SECONDS_MAX):
            pass
        child.ended()
    drawn = keyed.keys(made)
    keyed.change(place, made, drawn)
    legs = {name: _ours(folders[name], place, each) for name, each in ours.items()}
    legs |= {name: _peer(path, options, place, folders[name]) for name, path in programs.items()}
    merged = place.subfolder(MERGE)
    legs[MERGE] = _merge(keyed.merged(merged, made, drawn), options)
    tables = {name: spark_reads.ours(folders[name], each.format) for name, each in ours.items()}
    tables |= {
        name: Place("iceberg", str(peers.newest_metadata(_table(folders[name]))))
        for name in programs
    }
    tables[MERGE] = Place("delta", str(merged / "table"))
    readings = spark_reads.read(place, tables, options.rounds, keyed.CHECKED)
    for name, reading in readings.items():
        keyed.check(reading.rows, made, drawn, name)
    values = {f"{name}_{what}": each for name in legs for what, each in asdict(legs[name]).items()}
    for name, reading in readings.items():
        values |= reading.values(name)
    for name in (*programs, MERGE):
        own = "penstock_delta" if name == MERGE else "penstock_iceberg"
        values |= {
            f"{name}_cpu_ratio": legs[name].cpu / legs[own].cpu,
            f"{name}_rate_ratio": legs[own].rows_per_second / legs[name].rows_per_second,
            f"{name}_read_cpu_ratio": readings[name].cpu / readings[own].cpu,
            f"{name}_read_ratio": readings[name].seconds / readings[own].seconds,
        }
    return Measured(values, {"load": os.getloadavg()})


def _ours(folder: Path, place: Scratch, options: keyed.Options) -> Leg:
    path = keyed.spec(folder, place, options, keyed.KEYED, options.changes)
    child = place.penstock(path, *keyed.UNTIL)
    began = time.monotonic()
    readings: list[Reading] = []
    with watched(child.root) as samples:
        for line in child.lines(keyed.PATIENCE_SECONDS):
            if line["event"] == "TableCommitted" and line["rows"]:
                changes = (len(readings) + 1) * options.changes
                used = usage_of(child.root).seconds
                readings.append(Reading(time.monotonic() - began, changes, used))
    child.ended()
    return peers.leg(readings, samples.peak_mib)


def _peer(path: Path, options: Options, place: Scratch, folder: Path) -> Leg:
    first = options.table_rows // options.partitions
    child = _program(path, "upsert", options, place, folder, first=first)
    with watched(child.root) as samples:
        readings = list(_commits(child, _table(folder)))
    child.ended()
    return peers.leg(scaled(readings, options.changes * options.epochs), samples.peak_mib)


def _program(
    path: Path, word: str, options: Options, place: Scratch, folder: Path, *, first: int = 0
) -> Child:
    environment = {
        "PEER_BROKERS": place.brokers,
        "PEER_TOPIC": keyed.TOPIC,
        "PEER_PARTITIONS": str(options.partitions),
        "PEER_FIRST": str(first),
        "PEER_COMMIT_RECORDS": str(options.changes if word == "upsert" else keyed.MILLION),
        "PEER_FOLDER": str(folder),
    }
    return place.program(path, word, environment=environment)


def _table(folder: Path) -> Path:
    return folder / "lake" / "bench" / "events"


def _commits(child: Child, table: Path) -> Iterator[Reading]:
    """Poll the table until the program ends; a reading counts the rows that were added to it."""
    began, used, before = time.monotonic(), 0.0, added(table)
    rows, running = 0, True
    while running:
        running = child.process.poll() is None
        used = max(used, usage_of(child.root).seconds)  # an ended one has none
        now = added(table) - before
        if now > rows:
            rows = now
            yield Reading(time.monotonic() - began, rows, used)
        if time.monotonic() - began > SECONDS_MAX:
            raise child.failed(f"had not ended after {SECONDS_MAX:.0f} s")
        time.sleep(POLL_SECONDS)


def added(table: Path) -> int:
    """Return how many rows all snapshots of a table have added."""
    metadata = peers.newest_metadata(table)
    if metadata is None:
        return 0
    snapshots = json.loads(metadata.read_text()).get("snapshots", [])
    return sum(int(each["summary"].get("added-records", 0)) for each in snapshots)


def scaled(readings: list[Reading], changes: int) -> list[Reading]:
    """Count changes in the place of rows: a system that keeps one row of a key adds fewer."""
    if not readings:
        return []
    total = readings[-1].rows
    return [replace(each, rows=round(each.rows / total * changes)) for each in readings]


def _merge(spent: list[keyed.Spent], options: Options) -> Leg:
    """Sum the merges up; as with the others, neither the first nor the last counts for the rate."""
    readings, seconds, cpu = [], 0.0, 0.0
    for number, each in enumerate(spent, start=1):
        seconds, cpu = seconds + each.seconds, cpu + each.cpu
        readings.append(Reading(seconds, number * options.changes, cpu))
    return peers.leg(readings, peak_mib=0.0)
