# ruff: noqa: ARG002 - hooks are given more than a bucket needs
"""The table contract on S3: Iceberg with its own data path, and Delta; workers resolve the keys."""

from functools import partial
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from tests.contracts.test_delta_tables import DeltaFixture
from tests.contracts.test_delta_tables import TestDeltaTables as DeltaContract
from tests.contracts.test_iceberg_tables import IcebergFixture
from tests.contracts.test_iceberg_tables import TestIcebergRowDeletes as RowDeleteContract
from tests.contracts.test_iceberg_tables import TestIcebergTables as IcebergContract
from tests.servers.s3 import KEY, REGION, SECRET

from penstock.connectors import delta, iceberg
from penstock.ports.increments import FileRows
from penstock.ports.tables import Table, TableFormat
from penstock.ports.writers import WriterFactory
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet
from penstock.testing.contracts.table_history import HistoryTests
from penstock.testing.contracts.table_landing import LandingTests
from penstock.testing.contracts.table_purges import PurgeTests

SECRETS = ProcessSecrets({"KEY": KEY, "SECRET": SECRET})


class OnS3:
    """What is the same for both formats."""

    @pytest.fixture(autouse=True)
    def bucket(self, s3):
        self.s3, self.bucket_name = s3, s3.bucket()

    def remove_file(self, table: Table, path: str) -> None:
        self.s3.client().delete_object(Bucket=self.bucket_name, Key=self.key_of(path))

    def truncate_file(self, table: Table, path: str) -> None:
        self.s3.client().put_object(Bucket=self.bucket_name, Key=self.key_of(path), Body=b"PAR1")

    def key_of(self, path: str) -> str:
        return path.removeprefix(f"s3://{self.bucket_name}/")


class IcebergOnS3(OnS3, IcebergFixture):
    def open_catalog(self, place: Path) -> TableFormat:
        given = {
            "type": "sql",
            "uri": f"sqlite:///{place}/catalog.db",
            "warehouse": f"s3://{self.bucket_name}/lake",
            "s3.endpoint": self.s3.endpoint,
            "s3.region": REGION,
        }
        ours = {"s3.access-key-id": "${env:KEY}", "s3.secret-access-key": "${env:SECRET}"}
        theirs = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
        self.settings = {**given, **theirs}
        return iceberg.open_catalog({"name": "lake", **given, **ours}, SECRETS, Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(iceberg.open_writer, secrets=SECRETS)

    def open_file_rows(self) -> FileRows:
        return iceberg.open_file_rows(SECRETS)

    def drop(self, catalog: TableFormat, name: str) -> None:
        del catalog
        SqlCatalog("lake", **self.settings).drop_table(name)


@pytest.mark.slow  # the compare-and-set is the catalog's: tests/integration/s3 has what S3 adds
class TestIcebergOnS3(IcebergOnS3, IcebergContract):
    pass


class TestIcebergPurgesOnS3(IcebergOnS3, PurgeTests):
    """Rows are found in data files there, and deleted by files that are written there."""

    keyed = RowDeleteContract.keyed


@pytest.mark.slow  # next to those on this machine, but for purges
class TestIcebergRowDeletesOnS3(IcebergOnS3, RowDeleteContract):
    pass


class DeltaOnS3(OnS3, DeltaFixture):
    has_odd_paths = False  # a bucket's name is plain, and Delta has no directories of partitions

    def location(self, name: str) -> str:
        return f"{self.root}/{name.replace('.', '/')}"

    def drop(self, catalog: TableFormat, name: str) -> None:
        client = self.s3.client()
        for key in self.s3.keys(self.bucket_name):
            if key.startswith(self.key_of(self.location(name)) + "/"):
                client.delete_object(Bucket=self.bucket_name, Key=key)

    @property
    def options(self) -> dict[str, str]:
        return {
            "endpoint_url": self.s3.endpoint,
            "region": REGION,
            "allow_http": "true",
            "access_key_id": KEY,
            "secret_access_key": SECRET,
        }

    def open_catalog(self, place: Path) -> TableFormat:
        ours = {"access_key_id": "${env:KEY}", "secret_access_key": "${env:SECRET}"}
        self.root = f"s3://{self.bucket_name}/delta"
        settings = {"name": "delta", "root": self.root, "storage_options": {**self.options, **ours}}
        return delta.open_catalog(settings, SECRETS, Quiet())

    def open_writer(self) -> WriterFactory:
        return partial(delta.open_writer, secrets=SECRETS)

    def open_file_rows(self) -> FileRows:
        return delta.open_file_rows(SECRETS)


class TestDeltaOnS3(DeltaOnS3, LandingTests, HistoryTests, PurgeTests):
    """The log is kept by conditions of S3; rows are deleted by files that are written there."""

    keyed = DeltaContract.keyed


@pytest.mark.slow  # next to those in a directory, but for what lands, is told and is purged
class TestAllOfDeltaOnS3(DeltaOnS3, DeltaContract):
    pass
