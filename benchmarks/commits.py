"""What landing one prepared commit costs, and whether that grows with the commits before.

Each commit has ten files and goes the pipeline's own way: prepared in the store, then settled by
`TwoPhase` (examine, decide, compare-and-set, read back), then the store told. Writing the files is
not timed; housekeeping, which the pipeline does behind a commit, is timed apart.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from statistics import median

from benchmarks import making, specs
from benchmarks.making import Made
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format
from penstock.app import assembly
from penstock.app.process import SystemClock, jitter, this_owner
from penstock.commit.once import Conditions
from penstock.commit.two_phase import TwoPhase
from penstock.core.commits import Committable, Generation
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
    took = []
    for number in range(options.late):
        commit = _commit(made, number)
        commit = replace(commit, generation=claim.generation, owner=claim.owner)
        took.append(_settled(commit, made, two_phase))
    store.close()
    _check(made, options.late)
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


def _commit(made: Made, number: int) -> Committable:
    writer = made.writer(f"bench-{number}")
    writer.write(made.rows(number * ROWS, (number + 1) * ROWS))
    files = writer.close()
    assert len(files) == FILES, f"one file for each quantity: {len(files)}"
    state = made.table.state(made.chain)
    each = ROWS // PARTITIONS
    return prepared(
        made.chain,
        dict.fromkeys(range(PARTITIONS), (number * each, (number + 1) * each)),
        files=files,
        uuid=state.uuid,
        schema_id=state.schema_id,
        epoch=number + 1,
        attempt=f"a{number}",
    )


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


def _check(made: Made, commits: int) -> None:
    landed = made.table.state(made.chain).landed
    assert landed is not None, "the ledger is there"
    assert set(landed.offsets.values()) == {commits * ROWS // PARTITIONS}, "all of it landed"
