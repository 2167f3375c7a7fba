"""Constants of the model of scale that were measured, read from the results kept.

Invariant: no number is typed in here; a constant that was not measured is an error with the command
that measures it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.children import FailedError
from benchmarks.results import Result, kept
from benchmarks.scratch import stated
from benchmarks.specs import Format

EPOCH_RECORDS = 20_000
CLUSTER_EPOCH_RECORDS = 250_000


@dataclass(frozen=True, slots=True)
class Constants:
    """What one of each costs: seconds of the clock, or of CPU where the name says so, and bytes.

    `epoch_seconds` is an epoch of hardly any records on up to `local_cores`, and on the executors
    of a cluster `cluster_epoch_seconds`; `table_seconds` is one more table in it;
    `commit_seconds` is a commit of no files and no partitions with a store next to us, which waits
    for `answers` of a store further away; `commit_bytes` and what follows, the metadata it writes,
    of partitions beyond the first `ranges_partitions` less.
    """

    record_cpu_seconds: float
    broker_cpu_seconds: float
    record_bytes: float
    written_bytes: float
    local_cores: int
    epoch_seconds: float
    cluster_epoch_seconds: float
    table_seconds: float
    commit_seconds: float
    commit_file_seconds: float
    commit_partition_seconds: float
    answers: float
    commit_bytes: float
    commit_file_bytes: float
    commit_partition_bytes: float
    partition_beyond_bytes: float
    ranges_partitions: float
    ledger_partition_bytes: float
    requests: float
    puts: float


def found(folder: Path, figure: str, **options: Any) -> Result:
    """Return the newest result of a figure with some of its options. Raises FailedError."""
    words = [f"--{name.replace('_', '-')} {value}" for name, value in options.items()]
    for result in reversed(kept(figure, folder)):
        if all(f"{word} " in f"{result.command} " for word in words):
            return result
    raise FailedError(f"not measured yet:  {stated([figure, *words])}")


def used(folder: Path, table_format: Format) -> dict[str, Result]:
    """Return the results that the constants stem from. Raises FailedError."""
    usual = {"format": table_format, "files": 10, "partitions": 4}
    return {
        "drain": found(folder, "drain", format=table_format),
        "epoch": found(folder, "epoch", epoch_records=EPOCH_RECORDS),
        "cluster": found(folder, "cluster", epoch_records=CLUSTER_EPOCH_RECORDS),
        "fanout": found(folder, "fanout", tables=100, format=table_format),
        "commit": found(folder, "commit", early=50, level=200, **usual),
        "files": found(folder, "commit", **usual | {"files": 1000}),
        "partitions": found(folder, "commit", **usual | {"partitions": 2000}),
        "far": found(folder, "far", format=table_format, answer_ms=200),
        "growth": found(folder, "growth", format=table_format),
    }


def constants(folder: Path, table_format: Format = "iceberg") -> Constants:
    """Read the constants of tables of a format. Raises FailedError."""
    stem = used(folder, table_format)
    cores = int(stem["drain"].circumstances["machine"]["cores"])
    results = {name: result.values for name, result in stem.items()}
    drain, growth, commit = results["drain"], results["growth"], results["commit"]
    record = drain["cpu_seconds_per_million"] / 1e6
    alone = CLUSTER_EPOCH_RECORDS / results["cluster"]["one_rows_per_second"]
    file = (results["files"]["early_ms"] - commit["early_ms"]) / (1000 - 10) / 1e3
    partition = (results["partitions"]["early_ms"] - commit["early_ms"]) / (2000 - 4) / 1e3
    return Constants(
        record_cpu_seconds=record,
        broker_cpu_seconds=drain["broker_seconds_per_million"] / 1e6,
        record_bytes=drain["record_bytes"],
        written_bytes=drain["bytes_per_record"],
        local_cores=cores,
        epoch_seconds=(
            results["epoch"]["prepared_median_ms"] / 1e3 - EPOCH_RECORDS * record / cores
        ),
        cluster_epoch_seconds=alone - CLUSTER_EPOCH_RECORDS * record,
        table_seconds=results["fanout"]["table_ms"] / 1e3,
        commit_seconds=commit["level_ms"] / 1e3 - 10 * file - 4 * partition,
        commit_file_seconds=file,
        commit_partition_seconds=partition,
        answers=results["far"]["answers"],
        commit_bytes=growth["commit_bytes"],
        commit_file_bytes=growth["file_bytes"],
        commit_partition_bytes=growth["partition_bytes"],
        partition_beyond_bytes=growth["partition_beyond_bytes"],
        ranges_partitions=growth["ranges_partitions"],
        ledger_partition_bytes=growth["ledger_partition_bytes"],
        requests=growth["requests"],
        puts=growth["puts"],
    )
