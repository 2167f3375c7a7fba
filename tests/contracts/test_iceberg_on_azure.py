# ruff: noqa: ARG002 - hooks are given more than a container needs
"""The table contract of Iceberg on Azure's blob storage, as Azurite has it."""

from functools import partial
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties
from tests.contracts.test_iceberg_tables import IcebergFixture
from tests.contracts.test_iceberg_tables import TestIcebergRowDeletes as RowDeleteContract
from tests.contracts.test_iceberg_tables import TestIcebergTables as IcebergContract
from tests.contracts.test_iceberg_tables import TestIcebergUpkeep as UpkeepContract
from tests.contracts.test_tables_on_azure import SECRETS
from tests.servers.azurite import ACCOUNT, KEY, Azurite

from penstock.connectors import iceberg
from penstock.ports.increments import FileRows
from penstock.ports.tables import Table, TableFormat
from penstock.ports.writers import WriterFactory
from penstock.testing.contracts.table_fixture import Quiet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first one fetches Azurite


class Hostless(PyArrowFileIO):
    """PyIceberg's own storage, for another writer: without the host that it misreads."""

    @staticmethod
    def parse_location(location: str, properties: Properties = EMPTY_DICT) -> tuple[str, str, str]:
        return PyArrowFileIO.parse_location(
            location.replace(f"@{ACCOUNT}.dfs.core.windows.net", ""), properties
        )


class IcebergOnAzure(IcebergFixture):
    @pytest.fixture(autouse=True)
    def made(self, azurite: Azurite) -> None:
        self.azurite, self.container = azurite, azurite.container()

    def open_catalog(self, place: Path) -> TableFormat:
        given = {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"abfss://{self.container}@{ACCOUNT}.dfs.core.windows.net/lake",
            "adls.blob-storage-authority": self.azurite.host,
            "adls.dfs-storage-authority": self.azurite.host,
            "adls.blob-storage-scheme": "http",
            "adls.dfs-storage-scheme": "http",
        }
        theirs = {"adls.account-name": ACCOUNT, "adls.account-key": KEY}
        self.settings = {**given, **theirs, "py-io-impl": f"{__name__}.Hostless"}
        ours = {"name": "lake", **given, "adls.account-key": "${env:KEY}"}
        return iceberg.open_catalog(ours, SECRETS, Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(iceberg.open_writer, secrets=SECRETS)

    def open_file_rows(self) -> FileRows:
        return iceberg.open_file_rows(SECRETS)

    def remove_file(self, table: Table, path: str) -> None:
        self.azurite.filesystem().delete_file(self.path_in(path))

    def truncate_file(self, table: Table, path: str) -> None:
        with self.azurite.filesystem().open_output_stream(self.path_in(path)) as stream:
            stream.write(b"PAR1")

    def path_in(self, path: str) -> str:
        return f"{self.container}/{path.partition('windows.net/')[2]}"


class TestIcebergOnAzure(IcebergOnAzure, IcebergContract):
    """The account is in the address of each file."""


class TestIcebergUpkeepOnAzure(IcebergOnAzure, UpkeepContract):
    """Files are listed and removed there."""


class TestIcebergRowDeletesOnAzure(IcebergOnAzure, RowDeleteContract):
    keyed = RowDeleteContract.keyed
