"""The table contract against Iceberg on a SQLite catalog, with PyIceberg playing the stranger."""

from functools import partial
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from penstock.connectors.iceberg import connector
from penstock.ports.tables import Table, TableFormat, WriterFactory
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.table_bench import Quiet, foreign_row
from penstock.testing.table_contract import TableContract


class Plain:
    def resolve(self, text: str) -> str:
        return text


class TestIcebergTables(TableContract):
    def open_catalog(self, place: Path) -> TableFormat:
        self.settings = {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"file://{place}/warehouse",
        }
        return connector.open_catalog({"name": "lake", **self.settings}, Plain(), Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(connector.open_writer, secrets=ProcessSecrets({}))

    def foreign(self, table: Table):
        return SqlCatalog("lake", **self.settings).load_table(table.name)

    def rows(self, table: Table):
        return self.foreign(table).scan().to_arrow().to_pylist()

    def foreign_append(self, table: Table) -> None:
        foreign = self.foreign(table)
        row = foreign_row()
        columns = [name for name in foreign.schema().column_names if name in row]
        assert columns == foreign.schema().column_names
        foreign.append(pa.Table.from_pylist([row], schema=foreign.schema().as_arrow()))

    def roll_back(self, table: Table, snapshot: str) -> None:
        self.foreign(table).manage_snapshots().rollback_to_snapshot(int(snapshot)).commit()

    def drop(self, catalog: TableFormat, name: str) -> None:
        del catalog
        SqlCatalog("lake", **self.settings).drop_table(name)

    def snapshots(self, table: Table) -> list[str]:
        return [str(each.snapshot_id) for each in self.foreign(table).snapshots()]
