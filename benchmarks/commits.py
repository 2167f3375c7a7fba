"""What landing one prepared commit costs, and whether that grows with the commits before.

Each commit goes the pipeline's own way: prepared in the store, then settled by
`TwoPhase` (examine, decide, compare-and-set, read back), then the store is informed. The files
of all commits are the same ten under other names; housekeeping, which the pipeline does after a
commit, is timed separately. From commit `level` on, as many own snapshots stay as ever do
(docs/design/0205): what grows beyond there grows for ever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from benchmarks import making, specs, tables
from benchmarks.making import Made
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format
from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock, jitter, this_owner
from penstock.commit.attempt import CommitContext
from penstock.commit.two_phase import TwoPhase
from penstock.core.claims import Generation
from penstock.core.commits import Committable, DataFile
from penstock.observe.fanout import Observers
from penstock.spec.load import load
from penstock.testing.prepared import prepared

NOWHERE = "localhost:1"  # no broker is asked
WRITTEN = 10
ROWS = 400
AROUND = 20


@dataclass(frozen=True, slots=True)
class Options:
    """Measure the commits before numbers `early`, `level` and `late`, of commits of some size."""

    format: Format = "iceberg"
    early: int = 50
    level: int = 200
    late: int = 1000
    files: int = WRITTEN
    partitions: int = 4


@dataclass(frozen=True, slots=True)
class Took:
    """Milliseconds of one commit's parts."""

    prepare: float
    settle: float
    settle_cpu: float
    housekeep: float


@dataclass(frozen=True, slots=True)
class CommitFixture:
    """A table under a claim, and what lands commits in it."""

    made: Made
    written: Sequence[DataFile]
    two_phase: TwoPhase
    options: Options

    def commit(self, number: int) -> Committable:
        """Prepare commit `number`; it covers as much of each partition as the others do."""
        each = covered(self.options)
        return prepared(
            self.made.chain,
            dict.fromkeys(range(self.options.partitions), (number * each, (number + 1) * each)),
            files=[self._file(nth, number) for nth in range(self.options.files)],
            uuid=self.made.uuid,
            held=self.two_phase.context.claim,
            schema_id=self.made.schema_id,
            epoch=number + 1,
            attempt=f"a{number}",
        )

    def _file(self, nth: int, number: int) -> DataFile:
        """Return a file that was written a further name; on a disk it is there, at no cost."""
        file = self.written[nth % WRITTEN]
        path = file.path.replace(".parquet", f"-{number}-{nth}.parquet")
        if "://" not in file.path or file.path.startswith("file://"):
            os.link(_local(file.path), _local(path))
        return replace(file, path=path)


def measure(options: Options, place: Scratch) -> Measured:
    """Land commit after commit."""
    assert AROUND <= options.early < options.level < options.late, "there are commits to measure"
    folder = place.subfolder("c")
    spec = specs.write(
        folder, NOWHERE, making.TOPIC, table_format=options.format, partition_by=["qty"]
    )
    with table_of(spec, options) as fixture:
        took = [
            settled(fixture.commit(number), fixture.made, fixture.two_phase)
            for number in range(options.late)
        ]
        _check(fixture.made, folder, options)
    early, level, late = (
        took[number - AROUND : number] for number in (options.early, options.level, options.late)
    )
    values = {
        "early_ms": median(each.settle for each in early),
        "level_ms": median(each.settle for each in level),
        "late_ms": median(each.settle for each in late),
        "ratio": median(each.settle for each in late) / median(each.settle for each in level),
        "early_cpu_ms": median(each.settle_cpu for each in early),
        "late_cpu_ms": median(each.settle_cpu for each in late),
        "prepare_ms": median(each.prepare for each in late),
        "housekeep_ms": median(each.housekeep for each in late),
        "housekeep_max_ms": max(each.housekeep for each in took),
    }
    return Measured(values, {"settle_ms": [round(each.settle, 2) for each in took]})


@contextmanager
def table_of(spec: Path, options: Options) -> Iterator[CommitFixture]:
    """Make the table of a spec, its store, and the ten files, under a claim."""
    pipeline, clock = load(spec), SystemClock()
    with closing(assembly.open_store(pipeline)) as store:
        now_ms = clock.now_ms()
        claim = store.claim(
            pipeline.name,
            this_owner(),
            above=Generation(0),
            now_ms=now_ms,
            alive_until_ms=now_ms + 86_400_000,
            takeover=False,
        )
        made = making.made(spec, claim, options.partitions)
        conditions = CommitContext(claim, Observers(), clock, jitter, pipeline.commit.retain)
        two_phase = TwoPhase(pipeline.name, store, conditions)
        yield CommitFixture(made, _written(made), two_phase, options)


def _written(made: Made) -> Sequence[DataFile]:
    """Write the ten files whose links every commit brings."""
    writer = made.writer("bench")
    writer.write(made.rows(0, ROWS))
    files = writer.close()
    assert len(files) == WRITTEN, f"one file for each quantity: {len(files)}"
    return files


def covered(options: Options) -> int:
    """Return how many offsets of each partition a commit covers."""
    return max(ROWS // options.partitions, 1)


def _local(path: str) -> str:
    return path.removeprefix("file://")


def settled(commit: Committable, made: Made, two_phase: TwoPhase) -> Took:
    """Prepare and settle one commit, and keep house after it."""
    begun = time.perf_counter()
    two_phase.store.prepare(two_phase.pipeline, two_phase.context.claim, [commit], {})
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
    assert set(landed.offsets.values()) == {options.late * covered(options)}, "all of it landed"
    paths = tables.live_files(folder, options.format)
    assert len(paths) == len(set(paths)) == options.late * options.files, "each file is live, once"
