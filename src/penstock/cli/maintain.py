"""`penstock maintain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli.confirming import confirmed
from penstock.cli.output import fields_of, pasteable, print_json, print_line
from penstock.cli.parameters import SPEC, Json, Spec, Yes
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown
from penstock.core.errors import gravest
from penstock.observe.formatting import health_text, number_of, one_line, size_text

if TYPE_CHECKING:
    from penstock.app.inspect.maintenance import MaintenancePlan, TableMaintenance
    from penstock.app.maintain import MaintainedTable
    from penstock.core.maintenance import FileGroup

GROUPS_SHOWN_MAX = 8
EACH = "The tables, by their names in the spec; without any, all of them, and the quarantine."


def maintain(
    *tables: Annotated[str, Parameter(help=EACH)],
    spec: Spec = SPEC,
    dry_run: Annotated[bool, Parameter(name="--dry-run")] = False,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Write small files of tables again as fewer, without the rows that are deleted in them.

    Files of a partition that become one are a group. A run may go on meanwhile: what it lands comes
    first, and no row, position or file is taken away; former files stay on storage. With neither
    --yes nor a terminal it only shows the plan. A table that cannot be read or maintained is shown
    with its error, and the command exits with the code of that error.

    Example: penstock maintain lake.bronze.orders --yes shop

    Parameters
    ----------
    dry_run
        Show the plan, group by group, and do nothing. No data file is opened.
    """
    from penstock.app.inspect.maintenance import plan_maintenance
    from penstock.app.maintain import change_of
    from penstock.app.maintain import maintain as maintained

    pipeline = load_spec(spec)
    with waits_shown(as_json=json) as observer:
        plan = plan_maintenance(pipeline, tables, observer)
    if not json:
        for table in plan.tables:
            for line in _lines(table):
                print_line(one_line(line))
    done, exit_code = None, plan.exit_code
    if not dry_run:
        exit_code = gravest([exit_code, _left_alone(plan)])
    if not dry_run and confirmed(change_of(plan), yes):
        waiting = [each.table for each in plan.tables if each.waits]
        with waits_shown(as_json=json) as observer:
            done = maintained(pipeline, waiting, observer)
        exit_code = gravest([exit_code, done.exit_code])
    if json:
        print_json({**_data(plan), "exit_code": exit_code, "done": done and done.tables})
    elif done is not None:
        for each in done.tables:
            for line in _results(each):
                print_line(pasteable(line))
    return exit_code


def _left_alone(plan: MaintenancePlan) -> int:
    """Return the exit code for tables that have something to do and are left as they are."""
    alone = [each.left_alone for each in plan.tables if each.groups and each.left_alone]
    return gravest(each.exit_code for each in alone)


def _data(found: MaintenancePlan) -> dict[str, Any]:
    tables = [
        {**fields_of(table), "groups": [_figures(each) for each in table.groups]}
        for table in found.tables
    ]
    return {"pipeline": found.pipeline, "tables": tables}


def _figures(group: FileGroup) -> dict[str, Any]:
    names = ("partition", "files_after", "size_bytes", "live_bytes", "rows", "deleted")
    return {**{name: getattr(group, name) for name in names}, "files": len(group.files)}


def _lines(found: TableMaintenance) -> Iterator[str]:
    if found.error is not None:
        yield f"{found.table}  {found.error.code}  {found.error.message}"
        yield f"  → {pasteable(found.error.hint)}"
    elif found.health is None:
        yield f"{found.table}  is not created yet"
    else:
        todo = "" if found.groups else "nothing to do: "
        yield f"{found.table}  {todo}{health_text(found.health)}"
        if found.left_alone is not None:
            yield f"  left alone  {found.left_alone.code}  {found.left_alone.message}"
        yield from (f"  {_text(each)}" for each in found.groups[:GROUPS_SHOWN_MAX])
        left = len(found.groups) - GROUPS_SHOWN_MAX
        if left > 0:
            yield f"  and {number_of(left, 'more group')}"


def _text(group: FileGroup) -> str:
    place = f"{group.partition}: " if group.partition else ""
    into = f"→ 1 file, about {size_text(group.live_bytes)}" if group.files_after else "→ none"
    dropped = f", {number_of(group.deleted, 'deleted row')} dropped" if group.deleted else ""
    read = f"{number_of(len(group.files), 'file')}, {size_text(group.size_bytes)}"
    return f"{place}{read} {into}{dropped}"


def _results(found: MaintainedTable) -> Iterator[str]:
    done = found.done
    if done.groups:
        files = f"{number_of(done.files_before, 'file')} written again as {done.files_after:,}"
        sizes = f"{size_text(done.read_bytes)} → {size_text(done.written_bytes)}"
        commits = f"in {number_of(done.commits, 'commit')}"
        dropped = f", {number_of(done.deleted, 'deleted row')} dropped" if done.deleted else ""
        yield f"{found.table}  {files} {commits}, {sizes}{dropped}"
    if found.error is not None:
        yield f"{found.table}  {found.error.code}  {found.error.message}"
        yield f"  → {found.error.hint}"
    elif not done.groups:
        yield f"{found.table}  nothing was left to do"
