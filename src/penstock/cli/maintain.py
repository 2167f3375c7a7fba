"""`penstock maintain`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from penstock.cli.output import fields_of, pasteable, print_json, print_line
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown
from penstock.core.errors import InvalidError
from penstock.observe.formatting import health_text, number_of, one_line, size_text

if TYPE_CHECKING:
    from penstock.app.inspect.maintenance import MaintenancePlan, TableMaintenance
    from penstock.core.maintenance import FileGroup

GROUPS_SHOWN_MAX = 8
EACH = "The tables, by their names in the spec; without any, all of them, and the quarantine."


def maintain(
    *tables: Annotated[str, Parameter(help=EACH)],
    spec: Spec = SPEC,
    dry_run: Annotated[bool, Parameter(name="--dry-run")] = False,
    json: Json = False,
) -> int:
    """Show which small files and deleted rows of tables make them slow, and what would mend it.

    Files of a partition that would become one are a group. Writes nothing and opens no data file.
    A table that cannot be read is shown with its error, and the command exits with the code of that
    error.

    Example: penstock maintain lake.bronze.orders --dry-run

    Parameters
    ----------
    dry_run
        Show the plan. It is required: this release plans, and writes no files again.
    """
    from penstock.app.inspect.maintenance import plan_maintenance

    pipeline = load_spec(spec)
    if not dry_run:
        raise InvalidError(
            "this release plans maintenance and does not carry it out",
            code="P844",
            hint="to see the plan:  penstock maintain --dry-run",
        )
    with waits_shown(as_json=json) as observer:
        found = plan_maintenance(pipeline, tables, observer)
    if json:
        print_json(_data(found))
    else:
        for table in found.tables:
            for line in _lines(table):
                print_line(one_line(line))
    return found.exit_code


def _data(found: MaintenancePlan) -> dict[str, Any]:
    tables = [
        {**fields_of(table), "groups": [_figures(each) for each in table.groups]}
        for table in found.tables
    ]
    return {"exit_code": found.exit_code, "pipeline": found.pipeline, "tables": tables}


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
        if found.left_alone:
            yield f"  left alone, for it is {found.left_alone}"
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
