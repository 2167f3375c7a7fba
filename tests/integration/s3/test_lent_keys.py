"""Credentials that a real REST catalog lends: they reach the worker, end, and are renewed."""

import threading
from contextlib import ExitStack
from functools import partial

import pytest
from tests.servers import rest
from tests.servers.s3 import KEY, REGION, SECRET
from tests.story.real_backends import IcebergWithoutBroker
from tests.story.world import World

from penstock.connectors import iceberg
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.dev.ports import free_port
from penstock.landing.tables.credentials import renewed
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import ORDERS, orders, origin, prepared

CHAIN = Chain("shop", "lake.bronze.orders")
NOTHING = ProcessSecrets({})


@pytest.fixture
def lending(tmp_path, s3, monkeypatch):
    """Start the catalog with keys to lend; nobody else on this machine has any."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    port, bucket = free_port(), s3.bucket()

    def start(token):
        properties = {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "include-credentials": "true",
            "client.region": REGION,
            "s3.endpoint": s3.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.session-token": token,
        }
        settings = rest.environment_of(properties)
        return rest.running(
            tmp_path / "rest", warehouse=f"s3://{bucket}/lake", port=port, **settings
        )

    return start


class LentGround(IcebergWithoutBroker):
    """Tables behind a catalog that lends the keys to them: nothing here holds any."""

    def __init__(self, directory, s3):
        super().__init__(directory)
        self.s3, self.address = s3, ""

    def open_catalog(self, observer):
        settings = {
            "name": "lake",
            "type": "rest",
            "uri": self.address,
            "s3.endpoint": self.s3.endpoint,
            "s3.region": REGION,
            "penstock.lease_seconds": "0",
        }
        return iceberg.open_catalog(settings, NOTHING, observer)

    def open_writer(self):
        return partial(iceberg.open_writer, secrets=NOTHING)


def write(state, ranges):
    writer = iceberg.open_writer(state.target, prefix="x", observer=Quiet(), secrets=NOTHING)
    writer.write(batch_of(state.schema, orders(ranges)))
    given = {"files": tuple(writer.close()), "uuid": state.uuid, "schema_id": state.schema_id}
    return prepared(CHAIN, ranges, **given)


def test_lent_keys_are_used_by_workers_and_renewed_when_the_catalog_lends_others(lending, s3):
    with lending("first-token") as address:
        settings = {
            "name": "lake",
            "type": "rest",
            "uri": address,
            "s3.endpoint": s3.endpoint,
            "s3.region": REGION,
            "penstock.lease_seconds": "0",
        }
        catalog = iceberg.open_catalog(settings, NOTHING, Quiet())
        table = catalog.create("bronze.orders", TableDefinition(ORDERS), [origin(CHAIN, {0: 0})])
        state = table.state(CHAIN)
        table.commit(state, write(state, {0: (0, 3)}), retain=25)
        before = table.state(CHAIN)
    with lending("second-token"):
        after = renewed(before)
        table.commit(table.state(CHAIN), write(after, {0: (3, 5)}), retain=25)
        found = table.row_coordinates(
            {"topic": "_kafka_topic", "partition": "_kafka_partition", "offset": "_kafka_offset"}
        )

    assert "first-token" in before.target
    assert "first-token" not in after.target
    assert "second-token" in after.target
    assert after.lease is not None
    assert "token" not in repr(before) + repr(after)
    assert [0, 1, 2, 3, 4] == sorted(found["offset"].to_pylist())
    catalog.close()


def test_a_run_whose_keys_change_in_mid_run_goes_on_with_the_new_ones_and_keeps_none(
    lending, tmp_path, s3
):
    ground = LentGround(tmp_path / "here", s3)
    ground.directory.mkdir()
    world, committed = World(ground), threading.Event()
    with ExitStack() as servers:

        def lend(token):
            servers.close()
            ground.address = servers.enter_context(lending(token))

        def lend_another():
            assert committed.wait(30)
            lend("second-token")

        lend("first-token")
        world.send("orders", 3)
        world.send_raw("orders", b"no object")
        life = world.life(records_max=2)
        life.at(CrashPoint.HOUSEKEEP_AFTER, committed.set)
        life.at(CrashPoint.EPOCH_PLANNED, lend_another, passing=2).run()
        world.send("orders", 2)
        crashed = world.crash_at(CrashPoint.PREPARE_AFTER.value)
        pending = repr(world.pending())
        world.run()
        texts = [repr((each.observer.events, each.error)) for each in (life, crashed)] + [pending]
        breaks = world.breaks()
    kept = b"".join(each.read_bytes() for each in ground.directory.rglob("*") if each.is_file())

    assert [] == breaks
    assert ["first-token" in repr(life.jobs[0]), "second-token" in repr(life.jobs[-1])] == [
        True
    ] * 2
    assert "first-token" not in repr(life.jobs[-1])
    for secret in (KEY, SECRET, "first-token", "second-token"):
        assert not any(secret in each for each in texts)
        assert secret.encode() not in kept
