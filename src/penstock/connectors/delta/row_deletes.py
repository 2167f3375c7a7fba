"""What a row delta does to the live files of a table: which leave it, and with which vectors others
come back.

Invariants:
- each position is of a row that is live in the state that was examined, or of a file of the commit
  itself; else nothing is written (P707);
- a file of which no row is left, or that was written again, is removed, and not added.

Source: Delta transaction log protocol, "Deletion Vectors".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connectors.delta.errors import reading, refused
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log.actions import now_ms, removal, renewed
from penstock.connectors.delta.log.commit_file import entry_of, merged
from penstock.connectors.delta.read.live_files import Add
from penstock.connectors.delta.read.live_map import KnownFile
from penstock.connectors.delta.vectors.deleted_rows import DeletedRows
from penstock.connectors.delta.vectors.descriptor import Vector
from penstock.connectors.delta.vectors.store import write_vectors
from penstock.core.commits import DataFile
from penstock.core.table_errors import not_deletable
from penstock.files.errors import first_line
from penstock.files.positions import Positions, joined
from penstock.ports.row_deletes import RowDeletes


@dataclass(frozen=True, slots=True)
class Touched:
    """A file of which rows are deleted: `deleted` are all that are then, of `rows` written.

    `add` is what the log says of it, or is about to; `is_own` marks a file of the commit itself.
    """

    path: str
    add: Add
    rows: int
    deleted: Positions
    newly: int
    is_own: bool
    is_rewritten: bool

    @property
    def rows_left(self) -> int:
        """Count the rows that stay."""
        return self.rows - len(self.deleted)

    @property
    def goes(self) -> bool:
        """Return whether it leaves the table: no row is left, or others hold those that are."""
        return self.is_rewritten or not self.rows_left


@dataclass(frozen=True, slots=True)
class RowDelta:
    """The actions of a row delta: `added` are its own files, and those that were written again;
    `renewed` are files with new vectors.

    `deleted` counts the rows it takes away, `copied` those in files that were written again;
    `vectors` are those it brings.
    """

    added: Sequence[Mapping[str, Any]]
    renewed: Sequence[Mapping[str, Any]]
    removed: Sequence[Mapping[str, Any]]
    deleted: int
    copied: int
    vectors: int


def own_files(files: Sequence[DataFile], added: Sequence[Add]) -> dict[str, tuple[Add, int]]:
    """Return what the log is about to say of a commit's files, by path, with their rows."""
    return {file.path: (add, file.record_count) for file, add in zip(files, added, strict=True)}


def touched_by(
    deleted: DeletedRows,
    name: str,
    files: Mapping[str, KnownFile],
    own: Mapping[str, tuple[Add, int]],
    row_deletes: Sequence[RowDeletes],
) -> list[Touched]:
    """Find out what is deleted of each file then; `own` are the commit's files and their rows.

    Raises BugError (P707), UnavailableError, InvalidError (P438) for a vector that is damaged.
    """
    live = [_live(name, files, own, each) for each in row_deletes]
    path, times = Counter(each.path for each in row_deletes).most_common(1)[0]
    if times > 1:
        raise not_deletable(name, path)
    return [
        _touched(name, each, file, deleted.of(file.add))
        for each, file in zip(row_deletes, live, strict=True)
    ]


def row_delta(
    root: StorageRoot,
    name: str,
    added: Sequence[Add],
    touched: Sequence[Touched],
    deleted: DeletedRows,
) -> RowDelta:
    """Write vectors, and return the actions, but for files that were written again.

    Raises InvalidError (P431), UnavailableError.
    """
    left = [each for each in touched if not each.goes]
    vectors = _written(root, name, left)
    for each in left:
        deleted.keep(vectors[each.path], each.deleted)
    own = {each.add["path"]: each for each in touched if each.is_own}
    kept = [add for add in added if add["path"] not in own or not own[add["path"]].goes]
    now = now_ms()
    return RowDelta(
        added=[
            renewed(add, own[add["path"]].rows, vectors[own[add["path"]].path])
            if add["path"] in own
            else add
            for add in kept
        ],
        renewed=[
            renewed(each.add, each.rows, vectors[each.path]) for each in left if not each.is_own
        ],
        removed=[removal(each.add, now) for each in touched if not each.is_own],
        deleted=sum(each.newly for each in touched),
        copied=sum(each.rows_left for each in touched if each.is_rewritten),
        vectors=len(vectors),
    )


@dataclass(frozen=True, slots=True)
class _Live:
    add: Add
    rows: int
    is_own: bool


def _live(
    name: str,
    files: Mapping[str, KnownFile],
    own: Mapping[str, tuple[Add, int]],
    deletes: RowDeletes,
) -> _Live:
    """Find the file of row deletes, with the vector that it had when they were found."""
    known = files.get(deletes.path)
    if known is not None:
        found, state = _Live(known.add, known.file.rows, False), known.file.delete_state
    elif deletes.path in own:
        found, state = _Live(*own[deletes.path], True), ""
    else:
        raise not_deletable(name, deletes.path)
    if deletes.delete_state != state or not deletes.are_within(found.rows):
        raise not_deletable(name, deletes.path)
    return found


def _touched(name: str, deletes: RowDeletes, file: _Live, former: Positions) -> Touched:
    deleted = joined([former, deletes.positions])
    newly = len(deletes.positions)
    if len(deleted) != len(former) + newly:
        raise not_deletable(name, deletes.path)
    again = deletes.rewritten is not None
    touched = Touched(
        deletes.path, file.add, file.rows, deleted, newly, file.is_own, is_rewritten=again
    )
    if not deletes.leave(touched.rows_left):
        raise not_deletable(name, deletes.path)
    return touched


def entry_of_delta(
    transactions: Mapping[str, int], mark: Mapping[str, Any], delta: RowDelta
) -> list[Mapping[str, Any]]:
    """Return the actions of a row delta's entry."""
    added = [*delta.renewed, *delta.added]
    operation = merged(
        mark,
        inserted=mark["rows"],
        deleted=delta.deleted,
        copied=delta.copied,
        files=(len(added), len(delta.removed)),
        vectors=delta.vectors,
    )
    return entry_of(transactions, mark, added, delta.removed, operation)


def _written(root: StorageRoot, name: str, touched: Sequence[Touched]) -> dict[str, Vector]:
    with reading(name):
        try:
            return write_vectors(root, name, {each.path: each.deleted for each in touched})
        except PermissionError as error:
            raise refused(name, first_line(error)) from error
