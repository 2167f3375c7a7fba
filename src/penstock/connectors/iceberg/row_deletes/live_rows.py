"""Finds the live rows of a snapshot: its data files, and the row deletes that apply to each.

Theory of operation: a position delete file that is about one data file holds for that one; any
other holds for all data files of its partition that are not younger than it. The former are known
by metadata, the latter have to be read: what they say of a file that they do not name is nothing.
A deletion vector is about one data file, and where there is one nothing else holds for it: its
writer took over what held before.

Invariants:
- a data file has one deletion vector at most, and whose table has two is not read;
- a snapshot with equality deletes is rejected: its live rows would have to be searched for;
- a delete state names the delete files that delete rows of a data file; they never change, so
  equal names are equal deletes.

Source: Apache Iceberg table specification, "Scan Planning", "Deletion Vectors".
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections import Counter, defaultdict
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntry
from pyiceberg.table import snapshots

from penstock.connectors.iceberg.files.manifest_entries import name_of, size_of
from penstock.connectors.iceberg.row_deletes.changing import Changing
from penstock.connectors.iceberg.row_deletes.delete_files import only_path_of
from penstock.connectors.iceberg.row_deletes.vectors import is_vector
from penstock.core.table_errors import unsupported
from penstock.files.positions import NONE, Positions, joined

ReadDeletes = Callable[[DataFile], Mapping[str, Positions]]
"""Returns the deletes of a delete file by data file."""
PartitionKey = tuple[int, tuple[Any, ...]]
"""A partition: the spec's id and the values, floats by their bits, so that NaN equals itself."""
_NAN = "NaN as a float"
_COPIES = "copies"
_COUNTED = (
    snapshots.TOTAL_DATA_FILES,
    snapshots.TOTAL_DELETE_FILES,
    snapshots.TOTAL_RECORDS,
    snapshots.TOTAL_FILE_SIZE,
    snapshots.TOTAL_POSITION_DELETES,
)


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The data files of one snapshot by path, with the delete files that may hold for them.

    `counts` are the totals of a summary, and how many entries are of a data file that has another;
    `added_by` counts live files by the snapshot that added them, each once. `named` is filled
    partition by partition, when one is asked for: the delete files about several data files, by
    each that they name.
    """

    data: Changing[str, ManifestEntry]
    about_one: Changing[str, Sequence[ManifestEntry]]
    of_partition: dict[PartitionKey, list[ManifestEntry]]
    counts: Counter[str] = field(repr=False)
    added_by: Changing[int | None, int] = field(repr=False)
    read: ReadDeletes = field(repr=False)
    named: dict[PartitionKey, Mapping[str, Sequence[ManifestEntry]]] = field(
        default_factory=dict, repr=False
    )

    def scoped_to(self, path: str) -> list[ManifestEntry]:
        """Return the delete files that are about one data file, and hold for it."""
        found = self.about_one.get(path, ())
        return [each for each in found if _holds(each, self.data[path])]

    def deleted_in(self, path: str) -> Positions:
        """Return which rows of a data file are deleted.

        Raises InvalidError (P436): a delete file of Avro; OSError, ValueError.
        """
        holding = self._holding(path)
        found = joined([self.read(each.data_file).get(path, NONE) for each in holding])
        return found[found < self.data[path].data_file.record_count]

    def delete_state(self, path: str) -> str:
        """Name the deletes that hold for a data file; "" for none.

        Raises what `deleted_in` raises.
        """
        return state_of(self._holding(path))

    def count_deleted(self, path: str) -> int:
        """Count the deleted rows of a data file; of one delete file it is what its writer counted.

        Raises what `deleted_in` raises.
        """
        holding = self._holding(path)
        if len(holding) == 1 and only_path_of(holding[0].data_file) is not None:
            rows: int = self.data[path].data_file.record_count
            return min(holding[0].data_file.record_count, rows)
        return len(self.deleted_in(path)) if holding else 0

    def _holding(self, path: str) -> list[ManifestEntry]:
        """Return what says which rows of a data file are deleted: its vector, or delete files."""
        scoped = self.scoped_to(path)
        vectors = [each for each in scoped if is_vector(each.data_file)]
        if len(vectors) > 1:
            raise ValueError(f"{path} has {len(vectors)} deletion vectors")
        return vectors or [*scoped, *self._grouped(path)]

    def _grouped(self, path: str) -> list[ManifestEntry]:
        """Return those of its partition that hold for it and name it."""
        entry = self.data[path]
        found = self._named_in(partition_key(entry.data_file)).get(path, ())
        return [each for each in found if _holds(each, entry)]

    def _named_in(self, key: PartitionKey) -> Mapping[str, Sequence[ManifestEntry]]:
        if key not in self.named:
            found: dict[str, list[ManifestEntry]] = defaultdict(list)
            for each in self.of_partition.get(key, ()):
                for path in self.read(each.data_file):
                    found[path].append(each)
            self.named[key] = dict(found)
        return self.named[key]

    def about(self, paths: Collection[str]) -> Iterator[ManifestEntry]:
        """Yield the delete files that are about none but some live data files.

        Raises what `deleted_in` raises.
        """
        for path in paths:
            yield from self.about_one.get(path, ())
        for key in {partition_key(self.data[path].data_file) for path in paths}:
            for each in self.of_partition.get(key, ()):
                if all(
                    path in paths or path not in self.data for path in self.read(each.data_file)
                ):
                    yield each

    @property
    def has_copies(self) -> bool:
        """Return whether a data file is listed more than once."""
        return self.counts[_COPIES] > 0

    def totals(self) -> dict[str, str]:
        """Return the totals for the snapshot's summary."""
        counted = {each: str(self.counts[each]) for each in _COUNTED}
        return {**counted, snapshots.TOTAL_EQUALITY_DELETES: "0"}

    def changed(
        self, gone: Iterable[ManifestEntry], come: Iterable[ManifestEntry], name: str
    ) -> LiveRows:
        """Return what is live where some of these very entries are gone, and others have come.

        It costs as much as these are, however many files are live; of a data file that is listed
        more than once it would know nothing. Raises InvalidError (P436): equality deletes.
        """
        found = LiveRows(
            self.data.copy(),
            self.about_one.copy(),
            {key: [*group] for key, group in self.of_partition.items()},
            self.counts.copy(),
            self.added_by.copy(),
            self.read,
        )
        for entry in gone:
            found._take(entry)
        for entry in come:
            found._add(entry, name)
        return replace(
            found,
            data=found.data.settled(),
            about_one=found.about_one.settled(),
            added_by=found.added_by.settled(),
        )

    def _add(self, entry: ManifestEntry, name: str) -> None:
        file = entry.data_file
        if file.content == DataFileContent.DATA:
            if (former := self.data.get(file.file_path)) is not None:
                self._count(former, -1)
                self.counts[_COPIES] += 1
            self.data[file.file_path] = entry
        elif file.content == DataFileContent.EQUALITY_DELETES:
            why = "its live rows cannot be determined; rewrite its data files to remove them"
            raise unsupported(name, "equality deletes", why)
        elif (path := only_path_of(file)) is not None:
            self.about_one[path] = [*self.about_one.get(path, ()), entry]
        else:
            self.of_partition.setdefault(partition_key(file), []).append(entry)
        self._count(entry, 1)

    def _take(self, entry: ManifestEntry) -> None:
        file = entry.data_file
        if file.content == DataFileContent.DATA:
            del self.data[file.file_path]
        elif (path := only_path_of(file)) is not None:
            _take(self.about_one, path, entry)
        else:
            _take(self.of_partition, partition_key(file), entry)
        self._count(entry, -1)

    def _count(self, entry: ManifestEntry, by: int) -> None:
        file, counts = entry.data_file, self.counts
        is_data = file.content == DataFileContent.DATA
        counts[snapshots.TOTAL_DATA_FILES if is_data else snapshots.TOTAL_DELETE_FILES] += by
        rows = snapshots.TOTAL_RECORDS if is_data else snapshots.TOTAL_POSITION_DELETES
        counts[rows] += by * file.record_count
        counts[snapshots.TOTAL_FILE_SIZE] += by * size_of(file)
        self.added_by[entry.snapshot_id] = self.added_by.get(entry.snapshot_id, 0) + by


def live_rows(entries: Iterable[ManifestEntry], name: str, read: ReadDeletes) -> LiveRows:
    """Sort the live entries of a snapshot. Raises InvalidError (P436): equality deletes."""
    return LiveRows(Changing({}), Changing({}), {}, Counter(), Changing({}), read).changed(
        (), entries, name
    )


def _take(groups: MutableMapping[Any, Any], key: Any, entry: ManifestEntry) -> None:
    groups[key] = [each for each in groups[key] if each is not entry]
    if not groups[key]:
        del groups[key]


def partition_key(file: DataFile) -> PartitionKey:
    """Name the partition of a file, so that equal names are one partition."""
    values = (file.partition[at] for at in range(len(file.partition)))
    return file.spec_id, tuple(_key(each) for each in values)


def is_found_by_all(key: PartitionKey) -> bool:
    """Return whether every reader takes the partition of a delete file for that of data files."""
    return _NAN not in key[1]


def _holds(delete: ManifestEntry, data: ManifestEntry) -> bool:
    return (delete.sequence_number or 0) >= (data.sequence_number or 0)


def state_of(entries: Sequence[ManifestEntry]) -> str:
    """Name some delete files, in whatever order; "" for none."""
    text = "\n".join(sorted(name_of(each.data_file) for each in entries))
    return hashlib.sha256(text.encode()).hexdigest()[:32] if text else ""


def _key(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return _NAN if math.isnan(value) else struct.pack("<d", value)
