"""Iceberg on S3 for tests: a SQLite catalog here, everything else in a bucket."""

from functools import partial

from tests.servers.s3 import KEY, REGION, SECRET
from tests.story.backend import CATALOG
from tests.story.real_backends import DeltaWithoutBroker, IcebergWithoutBroker

from penstock.connectors import delta, iceberg
from penstock.spec.secrets import ProcessSecrets

SECRETS = ProcessSecrets({"LAKE_KEY": KEY, "LAKE_SECRET": SECRET})


def iceberg_settings(s3, place, bucket, **more):
    return {
        "name": CATALOG,
        "type": "sql",
        "uri": f"sqlite:///{place}/catalog.db",
        "warehouse": f"s3://{bucket}/lake",
        "s3.endpoint": s3.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": "${env:LAKE_KEY}",
        "s3.secret-access-key": "${env:LAKE_SECRET}",
        **more,
    }


def delta_settings(s3, bucket, **more):
    options = {
        "endpoint_url": s3.endpoint,
        "region": REGION,
        "allow_http": "true",
        "access_key_id": "${env:LAKE_KEY}",
        "secret_access_key": "${env:LAKE_SECRET}",
        **more,
    }
    return {"name": CATALOG, "root": f"s3://{bucket}/delta", "storage_options": options}


class IcebergGroundOnS3(IcebergWithoutBroker):
    def __init__(self, directory, s3):
        super().__init__(directory)
        self.settings = iceberg_settings(s3, directory, s3.bucket())

    def open_catalog(self, observer):
        return iceberg.open_catalog(self.settings, SECRETS, observer)

    def open_writer(self):
        return partial(iceberg.open_writer, secrets=SECRETS)

    def open_file_rows(self):
        return iceberg.open_file_rows(SECRETS)


class DeltaGroundOnS3(DeltaWithoutBroker):
    def __init__(self, directory, s3):
        super().__init__(directory)
        self.settings = delta_settings(s3, s3.bucket())

    def open_catalog(self, observer):
        return delta.open_catalog(self.settings, SECRETS, observer)

    def open_writer(self):
        return partial(delta.open_writer, secrets=SECRETS)

    def open_file_rows(self):
        return delta.open_file_rows(SECRETS)
