# ruff: noqa: ARG002 - hooks are given more than a container needs
"""The table contract on Azure's blob storage, as Azurite has it: Iceberg and Delta."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.contracts.test_delta_tables import DeltaFixture
from tests.contracts.test_delta_tables import TestDeltaTables as DeltaContract
from tests.contracts.test_iceberg_tables import IcebergFixture
from tests.contracts.test_iceberg_tables import TestIcebergRowDeletes as RowDeleteContract
from tests.servers.azurite import ACCOUNT, KEY, Azurite, running

from penstock.connectors import delta, iceberg
from penstock.files.storage_settings import path_in
from penstock.ports.increments import FileRows
from penstock.ports.tables import Table, TableFormat
from penstock.ports.writers import WriterFactory
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.contracts.table_history import HistoryTests
from penstock.testing.contracts.table_landing import LandingTests
from penstock.testing.contracts.table_purges import PurgeTests

SECRETS = ProcessSecrets({"KEY": KEY})


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with running(tmp_path_factory.mktemp("azurite")) as server:
        yield server


class OnAzure:
    """What is the same for both formats."""

    @pytest.fixture(autouse=True)
    def place(self, azurite: Azurite) -> None:
        self.azurite, self.container = azurite, azurite.container()

    def remove_file(self, table: Table, path: str) -> None:
        self.azurite.filesystem().delete_file(path_in(path))

    def truncate_file(self, table: Table, path: str) -> None:
        with self.azurite.filesystem().open_output_stream(path_in(path)) as stream:
            stream.write(b"PAR1")


@pytest.mark.slow  # Azurite is fetched
class TestIcebergOnAzure(OnAzure, IcebergFixture, LandingTests, PurgeTests):
    """PyIceberg's own storage reads and writes there; the compare-and-set is the catalog's."""

    keyed = RowDeleteContract.keyed

    def open_catalog(self, place: Path) -> TableFormat:
        given = {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"abfss://{self.container}@{ACCOUNT}.dfs.core.windows.net/lake",
            "adls.account-name": ACCOUNT,
            **{f"adls.{each}-storage-authority": self.azurite.host for each in ("blob", "dfs")},
            **{f"adls.{each}-storage-scheme": "http" for each in ("blob", "dfs")},
        }
        self.settings = {**given, "adls.account-key": KEY}
        ours = {"name": "lake", **given, "adls.account-key": "${env:KEY}"}
        return iceberg.open_catalog(ours, SECRETS, Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(iceberg.open_writer, secrets=SECRETS)

    def open_file_rows(self) -> FileRows:
        return iceberg.open_file_rows(SECRETS)

    def drop(self, catalog: TableFormat, name: str) -> None:
        SqlCatalog("lake", **self.settings).drop_table(name)


class DeltaOnAzure(OnAzure, DeltaFixture):
    has_odd_paths = False

    @property
    def options(self) -> dict[str, str]:
        return {
            "account_name": ACCOUNT,
            "account_key": KEY,
            "endpoint": self.azurite.endpoint,
            "allow_http": "true",
        }

    def address(self) -> str:
        return f"az://{self.container}/delta"

    def location(self, name: str) -> str:
        return f"{self.address()}/{name.replace('.', '/')}"

    def drop(self, catalog: TableFormat, name: str) -> None:
        self.azurite.filesystem().delete_dir(path_in(self.location(name)))

    def open_catalog(self, place: Path) -> TableFormat:
        self.root = self.address()
        options = {**self.options, "account_key": "${env:KEY}"}
        settings = {"name": "delta", "root": self.root, "storage_options": options}
        return delta.open_catalog(settings, SECRETS, Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(delta.open_writer, secrets=SECRETS)

    def open_file_rows(self) -> FileRows:
        return delta.open_file_rows(SECRETS)


@pytest.mark.slow  # Azurite is fetched
class TestDeltaOnAzure(DeltaOnAzure, LandingTests, HistoryTests, PurgeTests):
    """The log is kept by conditions of Azure; an account is in the settings."""

    keyed = DeltaContract.keyed


@pytest.mark.slow  # Azurite is fetched
class TestDeltaOnAzureByHost(DeltaOnAzure, LandingTests):
    """The account is in the address."""

    def address(self) -> str:
        return f"abfss://{self.container}@{ACCOUNT}.dfs.core.windows.net/delta"
