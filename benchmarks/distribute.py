"""A backlog is landed in a table of many partitions: a file for each in every task, or late.

As in `drain`, what lands first is left out of landing, as many rows as an epoch has. Then the table
is maintained by `penstock maintain` until it finds nothing to do; its CPU is for all rows, without
what a process takes that finds nothing. All rows must be there, once each, before and after.
"""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks import records, specs, tables, topics
from benchmarks.drain import MILLION, Leg, followed
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import PIPELINE

TOPIC = "distribute"
WAYS = ("none", "hash", "late", "auto")


@dataclass(frozen=True, slots=True)
class Options:
    """A backlog, in epochs, and by how many values its table is partitioned."""

    records: int = 1_000_000
    epoch_records: int = 250_000
    partitions: int = 4
    values: int = 1000
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class Maintained:
    """What landing took, and maintenance of what landed; `files` are those it left."""

    leg: Leg
    maintenance_seconds: float
    files: int
    rows: int

    @property
    def maintenance(self) -> float:
        """Return CPU seconds of maintenance for a million rows."""
        return self.maintenance_seconds / self.rows * MILLION

    @property
    def cpu(self) -> float:
        """Return CPU seconds for a million rows, in all."""
        return self.leg.cpu + self.maintenance


def measure(options: Options, place: Scratch) -> Measured:
    """Land the backlog in each way by turns, and maintain the table."""
    total = options.records + options.epoch_records
    place.topic(TOPIC, options.partitions)
    values = records.values(0, total)
    topics.send(place.brokers, TOPIC, options.partitions, values)
    found: dict[str, list[Maintained]] = {way: [] for way in WAYS}
    for number in range(options.rounds):
        for way in WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]:
            found[way].append(_measured(options, place, way, total))
    measured: dict[str, float] = {}
    for way, runs in found.items():
        measured |= {
            f"{way}_cpu_seconds_per_million": median(run.leg.cpu for run in runs),
            f"{way}_maintenance_seconds_per_million": median(run.maintenance for run in runs),
            f"{way}_cpu_seconds_per_million_in_all": median(run.cpu for run in runs),
            f"{way}_files": median(run.leg.files for run in runs),
            f"{way}_files_maintained": median(run.files for run in runs),
            f"{way}_peak_mib": median(run.leg.peak_mib for run in runs),
        }
    return Measured(measured, {way: [asdict(run) for run in runs] for way, runs in found.items()})


def _measured(options: Options, place: Scratch, way: str, total: int) -> Maintained:
    folder = place.subfolder("d")
    spec = specs.write(
        folder,
        place.brokers,
        TOPIC,
        or_records=options.epoch_records,
        partition_by=[f"bucket({options.values}, id)"],
        rule={"write": {"distribution": way}},
    )
    child = place.penstock(spec, "--until-caught-up")
    landed = followed(child, place, warm_rows=options.epoch_records)
    before = tables.checked(folder, "iceberg", total)
    leg = Leg(**landed, files=before.files, size_bytes=before.size_bytes)
    took: list[float] = []
    former, names = [""], tables.live_files(folder, "iceberg")
    while {*former} != {*names}:
        took.append(_maintained(place, spec))
        former, names = names, tables.live_files(folder, "iceberg")
    spent = sum(took) - len(took) * took[-1]  # the last one found nothing
    after = tables.checked(folder, "iceberg", total)
    return Maintained(leg, spent, after.files, total)


def _maintained(place: Scratch, spec: Path) -> float:
    """Maintain the table; return the CPU seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ("maintain", "--spec", str(spec), "--only", "rearrange", "--yes", PIPELINE, "--json")
    place.start("penstock", *words).ended()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
