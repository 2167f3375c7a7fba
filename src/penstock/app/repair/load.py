"""`penstock load`: land partitions of a table again, or all of it, in place of what stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from penstock.app.inspect.read_only_world import open_world
from penstock.app.repair.confirmed_change import Change, Step, exclusive_change
from penstock.app.repair.replay_and_seek import able_to_read, by_workers
from penstock.core.maintenance import StoredFile
from penstock.core.partition_names import values_of
from penstock.landing.repair import load as loading
from penstock.landing.repair.replay import Replayed, land_again
from penstock.observe.fanout import UNHEARD
from penstock.observe.formatting import number_of
from penstock.ports.runtime import Observer
from penstock.spec.model import Pipeline

SHOWN_MAX = 20
"""Up to how many partitions are shown one by one."""


def plan_load(
    pipeline: Pipeline, table: str, partitions: Sequence[str], observer: Observer = UNHEARD
) -> Change:
    """Return what a load would do; all of a table without `partitions`. Writes nothing.

    Raises InvalidError (P263 no name of a partition), and as `landing.repair.load`.
    """
    wanted = [values_of(each) for each in partitions]
    with open_world(pipeline, observer=observer) as world:
        planned = loading.plan_load(world.progress_of(table), wanted, world.bounds)
    return Change(pipeline.name, (*_steps(planned), *by_workers(pipeline, planned.replacement)))


def load(
    pipeline: Pipeline, table: str, partitions: Sequence[str], observer: Observer = UNHEARD
) -> Replayed:
    """Land partitions again, or all of a table, in one commit.

    Raises UnavailableError (P510) while a run is alive, and as `landing.repair.load` and
    `landing.repair.replay`.
    """
    wanted = [values_of(each) for each in partitions]
    with exclusive_change(pipeline, observer) as held, ExitStack() as stack:
        progress = held.settle_pending(table)
        bounds = held.environment.log.bounds(held.environment.log.partitions())
        replacement = loading.plan_load(progress, wanted, bounds).replacement
        if not (replacement.files or replacement.ranges):
            return Replayed(0, 0, {})
        able = able_to_read(held, pipeline, replacement.positions, stack)
        return land_again(able, progress, replacement)


def _steps(planned: loading.LoadPlan) -> Iterator[Step]:
    replacement = planned.replacement
    table = replacement.table
    by_partition: dict[str, list[StoredFile]] = defaultdict(list)
    for each in planned.files:
        by_partition[each.partition].append(each)
    for name in planned.empty:
        yield Step(f"{table}: no file is of {name}", changes=False)
    for name, files in sorted(by_partition.items())[:SHOWN_MAX]:
        yield Step(f"{table}: {_figures(files)} of {name or 'all'} are replaced", destructive=True)
    if (more := len(by_partition) - SHOWN_MAX) > 0:
        figures = f"{_figures(planned.files)} in all"
        yield Step(f"{table}: and {number_of(more, 'partition')} more, {figures}", destructive=True)
    for at, covered in sorted(replacement.ranges.items()):
        count = len((replacement.only or {}).get(at, ()))
        records = "all records" if planned.whole else number_of(count, "record")
        yield Step(f"{table}: {records} of {at}{covered} land again by the present rules")
    if planned.deleted and planned.whole:
        back = f"{table}: {number_of(planned.deleted, 'row')} that somebody deleted come again"
        yield Step(back, destructive=True)
    elif planned.deleted:
        gone = f"{table}: {number_of(planned.deleted, 'row')} that somebody deleted stay deleted"
        yield Step(gone, changes=False)


def _figures(files: Sequence[StoredFile]) -> str:
    rows = sum(each.rows - each.deleted for each in files)
    return f"{number_of(rows, 'row')} in {number_of(len(files), 'file')}"
