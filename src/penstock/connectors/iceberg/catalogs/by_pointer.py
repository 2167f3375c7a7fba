"""SQL catalogs, whose word about a table is one pointer: the location of its metadata.

PyIceberg's own commit reads the table once more, copies its metadata twice and compares against
what it has just read. Here a commit is made of the metadata that was examined, and lands where the
pointer is still at it.

Invariants (docs/design/0292-two-answers-a-commit.md):
- the pointer is read afresh each time; only what it points at, which never changes, is kept;
- a commit moves the pointer from the metadata that was examined, or not at all;
- the metadata it moves to is durable before it is moved.

SQLite lets one write at a time, and who waits for it polls, for five seconds and in no order:
so threads of one process take turns here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.update import (
    TableRequirement,
    TableUpdate,
    _apply_table_update,
    _TableMetadataUpdateContext,
    _update_table_metadata_log,
)
from sqlalchemy.orm import Session

from penstock.connectors.iceberg.catalogs.kept_tables import KeptTables
from penstock.connectors.iceberg.catalogs.third_format import ThirdFormat, require_next
from penstock.connectors.iceberg.io.kept_files import is_named_once

if TYPE_CHECKING:
    from penstock.connectors.iceberg.io.metadata_batch import MetadataBatch


class Staged(NamedTuple):
    """The next metadata of a table, and where it is."""

    location: str
    metadata: TableMetadata


class ByPointer(ThirdFormat, SqlCatalog):
    """A catalog in a SQL database, on whose examined pointers commits are made."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._kept = KeptTables()
        is_file = self.engine.dialect.name == "sqlite"
        self._turn = threading.Lock() if is_file else nullcontext()

    def staged(
        self,
        table: Table,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        files: MetadataBatch,
    ) -> Staged:
        """Make the next metadata of a table, as it was examined, as one of `files`.

        Raises CommitFailedException, ValueError.
        """
        for each in requirements:
            each.validate(table.metadata)
        if isinstance(table.metadata, TableMetadataV3):
            require_next(updates, table.metadata.last_sequence_number)
        metadata = updated(table, updates)
        places = load_location_provider(metadata.location, metadata.properties)
        version = self._parse_metadata_version(table.metadata_location) + 1
        location = places.new_table_metadata_file_location(version)
        self._write_metadata(metadata, files, location)
        return Staged(location, metadata)

    def swap(self, table: Table, staged: Staged) -> None:
        """Move the pointer from the metadata that was examined to the next, which is written.

        Raises CommitFailedException where it is elsewhere, SQLAlchemyError. A database that does
        not count what it changes is believed, as every answer is: until the pointer is read again.
        """
        *namespace, name = table.name()
        whole = ".".join(table.name())
        self._kept.keep(
            staged.location,
            Table(table.name(), staged.metadata, staged.location, table.io, self),
        )
        moved = (
            sqlalchemy.update(IcebergTables)
            .where(
                IcebergTables.catalog_name == self.name,
                IcebergTables.table_namespace == Catalog.namespace_to_string(tuple(namespace)),
                IcebergTables.table_name == name,
                IcebergTables.metadata_location == table.metadata_location,
            )
            .values(
                metadata_location=staged.location,
                previous_metadata_location=table.metadata_location,
            )
        )
        with self._turn, Session(self.engine) as session:
            found: Any = session.execute(moved)
            if found.rowcount == 0:
                raise CommitFailedException(f"{whole} has moved meanwhile")
            session.commit()

    def _convert_orm_to_iceberg(self, orm_table: Any) -> Table:
        """Return the table of a row; its metadata is read where it is not known."""
        name = (*Catalog.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        location = orm_table.metadata_location
        known = self._kept.get(name, location)
        if known is not None:
            return known
        table = super()._convert_orm_to_iceberg(orm_table)
        if is_named_once(location):
            self._kept.keep(location, table)
        return table


class OwnSql(ByPointer):
    """A SQL catalog."""


class OwnInMemory(ByPointer, InMemoryCatalog):
    """A catalog in memory."""


def updated(table: Table, updates: Sequence[TableUpdate]) -> TableMetadata:
    """Return the metadata of a table after updates, which shares with it what they leave alone.

    This is PyIceberg's `update_table_metadata` without its copy of all of it: a metadata is never
    changed in place. Raises ValueError.
    """
    context = _TableMetadataUpdateContext()
    before = metadata = table.metadata
    for each in updates:
        metadata = _apply_table_update(each, metadata, context)
    metadata = _update_table_metadata_log(metadata, table.metadata_location, before.last_updated_ms)
    if metadata.last_updated_ms == before.last_updated_ms:
        metadata = metadata.model_copy(update={"last_updated_ms": time.time_ns() // 1_000_000})
    metadata.spec().check_compatible(metadata.schema())
    metadata.sort_order().check_compatible(metadata.schema())
    return metadata
