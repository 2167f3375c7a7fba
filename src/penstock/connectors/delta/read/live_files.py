"""Reads which files of a table are live, with all that the log says of each, as it stands there.

The library tells statistics only as far as it takes them itself (bounds of large decimals it leaves
out), and other readers take more.

Invariants:
- a version is what its checkpoint says and what the entries behind it did, none left out;
- within a version, removals come before additions: a file that is given deletion vectors is both.

Source: Delta transaction log protocol, "Action Reconciliation", "Checkpoints", "Sidecar Files".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.connectors.delta.log.checkpoints import rows_of
from penstock.connectors.delta.log.reader import Log

Add = Mapping[str, Any]
_SIDECARS = "_sidecars"


def live_adds(log: Log, head: int) -> list[Add]:
    """Return the `add` actions of the files that are live at a version.

    Raises OSError when an entry or a checkpoint of it is gone, ValueError for a damaged one.
    """
    base, parts = log.checkpoint(head)
    live = {add["path"]: add for part in parts for add in _of_checkpoint(log, part)}
    for version in range(base + 1, head + 1):
        raw = log.raw(version)
        if raw is None:
            raise OSError(f"version {version} of the log is gone")
        actions = [json.loads(line) for line in raw.splitlines() if line]
        for action in actions:
            if (remove := action.get("remove")) is not None:
                live.pop(remove["path"], None)
        for action in actions:
            if (add := action.get("add")) is not None:
                live[add["path"]] = add
    return list(live.values())


def _of_checkpoint(log: Log, name: str) -> Iterator[Add]:
    actions = list(_actions(log, name))
    yield from (each["add"] for each in actions if each.get("add"))
    for each in actions:
        if sidecar := each.get("sidecar"):
            path = f"{_SIDECARS}/{sidecar['path'].rpartition('/')[2]}"
            yield from (row["add"] for row in _actions(log, path) if row.get("add"))


def _actions(log: Log, name: str) -> Iterable[Mapping[str, Any]]:
    with log.opened(name) as file:
        if name.endswith(".json"):
            return [json.loads(line) for line in file.read().splitlines() if line]
        return rows_of(file)
