"""`penstock doctor`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from penstock.cli.output import pasteable, print_result, result_console, say
from penstock.cli.parameters import SPEC, SPEC_VARIABLE, Json
from penstock.cli.shards import by_shard
from penstock.cli.specs import Parts, load_publications, load_spec, parts_of
from penstock.observe.formatting import one_line

if TYPE_CHECKING:
    from penstock.app.doctor.examination import Examination

MARKS = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "failed": ("FAIL", "bold red")}
SPEC_HELP = "The spec of the pipeline; default: penstock.yaml if it exists."


@by_shard()
def doctor(
    spec: Annotated[Path | None, Parameter(env_var=SPEC_VARIABLE, help=SPEC_HELP)] = None,
    *,
    read_only: bool = False,
    json: Json = False,
) -> int:
    """Check that everything a run needs is in place: this machine, and what the spec names.

    Checks Java, Python, libraries, jars, ports, memory and disk; brokers, their release,
    permissions and clocks; the pending store; each catalog, with its compare-and-set measured on a
    scratch table that is dropped again; each table, its features and snapshots; of publications the
    transaction protocol, permissions, timeouts and topics. Without a spec, it checks this machine
    alone.

    Exits with the code that a run would end with for the worst problem, 0 when there is none.

    Example: penstock doctor shop.yaml

    Parameters
    ----------
    read_only
        Create no scratch tables: write nothing at all.
    """
    from penstock.app.doctor.examination import examine

    path = spec or (SPEC if SPEC.exists() else None)
    parts = Parts(lands=False, publishes=False) if path is None else parts_of(path)
    found = examine(
        load_spec(path, any_shard=True) if path and parts.lands else None,
        load_publications(path) if path and parts.publishes else None,
        touch=not read_only,
        environment=os.environ,
        progressed=(lambda _: None) if json else say,
    )
    print_result(found, data=_data, show=_show, json=json)
    return found.exit_code


def _data(found: Examination) -> dict[str, Any]:
    checks = [replace(each, hint=pasteable(each.hint)) for each in found.checks]
    return {"exit_code": found.exit_code, "checks": checks}


def _show(found: Examination) -> None:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for ratio in (None, None, None, 1):
        table.add_column(ratio=ratio, overflow="fold")
    for each in found.checks:
        mark, style = MARKS.get(each.status, ("?", "dim"))
        message = Text(one_line(each.message), "" if each.status == "ok" else style)
        if each.code:
            message = Text(f"{each.code}  ", style) + message
        if each.hint and each.status != "ok":
            message.append(f"\n→ {one_line(pasteable(each.hint))}", "")
        table.add_row(Text(mark, style), each.check, Text(one_line(each.subject), "bold"), message)
    result_console().print(table)
