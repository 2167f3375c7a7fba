"""Reads which files of a table are live, with all that the log says of each.

The library returns only the statistics that it uses itself (it leaves out bounds of large
decimals), and other readers use more; it returns nothing of deletion vectors.

Invariants:
- a version is what its checkpoint says and what the later entries did, none left out;
- a file is known by its path and its deletion vector: with another vector it is another one, and a
  removal takes away no file but its own;
- within a version, removals come before additions;
- whatever a writer put into an `add` is kept, fields that we do not know as well;
- a file that is removed though it is gone is noted: its writer had not seen that;
- a checkpoint may hold statistics and partition values as texts, as values of columns, or as both.
  The latter are returned as numbers and bytes (`core.statistics.Value`), since Python cannot
  hold them all: times after the year 9999.

Source: Delta transaction log protocol, "Action Reconciliation", "Checkpoints", "Checkpoint Schema",
"Sidecar Files", "Per-file Statistics".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.delta.log.actions import PARSED, PARTITION_PARSED
from penstock.connectors.delta.log.reader import Log
from penstock.connectors.delta.vectors.descriptor import id_of
from penstock.files.contents import comparable

Add = Mapping[str, Any]
"""The `add` action of a live file, with maps as dictionaries."""
Live = Mapping[tuple[str, str], Add]
"""The live files of a version, by path and id of the deletion vector ("": it has none)."""
_RESTORE = "RESTORE"
_IN_COLUMNS = (PARSED, PARTITION_PARSED)
_MAPS = ("partitionValues", "tags")
_SIDECARS = "_sidecars"
_ACTS = ("add", "remove")
_PATHS = ("add.path", "remove.path", "sidecar.path")


@dataclass(frozen=True, slots=True)
class Overlooking:
    """A version that removes files which were gone: its writer had not seen that, so their rows may
    be in the table as it has written them, and as whoever took them away.
    """

    version: int
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveFiles:
    """The live files of a version, and what of the versions since a checkpoint `overlooked` that
    files were gone, but for those that a restore took back.
    """

    live: Live
    overlooked: tuple[Overlooking, ...] = ()


def live_adds(log: Log, head: int) -> list[Add]:
    """Return the `add` actions of the files that are live at a version.

    Raises OSError when an entry or a checkpoint of it is missing, ValueError for a damaged one.
    """
    return list(live_at(log, head).live.values())


def live_at(log: Log, head: int) -> LiveFiles:
    """Read the live files of a version. Raises OSError, ValueError, KeyError as `live_adds`."""
    base, parts = log.checkpoint(head)
    adds = (add for part in parts for add in _of_checkpoint(log, part))
    return carried_on(log, LiveFiles({_key(add): add for add in adds}), base, head)


def carried_on(log: Log, former: LiveFiles, version: int, head: int) -> LiveFiles:
    """Carry the live files of a version on to a later one. Raises as `live_at`."""
    found, overlooked = dict(former.live), former.overlooked
    for at, actions in enumerate(_entries_after(log, version, head), version + 1):
        removes = [each["remove"] for each in actions if each.get("remove") is not None]
        gone = [each["path"] for each in removes if not found.pop(_key(each), None)]
        found |= {_key(each["add"]): each["add"] for each in actions if each.get("add") is not None}
        last = _restored_by(actions)
        overlooked = tuple(each for each in overlooked if last is None or each.version <= last)
        overlooked += (Overlooking(at, tuple(gone)),) if gone else ()
    return LiveFiles(found, overlooked)


def _restored_by(actions: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the version that an entry restored, where it is one that says so."""
    info = info_of(actions)
    version = (info.get("operationParameters") or {}).get("version")
    return int(version) if info.get("operation") == _RESTORE and version is not None else None


def info_of(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what the writer of a version said of itself."""
    return next((each["commitInfo"] for each in actions if each.get("commitInfo")), {})


def _key(action: Mapping[str, Any]) -> tuple[str, str]:
    return action["path"], id_of(action)


def named_at(log: Log, head: int) -> Iterator[str]:
    """Yield the paths of data files that a version names: live ones, and tombstones.

    Raises OSError, ValueError as `live_adds`.
    """
    base, parts = log.checkpoint(head)
    for part in parts:
        yield from _named_in(log, part)
    for actions in _entries_after(log, base, head):
        yield from _paths_of(actions)


def _entries_after(log: Log, version: int, head: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the actions of each version up to a head. Raises OSError where one is missing."""
    return (actions_at(log, each) for each in range(version + 1, head + 1))


def actions_at(log: Log, version: int) -> list[dict[str, Any]]:
    """Return the actions of a version. Raises OSError where it is missing."""
    raw = log.raw(version)
    if raw is None:
        raise OSError(f"version {version} of the log is missing")
    return _lines_of(raw)


def _lines_of(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.splitlines() if line]


def _named_in(log: Log, name: str) -> Iterator[str]:
    """Yield the paths that a checkpoint names."""
    with log.opened(name) as file:
        if name.endswith(".json"):
            rows = _lines_of(file.read())
        else:
            # `pq.read_table` would return three columns that are all called `path`.
            rows = pq.ParquetFile(file).read(columns=[*_PATHS]).to_pylist()
    yield from _paths_of(rows)
    for row in rows:
        if sidecar := row.get("sidecar"):
            yield from _named_in(log, f"{_SIDECARS}/{sidecar['path'].rpartition('/')[2]}")


def _paths_of(actions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for action in actions:
        yield from (unquote(action[kind]["path"]) for kind in _ACTS if action.get(kind))


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
            return _lines_of(file.read())
        return _rows_of(file)


def _rows_of(file: pa.NativeFile) -> list[dict[str, Any]]:
    checkpoint = pq.ParquetFile(file)
    schema = checkpoint.schema_arrow
    stored = [each.name for each in schema.field("add").type] if "add" in schema.names else []
    plain = [f"add.{name}" for name in stored if name not in _IN_COLUMNS]
    rows: list[dict[str, Any]] = checkpoint.read(columns=[*plain, "sidecar.path"]).to_pylist()
    for row in rows:
        if row.get("add"):
            row["add"] = _as_in_an_entry(row["add"])
    parsed = checkpoint.read(columns=[f"add.{name}" for name in _IN_COLUMNS])
    if "add" in parsed.column_names:
        held = (each for chunk in parsed["add"].chunks for each in _values(chunk))
        for row, more in zip(rows, held, strict=True):
            if row.get("add") and more:
                row["add"] |= more
    return rows


def _as_in_an_entry(add: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what a checkpoint has no value for, and make maps of its pairs."""
    known = {name: value for name, value in add.items() if value is not None}
    return {**known, **{name: dict(known[name]) for name in _MAPS if name in known}}


def _values(column: pa.Array) -> list[Any]:
    """Return values of a column, of a struct as dictionaries; lists and maps have no statistics."""
    kind = column.type
    if pa.types.is_struct(kind):
        members = [_values(column.field(at)) for at in range(kind.num_fields)]
        names = [field.name for field in kind]
        rows = zip(*members, strict=True) if members else [()] * len(column)
        known = column.is_valid().to_pylist()
        return [
            dict(zip(names, row, strict=True)) if there else None
            for row, there in zip(rows, known, strict=True)
        ]
    if pa.types.is_nested(kind):
        return [None] * len(column)
    return [int(v) if isinstance(v, bool) else v for v in comparable(column).to_pylist()]
