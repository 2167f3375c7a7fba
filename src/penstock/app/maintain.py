"""`penstock maintain`: files of tables are written again as fewer, old snapshots expire, and files
that nothing names are deleted, beside a run or without one.

Invariants:
- nothing is written before consent, and what is done was planned again then;
- Kafka is not asked, and the pipeline is not claimed: each act yields to every commit
  (docs/design/0291, 0308);
- a table that cannot be maintained does not hold up the others, nor an act the next one;
- files are written again in this process, or by the workers of the spec's Spark: by one function
  (docs/design/0330).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from penstock.app.assembly import assembly
from penstock.app.assembly.crash_points import from_environment, observer_for
from penstock.app.assembly.engines import INLINE, open_engine
from penstock.app.inspect.maintenance import (
    MaintenancePlan,
    TableMaintenance,
    maintenance_of,
    sweeping_of,
)
from penstock.app.repair.confirmed_change import Change, Step
from penstock.commit.expiring import expire
from penstock.commit.rearranging import RearrangedFiles, Rearranging
from penstock.commit.sweeping import Sweeping
from penstock.core.errors import InvalidError, PenstockError, gravest
from penstock.core.maintenance import FileGroup, MaintenanceAct
from penstock.engines.inline import InlineEngine
from penstock.engines.work import COPYING_WORK
from penstock.observe.fanout import Observers
from penstock.observe.formatting import number_of, size_text
from penstock.ports.runtime import Engine, Observer
from penstock.ports.store import PendingStore
from penstock.spec.language.notation import PLACEHOLDER
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class SweptFiles:
    """What a sweep did: files deleted, and those that nothing names and that wait now."""

    deleted: int = 0
    deleted_bytes: int = 0
    noted: int = 0


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """What was done to one table, and the errors that ended acts, if there were any."""

    table: str
    done: RearrangedFiles = field(default_factory=RearrangedFiles)
    expired: int = 0
    swept: SweptFiles = field(default_factory=SweptFiles)
    errors: tuple[PenstockError, ...] = ()


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was done to the tables of a pipeline."""

    pipeline: str
    tables: tuple[MaintainedTable, ...]

    @property
    def exit_code(self) -> int:
        """Return 0, or the exit code of the gravest error."""
        return gravest(error.exit_code for each in self.tables for error in each.errors)


def change_of(plan: MaintenancePlan) -> Change:
    """Return a plan as the steps that have to be confirmed."""
    return Change(plan.pipeline, tuple(step for each in plan.tables for step in _steps(each)))


def _steps(found: TableMaintenance) -> Iterator[Step]:
    if MaintenanceAct.REARRANGE in found.acts:
        few = [group for group in found.groups if not group.late]
        if late := [group for group in found.groups if group.late]:
            yield Step(f"{found.table}: {_files_of(late)}, are moved to their partitions")
        if few:
            after = sum(group.files_after for group in few)
            yield Step(f"{found.table}: {_files_of(few)}, are written again as {after:,}")
    if MaintenanceAct.EXPIRE in found.acts and found.expiry is not None:
        snapshots = number_of(len(found.expiry.expired), "snapshot")
        yield Step(f"{found.table}: {snapshots} can no longer be read", destructive=True)
    if MaintenanceAct.SWEEP in found.acts and found.sweep is not None:
        if due := found.sweep.due:
            size = size_text(sum(each.size_bytes for each in due))
            text = f"{found.table}: {number_of(len(due), 'file')}, {size}, deleted"
            yield Step(text, destructive=True)
        if new := found.sweep.new:
            text = f"{found.table}: {number_of(len(new), 'file')} noted, to be deleted later"
            yield Step(text)


def _files_of(groups: Sequence[FileGroup]) -> str:
    files = sum(len(group.files) for group in groups)
    return f"{number_of(files, 'file')}, {size_text(sum(each.size_bytes for each in groups))}"


def here() -> Engine:
    """Return what writes files again in this process."""
    return InlineEngine(COPYING_WORK)


def workers_of(pipeline: Pipeline, observer: Observer) -> Engine:
    """Start the Spark of a spec, whose tasks write files again.

    Raises InvalidError (P844 the spec has none, and what `open_engine` raises).
    """
    if pipeline.spark.master == INLINE:
        raise InvalidError(
            "There are no workers to maintain tables: the spec has spark.master: inline.",
            code="P844",
            hint="leave --workers out, or name a cluster as spark.master",
        )
    return open_engine(pipeline, observer=observer, work=COPYING_WORK)


def maintain(
    pipeline: Pipeline,
    acts: Mapping[str, Collection[MaintenanceAct]],
    engine: Engine,
    observer: Observer,
) -> Maintained:
    """Do acts, by table, on one table after the other; return what was done.

    Files are written again by jobs of the engine. Raises UnavailableError where the pending store
    does not answer.
    """
    observer = Observers(observer, observer_for(from_environment()))
    with ExitStack() as stack:
        store = stack.enter_context(closing(assembly.open_store(pipeline)))
        tools = _Tools(store, engine, observer)
        found = tuple(_maintained(pipeline, name, those, tools) for name, those in acts.items())
    return Maintained(pipeline.name, found)


@dataclass(frozen=True, slots=True)
class _Tools:
    """What the maintenance of all tables is done with."""

    store: PendingStore
    engine: Engine
    observer: Observer


def _maintained(
    pipeline: Pipeline, name: str, acts: Collection[MaintenanceAct], tools: _Tools
) -> MaintainedTable:
    try:
        place = assembly.place_of(pipeline, name)
        opened = assembly.open_catalog(pipeline, place.catalog, tools.observer)
        with closing(opened) as catalog:
            table = catalog.load(place.name)
            if table is None:
                return MaintainedTable(name)
            work = maintenance_of(pipeline, name, table, tools.store, tools.observer)
            sorts = _sorts(pipeline, name)
            rearranging = Rearranging(work, tools.engine, place.connector, sorts=sorts)
            return _done(rearranging, sweeping_of(pipeline, work, tools.store), acts)
    except PenstockError as error:
        return MaintainedTable(name, errors=(error,))


def _sorts(pipeline: Pipeline, name: str) -> bool:
    """Return whether rows of a table are sorted by its order, by the first rule that leads to it.

    A placeholder stands for any text.
    """
    for rule in pipeline.tables:
        pattern = ".+".join(map(re.escape, PLACEHOLDER.split(rule.table)[::2]))
        if re.fullmatch(pattern, name):
            return rule.write.sort != "never"
    return True


def _done(
    rearranging: Rearranging, sweeping: Sweeping, acts: Collection[MaintenanceAct]
) -> MaintainedTable:
    """Do the acts in their order; an error of one keeps none of the others from being done."""
    errors: list[PenstockError] = []
    expired, noted = 0, 0
    for act in (each for each in MaintenanceAct if each in acts):
        try:
            match act:
                case MaintenanceAct.REARRANGE:
                    rearranging.run()
                case MaintenanceAct.EXPIRE:
                    expired = len(expire(sweeping.work))
                case MaintenanceAct.SWEEP:
                    noted = len(sweeping.run().new)
        except PenstockError as error:
            errors.append(error)
    swept = SweptFiles(
        len(sweeping.deleted), sum(each.size_bytes for each in sweeping.deleted), noted
    )
    return MaintainedTable(
        sweeping.work.chain.table, rearranging.done, expired, swept, tuple(errors)
    )
