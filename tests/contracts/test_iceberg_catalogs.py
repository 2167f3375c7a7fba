"""The table contract against Iceberg on PostgreSQL and behind a REST catalog."""

from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from tests.contracts.test_iceberg_tables import TestIcebergTables as IcebergContract

from penstock.connectors.iceberg import connector
from penstock.core.errors import ConflictError, OutcomeUnknownError
from penstock.ports.tables import Table, TableFormat
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.table_bench import Quiet


class OnAnyCatalog(IcebergContract):
    """The stranger opens the same catalog by itself."""

    def open_catalog(self, place: Path) -> TableFormat:
        self.settings = self.settings_of(place)
        self.stranger = load_catalog("lake", **self.settings)
        settings = {"name": "lake", **self.settings}
        return connector.open_catalog(settings, ProcessSecrets({}), Quiet())

    def foreign(self, table: Table):
        return self.stranger.load_table(table.name)

    def drop(self, catalog: TableFormat, name: str) -> None:
        del catalog
        self.stranger.drop_table(name)


class TestIcebergOnPostgresql(OnAnyCatalog):
    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, postgresql):
        return postgresql.address(postgresql.database())

    @pytest.fixture(autouse=True)
    def server(self, shared):
        self.address = shared
        yield
        empty(load_catalog("lake", type="sql", uri=shared, warehouse="/nowhere"))

    def settings_of(self, place: Path) -> dict[str, str]:
        return {"type": "sql", "uri": self.address, "warehouse": f"file://{place}/warehouse"}


class TestIcebergBehindRest(OnAnyCatalog):
    refused = (ConflictError, OutcomeUnknownError)

    @pytest.fixture(autouse=True)
    def server(self, rest_catalog):
        self.address = rest_catalog
        yield
        empty(load_catalog("lake", type="rest", uri=rest_catalog))

    def settings_of(self, place: Path) -> dict[str, str]:
        del place  # the server knows its own
        return {"type": "rest", "uri": self.address}


def empty(catalog) -> None:
    for namespace in catalog.list_namespaces():
        for table in catalog.list_tables(namespace):
            catalog.drop_table(table)
    catalog.close()
