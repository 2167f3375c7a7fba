# ruff: noqa: ARG002 - hooks are given more than a format in memory needs
from pathlib import Path

from tests.story.foreign_acts import PlayedWarehouse

from penstock.connectors.memory.file_rows import WarehouseRows
from penstock.connectors.memory.tables import MemoryTables
from penstock.core.schema import Struct
from penstock.ports.increments import FileRows
from penstock.ports.tables import Table, TableFormat
from penstock.ports.writers import WriterFactory
from penstock.testing.contracts.table import TableContract
from penstock.testing.contracts.table_fixture import foreign_row
from penstock.testing.contracts.table_maintenance import MaintenanceTests
from penstock.testing.contracts.table_purges import PurgeTests
from penstock.testing.contracts.table_rewrites import MANY
from penstock.testing.contracts.table_upkeep import UpkeepTests


class TestMemoryTables(TableContract, UpkeepTests, MaintenanceTests, PurgeTests):
    kinds = Struct(tuple(each for each in MANY.fields if each.name != "named"))

    def setup_method(self):
        self.warehouse = PlayedWarehouse()

    def open_catalog(self, place: Path) -> TableFormat:
        return MemoryTables(self.warehouse)

    def open_writer(self) -> WriterFactory:
        return MemoryTables(self.warehouse).open_writer

    def open_file_rows(self) -> FileRows:
        return WarehouseRows(self.warehouse)

    def rows(self, table: Table):
        return [dict(row) for row in self.warehouse.rows(table.name)]

    def foreign_append(self, table: Table) -> None:
        self.warehouse.foreign_append(table.name, [foreign_row()])

    def foreign_delete(self, table: Table, number: int) -> None:
        self.warehouse.foreign_delete(table.name, lambda row: row["id"] == number)

    def foreign_compaction(self, table: Table) -> None:
        self.warehouse.foreign_compaction(table.name)

    def roll_back(self, table: Table, snapshot: str) -> None:
        self.warehouse.roll_back(table.name, snapshot)

    def drop(self, catalog: TableFormat, name: str) -> None:
        self.warehouse.drop(name)

    def snapshots(self, table: Table) -> list[str]:
        return list(self.warehouse.get(table.name).contents.snapshots)

    def remove_file(self, table: Table, path: str) -> None:
        self.warehouse.remove_file(path)

    def truncate_file(self, table: Table, path: str) -> None:
        self.warehouse.truncate_file(path)
