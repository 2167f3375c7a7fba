"""One Iceberg table on the driver: examined, committed to, audited.

Invariants:
- `state` loads afresh and its handle is the very metadata that was judged;
- `commit` sends one request on that metadata and never retries; on whatever error, nothing that
  was written is deleted (protocol.md 5);
- errors are translated here and in `faults`, and nowhere above.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table as PyIcebergTable

from penstock.connectors.iceberg.commit import append
from penstock.connectors.iceberg.commit.metadata_cleanup import MetadataCleanup
from penstock.connectors.iceberg.errors import reading, sending
from penstock.connectors.iceberg.io.credentials import Credential
from penstock.connectors.iceberg.io.lease_clock import expiry, machine_ms
from penstock.connectors.iceberg.ledger.properties import ledgers_in, parent_of
from penstock.connectors.iceberg.ledger.witnesses import Finding, judge
from penstock.connectors.iceberg.read.file_sources import sources_of
from penstock.connectors.iceberg.read.history import history_of
from penstock.connectors.iceberg.read.metadata_values import stated_files
from penstock.connectors.iceberg.read.scan import (
    LiveData,
    coordinates_of,
    quarantined_in,
    refused_in,
    scan_of,
)
from penstock.connectors.iceberg.schema.features import require_honourable
from penstock.connectors.iceberg.schema.partition_values import least_values
from penstock.connectors.iceberg.schema.schema_change import schema_change
from penstock.connectors.iceberg.schema.sort_order import identifiers_of
from penstock.connectors.iceberg.schema.types import to_core
from penstock.connectors.iceberg.table_facts import facts_of
from penstock.connectors.iceberg.write.target import lends, relent, target_of
from penstock.core import table_errors
from penstock.core.commits import Chain, CommitKind, Committable, DataFile, Landed
from penstock.core.crash_points import CrashPoint
from penstock.core.schema import Schema
from penstock.core.serialization import ledger_from_json
from penstock.core.statistics import Mismatch
from penstock.files import ParquetOptions
from penstock.files.reopening import Reopening
from penstock.files.storage import missing_paths
from penstock.ports.runtime import Observer
from penstock.ports.tables import (
    FileSource,
    History,
    Lease,
    StatedFile,
    TableFacts,
    TableState,
    Verdict,
)

_HOUSEKEEPING_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Access:
    """A catalog that is open, and the credentials of the spec that it was opened with.

    They tell what a table's settings have from the spec from what its catalog lends.
    """

    catalog: Catalog
    credentials: Mapping[str, Credential] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Context:
    """What all tables of one catalog share. `kept` opens it anew when secrets change.

    `lease_seconds` is how long credentials that a catalog lends without saying when they end are
    used before they are asked for again.
    """

    kept: Reopening[Access]
    observer: Observer
    options: ParquetOptions
    metadata_horizon_seconds: float
    lease_seconds: int = 300
    monotonic: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = machine_ms

    @property
    def catalog(self) -> Catalog:
        """The catalog, with the secrets of now. Raises UnavailableError, InvalidError."""
        return self.kept().catalog


@dataclass(frozen=True, slots=True)
class Identified:
    """Where a table is in its catalog, and which branch of it is meant."""

    identifier: tuple[str, ...]
    branch: str


class IcebergTable:
    """Implements `ports.tables.Table` for one branch; `name` is the one behind the catalog's."""

    def __init__(self, name: str, place: Identified, context: Context) -> None:
        self.name = name
        self._identifier = place.identifier
        self._branch = place.branch
        self._context = context
        self._tidied: float | None = None
        self._housekeeping = MetadataCleanup(context.metadata_horizon_seconds, context.monotonic)

    def state(self, chain: Chain) -> TableState:
        """Read the table afresh and judge the chain."""
        access = self._context.kept()
        table = self._loaded(access)
        metadata = table.metadata
        require_honourable(metadata, self.name, self._branch)
        finding = self._judged(table, chain)
        head = parent_of(metadata, self._branch)
        target = target_of(self.name, table, access.credentials, self._context.options)
        return TableState(
            uuid=str(metadata.table_uuid),
            head="" if head is None else str(head),
            schema=to_core(metadata.schema(), self.name),
            schema_id=metadata.current_schema_id,
            landed=finding.landed,
            verdict=finding.verdict,
            evidence=finding.evidence,
            target=target,
            handle=table,
            lease=self._lease(table, target),
            can_widen=True,
            identifiers=identifiers_of(metadata.schema()),
            least=least_values(metadata.spec(), metadata.schema()),
        )

    def commit(self, state: TableState, commit: Committable, *, retain: int) -> str:
        """Land files, progress and ledger in one request on the examined metadata."""
        table: PyIcebergTable = state.handle
        if self.begin_at(table):
            raise table_errors.moved(self.name, "its branch was given a snapshot to begin at")
        prepared = self._prepared(table, state, commit, retain)
        self._context.observer.passed(CrashPoint.MANIFEST_WRITTEN)
        with sending(self.name, self._context.catalog):
            self._context.catalog.commit_table(table, prepared.requirements, prepared.updates)
        return str(prepared.snapshot_id)

    def begin_at(self, table: PyIcebergTable) -> bool:
        """Create an empty snapshot on main where a branch needs one to start at; return whether.

        Raises what `commit` raises.
        """
        with reading(self.name):
            empty = append.initial_snapshot(append.CommitBase(table, self.name, self._branch))
        if empty is None:
            return False
        with sending(self.name, self._context.catalog):
            self._context.catalog.commit_table(table, empty.requirements, empty.updates)
        return True

    def evolve(self, state: TableState, schema: Schema) -> None:
        """Make a wider schema the current one, in one request on the examined metadata."""
        table: PyIcebergTable = state.handle
        with reading(self.name):
            requirements, updates = schema_change(table.metadata, schema)
        with sending(self.name, self._context.catalog):
            self._context.catalog.commit_table(table, requirements, updates)

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
            yield from refused_in(
                scan_of(table, self._branch), self.name, chain.name, columns, ranges
            )

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
            return sources_of((table, scan_of(table, self._branch)), self.name, columns, ends)

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
            return facts_of(table, self._branch)

    def housekeep(self) -> None:
        """Remove old metadata files, at most every ten minutes. Raises UnavailableError."""
        now = self._context.monotonic()
        if self._tidied is not None and now - self._tidied < _HOUSEKEEPING_SECONDS:
            return
        self._tidied = now
        table = self._loaded()
        with reading(self.name):
            self._housekeeping.remove_old_metadata(table)

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
            return judge(table.metadata, chain, self._branch, live)

    def _prepared(
        self, table: PyIcebergTable, state: TableState, commit: Committable, retain: int
    ) -> append.CommitRequest:
        base = append.CommitBase(table, self.name, self._branch)
        with reading(self.name):
            if state.verdict is Verdict.ROLLED_BACK and commit.kind is not CommitKind.SEEK:
                assert commit.kind is CommitKind.FENCE, "only a fence lands on a rolled-back table"
                return append.fence_request(base, commit)
            assert state.verdict is not Verdict.UNCERTAIN, "nothing lands where it is uncertain"
            return append.commit_request(base, commit, state.landed, retain=retain)
