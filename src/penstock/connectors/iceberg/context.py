"""What all tables of one Iceberg catalog share: the catalog, kept open, and how requests are sent.

Invariants:
- a request is sent once, and on whatever error nothing that was written is deleted;
- all that a request names is durable before it is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table, update

from penstock.connectors.iceberg.catalogs.by_pointer import ByPointer, Staged
from penstock.connectors.iceberg.commit.snapshots import CommitRequest
from penstock.connectors.iceberg.errors import reading, sending
from penstock.connectors.iceberg.io.credentials import Credential
from penstock.connectors.iceberg.io.metadata_batch import MetadataBatch
from penstock.core.crash_points import CrashPoint
from penstock.files import FileOptions
from penstock.files.reopening import Reopening
from penstock.ports.runtime import Observer


@dataclass(frozen=True, slots=True)
class Access:
    """A catalog that is open, and the credentials of the spec that it was opened with.

    They distinguish the settings that a table has from the spec from those that its catalog lends.
    """

    catalog: Catalog
    credentials: Mapping[str, Credential] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Context:
    """The state that all tables of one catalog share. `kept` opens it again when secrets change.

    `lease_seconds` is how long credentials that a catalog lends without saying when they end are
    used before they are asked for again. `location_providers` are the classes that may place files.
    """

    kept: Reopening[Access]
    observer: Observer
    options: FileOptions
    metadata_horizon_seconds: float
    lease_seconds: int = 300
    location_providers: frozenset[str] = frozenset()
    monotonic: Callable[[], float] = time.monotonic
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    @property
    def catalog(self) -> Catalog:
        """The catalog, with the secrets of now. Raises UnavailableError, InvalidError."""
        return self.kept().catalog

    def land(self, name: str, table: Table, request: CommitRequest) -> str:
        """Write the files that a snapshot's request names, and send it; return the snapshot.

        Raises what `send` raises.
        """
        self.send(name, table, request.requirements, request.updates, request.files)
        return str(request.snapshot_id)

    def send(
        self,
        name: str,
        table: Table,
        requirements: tuple[update.TableRequirement, ...],
        updates: tuple[update.TableUpdate, ...],
        files: MetadataBatch | None = None,
    ) -> None:
        """Send one request, once, when the files it names are written. Raises as `commit`."""
        catalog, made = self.catalog, files or MetadataBatch(table.io)
        staged: Staged | None = None
        if isinstance(catalog, ByPointer):
            with sending(name, catalog):
                staged = catalog.staged(table, requirements, updates, made)
        with reading(name):
            made.write()
        if files is not None:
            self.observer.passed(CrashPoint.MANIFEST_WRITTEN)
        with sending(name, catalog):
            if isinstance(catalog, ByPointer) and staged is not None:
                catalog.swap(table, staged)
            else:
                catalog.commit_table(table, requirements, updates)
