"""`penstock maintain`: files of tables are written again as fewer, beside a run or without one.

Invariants:
- nothing is written before consent, and what is done was planned again then;
- Kafka is not asked, and the pipeline is not claimed: a rearrangement yields to every commit
  (docs/design/0291);
- a table that cannot be maintained does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack, closing
from dataclasses import dataclass

from penstock.app.assembly import assembly, worker
from penstock.app.assembly.crash_points import from_environment, observer_for
from penstock.app.assembly.process import SystemClock, jitter, token
from penstock.app.inspect.maintenance import MaintenancePlan
from penstock.app.repair.confirmed_change import Change, Step
from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import last_claim_of
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.core.commits import Chain
from penstock.core.errors import PenstockError, gravest
from penstock.observe.fanout import Observers
from penstock.observe.formatting import number_of, size_text
from penstock.ports.runtime import Observer
from penstock.ports.store import PendingStore
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """What was done to one table, and the error that ended it, if there was one."""

    table: str
    done: RearrangedFiles
    error: PenstockError | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done to the tables of a pipeline."""

    pipeline: str
    tables: tuple[MaintainedTable, ...]

    @property
    def exit_code(self) -> int:
        """Return 0, or the exit code of the gravest error."""
        return gravest(each.error.exit_code for each in self.tables if each.error is not None)


def change_of(plan: MaintenancePlan) -> Change:
    """Return a plan as the steps that have to be confirmed; none is destructive."""
    steps = []
    for each in plan.tables:
        if not each.waits:
            continue
        files = sum(len(group.files) for group in each.groups)
        after = sum(group.files_after for group in each.groups)
        size = size_text(sum(group.size_bytes for group in each.groups))
        text = f"{each.table}: {number_of(files, 'file')}, {size}, are written again as {after:,}"
        steps.append(Step(text))
    return Change(plan.pipeline, tuple(steps))


def maintain(pipeline: Pipeline, tables: Collection[str], observer: Observer) -> Maintained:
    """Carry out the plans of tables, one after the other; return what was done.

    Raises UnavailableError where the pending store does not answer.
    """
    observer = Observers(observer, observer_for(from_environment()))
    with ExitStack() as stack:
        store = stack.enter_context(closing(assembly.open_store(pipeline)))
        found = tuple(_maintained(pipeline, each, store, observer) for each in tables)
    return Maintained(pipeline.name, found)


def _maintained(
    pipeline: Pipeline, name: str, store: PendingStore, observer: Observer
) -> MaintainedTable:
    rearranging: Rearranging | None = None
    try:
        place = assembly.place_of(pipeline, name)
        opened = assembly.open_catalog(pipeline, place.catalog, observer)
        with closing(opened) as catalog:
            table = catalog.load(place.name)
            if table is None:
                return MaintainedTable(name, RearrangedFiles())
            rearranging = Rearranging(
                Chain(pipeline.name, name),
                table,
                worker.writer(place.connector),
                CommitContext(
                    last_claim_of(None), observer, SystemClock(), jitter, pipeline.commit.retain
                ),
                token(),
                lambda: store.pauses(pipeline.name),
            )
            return MaintainedTable(name, rearranging.run())
    except PenstockError as error:
        done = RearrangedFiles() if rearranging is None else rearranging.done
        return MaintainedTable(name, done, error)
