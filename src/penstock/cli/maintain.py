"""`penstock maintain`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from penstock.cli.confirming import confirmed
from penstock.cli.output import fields_of, pasteable, print_json, print_line
from penstock.cli.parameters import SPEC, Json, Spec, Yes
from penstock.cli.shards import Command, Words, by_shard
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown
from penstock.core.errors import gravest
from penstock.core.maintenance import MaintenanceAct, acts_of
from penstock.engines.allocation import keep_freed_memory
from penstock.observe.formatting import health_text, number_of, one_line, size_text

if TYPE_CHECKING:
    from penstock.app.inspect.maintenance import MaintenancePlan, TableMaintenance
    from penstock.app.maintain import MaintainedTable
    from penstock.core.expiry import Expiry
    from penstock.core.maintenance import FileGroup
    from penstock.core.sweeps import Sweep

ActName = Literal["rearrange", "expire", "sweep"]
GROUPS_SHOWN_MAX = 8
REASONS_SHOWN_MAX = 4
EACH = "The tables, by their names in the spec; without any, all of them, and the quarantine."


def _share(shard: int, words: Words) -> Words | None:
    """Return what a shard does of what all of them are asked for: what is everybody's, once."""
    acts = acts_of(shard, words["only"])
    return {**words, "only": acts} if acts or shard == 0 else None


def _keeping_memory(command: Command) -> Command:
    """Let a command's process keep the memory that it frees: said before a spec loads Arrow."""

    @wraps(command)
    def keeping(*args: Any, **kwargs: Any) -> int:
        keep_freed_memory(os.environ)
        return command(*args, **kwargs)

    return keeping


@_keeping_memory
@by_shard(share=_share)
def maintain(
    *tables: Annotated[str, Parameter(help=EACH)],
    spec: Spec = SPEC,
    only: Annotated[tuple[ActName, ...], Parameter(negative=())] = (),
    dry_run: Annotated[bool, Parameter(name="--dry-run")] = False,
    workers: Annotated[bool, Parameter(negative=())] = False,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Write small files of tables again as fewer, expire snapshots, delete what nothing names.

    Files of a partition that become one are a group; rows that are deleted in them go for good, and
    rows that landed late get to their partitions.
    Snapshots expire by the table's own `history.expire.*`. A file that nothing names is noted, and
    deleted by a later call, five days afterwards. A run may go on meanwhile: what it lands comes
    first. With neither --yes nor a terminal it only shows the plan. A table that cannot be read or
    maintained is shown with its error, and the command exits with the code of that error.

    Example: penstock maintain lake.bronze.orders --yes shop

    Parameters
    ----------
    only
        Do these acts alone: rearrange, expire, sweep.
    dry_run
        Show the plan, group by group, and do nothing. No data file is opened.
    workers
        Let the spec's Spark write files again, as many at once as it has cores; else this process
        does, one after the other.
    """
    from penstock.app.assembly.process import SystemClock
    from penstock.app.inspect.maintenance import plan_maintenance
    from penstock.app.maintain import change_of, here, workers_of
    from penstock.app.maintain import maintain as maintained

    pipeline, acts = load_spec(spec), frozenset(map(MaintenanceAct, only or MaintenanceAct))
    with waits_shown(as_json=json) as observer:
        plan = plan_maintenance(pipeline, tables, observer, acts)
    if not json:
        for table in plan.tables:
            for line in _lines(table, SystemClock().now_ms()):
                print_line(one_line(line))
    done, exit_code = None, plan.exit_code
    if not dry_run:
        exit_code = gravest([exit_code, _left_alone(plan)])
    if not dry_run and confirmed(change_of(plan), yes):
        todo = {each.table: acts - each.left_alone.keys() for each in plan.tables if each.acts}
        writes = any(MaintenanceAct.REARRANGE in each for each in todo.values())
        with waits_shown(as_json=json) as observer:
            engine = workers_of(pipeline, observer) if workers and writes else here()
            with closing(engine):
                done = maintained(pipeline, todo, engine, observer)
        exit_code = gravest([exit_code, done.exit_code])
    if json:
        print_json({**_data(plan), "exit_code": exit_code, "done": done and done.tables})
    elif done is not None:
        for each in done.tables:
            for line in _results(each):
                print_line(pasteable(line))
    return exit_code


def _left_alone(plan: MaintenancePlan) -> int:
    """Return the exit code for acts that have something to do, or may have, and are not done."""
    return gravest(
        error.exit_code
        for each in plan.tables
        for act, error in each.left_alone.items()
        if act is not MaintenanceAct.REARRANGE or each.groups
    )


def _data(found: MaintenancePlan) -> dict[str, Any]:
    tables = [
        {
            **fields_of(table),
            "groups": [_figures(each) for each in table.groups],
            "sweep": table.sweep and _swept(table.sweep),
        }
        for table in found.tables
    ]
    return {"pipeline": found.pipeline, "tables": tables}


def _swept(sweep: Sweep) -> dict[str, Any]:
    """Return the files that would be deleted, and how many others nothing names."""
    others = {name: len(getattr(sweep, name)) for name in ("waiting", "unfenced", "new")}
    return {"due": sweep.due, **others}


def _figures(group: FileGroup) -> dict[str, Any]:
    names = ("partition", "late", "files_after", "size_bytes", "live_bytes", "rows", "deleted")
    return {**{name: getattr(group, name) for name in names}, "files": len(group.files)}


def _lines(found: TableMaintenance, now_ms: int) -> Iterator[str]:
    if found.error is not None:
        yield f"{found.table}  {found.error.line}"
        yield f"  → {pasteable(found.error.hint)}"
    elif found.is_missing:
        yield f"{found.table}  is not created yet"
    else:
        yield f"{found.table}  {_state(found, now_ms)}"
        for code, message in {
            each.code: each.message for each in found.left_alone.values()
        }.items():
            acts = [act for act, each in found.left_alone.items() if each.code == code]
            yield f"  left alone  {code}  {message} ({', '.join(acts)})"
        groups = () if MaintenanceAct.REARRANGE in found.left_alone else found.groups
        yield from (f"  {_text(each)}" for each in groups[:GROUPS_SHOWN_MAX])
        left = len(groups) - GROUPS_SHOWN_MAX
        if left > 0:
            yield f"  and {number_of(left, 'more group')}"
        if found.expiry is not None:
            yield f"  {_expiry_text(found.expiry)}"
        if found.sweep is not None and found.sweep.unnamed:
            yield f"  {_sweep_text(found.sweep)}"


def _state(found: TableMaintenance, now_ms: int) -> str:
    """Return how a table lies, unless a sweep is all, and that nothing is to be done, if so."""
    if found.health is None:
        return "to be swept" if found.acts else "nothing to sweep"
    is_done = not (found.acts or found.health.groups or found.health.doubled)
    todo = "nothing to do: " if is_done else ""
    return f"{todo}{health_text(found.health, now_ms)}"


def _text(group: FileGroup) -> str:
    place = f"{group.partition}: " if group.partition else ""
    into = f"→ 1 file, about {size_text(group.live_bytes)}" if group.files_after else "→ none"
    if group.late:
        into = f"→ their partitions, about {size_text(group.live_bytes)}"
    dropped = f", {number_of(group.deleted, 'deleted row')} dropped" if group.deleted else ""
    read = f"{number_of(len(group.files), 'file')}, {size_text(group.size_bytes)}"
    return f"{place}{read} {into}{dropped}"


def _expiry_text(expiry: Expiry) -> str:
    """Say how many snapshots expire, and why others stay: the reasons of most of them first."""
    if expiry.unwanted:
        return f"snapshots: none expires, for {expiry.unwanted}"
    reasons = Counter(each.reason for each in expiry.kept).most_common()
    shown = [f"{count:,} {reason}" for reason, count in reasons[:REASONS_SHOWN_MAX]]
    more = sum(count for _, count in reasons[REASONS_SHOWN_MAX:])
    kept = "; ".join([*shown, *([f"{more:,} for other reasons"] if more else [])])
    there = number_of(len(expiry.expired) + len(expiry.kept), "snapshot")
    return f"{len(expiry.expired):,} of {there} expire; kept: {kept or 'none'}"


def _sweep_text(sweep: Sweep) -> str:
    size = size_text(sum(each.size_bytes for each in sweep.unnamed))
    ways = {
        "due, to be deleted": sweep.due,
        "noted before and waiting": sweep.waiting,
        "waiting for the next commit": sweep.unfenced,
        "new, to be noted": sweep.new,
    }
    counts = [f"{len(files):,} {what}" for what, files in ways.items() if files]
    return (
        f"{number_of(len(sweep.unnamed), 'file')} that nothing names, {size}: {', '.join(counts)}"
    )


def _results(found: MaintainedTable) -> Iterator[str]:
    done, swept = found.done, found.swept
    if done.groups:
        files = f"{number_of(done.files_before, 'file')} written again as {done.files_after:,}"
        sizes = f"{size_text(done.read_bytes)} → {size_text(done.written_bytes)}"
        commits = f"in {number_of(done.commits, 'commit')}"
        dropped = f", {number_of(done.deleted, 'deleted row')} dropped" if done.deleted else ""
        yield f"{found.table}  {files} {commits}, {sizes}{dropped}"
    if found.expired:
        yield f"{found.table}  {number_of(found.expired, 'snapshot')} expired"
    if swept.deleted:
        size = size_text(swept.deleted_bytes)
        yield f"{found.table}  {number_of(swept.deleted, 'file')} deleted, {size}"
    if swept.noted:
        yield f"{found.table}  {number_of(swept.noted, 'file')} noted that nothing names"
    for error in found.errors:
        yield f"{found.table}  {error.line}"
        yield f"  → {error.hint}"
    if not (done.groups or found.expired or swept.deleted or swept.noted or found.errors):
        yield f"{found.table}  nothing was left to do"
