# ruff: noqa: ARG002 - hooks are given more than a directory needs
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from tests.integration.delta.foreign_delete import foreign_delete

from penstock.connectors.delta import connector
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.schema.column_mapping import MODE
from penstock.ports.exchange import ExchangeFactory
from penstock.ports.increments import FileRows
from penstock.ports.tables import Table, TableDefinition, TableFormat
from penstock.ports.writers import WriterFactory
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table import TableContract
from penstock.testing.contracts.table_exchange import ExchangeTests
from penstock.testing.contracts.table_fixture import Quiet, TableBench, foreign_row
from penstock.testing.contracts.table_maintenance import MaintenanceTests
from penstock.testing.contracts.table_purges import PurgeTests
from penstock.testing.contracts.table_upkeep import UpkeepTests
from penstock.testing.prepared import ORDERS


class DeltaFixture(TableBench):
    """The hooks; deltalake is another writer."""

    trims = False
    options: Mapping[str, str] = {}
    layouts = (
        *TableBench.layouts,
        TableDefinition(ORDERS, properties={"delta.enableChangeDataFeed": "true"}),
    )

    def open_catalog(self, place: Path) -> TableFormat:
        settings = {"name": "delta", "type": "delta", "root": f"{place}/lake"}
        self.root = place / "lake"
        return connector.open_catalog(settings, ProcessSecrets({}), Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(connector.open_writer, secrets=ProcessSecrets({}))

    def open_file_rows(self) -> FileRows:
        return connector.open_file_rows(ProcessSecrets({}))

    def location(self, name: str) -> Path:
        return self.root.joinpath(*name.split("."))

    def foreign(self, table: Table) -> DeltaTable:
        return DeltaTable(self.location(table.name), storage_options=dict(self.options))

    def rows(self, table: Table):
        handle = self.foreign(table)
        return pa.table(handle.scan()).to_pylist()

    def foreign_append(self, table: Table) -> None:
        location = self.location(table.name)
        schema = pa.schema(self.foreign(table).schema().to_arrow())
        rows = pa.Table.from_pylist([foreign_row()], schema=schema)
        write_deltalake(location, rows, mode="append", storage_options=dict(self.options))

    def foreign_delete(self, table: Table, number: int) -> None:
        root = StorageRoot(str(self.root), self.options)
        assert foreign_delete(root, table.name, lambda row: row["id"] == number)

    def foreign_compaction(self, table: Table) -> None:
        self.foreign(table).optimize.compact()

    def roll_back(self, table: Table, snapshot: str) -> None:
        self.foreign(table).restore(int(snapshot))

    def drop(self, catalog: TableFormat, name: str) -> None:
        shutil.rmtree(self.location(name))


class TestDeltaExchanges(DeltaFixture, ExchangeTests):
    """Rows of a partition meet through files in its directory."""

    def open_exchange(self) -> ExchangeFactory:
        return partial(connector.open_exchange, secrets=ProcessSecrets({}))


class TestMappedDeltaExchanges(TestDeltaExchanges):
    """Files bear other names of columns than rows."""

    properties: ClassVar = {MODE: "name"}


class TestDeltaTables(DeltaFixture, TableContract, UpkeepTests, MaintenanceTests, PurgeTests):
    """All of it, in a directory."""

    expires = False
    going_back_is_a_rollback = True
