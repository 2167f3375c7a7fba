"""What Spark pays for the row deletes that many commits have left, against a compacted copy.

A table of `table_rows`, then `epochs` epochs of `changes` of random keys, as `benchmarks/keyed.py`
makes them, with no compaction between. What Spark finds must be the last record of each key.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmarks import keyed, spark_reads, topics
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format


@dataclass(frozen=True, slots=True)
class Options:
    """So many epochs of so many changes into so many rows; each table is read `rounds` times."""

    format: Format = "iceberg"
    table_rows: int = 10_000_000
    changes: int = 10_000
    epochs: int = 100
    partitions: int = 4
    rounds: int = 5


def measure(options: Options, place: Scratch) -> Measured:
    """Land the changes; read the table and its copy."""
    made = keyed.Options(
        format=options.format,
        table_rows=options.table_rows,
        changes=options.changes,
        epochs=options.epochs - 1,  # and one that warms up
        partitions=options.partitions,
    )
    place.topic(keyed.TOPIC, options.partitions)
    topics.fill(place.brokers, keyed.TOPIC, options.partitions, options.table_rows)
    folder = place.subfolder("k")
    keyed.make(folder, place, made, keyed.KEYED)
    drawn = keyed.keys(made)
    keyed.change(place, made, drawn)
    leg = keyed.landed(folder, place, made, keyed.KEYED)
    table = spark_reads.ours(folder, options.format)
    reading = spark_reads.read(place, {"it": table}, options.rounds, keyed.CHECKED)["it"]
    keyed.check(reading.rows, made, drawn)
    values = {
        "read_copy_ratio": reading.seconds / reading.copy_seconds,
        "read_cpu_copy_ratio": reading.cpu / reading.copy_cpu,
        "read_seconds": reading.seconds,
        "read_cpu": reading.cpu,
        "copy_seconds": reading.copy_seconds,
        "copy_cpu": reading.copy_cpu,
        "changes_per_second": leg.rate,
        "cpu_seconds_per_million": leg.cpu,
        "land_median_seconds": median(leg.land),
        "land_max_seconds": max(leg.land),
    }
    return Measured(values, {"land_seconds": leg.land})
