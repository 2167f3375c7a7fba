"""The upkeep of one Iceberg table: expiry, its era, and the files that its metadata names."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from penstock.connectors.iceberg.commit.expire import expiry_of, expiry_request
from penstock.connectors.iceberg.commit.metadata_cleanup import uuid_in, version_of
from penstock.connectors.iceberg.commit.rearrange import Rearranger, era_request, require_vouched
from penstock.connectors.iceberg.commit.snapshot_retention import gc_enabled
from penstock.connectors.iceberg.commit.snapshots import CommitBase
from penstock.connectors.iceberg.context import Context
from penstock.connectors.iceberg.errors import reading
from penstock.connectors.iceberg.files.manifest_entries import entries_of
from penstock.connectors.iceberg.files.manifest_lists import manifests_of
from penstock.connectors.iceberg.io.metadata_batch import MetadataBatch
from penstock.connectors.iceberg.ledger import properties as records
from penstock.connectors.iceberg.row_deletes.kept_rows import KeptRows
from penstock.core import table_errors
from penstock.core.expiry import Expiry
from penstock.core.serialization import ledger_from_json
from penstock.core.sweeps import name_of
from penstock.files.table_storage import DirectoryStorage
from penstock.ports.rearrangements import Rearrangement

_METADATA_FILE = ".metadata.json"
_LOADING = "snapshot-loading-mode"


@dataclass(frozen=True, slots=True)
class IcebergUpkeep:
    """Implements `ports.upkeep.Upkeep` for one branch of a table."""

    name: str
    branch: str
    table: Table = field(repr=False)
    context: Context = field(repr=False)
    rows: KeptRows = field(repr=False)
    rearranger: Rearranger = field(repr=False)

    def stage(self, rearrangements: Sequence[Rearrangement]) -> None:
        """Write the manifests of data files that change."""
        with reading(self.name):
            self.rearranger.stage(self._base(), rearrangements)

    def expiry(self, now_ms: int) -> Expiry:
        """Plan which snapshots expire. Raises DecisionNeededError (P846), UnavailableError."""
        with reading(self.name):
            return expiry_of(self.table, self.name, now_ms)

    def expire(self, expiry: Expiry) -> None:
        """Remove snapshots from the metadata, in one request on the examined metadata."""
        table = self.table
        self.context.send(self.name, table, *expiry_request(table.metadata, expiry))

    def era(self) -> int:
        """Return the era of the table."""
        return records.era_in(self.table.metadata.properties)

    def raise_era(self) -> str:
        """Raise the era with an empty snapshot, which vouches for the ledgers as they are.

        Raises InvalidError (P892) where chains land on several branches: it moves one head.
        """
        self._require_one_branch()
        with reading(self.name):
            prepared = era_request(self._base())
        return self.context.land(self.name, self.table, prepared)

    def named(self) -> Collection[str]:
        """Return the names of manifest lists, manifests, data and delete files of all snapshots."""
        with reading(self.name):
            return {name_of(each) for each in _paths(self.table)}

    def newest(self) -> Mapping[str, str]:
        """Return the newest commits of the chains of all branches."""
        ledgers = {
            key.removeprefix(records.LEDGER): ledger_from_json(text)
            for key, text in self.table.metadata.properties.items()
            if key.startswith(records.LEDGER)
        }
        return {key: each.recent[-1][0] if each.recent else "" for key, each in ledgers.items()}

    def storage(self) -> DirectoryStorage:
        """Open the directories of data and metadata.

        Raises InvalidError (P891, P892, P896, P897), DecisionNeededError (P846).
        """
        table = self.table
        self._require_one_branch()
        with reading(self.name):
            require_vouched(table, self.name, self.branch)
        if table.metadata.format_version == 1:
            why = "format version 1 counts no sequence numbers"
            raise table_errors.unswept(self.name, why)
        if not gc_enabled(table.metadata):
            raise table_errors.unswept(self.name, "gc.enabled is false")
        if self.context.catalog.properties.get(_LOADING) == "refs":
            why = f"with {_LOADING}: refs the catalog leaves out snapshots that no reference has"
            raise table_errors.unswept(self.name, why)
        places = table.location_provider()
        location, data, metadata = (
            self._opened(table, each.rstrip("/"))
            for each in (table.location(), places.data_path, places.metadata_path)
        )
        if not f"{data[1]}/".startswith(f"{location[1]}/"):
            raise table_errors.data_elsewhere(self.name, places.data_path)
        storage = DirectoryStorage(
            self.name,
            location[0],
            location[1],
            (data[1], metadata[1]),
            lambda path: path.endswith(_METADATA_FILE) and path.rpartition("/")[0] != metadata[1],
        )
        self._require_alone(table, storage.filesystem, metadata[1])
        return storage

    def _base(self) -> CommitBase:
        table, context = self.table, self.context
        batch = MetadataBatch(table.io)
        given = (self.rows, context.options, context.observer, batch)
        return CommitBase(table, self.name, self.branch, *given)

    def _require_one_branch(self) -> None:
        branches = records.branches_in(self.table.metadata.properties)
        if branches - {self.branch}:
            names = ", ".join(sorted(branches | {self.branch}))
            raise table_errors.unswept(self.name, f"pipelines land on several branches: {names}")

    def _opened(self, table: Table, location: str) -> tuple[fs.FileSystem, str]:
        if not isinstance(table.io, PyArrowFileIO):
            raise table_errors.unswept(
                self.name, f"its files are read by {type(table.io).__name__}"
            )
        scheme, netloc, path = PyArrowFileIO.parse_location(location, table.io.properties)
        return table.io.fs_by_scheme(scheme, netloc), path

    def _require_alone(self, table: Table, filesystem: fs.FileSystem, directory: str) -> None:
        """Raise InvalidError where another table's metadata file lies next to ours (P891), or one
        of this table that its catalog has not come to (P896).
        """
        own = {name_of(each.metadata_file) for each in table.metadata.metadata_log}
        own.add(name_of(table.metadata_location))
        newest = (_next_of(table), "")
        with reading(self.name):
            selector = fs.FileSelector(directory, allow_not_found=True)
            for info in filesystem.get_file_info(selector):
                if not info.base_name.endswith(_METADATA_FILE) or info.base_name in own:
                    continue
                if uuid_in(filesystem, info.path) not in {"", str(table.metadata.table_uuid)}:
                    raise table_errors.shared_location(self.name, info.path)
                newest = max(newest, (version_of(info.path) or 0, info.path))
            version, path = newest
            if path and version > _next_of(self.context.catalog.load_table(table.name())):
                raise table_errors.behind_its_files(self.name, path)


def _next_of(table: Table) -> int:
    """Return the highest version that a metadata file may have which the catalog does not name yet:
    whoever writes one has seen the version before it there.
    """
    version = version_of(table.metadata_location)
    return sys.maxsize if version is None else version + 1


def _paths(table: Table) -> Iterator[str]:
    """Yield what all snapshots in the metadata name, with a ref or not."""
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in manifests_of(table, snapshot):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest.manifest_path
                for entry in entries_of(manifest, table.io):
                    yield entry.data_file.file_path
