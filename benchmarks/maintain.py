"""What writing small files again costs, next to deltalake and Spark with the same files.

Ours and deltalake's `optimize.compact` start from a copy of a Delta table of `rows` in `files`
files, in this process, and take turns at being first. Files are as landing writes them, or as
deltalake does: with snappy, and each column with a dictionary. Ours compares the rows that it wrote
with those that it read, the peers do not. Each must leave one file with all rows. Spark comes after
them, in a process of its own (benchmarks/spark_compacts.py); its ratios are those of medians.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

from benchmarks import keyed, records, spark_compacts
from benchmarks.children import FailedError
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from penstock.core.commits import Chain

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.ports.tables import Table

TABLE = "bench.events"
CHAIN = Chain("bench", f"delta.{TABLE}")


@dataclass(frozen=True, slots=True)
class Options:
    """So many rows in so many files of one writer; all write them again `rounds` times."""

    files_by: Literal["landing", "deltalake"] = "landing"
    rows: int = 1_000_000
    files: int = 48
    rounds: int = 5
    spark: bool = True


def measure(options: Options, place: Scratch) -> Measured:
    """Let all write the files again; give the medians of their CPU, and of the ratios."""
    origin = place.subfolder("origin")
    _make(origin, options)
    size_gb = sum(each.stat().st_size for each in origin.rglob("*.parquet")) / 1e9
    acts: dict[str, Callable[[Path], None]] = {"ours": _ours, "peer": _peer}
    raw: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(options.rounds + 1):
        for name in sorted(acts, reverse=number % 2 == 1):
            root = place.subfolder("copy")
            shutil.copytree(origin, root, dirs_exist_ok=True)
            spent = _cpu(acts[name], root)
            _check(root, options)
            if number:  # the first one warms up
                raw[name].append(round(spent, 3))
    ratios = [ours / peer for ours, peer in zip(raw["ours"], raw["peer"], strict=True)]
    values = {
        "cpu_peer_ratio": median(ratios),
        "cpu_seconds_per_gb": median(raw["ours"]) / size_gb,
        "peer_cpu_seconds_per_gb": median(raw["peer"]) / size_gb,
        "read_gb": size_gb,
    }
    if options.spark:
        found = spark_compacts.compact(place, _folder(origin), options.rows, options.rounds)
        for name, seconds in found.items():
            values[f"cpu_spark_{name}_ratio"] = median(raw["ours"]) / median(seconds)
            values[f"spark_{name}_cpu_seconds_per_gb"] = median(seconds) / size_gb
            raw[f"spark_{name}"] = seconds
    return Measured(values, raw)


def _make(root: Path, options: Options) -> None:
    from deltalake import DeltaTable, write_deltalake

    folder = str(_folder(root))
    DeltaTable.create(folder, records.ARROW)
    step = -(-options.rows // options.files)
    for number, start in enumerate(range(0, options.rows, step)):
        rows = keyed.arrow(records.values(start, min(start + step, options.rows)))
        if options.files_by == "landing":
            _land(root, rows, number)
        else:
            write_deltalake(folder, rows, mode="append")


def _land(root: Path, rows: pa.Table, number: int) -> None:
    """Land rows in a commit of their own, as one record of a topic."""
    from penstock.app.assembly.worker import writer
    from penstock.testing.contracts.table_fixture import Quiet
    from penstock.testing.prepared import prepared

    table = _table(root)
    state = table.state(CHAIN)
    files = writer("delta")(state.target, prefix="bench", observer=Quiet())
    for batch in rows.combine_chunks().to_batches():
        files.write(batch)
    commit = prepared(
        CHAIN,
        {0: (number, number + 1)},
        files=files.close(),
        uuid=state.uuid,
        schema_id=state.schema_id,
        origins={0: 0},
    )
    table.commit(state, commit, retain=25)


def _ours(root: Path) -> None:
    """Carry out the plan, as `penstock maintain` does once a pipeline is there."""
    from penstock.commit.attempt import CommitContext
    from penstock.commit.maintaining import Maintenance
    from penstock.commit.rearranging import Rearranging
    from penstock.engines.inline import InlineEngine
    from penstock.engines.work import COPYING_WORK
    from penstock.testing.contracts.table_fixture import Quiet, StillClock
    from penstock.testing.prepared import claim

    context = CommitContext(claim(), Quiet(), StillClock(), lambda: 0.5, 25)
    work = Maintenance(CHAIN, _table(root), context, "m1", list)
    Rearranging(work, InlineEngine(COPYING_WORK), "delta").run()


def _table(root: Path) -> Table:
    from penstock.connectors.delta import connector
    from penstock.spec.secrets import ProcessSecrets
    from penstock.testing.contracts.table_fixture import Quiet

    settings = {"name": "delta", "type": "delta", "root": str(root)}
    table = connector.open_catalog(settings, ProcessSecrets({}), Quiet()).load(TABLE)
    if table is None:
        raise FailedError("the table is not there")
    return table


def _peer(root: Path) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(_folder(root))).optimize.compact()


def _cpu(act: Callable[[Path], None], root: Path) -> float:
    """Return the CPU seconds of this process and all of its threads."""
    used = time.process_time()
    act(root)
    return time.process_time() - used


def _check(root: Path, options: Options) -> None:
    from deltalake import DeltaTable

    table = DeltaTable(str(_folder(root)))
    files, rows = len(table.file_uris()), table.to_pyarrow_dataset().count_rows()
    if (files, rows) != (1, options.rows):
        raise FailedError(f"{rows:,} rows are in {files} files")


def _folder(root: Path) -> Path:
    return root.joinpath(*TABLE.split("."))
