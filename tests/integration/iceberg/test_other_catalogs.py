"""Whole runs on Iceberg in Glue (as moto speaks it), in a Hive metastore, in Azure and in Google."""

from functools import partial
from pathlib import Path

import pytest
from tests.servers import azurite as azure
from tests.servers import gcs as google
from tests.servers import hive
from tests.servers.s3 import KEY, REGION, SECRET
from tests.story.backend import CATALOG
from tests.story.real_backends import IcebergWithoutBroker
from tests.story.world import World

from penstock.connectors import iceberg
from penstock.core.crash_points import CrashPoint
from penstock.spec.secrets import ProcessSecrets

SECRETS = ProcessSecrets(
    {
        "GLUE_KEY": KEY,
        "GLUE_SECRET": SECRET,
        "AZURE_KEY": azure.KEY,
        "GOOGLE_TOKEN": google.TOKEN,
        "GOOGLE_UNTIL": google.EXPIRES_AT_MS,
    }
)


class GroundInCatalog(IcebergWithoutBroker):
    def __init__(self, directory, **settings):
        super().__init__(directory)
        self.settings = {"name": CATALOG, "warehouse": f"file://{directory}/lake", **settings}

    def open_catalog(self, observer):
        return iceberg.open_catalog(self.settings, SECRETS, observer)

    def open_writer(self):
        return partial(iceberg.open_writer, secrets=SECRETS)


@pytest.fixture
def in_glue(tmp_path, s3):
    keys = {
        "glue.access-key-id": "${env:GLUE_KEY}",
        "glue.secret-access-key": "${env:GLUE_SECRET}",
    }
    where = {"glue.endpoint": s3.endpoint, "glue.region": REGION}
    yield GroundInCatalog(tmp_path, type="glue", **where, **keys)
    glue = s3.client("glue")
    for database in glue.get_databases()["DatabaseList"]:
        glue.delete_database(Name=database["Name"])


@pytest.fixture(scope="module")
def metastore(tmp_path_factory):
    with hive.running(tmp_path_factory.mktemp("hive")) as address:
        yield address


def test_a_run_on_glue_is_exact_and_its_keys_are_nowhere(in_glue, tmp_path):
    crashed, life = land_and_crash(World(in_glue))
    written = repr((crashed.jobs, crashed.observer.events, life.jobs, life.observer.events))

    assert not any(secret in written for secret in (KEY, SECRET))
    assert not any(SECRET.encode() in kept for kept in contents(tmp_path))


@pytest.mark.slow  # a Java process of its own
def test_a_run_in_a_hive_metastore_is_exact(tmp_path, metastore):
    land_and_crash(
        World(
            GroundInCatalog(
                tmp_path, type="hive", uri=metastore, **{"hive.hive2-compatible": "true"}
            )
        )
    )


@pytest.mark.slow  # Azurite is fetched
def test_a_run_in_azure_is_exact_and_its_key_is_nowhere(tmp_path, azurite):
    host = f"{azure.ACCOUNT}.dfs.core.windows.net"
    settings = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"abfss://{azurite.container()}@{host}/lake",
        "adls.account-key": "${env:AZURE_KEY}",
        "adls.blob-storage-authority": azurite.host,
        "adls.dfs-storage-authority": azurite.host,
        "adls.blob-storage-scheme": "http",
        "adls.dfs-storage-scheme": "http",
    }
    crashed, life = land_and_crash(World(GroundInCatalog(tmp_path, **settings)))

    assert azure.KEY not in repr((crashed.jobs, crashed.observer.events, life.jobs))
    assert not any(azure.KEY.encode() in kept for kept in contents(tmp_path))


@pytest.mark.slow  # its emulator is fetched
def test_a_run_in_googles_storage_is_exact_and_its_token_is_nowhere(tmp_path, gcs):
    settings = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"gs://{gcs.bucket()}/lake",
        "gcs.oauth2.token": "${env:GOOGLE_TOKEN}",
        "gcs.oauth2.token-expires-at": "${env:GOOGLE_UNTIL}",
        "gcs.service.host": gcs.endpoint,
    }
    crashed, life = land_and_crash(World(GroundInCatalog(tmp_path, **settings)))

    assert google.TOKEN not in repr((crashed.jobs, crashed.observer.events, life.jobs))
    assert not any(google.TOKEN.encode() in kept for kept in contents(tmp_path))


def land_and_crash(world):
    """Crash after a commit whose answer was lost, restart, and return both lives."""
    world.send("orders", 5)
    world.send_raw("orders", b"no object")
    crashed = world.crash_at(f"{CrashPoint.COMMIT_AFTER.value}")
    world.send("orders", 5)
    life = world.run()

    assert [] == world.breaks()
    assert 10 == len(world.rows())
    return crashed, life


def contents(folder: Path):
    return (path.read_bytes() for path in folder.rglob("*") if path.is_file())
