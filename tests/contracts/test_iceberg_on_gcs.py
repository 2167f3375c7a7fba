# ruff: noqa: ARG002 - hooks are given more than a bucket needs
"""The table contract of Iceberg on Google's cloud storage, as fake-gcs-server has it."""

from functools import partial
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.contracts.test_iceberg_tables import IcebergFixture
from tests.contracts.test_iceberg_tables import TestIcebergRowDeletes as RowDeleteContract
from tests.contracts.test_iceberg_tables import TestIcebergTables as IcebergContract
from tests.contracts.test_iceberg_tables import TestIcebergUpkeep as UpkeepContract
from tests.servers.gcs import EXPIRES_AT_MS, TOKEN, Gcs

from penstock.connectors import iceberg
from penstock.ports.increments import FileRows
from penstock.ports.tables import Table, TableFormat
from penstock.ports.writers import WriterFactory
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # the first one fetches its server

SECRETS = ProcessSecrets({"TOKEN": TOKEN, "UNTIL": EXPIRES_AT_MS})


class IcebergOnGcs(IcebergFixture):
    @pytest.fixture(autouse=True)
    def made(self, gcs: Gcs) -> None:
        self.gcs, self.bucket = gcs, gcs.bucket()

    def open_catalog(self, place: Path) -> TableFormat:
        given = {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"gs://{self.bucket}/lake",
            "gcs.service.host": self.gcs.endpoint,
        }
        self.settings = {
            **given,
            "gcs.oauth2.token": TOKEN,
            "gcs.oauth2.token-expires-at": EXPIRES_AT_MS,
        }
        ours = {
            "gcs.oauth2.token": "${env:TOKEN}",
            "gcs.oauth2.token-expires-at": "${env:UNTIL}",
        }
        return iceberg.open_catalog({"name": "lake", **given, **ours}, SECRETS, Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(iceberg.open_writer, secrets=SECRETS)

    def open_file_rows(self) -> FileRows:
        return iceberg.open_file_rows(SECRETS)

    def drop(self, catalog: TableFormat, name: str) -> None:
        del catalog
        SqlCatalog("lake", **self.settings).drop_table(name)

    def remove_file(self, table: Table, path: str) -> None:
        self.gcs.filesystem().delete_file(path.removeprefix("gs://"))

    def truncate_file(self, table: Table, path: str) -> None:
        with self.gcs.filesystem().open_output_stream(path.removeprefix("gs://")) as stream:
            stream.write(b"PAR1")


class TestIcebergOnGcs(IcebergOnGcs, IcebergContract):
    """Keys are a token; another writer is PyIceberg with its own storage."""


class TestIcebergUpkeepOnGcs(IcebergOnGcs, UpkeepContract):
    """Files are listed and removed there."""


class TestIcebergRowDeletesOnGcs(IcebergOnGcs, RowDeleteContract):
    keyed = RowDeleteContract.keyed
