"""What landing one prepared commit costs, and whether that grows with the commits before.

Each commit has ten files and goes the pipeline's own way: prepared in the store, then settled by
`TwoPhase` (examine, decide, compare-and-set, read back), then the store told. The files of all
commits are the same ten under other names; housekeeping, which the pipeline does behind a commit,
is timed apart.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks import making, specs, tables
from benchmarks.making import Made
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format
from penstock.app import assembly
from penstock.app.process import SystemClock, jitter, this_owner
from penstock.commit.once import Conditions
from penstock.commit.two_phase import TwoPhase
from penstock.core.commits import Claim, Committable, DataFile, Generation
from penstock.observe.fanout import Observers
from penstock.spec.load import load
from penstock.testing.prepared import prepared

NOWHERE = "localhost:1"  # no broker is asked
FILES = 10
ROWS = 400
PARTITIONS = 4
AROUND = 20


@dataclass(frozen=True, slots=True)
class Options:
    """Look around commit number `early` and at commit number `late`."""

    format: Format = "iceberg"
    early: int = 50
    late: int = 1000


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds of one commit's parts."""

    prepare: float
    settle: float
    settle_cpu: float
    housekeep: float


def measure(options: Options, place: Scratch) -> Measured:
    """Land commit after commit."""
    assert AROUND <= options.early < options.late, "there are commits to look at"
    folder = place.subfolder("c")
    spec = specs.write(
        folder, NOWHERE, making.TOPIC, table_format=options.format, partition_by=["qty"]
    )
    pipeline, clock = load(spec), SystemClock()
    store = assembly.open_store(pipeline)
    now_ms = clock.now_ms()
    claim = store.claim(
        pipeline.name,
        this_owner(),
        above=Generation(0),
        now_ms=now_ms,
        alive_until_ms=now_ms + 86_400_000,
        takeover=False,
    )
    made = making.made(spec, claim, PARTITIONS)
    conditions = Conditions(claim, Observers(), clock, jitter, pipeline.commit.retain)
    two_phase = TwoPhase(pipeline.name, store, conditions)
    written = _written(made)
    took = [
        _settled(_commit(made, written, claim, number), made, two_phase)
        for number in range(options.late)
    ]
    store.close()
    _check(made, folder, options)
    early, late = took[options.early - AROUND : options.early], took[-AROUND:]
    values = {
        "early_ms": median(each.settle for each in early),
        "late_ms": median(each.settle for each in late),
        "ratio": median(each.settle for each in late) / median(each.settle for each in early),
        "early_cpu_ms": median(each.settle_cpu for each in early),
        "late_cpu_ms": median(each.settle_cpu for each in late),
        "prepare_ms": median(each.prepare for each in late),
        "housekeep_ms": median(each.housekeep for each in late),
        "housekeep_max_ms": max(each.housekeep for each in took),
    }
    return Measured(values, {"settle_ms": [round(each.settle, 2) for each in took]})


def _written(made: Made) -> Sequence[DataFile]:
    """Write the ten files whose copies every commit brings."""
    writer = made.writer("bench")
    writer.write(made.rows(0, ROWS))
    files = writer.close()
    assert len(files) == FILES, f"one file for each quantity: {len(files)}"
    return files


def _commit(made: Made, written: Sequence[DataFile], claim: Claim, number: int) -> Committable:
    each = ROWS // PARTITIONS
    commit = prepared(
        made.chain,
        dict.fromkeys(range(PARTITIONS), (number * each, (number + 1) * each)),
        files=[_linked(file, number) for file in written],
        uuid=made.uuid,
        held=claim,
        schema_id=made.schema_id,
        epoch=number + 1,
        attempt=f"a{number}",
    )
    assert commit.rows == ROWS, "all rows are in the files"
    return commit


def _linked(file: DataFile, number: int) -> DataFile:
    """Give a file a further name: files that share their bytes cost no writing."""
    path = file.path.replace(".parquet", f"-{number}.parquet")
    os.link(_local(file.path), _local(path))
    return replace(file, path=path)


def _local(path: str) -> str:
    return path.removeprefix("file://")


def _settled(commit: Committable, made: Made, two_phase: TwoPhase) -> Took:
    begun = time.perf_counter()
    two_phase.store.prepare(two_phase.pipeline, two_phase.conditions.claim, [commit], {})
    ready, used = time.perf_counter(), time.process_time()
    (landing,) = two_phase.settle([(commit, made.table)])
    settled, used = time.perf_counter(), time.process_time() - used
    made.table.housekeep()
    ended = time.perf_counter()
    assert landing.landed, landing.reason
    return Took(
        prepare=1e3 * (ready - begun),
        settle=1e3 * (settled - ready),
        settle_cpu=1e3 * used,
        housekeep=1e3 * (ended - settled),
    )


def _check(made: Made, folder: Path, options: Options) -> None:
    landed = made.table.state(made.chain).landed
    assert landed is not None, "the ledger is there"
    assert set(landed.offsets.values()) == {options.late * ROWS // PARTITIONS}, "all of it landed"
    paths = tables.live_files(folder, options.format)
    assert len(paths) == len(set(paths)) == options.late * FILES, "each file is live, once"
