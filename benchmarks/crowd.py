"""How long the commits of one epoch take into very many tables, each answer of the store late.

Every table gets one file in each epoch. The commits go the pipeline's own way: prepared in the
pending store, landed by the queue of commits in its threads, settled. The catalog is in SQLite or
PostgreSQL nearby, all files are in an object store whose answers are late (pail.py).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import commits, far, making, pail, specs
from benchmarks.children import FailedError
from benchmarks.making import Made
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format
from penstock.app.assembly import assembly
from penstock.app.assembly.process import commit_executor
from penstock.commit.creation import create
from penstock.commit.two_phase import TwoPhase
from penstock.core.commits import Chain, Committable, DataFile
from penstock.landing.epoch.commit_pool import PacedCommits
from penstock.landing.epoch.commit_queue import CommitBatch, CommitQueue
from penstock.observe.fanout import Observers
from penstock.ports.tables import Table, TableDefinition
from penstock.spec.load import load
from penstock.testing.prepared import origin, prepared

MAKERS = 8
ROWS = 100
BUCKET = "lake"


@dataclass(frozen=True, slots=True)
class Options:
    """So many tables, committed to in so many epochs; `at_once` 0: as many as pay."""

    format: Format = "iceberg"
    tables: int = 1000
    epochs: int = 3
    answer_ms: int = 50
    at_once: int = 0


class _Member(NamedTuple):
    """A table of the crowd."""

    chain: Chain
    table: Table
    uuid: str
    schema_id: int


def measure(options: Options, place: Scratch) -> Measured:
    """Land an epoch that is not counted, then the others."""
    with pail.running(place) as store, far.keys():
        local = specs.write(
            place.subfolder("l"),
            commits.NOWHERE,
            making.TOPIC,
            table_format=options.format,
            partition_by=["qty"],
        )
        size = commits.Options(format=options.format, files=1, partitions=1)
        with commits.table_of(local, size) as fixture:
            spec = far.spec_in(place.subfolder("f"), BUCKET, store.port, options.format)
            tables = _tables(spec, fixture.made, fixture.two_phase, options)
            store.late(options.answer_ms)
            return _landed(tables, fixture.written[0], fixture.two_phase, store, options)


def _tables(spec: Path, like: Made, two_phase: TwoPhase, options: Options) -> Sequence[_Member]:
    """Create the tables, while answers are not late yet."""
    pipeline, place = load(spec), like.target.location
    catalog = assembly.open_catalog(pipeline, place.catalog, Observers())
    claim = two_phase.context.claim

    def made(number: int) -> _Member:
        name = f"{place.name}_{number}"
        chain = Chain(pipeline.name, f"{place.table}_{number}")
        definition = TableDefinition(like.schema, like.target.partition_by, {})
        ledgers = (origin(chain, {0: 0}, claim),)
        table = create(catalog, (chain.table, name), definition, ledgers, Observers())
        state = table.state(chain)
        return _Member(chain, table, state.uuid, state.schema_id)

    first = made(0)
    with ThreadPoolExecutor(MAKERS) as pool:
        return [first, *pool.map(made, range(1, options.tables))]


def _landed(
    tables: Sequence[_Member],
    file: DataFile,
    two_phase: TwoPhase,
    store: pail.Pail,
    options: Options,
) -> Measured:
    executor = commit_executor(options.at_once or "auto")
    queue = CommitQueue(two_phase, executor)
    epochs: list[dict[str, float]] = []
    for epoch in range(options.epochs + 1):
        work = [(_commit(each, file, epoch, two_phase), each.table) for each in tables]
        two_phase.store.prepare(
            two_phase.pipeline, two_phase.context.claim, [commit for commit, _ in work], {}
        )
        asked, used, begun = store.requests(), time.process_time(), time.perf_counter()
        for commit, table in work:
            queue.submit(CommitBatch(commit.chain.table, ((commit, table),)))
        landed = 0
        while landed < len(work):
            for outcome in queue.take(1.0):
                if outcome.error is not None or not all(each.landed for each in outcome.landings):
                    why = outcome.error or [each.reason for each in outcome.landings]
                    raise FailedError(f"{outcome.batch.name} did not land: {why}")
                landed += 1
        epochs.append(
            {
                "seconds": time.perf_counter() - begun,
                "cpu_ms": 1e3 * (time.process_time() - used) / len(work),
                "requests": (store.requests() - asked) / len(work),
            }
        )
    queue.close()
    at_once = executor.pace.at_once if isinstance(executor, PacedCommits) else options.at_once
    counted = epochs[1:]
    values = {name: median(each[name] for each in counted) for name in counted[0]}
    return Measured({**values, "at_once": float(at_once)}, {"epochs": epochs})


def _commit(member: _Member, file: DataFile, epoch: int, two_phase: TwoPhase) -> Committable:
    catalog, _, name = member.chain.table.partition(".")
    path = f"s3://{BUCKET}/{catalog}/{name.replace('.', '/')}/{epoch}-{Path(file.path).name}"
    return prepared(
        member.chain,
        {0: (ROWS * epoch, ROWS * (epoch + 1))},
        files=[replace(file, path=path)],
        uuid=member.uuid,
        held=two_phase.context.claim,
        schema_id=member.schema_id,
        epoch=epoch + 1,
        attempt=f"a{epoch}",
    )
