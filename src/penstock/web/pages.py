"""What each page says, as plain data: a template draws it, and its `.json` twin is it.

Invariants:
- pure: a look gives the data; times are epoch milliseconds, sizes bytes, durations seconds;
- a section is there only where it has something to say of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from penstock.app.page.views import PipelineView
from penstock.core.maintenance import worst_first
from penstock.observe.snapshot import (
    EpochStatus,
    Snapshot,
    TableStatus,
    rows_per_second,
)
from penstock.observe.why import Grade
from penstock.web.drawing import buckets

TABLES_A_PAGE = 200
EVENTS_SHOWN = 300
PAGE_DIGITS_MAX = 9

Data = dict[str, Any]


def overview(looks: Mapping[str, PipelineView]) -> Data:
    """Return what is known of all pipelines, by their places, those first that do not move."""
    graver = [Grade.STANDS, Grade.HELD, Grade.FLOWS]
    ordered = sorted(looks, key=lambda place: (graver.index(looks[place].why.grade), place))
    return {"pipelines": [{"place": place, **head(looks[place])} for place in ordered]}


def head(look: PipelineView) -> Data:
    """Return what stands on top of each page of a pipeline."""
    status = look.status
    snapshot = None if status is None else status.snapshot
    members = [each for each in look.members or () if each.state != "owner"]
    return {
        "name": look.name,
        "spec": look.spec,
        "now_ms": look.now_ms if status is None else status.now_ms,
        "why": look.why,
        "running": None if status is None else status.running,
        "state": "" if snapshot is None else snapshot.state.value,
        "troubles": [
            {"code": each.code, "message": each.message, "hint": each.hint}
            for each in {(each.code, each.message): each for each in look.troubles}.values()
        ],
        "standbys": None if look.members is None else len(members),
        "ready": sum(each.state == "ready" for each in members),
        "sections": sections(look),
        **({} if snapshot is None else _figures(snapshot, head_ms(look))),
    }


def head_ms(look: PipelineView) -> int:
    """Return the time that ages are counted to: the one of the process that told."""
    return look.now_ms if look.status is None else look.status.now_ms


def _figures(snapshot: Snapshot, now_ms: int) -> Data:
    tables = snapshot.tables.values()
    through = [each.valid_through_ms for each in tables if each.valid_through_ms is not None]
    return {
        "generation": snapshot.generation,
        "owner": snapshot.owner,
        "epoch": snapshot.epoch,
        "started_ms": snapshot.started_ms,
        "updated_ms": snapshot.updated_ms,
        "lag_records": snapshot.lag_records,
        "pending": snapshot.pending,
        "tables": len(snapshot.tables),
        "parked": sum(each.parked is not None for each in tables),
        "quarantined": sum(each.quarantined_total for each in tables),
        "valid_through_ms": min(through, default=None),
        "rows_per_second": sum(_rate(each, snapshot, now_ms) for each in tables),
        "rows_by_10s": [sum(each) for each in zip(*_series(snapshot, now_ms), strict=True)],
    }


def _series(snapshot: Snapshot, now_ms: int) -> list[list[int]]:
    return [buckets(each.recent, now_ms) for each in snapshot.tables.values() if each.recent]


def _rate(table: TableStatus, snapshot: Snapshot, now_ms: int) -> float:
    if snapshot.state.ended:
        return 0.0
    return rows_per_second(table, now_ms, started_ms=snapshot.started_ms)


def sections(look: PipelineView) -> list[str]:
    """List the sections of a pipeline that have something to say of."""
    found = [] if look.status is None else ["tables", "epochs"]
    found += [] if look.members is None else ["members"]
    found += [] if look.status is None else ["quarantine", "events"]
    found += [] if look.publications is None else ["publications"]
    return [*found, *([] if look.status is None else ["maintenance"])]


def tables(look: PipelineView, asked: Mapping[str, str]) -> Data:
    """Return tables, those first that wait; `q` filters by name, `page` counts from 1."""
    if look.status is None:
        return {"tables": [], "found": 0, "page": 1, "pages": 1, "q": ""}
    snapshot, now_ms = look.status.snapshot, head_ms(look)
    q = asked.get("q", "").strip()
    rows = [
        table_row(name, each, snapshot, now_ms)
        for name, each in snapshot.tables.items()
        if q.lower() in name.lower()
    ]
    rows.sort(key=lambda row: (row["grade"] != Grade.STANDS, -row["pending"], row["name"]))
    pages = max(-(-len(rows) // TABLES_A_PAGE), 1)
    page = _page_asked(asked.get("page", ""), pages)
    shown = rows[(page - 1) * TABLES_A_PAGE : page * TABLES_A_PAGE]
    return {"tables": shown, "found": len(rows), "page": page, "pages": pages, "q": q}


def _page_asked(text: str, pages: int) -> int:
    """Return which page is asked for, one that there is; the first where that is no number."""
    if not text.isdecimal() or len(text) > PAGE_DIGITS_MAX:
        return 1
    return min(max(int(text), 1), pages)


def table_row(name: str, table: TableStatus, snapshot: Snapshot, now_ms: int) -> Data:
    """Return what a list of tables says of one."""
    last = table.last_commit
    grade, state = _table_state(table, now_ms)
    return {
        "name": name,
        "grade": grade,
        "state": state,
        "code": "" if table.parked is None else table.parked.code,
        "valid_through_ms": table.valid_through_ms,
        "lag_records": table.lag_records,
        "last_ms": None if last is None else last.at_ms,
        "last_rows": None if last is None else last.rows,
        "rows": table.rows,
        "rows_per_second": _rate(table, snapshot, now_ms),
        "pending": len(table.pending),
        "quarantined": table.quarantined_total,
    }


def _table_state(table: TableStatus, now_ms: int) -> tuple[Grade, str]:
    if table.parked is not None:
        return Grade.STANDS, "parked"
    if table.is_paused(now_ms):
        return Grade.HELD, "paused"
    return Grade.FLOWS, "level" if table.lag_records == 0 else "flows"


def table(look: PipelineView, asked: Mapping[str, str]) -> Data | None:
    """Return all of one table, by its `name`; None where there is none."""
    name = asked.get("name", "")
    if look.status is None or name not in look.status.snapshot.tables:
        return None
    snapshot, now_ms = look.status.snapshot, head_ms(look)
    found = snapshot.tables[name]
    return {
        "row": table_row(name, found, snapshot, now_ms),
        "parked": found.parked,
        "reason": found.parked.reason.removeprefix(f"{name}: ") if found.parked else "",
        "paused_until_ms": found.paused_until_ms,
        "last_commit": found.last_commit,
        "pending": found.pending,
        "offsets": dict(sorted(found.offsets.items())),
        "files": found.files,
        "size_bytes": found.size_bytes,
        "commits": found.commits,
        "table_rows": found.table_rows,
        "table_files": found.table_files,
        "changes": {**found.changes},
        "quarantined": {**found.quarantined},
        "health": found.health,
        "rows_by_10s": buckets(found.recent, now_ms),
        "events": [each for each in look.happenings if each.subject == name][:EVENTS_SHOWN],
    }


def epochs(look: PipelineView, _asked: Mapping[str, str]) -> Data:
    """Return the newest epochs, newest first, each with its phases in seconds."""
    known = () if look.status is None else look.status.snapshot.epochs
    longest = max((_seconds(each, head_ms(look)) for each in known), default=0.0)
    return {"epochs": [_epoch(each, head_ms(look), longest) for each in reversed(known)]}


def _seconds(epoch: EpochStatus, now_ms: int) -> float:
    return max(((epoch.committed_ms or now_ms) - epoch.planned_ms) / 1000, 0.0)


def _epoch(epoch: EpochStatus, now_ms: int, longest: float) -> Data:
    """Return an epoch: what it took to read, to prepare and to commit; a phase has no end yet
    where it is the present one, and is None before it begins.
    """
    read_ms = epoch.read_ms if epoch.slices_read >= epoch.slices else None
    ends = [epoch.planned_ms, read_ms or epoch.prepared_ms, epoch.prepared_ms, epoch.committed_ms]
    phases: list[float | None] = []
    for begin, end in pairwise(ends):
        if begin is None:
            phases.append(None)
        else:
            phases.append(max(((now_ms if end is None else end) - begin) / 1000, 0.0))
    share = [round(360 * (each or 0) / longest) if longest else 0 for each in phases]
    return {
        "epoch": epoch.epoch,
        "planned_ms": epoch.planned_ms,
        "seconds": _seconds(epoch, now_ms),
        "records": epoch.records,
        "slices": epoch.slices,
        "slices_read": epoch.slices_read,
        "commits": epoch.commits,
        "is_over": epoch.committed_ms is not None,
        "phases": dict(zip(("read", "prepare", "commit"), phases, strict=True)),
        "widths": share,
        "slowest": _slowest(epoch, phases),
    }


def _slowest(epoch: EpochStatus, phases: Sequence[float | None]) -> Data:
    known = dict(zip(("read", "prepare", "commit"), (each or 0.0 for each in phases), strict=True))
    phase = max(known, key=lambda each: known[each])
    if phase == "read" and epoch.slowest_slice is not None:
        what = f"slice {epoch.slowest_slice}"
        return {"phase": phase, "what": what, "seconds": epoch.slowest_slice_seconds}
    if phase == "commit" and epoch.slowest_table:
        return {
            "phase": phase,
            "what": epoch.slowest_table,
            "seconds": epoch.slowest_table_seconds,
        }
    return {"phase": phase, "what": "", "seconds": known[phase]}


def members(look: PipelineView, _asked: Mapping[str, str]) -> Data:
    """Return who owns the pipeline, and who stands by."""
    return {"members": [*(look.members or ())]}


def quarantine(look: PipelineView, _asked: Mapping[str, str]) -> Data:
    """Return how many records each table rejected in this run, by code, the most first."""
    known = {} if look.status is None else look.status.snapshot.tables
    rows = [
        {"table": name, "code": code, "records": count}
        for name, each in known.items()
        for code, count in each.quarantined.items()
    ]
    rows.sort(key=lambda row: (-int(str(row["records"])), str(row["table"]), str(row["code"])))
    return {"rejects": rows, "records": sum(int(str(row["records"])) for row in rows)}


def events(look: PipelineView, asked: Mapping[str, str]) -> Data:
    """Return what happened, newest first; `q` filters by words, `level` by how grave it is."""
    q, level = asked.get("q", "").strip(), asked.get("level", "")
    found = [
        each
        for each in look.happenings
        if q.lower() in f"{each.event} {each.subject} {each.text}".lower()
        and (not level or each.level == level or (level, each.level) == ("warning", "error"))
    ]
    return {"events": found[:EVENTS_SHOWN], "found": len(found), "q": q, "level": level}


def maintenance(look: PipelineView, _asked: Mapping[str, str]) -> Data:
    """Return how the files of tables lie, those first that need maintenance."""
    snapshot = None if look.status is None else look.status.snapshot
    if snapshot is None:
        return {"tables": [], "sick": 0, "widened": None, "unseen": []}
    health = {name: each.health for name, each in snapshot.tables.items()}
    sick = worst_first(health)
    others = {name: each for name, each in sorted(health.items()) if each and name not in sick}
    rows = [{"table": name, "health": each} for name, each in {**sick, **others}.items()]
    unseen = [name for name, each in sorted(snapshot.tables.items()) if each.is_unseen]
    return {
        "tables": rows[:TABLES_A_PAGE],
        "sick": len(sick),
        "widened": snapshot.widened,
        "unseen": unseen,
    }


def publications(look: PipelineView, _asked: Mapping[str, str]) -> Data:
    """Return where each publication stands."""
    return {
        "publications": [
            {
                "name": each.publication,
                "source": each.source,
                "into": each.into,
                "client": each.client,
                "transactions": each.epoch,
                "published": each.published,
                "rejected": each.rejected,
                "backlog": each.backlog,
                "is_least": each.is_least,
                "stands": each.stands,
                "owner": each.owner,
                "problem": None
                if each.problem is None
                else {
                    "code": each.problem.code,
                    "message": each.problem.message,
                    "hint": each.problem.hint,
                },
            }
            for each in look.publications or ()
        ]
    }


SECTIONS: Mapping[str, Callable[[PipelineView, Mapping[str, str]], Data | None]] = {
    "tables": tables,
    "table": table,
    "epochs": epochs,
    "members": members,
    "quarantine": quarantine,
    "events": events,
    "publications": publications,
    "maintenance": maintenance,
}
"""What each section of a pipeline says; None where there is no such thing."""

COMMANDS = {
    "overview": "penstock status",
    "tables": "penstock status",
    "table": "penstock status",
    "epochs": "penstock run --json",
    "members": "penstock members",
    "quarantine": "penstock quarantine list",
    "events": "penstock run --json",
    "publications": "penstock status",
    "maintenance": "penstock maintain --dry-run",
}
"""The command that says the same."""
