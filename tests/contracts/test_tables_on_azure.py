# ruff: noqa: ARG002 - hooks are given more than a container needs
"""The table contract of Delta on Azure's blob storage, as Azurite has it."""

from functools import partial
from pathlib import Path

import pytest
from tests.contracts.test_delta_tables import DeltaFixture
from tests.contracts.test_delta_tables import TestDeltaTables as DeltaContract
from tests.servers.azurite import ACCOUNT, KEY, Azurite

from penstock.connectors import delta
from penstock.files.storage_settings import path_in
from penstock.ports.increments import FileRows
from penstock.ports.tables import Table, TableFormat
from penstock.ports.writers import WriterFactory
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.contracts.table_history import HistoryTests
from penstock.testing.contracts.table_landing import LandingTests
from penstock.testing.contracts.table_purges import PurgeTests

pytestmark = pytest.mark.timeout(900)  # the first one fetches Azurite

SECRETS = ProcessSecrets({"KEY": KEY})


class DeltaOnAzure(DeltaFixture):
    has_odd_paths = False  # as on S3

    @pytest.fixture(autouse=True)
    def made(self, azurite: Azurite) -> None:
        self.azurite, self.container = azurite, azurite.container()

    def remove_file(self, table: Table, path: str) -> None:
        self.azurite.filesystem().delete_file(path_in(path))

    def truncate_file(self, table: Table, path: str) -> None:
        with self.azurite.filesystem().open_output_stream(path_in(path)) as stream:
            stream.write(b"PAR1")

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
