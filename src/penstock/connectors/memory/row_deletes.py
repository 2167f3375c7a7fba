"""Which rows of files are deleted in memory, and files that take the place of others."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence

from penstock.connectors.memory.warehouse import START_MS, Contents, Snapshot
from penstock.core import table_errors
from penstock.core.commits import DataFile
from penstock.core.maintenance import OURS, LastMaintenance
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import RowDeletes

NONE = frozenset[int]()


def delete_state(deleted: frozenset[int]) -> str:
    """Name which rows of a file are deleted; "" for none."""
    text = ",".join(map(str, sorted(deleted)))
    return hashlib.sha256(text.encode()).hexdigest()[:16] if deleted else ""


def delete_states(contents: Contents, paths: Collection[str]) -> dict[str, str]:
    """Return which rows are deleted of those files that are live."""
    live = {file.path for file in contents.files}
    return {each: delete_state(contents.deleted.get(each, NONE)) for each in paths if each in live}


def deleted_of(
    name: str, base: Contents, files: Sequence[DataFile], row_deletes: Sequence[RowDeletes]
) -> Mapping[str, frozenset[int]]:
    """Return what is deleted of each file, former and new. Raises BugError (P707)."""
    deleted = {file.path: base.deleted.get(file.path, NONE) for file in files}
    rows = {file.path: file.record_count for file in files}
    for each in row_deletes:
        positions = frozenset(each.positions.tolist())
        former = deleted.get(each.path, NONE)
        live = {*range(rows.get(each.path, 0))} - former
        if each.delete_state != delete_state(former) or not positions or positions - live:
            raise table_errors.not_deletable(name, each.path)
        if not each.leave(len(live - positions)):
            raise table_errors.not_deletable(name, each.path)
        deleted[each.path] = former | positions
    return deleted


def rearranged(
    name: str, base: Contents, rearrangements: Sequence[Rearrangement], number: int
) -> Contents:
    """Return contents with files in the place of others. Raises BugError (P707, P848)."""
    gone = {path: deleted for each in rearrangements for path, deleted in each.replaced.items()}
    live = delete_states(base, gone)
    for path, deleted in gone.items():
        if live.get(path) != deleted:
            raise table_errors.not_rearrangeable(name, path)
    new = tuple(file for each in rearrangements for file in each.files)
    files = (*(file for file in base.files if file.path not in gone), *new)
    row_deletes = [each for of in rearrangements for each in of.row_deletes]
    carried = deleted_of(name, base, new, row_deletes)
    kept = {path: each for path, each in base.deleted.items() if path not in gone}
    left = {**kept, **{path: each for path, each in carried.items() if each}}
    moved = Snapshot(f"s{number}", base.head, START_MS + number, files, None, left, base.ledgers)
    return base.with_snapshot(moved)


def last_maintenance(contents: Contents) -> LastMaintenance | None:
    """Return when files were last rearranged, of the snapshots that are left."""
    moved = (each for each in contents.ancestry() if each.vouches is not None)
    return next((LastMaintenance(each.timestamp_ms, OURS) for each in moved), None)
