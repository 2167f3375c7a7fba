"""Answers of the Python API as a notebook wants them: as a table in HTML, and as Arrow.

Invariant: text of others is escaped; a row of the table is a row of `to_arrow`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.app.inspect.peek import Peeked
    from penstock.app.inspect.plan.forecast import Plan
    from penstock.app.inspect.status import Status

Rows = list[dict[str, Any]]
CELL_CHARACTERS_MAX = 200


def arrow(rows: Rows) -> pa.Table:
    """Return rows as an Arrow table."""
    import pyarrow as pa

    return pa.Table.from_pylist(rows)


def html(rows: Rows) -> str:
    """Return rows as a table in HTML."""
    if not rows:
        return "<p>nothing</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def plan_rows(plan: Plan) -> Rows:
    """Lay a plan out, a row a table."""
    return [
        {
            "table": each.table,
            "create": each.create,
            "columns": ", ".join(f"{name} {kind}" for name, kind in each.columns),
            "missing": ", ".join(f"{name} {kind}" for name, kind in each.missing),
            "records": each.records,
            "pending": each.pending,
            "destructive": "; ".join(error.message for error in each.destructive),
            "problem": ""
            if each.problem is None
            else f"{each.problem.code} {each.problem.message}",
        }
        for each in plan.tables
    ]


def status_rows(status: Status) -> Rows:
    """Lay a status out, a row a table; times are epoch milliseconds."""
    return [
        {
            "table": name,
            "rows": each.holds,
            "lag_records": each.lag_records,
            "valid_through_ms": each.valid_through_ms,
            "pending": len(each.pending),
            "parked": "" if each.parked is None else f"{each.parked.code} {each.parked.reason}",
        }
        for name, each in status.snapshot.tables.items()
    ]


def peeked_rows(peeked: Sequence[Peeked]) -> Rows:
    """Lay records out, a row for each table that one goes to, or one row when none takes it."""
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "offset": each.offset,
            "table": fate.table if fate else "",
            "outcome": fate.outcome if fate else "",
            "rows": json.dumps(fate.rows, default=str, ensure_ascii=False) if fate else "",
            "code": fate.code if fate else "",
        }
        for each in peeked
        for fate in (each.fates or (None,))
    ]


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    cut = text if len(text) <= CELL_CHARACTERS_MAX else text[:CELL_CHARACTERS_MAX] + "…"
    return escape(cut)
