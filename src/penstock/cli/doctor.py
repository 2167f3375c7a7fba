"""`penstock doctor`."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.hints import pasteable
from penstock.cli.output import print_json, result_console, say
from penstock.cli.specs import SPEC, Spec, load_spec

if TYPE_CHECKING:
    from penstock.app.doctor.examination import Examination

MARKS = {"good": ("ok", "green"), "odd": ("look", "yellow"), "bad": ("BAD", "bold red")}


def doctor(
    spec: Spec | None = None,
    *,
    look_only: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Look whether all is fit for a run: this machine, and what the spec names.

    Java, Python, libraries, jars, ports, memory, disk; brokers, their release, permissions, clocks;
    the pending store; each catalog, whose compare-and-set is measured on a scratch table that is
    dropped again; each table, its features and snapshots. Without a spec, this machine alone.

    Exits with what a run would end with for the worst of it, 0 when nothing is bad.

    Example: penstock doctor shop.yaml

    Parameters
    ----------
    spec
        The spec of the pipeline; penstock.yaml when that is there.
    look_only
        Make no scratch tables: write nothing at all.
    json
        Print JSON.
    """
    from penstock.app.doctor.examination import examine

    path = spec or (SPEC if SPEC.exists() else None)
    pipeline = None if path is None else load_spec(path)
    found = examine(
        pipeline,
        touch=not look_only,
        environment=os.environ,
        progressed=(lambda _: None) if json else say,
    )
    if json:
        findings = [{**asdict(each), "hint": pasteable(each.hint)} for each in found.findings]
        print_json({"exit_code": found.exit_code, "findings": findings})
    else:
        _show(found)
    return found.exit_code


def _show(found: Examination) -> None:
    from rich.table import Table
    from rich.text import Text

    from penstock.observe.figures import one_line

    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for ratio in (None, None, None, 1):
        table.add_column(ratio=ratio, overflow="fold")
    for each in found.findings:
        mark, style = MARKS.get(each.standing, ("?", "dim"))
        message = Text(one_line(each.message), "" if each.standing == "good" else style)
        if each.code:
            message = Text(f"{each.code}  ", style) + message
        if each.hint and each.standing != "good":
            message.append(f"\n→ {one_line(pasteable(each.hint))}", "")
        table.add_row(Text(mark, style), each.check, Text(one_line(each.subject), "bold"), message)
    result_console().print(table)
