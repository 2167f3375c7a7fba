"""Credentials that a real REST catalog lends: they reach the worker, end, and are renewed."""

import pytest
from tests.servers import rest
from tests.servers.s3 import KEY, REGION, SECRET

from penstock.connectors import iceberg
from penstock.core.commits import Chain
from penstock.dev.broker import free_port
from penstock.landing.leases import renewed
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.prepared import ORDERS, orders, origin, prepared
from penstock.testing.table_bench import Quiet, batch_of

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
        after = renewed(before, before.lease.renew_at_ms)
        table.commit(table.state(CHAIN), write(after, {0: (3, 5)}), retain=25)
        found = table.coordinates(
            {"topic": "_kafka_topic", "partition": "_kafka_partition", "offset": "_kafka_offset"}
        )

    assert "first-token" in before.target
    assert "first-token" not in after.target
    assert "second-token" in after.target
    assert after.lease is not None
    assert "token" not in repr(before) + repr(after)
    assert [0, 1, 2, 3, 4] == sorted(found["offset"].to_pylist())
    catalog.close()
