"""One Iceberg table on the driver: examined, committed to, audited.

Invariants:
- `state` loads afresh and its handle is the very metadata that was checked;
- `commit` sends one request on that metadata and never retries; on whatever error, nothing that
  was written is deleted (protocol.md 5);
- errors are translated here and in `errors`, and nowhere above.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table import update

from penstock.connectors.iceberg.commit import append
from penstock.connectors.iceberg.commit.metadata_cleanup import MetadataCleanup
from penstock.connectors.iceberg.commit.rearrange import Rearranger, require_rearrangeable
from penstock.connectors.iceberg.commit.snapshots import CommitBase
from penstock.connectors.iceberg.context import Access, Context
from penstock.connectors.iceberg.errors import reading
from penstock.connectors.iceberg.facts import facts_of, layout_of
from penstock.connectors.iceberg.files.file_metadata import data_file
from penstock.connectors.iceberg.io.credentials import expiry
from penstock.connectors.iceberg.io.metadata_batch import MetadataBatch
from penstock.connectors.iceberg.ledger.properties import ledgers_in, parent_of
from penstock.connectors.iceberg.ledger.witnesses import Finding, check_chain
from penstock.connectors.iceberg.read.file_rows import FileToRead, rows_in
from penstock.connectors.iceberg.read.history import commits_behind, history_of
from penstock.connectors.iceberg.read.metadata_values import stated_files
from penstock.connectors.iceberg.read.scan import (
    LiveData,
    coordinates_of,
    quarantined_in,
    refused_in,
    scan_of,
    sources_of,
)
from penstock.connectors.iceberg.read.table_rows import readable_files
from penstock.connectors.iceberg.row_deletes.kept_rows import KeptRows, require_row_deletes
from penstock.connectors.iceberg.row_deletes.reading import live_files_of, rows_of
from penstock.connectors.iceberg.schema.demands import demands_of
from penstock.connectors.iceberg.schema.features import require_honourable
from penstock.connectors.iceberg.schema.late_spec import added_spec, is_late
from penstock.connectors.iceberg.schema.other_names import other_names_of
from penstock.connectors.iceberg.schema.partition_values import least_values
from penstock.connectors.iceberg.schema.row_ids import row_ids_of
from penstock.connectors.iceberg.schema.types import to_core, widened
from penstock.connectors.iceberg.upkeep import IcebergUpkeep
from penstock.connectors.iceberg.write.target import lends, relent, target_from_json, target_of
from penstock.core import table_errors
from penstock.core.commits import Chain, CommitKind, Committable, DataFile, Landed
from penstock.core.maintenance import Layout
from penstock.core.schema import Schema
from penstock.core.serialization import ledger_from_json
from penstock.core.statistics import Mismatch
from penstock.files import FileOptions
from penstock.files.storage import missing_paths
from penstock.ports.histories import CommitsBehind, History
from penstock.ports.increments import ReadableFiles
from penstock.ports.leases import Lease
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import LiveFile, RowDeleteMode, RowDeletes, RowPositions, Sought
from penstock.ports.tables import FileSource, StatedFile, TableFacts, TableState, Verdict

_HOUSEKEEPING_SECONDS = 600.0
_LAST_ADDED = -1


class IcebergTable:
    """Implements `ports.tables.Table` for one branch; `name` is the one after the catalog's."""

    def __init__(
        self, name: str, identifier: tuple[str, ...], branch: str, context: Context
    ) -> None:
        self.name = name
        self._identifier = identifier
        self._branch = branch
        self._context = context
        self._rows = KeptRows(name, branch)
        self._tidied: float | None = None
        self._rearranger = Rearranger()
        self._housekeeping = MetadataCleanup(context.metadata_horizon_seconds, context.monotonic)

    def state(self, chain: Chain) -> TableState:
        """Read the table afresh and check the chain."""
        access = self._context.kept()
        table = self._loaded(access)
        metadata = table.metadata
        require_honourable(metadata, self.name, self._branch, self._context.location_providers)
        finding = self._judged(table, chain)
        head = parent_of(metadata, self._branch)
        columns = to_core(metadata.schema(), self.name)
        target = target_of(self.name, table, access.credentials, self._context.options)
        return TableState(
            uuid=str(metadata.table_uuid),
            head="" if head is None else str(head),
            schema=columns,
            schema_id=metadata.current_schema_id,
            landed=finding.landed,
            verdict=finding.verdict,
            evidence=finding.evidence,
            target=target,
            handle=table,
            lease=self._lease(table, target),
            can_widen=True,
            identifiers=tuple(sorted(metadata.schema().identifier_field_names())),
            least=least_values(metadata.spec(), metadata.schema()),
            demands=demands_of(metadata.schema(), columns, self.name),
            row_ids=row_ids_of(metadata, self._branch),
            other_names=other_names_of(metadata),
        )

    def commit(
        self,
        state: TableState,
        commit: Committable,
        *,
        retain: int,
        row_deletes: Sequence[RowDeletes] = (),
    ) -> str:
        """Land files, row deletes, progress and ledger in one request on the examined metadata."""
        table: PyIcebergTable = state.handle
        if self.begin_at(table):
            raise table_errors.moved(self.name, "its branch was given a snapshot to begin at")
        if self._admits_late_rows(table, commit.files):
            raise table_errors.moved(self.name, "it was given a partition spec for late rows")
        base = self._base(table, target_from_json(state.target).options())
        with reading(self.name):
            if state.verdict is Verdict.ROLLED_BACK and commit.kind is not CommitKind.SEEK:
                assert commit.kind is CommitKind.FENCE, "only a fence lands on a rolled-back table"
                prepared = append.fence_request(base, commit)
            else:
                assert state.verdict is not Verdict.UNCERTAIN, "nothing lands where it is uncertain"
                prepared = append.commit_request(
                    base, commit, state.landed, retain=retain, row_deletes=row_deletes
                )
        return self._context.land(self.name, table, prepared)

    def begin_at(self, table: PyIcebergTable) -> bool:
        """Create an empty snapshot on main where a branch needs one to start at; return whether.

        Raises what `commit` raises.
        """
        with reading(self.name):
            empty = append.initial_snapshot(self._base(table, self._context.options))
        if empty is None:
            return False
        self._context.land(self.name, table, empty)
        return True

    def _admits_late_rows(self, table: PyIcebergTable, files: Sequence[DataFile]) -> bool:
        """Give the table a spec for late rows, if files need one; return whether. Raises what
        `commit` raises.
        """
        if not added_spec(table.metadata) or not any(map(is_late, files)):
            return False
        with reading(self.name):
            request = append.late_spec_request(self._base(table, self._context.options))
        self._context.land(self.name, table, request)
        return True

    def upkeep(self, state: TableState) -> IcebergUpkeep:
        """Return what lets snapshots expire, and finds files that nothing names."""
        kept = (self._context, self._rows, self._rearranger)
        return IcebergUpkeep(self.name, self._branch, state.handle, *kept)

    def require_rearrangeable(self, state: TableState) -> None:
        """Refuse chains that no digest or summary vouches for."""
        with reading(self.name):
            require_rearrangeable(state.handle, self.name, self._branch)

    def delete_states(self, state: TableState, paths: Collection[str]) -> Mapping[str, str]:
        """Return which rows of live files are deleted. Raises InvalidError (P436)."""
        with reading(self.name):
            live = self._rows.of(state.handle)
            return {each: live.delete_state(each) for each in paths if each in live.data}

    def deleted_rows(self, state: TableState, path: str) -> RowPositions:
        """Return which rows of a live file are deleted, by its delete files or its vector."""
        with reading(self.name):
            return self._rows.of(state.handle).deleted_in(path)

    def readable(self, state: TableState, paths: Sequence[str]) -> ReadableFiles:
        """Return how workers read live files. Raises as `live_files`."""
        table: PyIcebergTable = state.handle
        with reading(self.name):
            live = self._rows.of(table)
            entries = [(live.data[each], live.deleted_in(each)) for each in paths]
            access = self._context.kept()
            return readable_files(self.name, table, access.credentials, entries, state.row_ids)

    def rearrange(self, state: TableState, rearrangements: Sequence[Rearrangement]) -> str:
        """Put files in the place of others, in one request on the examined metadata."""
        table: PyIcebergTable = state.handle
        with reading(self.name):
            base = self._base(table, target_from_json(state.target).options())
            prepared = self._rearranger.request(base, rearrangements)
        return self._context.land(self.name, table, prepared)

    def require_row_deletes(
        self, state: TableState, mode: RowDeleteMode = RowDeleteMode.AUTO
    ) -> None:
        """Refuse format version 1, and equality deletes of manifests (P436)."""
        del mode
        require_row_deletes(state.handle.metadata.format_version, self.name)
        with reading(self.name):
            self._rows.of(state.handle)

    def live_files(self, state: TableState) -> Sequence[LiveFile]:
        """List the live data files. Raises InvalidError (P436): format version 1, equality deletes.

        Of a file with one delete file, `deleted` is what its writer counted.
        """
        table: PyIcebergTable = state.handle
        with reading(self.name):
            return live_files_of(self._rows.of(table), table.schema())

    def layout(self, state: TableState) -> Layout:
        """List how live data files lie. Raises InvalidError (P436), as `live_files` does."""
        table: PyIcebergTable = state.handle
        target_bytes = target_from_json(state.target).options().target_file_bytes
        with reading(self.name):
            return layout_of(table, self._branch, self._rows, target_bytes)

    def read_live(
        self,
        state: TableState,
        file: LiveFile,
        columns: Sequence[str],
        sought: Sought | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of the live rows of a file, and their positions; holds all of a file's."""
        table: PyIcebergTable = state.handle
        with reading(self.name):
            live = self._rows.of(table)
            yield from rows_of(table, live, file.path, columns, self.name, sought=sought)

    def read_written(
        self, state: TableState, file: DataFile, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of a file that is described and has not landed."""
        table: PyIcebergTable = state.handle
        with reading(self.name):
            found = data_file(file, table.metadata, self.name)
            source = FileToRead(self.name, table.io, table.metadata, found)
            yield from rows_in(source, columns)

    def evolve(self, state: TableState, schema: Schema) -> None:
        """Make a wider schema the current one, in one request on the examined metadata.

        That names the last column id as well, so that no id is given twice.
        """
        table: PyIcebergTable = state.handle
        metadata = table.metadata
        with reading(self.name):
            last_id = metadata.last_column_id
            requirements = (
                update.AssertTableUUID(uuid=metadata.table_uuid),
                update.AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
                update.AssertLastAssignedFieldId(last_assigned_field_id=last_id),
            )
            updates = (
                update.AddSchemaUpdate(schema_=widened(metadata, schema)),
                update.SetCurrentSchemaUpdate(schema_id=_LAST_ADDED),
            )
        self._context.send(self.name, table, requirements, updates)

    def missing_files(self, files: Sequence[DataFile]) -> Sequence[str]:
        """List the paths not on storage with the size described. Raises UnavailableError."""
        if not files:
            return []
        io = self._loaded().io

        def size_of(file: DataFile) -> int | None:
            try:
                return len(io.new_input(file.path))
            except FileNotFoundError:
                return None

        with reading(self.name):
            return missing_paths(files, size_of)

    def history(self, chain: Chain, state: TableState | None = None) -> History:
        """Read what the audit needs. Raises UnavailableError, InvalidError (P190, P191)."""
        table: PyIcebergTable = self._loaded() if state is None else state.handle
        with reading(self.name):
            return history_of(table, chain, self._branch, self._judged(table, chain))

    def commits(self, chain: Chain, state: TableState, behind: str = "") -> CommitsBehind:
        """List commits by the summaries of snapshots. Raises UnavailableError."""
        table: PyIcebergTable = state.handle
        with reading(self.name):
            found = self._judged(table, chain)
            return commits_behind(table.metadata, chain, self._branch, found, behind)

    def quarantined(
        self, chain: Chain, ranges: Sequence[Sequence[Any]]
    ) -> Sequence[tuple[str, int, int]]:
        """Find the coordinates already in quarantine. Raises UnavailableError, InvalidError."""
        table = self._loaded()
        with reading(self.name):
            return quarantined_in(scan_of(table, self._branch), self.name, chain.name, ranges)

    def read_quarantine(
        self,
        chain: Chain,
        columns: Sequence[str],
        ranges: Sequence[Sequence[Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows of the quarantine. Raises UnavailableError, InvalidError."""
        table = self._loaded()
        with reading(self.name):
            scan = scan_of(table, self._branch)
            yield from refused_in(scan, self.name, chain.name, columns, ranges)

    def row_coordinates(
        self,
        columns: Mapping[str, str],
        state: TableState | None = None,
        offsets: pa.Array | None = None,
    ) -> pa.Table:
        """Read every live row's source coordinates, or those at some offsets."""
        table: PyIcebergTable = self._loaded() if state is None else state.handle
        with reading(self.name):
            return coordinates_of(scan_of(table, self._branch), self.name, columns, offsets)

    def file_sources(
        self, state: TableState, columns: Mapping[str, str], ends: Mapping[tuple[str, int], int]
    ) -> Sequence[FileSource]:
        """Read the source columns of files. Raises InvalidError (P436): equality deletes."""
        table: PyIcebergTable = state.handle
        with reading(self.name):
            return sources_of(table, scan_of(table, self._branch), self.name, columns, ends)

    def stated(self) -> Iterator[StatedFile | Mismatch]:
        """Yield what manifests say about live data files. Raises UnavailableError."""
        table = self._loaded()
        with reading(self.name):
            yield from stated_files(table, self._branch)

    def ledgers(self, state: TableState) -> Sequence[Landed]:
        """Read the ledgers of all chains of the branch. Raises InvalidError (P190, P191)."""
        table: PyIcebergTable = state.handle
        texts = ledgers_in(table.metadata.properties, self._branch)
        return [ledger_from_json(text) for text in texts.values()]

    def describe(self) -> TableFacts:
        """Return format, partitioning, delete files, snapshots. Raises UnavailableError."""
        table = self._loaded()
        with reading(self.name):
            return facts_of(table, self._branch, self._rows)

    def housekeep(self) -> None:
        """Remove old metadata files, at most every ten minutes. Raises UnavailableError."""
        now = self._context.monotonic()
        if self._tidied is not None and now - self._tidied < _HOUSEKEEPING_SECONDS:
            return
        self._tidied = now
        table = self._loaded()
        with reading(self.name):
            self._housekeeping.remove_old_metadata(table)

    def _base(self, table: PyIcebergTable, options: FileOptions) -> CommitBase:
        kept, observer, files = self._rows, self._context.observer, MetadataBatch(table.io)
        return CommitBase(table, self.name, self._branch, kept, options, observer, files)

    def _loaded(self, access: Access | None = None) -> PyIcebergTable:
        access = access or self._context.kept()
        with reading(self.name):
            table = access.catalog.load_table(self._identifier)
        self._housekeeping.note(table)
        return table

    def _lease(self, table: PyIcebergTable, target: str) -> Lease | None:
        """Return when credentials in a target are to be renewed: halfway to their end."""
        if not lends(target):
            return None
        context = self._context
        ends = table.io.properties.get("s3.session-token-expires-at-ms", "")
        left_ms = int(ends) - context.now_ms() if ends.isdecimal() else 2000 * context.lease_seconds
        is_due = expiry(max(left_ms, 0) // 2, context.now_ms, context.monotonic)
        return Lease(is_due, partial(self._renewed, target))

    def _renewed(self, target: str) -> tuple[str, Lease | None]:
        access = self._context.kept()
        table = self._loaded(access)
        fresh = relent(target, table, access.credentials)
        return fresh, self._lease(table, fresh)

    def _judged(self, table: PyIcebergTable, chain: Chain) -> Finding:
        with reading(self.name):
            live = LiveData(table, self._branch)
            return check_chain(table.metadata, chain, self._branch, live)
