"""How results of checks are printed: a line each, with what to do below it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from penstock.cli.output import pasteable, print_result, result_console
from penstock.observe.formatting import one_line

if TYPE_CHECKING:
    from penstock.app.doctor.examination import Examination

MARKS = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "failed": ("FAIL", "bold red")}


def print_checks(found: Examination, *, json: bool) -> None:
    """Print all results, as a table or as JSON."""
    print_result(found, data=_data, show=_show, json=json)


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
