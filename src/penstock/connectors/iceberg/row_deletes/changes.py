"""The file changes of a commit with row deletes: delete files added, files removed.

Theory of operation: for each touched data file its deletes are joined with those of its former
delete files that are about it alone: one file in place of them, so that a reader opens one for each
data file. Where a commit touches many files of a partition, one delete file is written for all, and
nothing is joined: folding them is maintenance. A data file that was written again goes with its
delete files, and gets none. In a partition of NaN each has its own nevertheless:
PyIceberg takes no NaN for another, and would find none of the deletes. In the third format each
touched data file has a deletion vector of all that is deleted of it, which takes the place of the
former one, and of delete files about that data file alone (docs/design/0248).

Invariants:
- what is to be deleted is live on the state that the commit lands on, or in the commit's own files;
- a data file of which no row is left, or that was written again, goes with the delete files that
  are about it, and one of the commit's own never comes;
- a delete file has the partition spec and the partition of its data files;
- a deletion vector has all deletes of its data file that are live, and no other of it stays.

Source: Apache Iceberg table specification, "Position Delete Files", "Deletion Vectors".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pyiceberg.manifest import DataFile, ManifestEntry

from penstock.connectors.iceberg.row_deletes.live_rows import (
    LiveRows,
    PartitionKey,
    is_found_by_all,
    partition_key,
)
from penstock.core.table_errors import not_deletable
from penstock.files.positions import NONE, Positions, joined
from penstock.ports.row_deletes import RowDeletes

FILES_OF_THEIR_OWN_MAX = 64
"""The most data files of a partition that a commit touches with a delete file for each."""

WriteDeletes = Callable[[Mapping[str, Positions], DataFile], DataFile]
"""Writes one delete file for deletes by data file, of the partition of one of them."""
WriteVectors = Callable[[Sequence[tuple[DataFile, Positions]]], list[DataFile]]
"""Writes one deletion vector for each data file."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The data files and delete files that a commit adds, and the live ones that it takes away."""

    files: tuple[DataFile, ...]
    removed: tuple[ManifestEntry, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """A data file of which rows are deleted.

    `scoped` are the delete files that hold for it alone; `deleted` is all that is deleted
    of it by now, `new` what is added. `entry` is None for one of the commit's own files.
    """

    file: DataFile
    entry: ManifestEntry | None
    scoped: tuple[ManifestEntry, ...]
    deleted: Positions
    new: Positions
    is_rewritten: bool

    @property
    def rows_left(self) -> int:
        """Count the rows that stay."""
        rows: int = self.file.record_count
        return rows - len(self.deleted) - len(self.new)

    @property
    def goes(self) -> bool:
        """Return whether it leaves the table: no row is left, or others hold those that are."""
        return self.is_rewritten or not self.rows_left


def row_changes(
    own: Sequence[DataFile],
    live: LiveRows,
    row_deletes: Sequence[RowDeletes],
    name: str,
    write: Callable[[Sequence[Touched]], RowChanges],
) -> RowChanges:
    """Check what is to be deleted, write the row deletes, and return the files added and removed,
    but for files that were written again.

    Raises BugError (P707) before anything is written; InvalidError (P436), OSError, ValueError.
    """
    all_touched = touched_by(own, live, row_deletes, name)
    gone = [each for each in all_touched if each.goes]
    uncommitted = {each.file.file_path for each in gone if each.entry is None}
    removed = [entry for each in gone for entry in (each.entry, *each.scoped) if entry is not None]
    files = [each for each in own if each.file_path not in uncommitted]
    written = write([each for each in all_touched if not each.goes])
    return RowChanges((*files, *written.files), (*removed, *written.removed))


def as_delete_files(
    touched: Sequence[Touched], *, live: LiveRows, write: WriteDeletes
) -> RowChanges:
    """Write position delete files, which the second format has."""
    files: list[DataFile] = []
    removed: list[ManifestEntry] = []
    for key, group in _by_partition(touched).items():
        if len(group) > FILES_OF_THEIR_OWN_MAX and is_found_by_all(key):
            by_path = {each.file.file_path: each.new for each in group}
            files.append(write(by_path, group[0].file))
            continue
        for each in group:
            former = [live.read(entry.data_file) for entry in each.scoped]
            path = each.file.file_path
            all_of_it = joined([each.new, *(known.get(path, NONE) for known in former)])
            files.append(write({path: all_of_it}, each.file))
            removed += each.scoped
    return RowChanges(tuple(files), tuple(removed))


def as_vectors(touched: Sequence[Touched], *, live: LiveRows, write: WriteVectors) -> RowChanges:
    """Write deletion vectors, which the third format has: one for each data file, of all deletes.

    One that holds no more, for its data file was put back, goes as well: no two may be about one.
    """
    deletes = [(each.file, joined([each.deleted, each.new])) for each in touched]
    removed = [e for each in touched for e in live.about_one.get(each.file.file_path, ())]
    return RowChanges(tuple(write(deletes)) if deletes else (), tuple(removed))


def touched_by(
    own: Sequence[DataFile], live: LiveRows, row_deletes: Sequence[RowDeletes], name: str
) -> list[Touched]:
    """Find the files of row deletes. Raises BugError (P707) when one is not of live rows."""
    ours = {each.file_path: each for each in own}
    found: dict[str, Touched] = {}
    for each in row_deletes:
        entry = live.data.get(each.path)
        file = ours.get(each.path) if entry is None else entry.data_file
        state = "" if entry is None else live.delete_state(each.path)
        if file is None or each.path in found or each.delete_state != state:
            raise not_deletable(name, each.path)
        deleted = NONE if entry is None else live.deleted_in(each.path)
        twice = np.isin(each.positions, deleted, assume_unique=True)
        if not each.are_within(file.record_count) or twice.any():
            raise not_deletable(name, each.path)
        scoped = () if entry is None else tuple(live.scoped_to(each.path))
        again = each.rewritten is not None
        touched = Touched(file, entry, scoped, deleted, each.positions, is_rewritten=again)
        if not each.leave(touched.rows_left):
            raise not_deletable(name, each.path)
        found[each.path] = touched
    return [*found.values()]


def _by_partition(touched: Iterable[Touched]) -> dict[PartitionKey, list[Touched]]:
    groups: dict[PartitionKey, list[Touched]] = defaultdict(list)
    for each in touched:
        groups[partition_key(each.file)].append(each)
    return groups
