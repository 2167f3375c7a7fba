"""Other systems and Penstock: one topic, one machine, one run, one after the other.

The others are no part of this project. A folder holds one program for each of `PEERS`, by its name:
`NAME prepare` makes an empty table, `NAME run` lands the topic into it until it ends or is killed.
What they land is set by their environment: PEER_BROKERS, PEER_TOPIC, PEER_RECORDS, and
PEER_FOLDER, an empty folder. The table is to be below it, `lake/bench/events`: of an Iceberg Hadoop
catalog (`metadata/version-hint.text`) or of Delta (`_delta_log`).

Rate and CPU are those between the first commit and the last but one, so that neither a start nor an
empty backlog counts, for everyone alike; the `whole` is from the start to the last commit.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import specs, tables, topics
from benchmarks.children import Child, FailedError
from benchmarks.meter import Usage, usage_of, watched
from benchmarks.results import Measured
from benchmarks.scratch import Scratch

TOPIC = "peers"
MILLION = 1_000_000
POLL_SECONDS = 0.25
SECONDS_MAX = 400.0
COMMITS_MIN = 3

PEERS = {
    "flink": "Flink SQL into Iceberg",
    "connect": "the Iceberg Kafka Connect sink",
    "spark_iceberg": "Spark Structured Streaming into Iceberg",
    "spark_delta": "Spark Structured Streaming into Delta",
    "delta_ingest": "kafka-delta-ingest",
}


@dataclass(frozen=True, slots=True)
class Options:
    """So many records for everyone; `programs` is the folder of the others' programs."""

    programs: str = "peers"
    records: int = 5_000_000
    epoch_records: int = 1_000_000
    partitions: int = 4


@dataclass(frozen=True, slots=True)
class Reading:
    """What was committed at a time since the start, and what that had taken."""

    seconds: float
    rows: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Leg:
    """How one system went. CPU is in seconds for a million rows."""

    rows_per_second: float
    cpu: float
    whole_seconds: float
    whole_cpu: float
    peak_mib: float
    commits: int


def measure(options: Options, place: Scratch) -> Measured:
    """Measure Penstock into both formats, then each peer for which there is a program."""
    folder = Path(options.programs)
    known = [name for name in PEERS if os.access(folder / name, os.X_OK)]
    if not known:
        raise FailedError(f"{folder} holds none of {', '.join(PEERS)}; name it by --programs")
    place.topic(TOPIC, options.partitions)
    topics.fill(place.brokers, TOPIC, options.partitions, options.records)
    legs = {f"penstock_{each}": _penstock(options, place, each) for each in specs.FORMATS}
    legs |= {name: _peer(folder / name, options, place) for name in known}
    ours = {
        name: legs["penstock_delta" if "delta" in name else "penstock_iceberg"] for name in known
    }
    values = {f"{name}_{what}": each for name in legs for what, each in asdict(legs[name]).items()}
    values |= {f"{name}_cpu_ratio": legs[name].cpu / ours[name].cpu for name in known}
    values |= {
        f"{name}_rate_ratio": ours[name].rows_per_second / legs[name].rows_per_second
        for name in known
    }
    return Measured(values, {name: asdict(leg) for name, leg in legs.items()})


def leg(readings: list[Reading], peak_mib: float) -> Leg:
    """Return how a run went by its commits. Raises FailedError when there were too few."""
    if len(readings) < COMMITS_MIN:
        raise FailedError(f"{len(readings)} commits are too few to measure between them")
    first, until, last = readings[0], readings[-2], readings[-1]
    rows = until.rows - first.rows
    return Leg(
        rows_per_second=rows / (until.seconds - first.seconds),
        cpu=(until.cpu_seconds - first.cpu_seconds) / rows * MILLION,
        whole_seconds=last.seconds,
        whole_cpu=last.cpu_seconds / last.rows * MILLION,
        peak_mib=peak_mib,
        commits=len(readings),
    )


def _penstock(options: Options, place: Scratch, table_format: specs.Format) -> Leg:
    """Land the topic with the columns that the others land: none about its source."""
    folder = place.subfolder("p")
    spec = specs.write(
        folder,
        place.brokers,
        TOPIC,
        table_format=table_format,
        or_records=options.epoch_records,
        source_columns=(),
    )
    child = place.penstock(spec, "--until-caught-up")
    began, rows, readings = time.monotonic(), 0, []
    with watched(child.root) as samples:
        for line in child.lines():
            if line["event"] == "TableCommitted" and line["rows"]:
                rows += line["rows"]
                readings.append(_reading(began, rows, usage_of(child.root)))
    child.ended()
    tables.checked(folder, table_format, options.records)
    return leg(readings, samples.peak_mib)


def _peer(program: Path, options: Options, place: Scratch) -> Leg:
    folder = place.subfolder("x")
    environment = {
        "PEER_BROKERS": place.brokers,
        "PEER_TOPIC": TOPIC,
        "PEER_RECORDS": str(options.records),
        "PEER_FOLDER": str(folder),
    }
    preparing = place.program(program, "prepare", environment=environment)
    for _ in preparing.lines():
        pass
    preparing.ended()
    table = folder / "lake" / "bench" / "events"
    child = place.program(program, "run", environment=environment)
    began = time.monotonic()
    with watched(child.root) as samples:
        readings = list(_commits(child, table, began, options.records))
    child.end()
    tables.whole(live_files(table), options.records)
    return leg(readings, samples.peak_mib)


def _commits(child: Child, table: Path, began: float, total: int) -> Iterator[Reading]:
    """Poll the table until all rows are in it."""
    rows = 0
    while rows < total:
        usage, now = usage_of(child.root), committed(table)
        if now > rows:
            rows = now
            yield _reading(began, rows, usage)
        elif child.process.poll() is not None:
            raise child.failed(f"ended with {rows} rows of {total}")
        elif time.monotonic() - began > SECONDS_MAX:
            raise child.failed(f"had landed {rows} rows of {total} after {SECONDS_MAX:.0f} s")
        time.sleep(POLL_SECONDS)


def _reading(began: float, rows: int, usage: Usage) -> Reading:
    return Reading(time.monotonic() - began, rows, usage.seconds)


def committed(table: Path) -> int:
    """Read from a table's metadata how many rows it has."""
    if (table / "_delta_log").is_dir():
        rows = 0
        for entry in sorted((table / "_delta_log").glob("*.json")):
            for line in entry.read_text().splitlines():
                action = json.loads(line)
                rows += json.loads(action.get("add", {}).get("stats") or "{}").get("numRecords", 0)
        return rows
    metadata = newest_metadata(table)
    if metadata is None:
        return 0
    content = json.loads(metadata.read_text())
    current = content.get("current-snapshot-id")
    summaries = [s["summary"] for s in content.get("snapshots", []) if s["snapshot-id"] == current]
    return int(summaries[0].get("total-records", 0)) if summaries else 0


def newest_metadata(table: Path) -> Path | None:
    """Find the metadata file of a table of a Hadoop catalog."""
    hint = table / "metadata" / "version-hint.text"
    if not hint.exists():
        return None
    path = hint.with_name(f"v{hint.read_text().strip()}.metadata.json")
    return path if path.exists() else None


def live_files(table: Path) -> list[str]:
    """List the data files that a table's metadata names, by a reader that is not ours."""
    if (table / "_delta_log").is_dir():
        from deltalake import DeltaTable

        uris = DeltaTable(str(table)).file_uris()
    else:
        from pyiceberg.table import StaticTable

        static = StaticTable.from_metadata(str(newest_metadata(table)))
        uris = [task.file.file_path for task in static.scan().plan_files()]
    return [uri.removeprefix("file:").replace("//", "/", 1) for uri in uris]
