"""A backlog is landed in other shapes than `drain`'s: wide, Avro, partitioned, into many tables.

As there, what lands first is left out, as many rows as an epoch has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

from benchmarks import fanout, records, specs, tables, topics, wide
from benchmarks.children import FailedError
from benchmarks.drain import Leg, followed
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import TABLE, Format

TOPIC = "shapes"
Encoding = Literal["json", "avro"]


@dataclass(frozen=True, slots=True)
class Options:
    """A backlog, and how it differs.

    `columns` flat ones, or 0 for the nested records of `drain`; `values` of a partitioned table, or
    0; `tables` that a route leads to by record.
    """

    records: int = 1_000_000
    epoch_records: int = 250_000
    partitions: int = 4
    format: Format = "iceberg"
    encoding: Encoding = "json"
    columns: int = 0
    values: int = 0
    tables: int = 1
    rounds: int = 1


def measure(options: Options, place: Scratch) -> Measured:
    """Land the backlog, in each round into fresh tables."""
    if options.values and options.format == "delta":
        raise FailedError("--values is for Iceberg's buckets; Delta has none")
    total = options.records + options.epoch_records
    place.topic(TOPIC, options.partitions)
    values = _values(options)(0, total)
    record_bytes = topics.send(place.brokers, TOPIC, options.partitions, values)
    landed = [_landed(options, place, total) for _ in range(options.rounds)]
    legs = [leg for leg, _ in landed]
    sizes = sorted(landed[-1][1])
    rate = median(leg.rate for leg in legs)
    measured = {
        "rows_per_second": rate,
        "megabytes_per_second": rate * record_bytes / 1e6,
        "cpu_seconds_per_million": median(leg.cpu for leg in legs),
        "peak_mib": median(leg.peak_mib for leg in legs),
        "record_bytes": record_bytes,
        "bytes_per_byte_read": sum(sizes) / total / record_bytes,
        "files": float(len(sizes)),
        "file_kib_median": median(sizes) / 1024,
        "file_kib_max": sizes[-1] / 1024,
    }
    return Measured(measured, {"penstock": [asdict(leg) for leg in legs]})


def _values(options: Options) -> wide.Values:
    if options.encoding == "avro":
        return wide.avro
    return wide.flat(options.columns) if options.columns else records.values


def _landed(options: Options, place: Scratch, total: int) -> tuple[Leg, list[int]]:
    """Land all of it; give how that went, and the sizes of the files."""
    folder = place.subfolder("p")
    spec = _spec(options, place, folder)
    child = place.penstock(spec, "--until-caught-up")
    leg = followed(child, place, warm_rows=options.epoch_records)
    names = [TABLE] if options.tables == 1 else [f"{TABLE}_{n}" for n in range(options.tables)]
    found = tables.checked(folder, options.format, total, names)
    return Leg(**leg, files=found.files, size_bytes=found.size_bytes), list(found.sizes)


def _spec(options: Options, place: Scratch, folder: Path) -> Path:
    path = specs.write(
        folder,
        place.brokers,
        TOPIC,
        table_format=options.format,
        or_records=options.epoch_records,
        partition_by=[f"bucket({options.values}, id)"] if options.values else [],
    )
    if options.tables > 1:
        fanout.route(path, options.tables)
    spec = json.loads(path.read_text())
    (table,) = spec["tables"]
    if options.columns or options.encoding == "avro":
        del table["schema"]["hints"]["ts"]
    if options.encoding == "avro":
        spec["records"] = _as_avro(folder)
    path.write_text(json.dumps(spec, indent=2))
    return path


def _as_avro(folder: Path) -> Mapping[str, Any]:
    registry = folder / "registry"
    registry.mkdir()
    (registry / f"{wide.SCHEMA_ID}.avsc").write_text(json.dumps(wide.AVRO))
    return {"format": "avro", "registry": f"mock://{registry}"}
