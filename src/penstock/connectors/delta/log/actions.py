"""The `remove` and `add` by which a live file leaves the log, or stays with another vector.

Invariants:
- a `remove` carries all that identifies the logical file: its path and its former vector. Without
  the vector it would cancel nothing, and the file would be live twice;
- an `add` of a file that was there keeps every field of its former one; its bounds are wide, and it
  counts the rows that were written, deleted or not.

Source: Delta transaction log protocol, "Add File and Remove File", "Per-file Statistics".
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from penstock.connectors.delta.vectors.descriptor import Vector

PARSED = "stats_parsed"
PARTITION_PARSED = "partitionValues_parsed"
"""Fields of checkpoints only: the same statistics and values as columns."""

_IDENTIFYING = ("partitionValues", "size", "tags", "baseRowId", "defaultRowCommitVersion")


def now_ms() -> int:
    """Return the time of now as the log says it: milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def renewed(add: Mapping[str, Any], rows: int, vector: Vector) -> dict[str, Any]:
    """Return the `add` of a file with another vector; `rows` were written into it."""
    kept = {name: value for name, value in add.items() if name not in {PARSED, PARTITION_PARSED}}
    return {
        **kept,
        "dataChange": True,
        "stats": _widened(add.get("stats"), rows),
        "deletionVector": vector.to_json(),
    }


def removal(add: Mapping[str, Any], at_ms: int) -> dict[str, Any]:
    """Return the `remove` of exactly the logical file of an `add`."""
    identity = {name: add[name] for name in _IDENTIFYING if add.get(name) is not None}
    vector = add.get("deletionVector")
    if vector:
        identity["deletionVector"] = {k: v for k, v in vector.items() if v is not None}
    return {
        "path": add["path"],
        "deletionTimestamp": at_ms,
        "dataChange": True,
        "extendedFileMetadata": True,
        **identity,
    }


def _widened(stats: str | None, rows: int) -> str:
    """Let statistics count all rows, and say that bounds are wide; what they say else is kept."""
    try:
        known = msgspec.json.decode(stats or "{}", type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        known = {}
    wide = {"numRecords": rows, "tightBounds": False}
    return msgspec.json.encode({**known, **wide}).decode()
