"""The table contract against Iceberg on PostgreSQL, behind a REST catalog, and in Glue and Hive."""

from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from tests.contracts.test_iceberg_tables import IcebergFixture
from tests.contracts.test_iceberg_tables import TestIcebergRowDeletes as RowDeleteContract
from tests.contracts.test_iceberg_tables import TestIcebergTables as IcebergContract
from tests.contracts.test_iceberg_tables import TestIcebergVectors as VectorContract
from tests.servers import hive
from tests.servers.s3 import KEY, REGION, SECRET

from penstock.connectors.iceberg import connector
from penstock.core.errors import ConflictError, OutcomeUnknownError
from penstock.ports.tables import Table, TableFormat
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.contracts.table_landing import LandingTests


class OnAnyCatalog(IcebergFixture):
    """The other writer opens the same catalog by itself."""

    def open_catalog(self, place: Path) -> TableFormat:
        self.settings = self.settings_of(place)
        self.other_writer = load_catalog("lake", **self.settings)
        settings = {"name": "lake", **self.settings}
        return connector.open_catalog(settings, ProcessSecrets({}), Quiet())

    def foreign(self, table: Table):
        return self.other_writer.load_table(table.name)

    def drop(self, catalog: TableFormat, name: str) -> None:
        del catalog
        self.other_writer.drop_table(name)


class OnPostgresql(OnAnyCatalog):
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


class TestIcebergOnPostgresql(OnPostgresql, LandingTests):
    """Commits and their races: what a table holds is read and written as on SQLite."""


@pytest.mark.slow  # next to the SQL catalog's on SQLite, but for what lands
class TestAllOfIcebergOnPostgresql(OnPostgresql, IcebergContract):
    pass


class OverRest(OnAnyCatalog):
    refused = (ConflictError, OutcomeUnknownError)

    @pytest.fixture(autouse=True)
    def server(self, rest_catalog):
        self.address = rest_catalog
        yield
        empty(load_catalog("lake", type="rest", uri=rest_catalog))

    def settings_of(self, place: Path) -> dict[str, str]:
        del place  # the server knows its own
        return {"type": "rest", "uri": self.address}


class TestIcebergOverRest(OverRest, IcebergContract):
    pass


class TestIcebergRowDeletesOverRest(OverRest, RowDeleteContract):
    pass


@pytest.mark.slow  # next to the SQL catalog's, and Spark's in tests/integration/readers
class TestIcebergVectorsOverRest(OverRest, VectorContract):
    def foreign(self, table: Table):
        return self.other_writer.load_table(table.name)


@pytest.mark.slow  # next to a whole run in tests/integration/iceberg/test_other_catalogs.py
class TestIcebergInGlue(OnAnyCatalog, IcebergContract):
    """Glue's API as moto speaks it."""

    refused = (ConflictError, OutcomeUnknownError)

    @pytest.fixture(autouse=True)
    def server(self, s3):
        self.endpoint = s3.endpoint
        yield
        empty(load_catalog("lake", **self.settings))

    def settings_of(self, place: Path) -> dict[str, str]:
        keys = {"glue.access-key-id": KEY, "glue.secret-access-key": SECRET}
        where = {"glue.endpoint": self.endpoint, "glue.region": REGION}
        return {"type": "glue", "warehouse": f"file://{place}/warehouse", **where, **keys}

    @pytest.mark.skip(reason="moto's UpdateTable does not compare VersionId, as AWS's does")
    def test_of_two_racing_commits_one_lands_and_the_other_conflicts(self):
        """Not to be had without AWS."""


@pytest.mark.slow  # a Java process of its own
class TestIcebergInHive(OnAnyCatalog, IcebergContract):
    refused = (ConflictError, OutcomeUnknownError)

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, tmp_path_factory):
        with hive.running(tmp_path_factory.mktemp("hive")) as address:
            yield address

    @pytest.fixture(autouse=True)
    def server(self, shared):
        self.address = shared
        yield
        empty(load_catalog("lake", **self.settings))

    def settings_of(self, place: Path) -> dict[str, str]:
        old = {"hive.hive2-compatible": "true"}
        return {"type": "hive", "uri": self.address, "warehouse": f"file://{place}/wh", **old}


def empty(catalog) -> None:
    for namespace in catalog.list_namespaces():
        for table in catalog.list_tables(namespace):
            catalog.drop_table(table)
    catalog.close()
