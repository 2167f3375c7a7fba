"""Adds to an entry what the features of its table ask of every writer: its time, ids of its rows.

Invariants:
- each is worked out from the view that the entry is put after, so anew in each attempt: a row id is
  above the mark of that version, and an in-commit timestamp above the one of that version;
- a file that had ids before keeps them, and no id is given twice: the mark moves in the same entry;
- an entry of a table without such features is returned as it is.

Source: Delta transaction log protocol, "In-Commit Timestamps", "Row Tracking", "Domain Metadata".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.connectors.delta.errors import unreadable_log
from penstock.connectors.delta.log.reader import ROW_TRACKING, parsed
from penstock.connectors.delta.log.tail import LogView
from penstock.connectors.delta.schema.features import (
    assigns_row_ids,
    keeps_row_ids,
    keeps_time,
)

Action = Mapping[str, Any]
_MARK = "rowIdHighWaterMark"
_NO_ROW = -1
"""The mark of a table that has given no id."""


def as_demanded(view: LogView, actions: Sequence[Action], now_ms: int) -> list[Action]:
    """Return the actions of the version after a view as its table's features ask for them.

    Raises InvalidError (P438) where the log does not say what they are worked out from.
    """
    form, found = view.form, list(actions)
    if assigns_row_ids(form.configuration, form.features):
        found = _with_row_ids(view, found)
    if keeps_row_ids(form.configuration, form.features):
        found = [_told(each, tags=_preserved(actions)) for each in found]
    if keeps_time(form.configuration, form.features):
        at_ms = max(now_ms, _previous_ms(view) + 1)
        found = [_told(each, inCommitTimestamp=at_ms) for each in found]
    return found


def _told(action: Action, **said: Any) -> Action:
    """Add words to the commit info; another action is returned as it is."""
    info = action.get("commitInfo")
    return action if info is None else {"commitInfo": {**info, **said}}


def _previous_ms(view: LogView) -> int:
    """Return the time of a view. Raises InvalidError (P438)."""
    if view.head_entry is None:
        why = f"the entry of version {view.version}, after whose time the next one is, is gone"
        raise unreadable_log(view.form.target.table, ValueError(why))
    return parsed(view.version, view.head_entry).timestamp_ms


def _with_row_ids(view: LogView, actions: Sequence[Action]) -> list[Action]:
    """Give the rows of each `add` ids above the mark, and move the mark in the same entry."""
    mark = former = _mark_of(view)
    found: list[Action] = []
    for action in actions:
        add = action.get("add")
        if add is not None and add.get("baseRowId") is None:
            ids = {"baseRowId": mark + 1, "defaultRowCommitVersion": view.version + 1}
            mark += json.loads(add["stats"])["numRecords"]
            found.append({"add": {**add, **ids}})
        else:
            found.append(action)
    return found if mark == former else [*found, _moved(mark)]


def _mark_of(view: LogView) -> int:
    """Return the highest row id ever given. Raises InvalidError (P438)."""
    text = view.domains.get(ROW_TRACKING)
    try:
        return _NO_ROW if text is None else int(json.loads(text)[_MARK])
    except (ValueError, KeyError, TypeError) as error:
        raise unreadable_log(view.form.target.table, error) from error


def _moved(mark: int) -> Action:
    configuration = json.dumps({_MARK: mark, "domainName": ROW_TRACKING}, separators=(",", ":"))
    return {
        "domainMetadata": {
            "domain": ROW_TRACKING,
            "configuration": configuration,
            "removed": False,
        }
    }


def _preserved(actions: Sequence[Action]) -> dict[str, str]:
    """Tell whether rows that were there have their ids still: moved ones bring them, and where rows
    go nobody says whether others are to be the same.
    """
    removed = (each["remove"] for each in actions if "remove" in each)
    goes = any(each["dataChange"] for each in removed)
    return {"delta.rowTracking.preserved": str(not goes).lower()}
