"""Keys of the spec reach the workers as references, and are nowhere else."""

import pytest
from tests.integration.s3.lake import (
    SECRETS,
    DeltaGroundOnS3,
    IcebergGroundOnS3,
    delta_settings,
    iceberg_settings,
)
from tests.servers.s3 import KEY, SECRET
from tests.story.world import ORDERS as ORDERS_NAME
from tests.story.world import PIPELINE, World

from penstock.connectors import delta, iceberg
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError
from penstock.ports.tables import TableDefinition
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import ORDERS, claim, orders, origin, prepared

CHAIN = Chain(PIPELINE, ORDERS_NAME)


@pytest.mark.parametrize("kind", [IcebergGroundOnS3, DeltaGroundOnS3])
def test_a_whole_run_lands_on_s3_and_leaves_no_key_in_what_travels_or_stays(tmp_path, s3, kind):
    world = World(kind(tmp_path, s3))
    world.send("orders", 5)
    world.send_raw("orders", b"no object")
    crashed = world.crash_at(f"{CrashPoint.PREPARE_AFTER.value}")
    texts = [repr(crashed.jobs), repr(crashed.observer.events), repr(world.pending())]
    life = world.run()
    texts += [repr(life.jobs), repr(life.observer.events), repr(world.table().state(CHAIN))]
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

    assert [] == world.breaks()
    assert "${env:LAKE_KEY}" in texts[0]
    for secret in (KEY, SECRET):
        assert not any(secret in each for each in texts)
        assert secret.encode() not in kept


def test_a_key_that_is_written_out_is_refused(tmp_path, s3):
    bucket = s3.bucket()
    written = {"s3.secret-access-key": SECRET}
    defaulted = {"s3.access-key-id": f"${{env:LAKE_KEY:-{KEY}}}"}
    opened = [
        lambda: iceberg.open_catalog(
            iceberg_settings(s3, tmp_path, bucket, **written), SECRETS, Quiet()
        ),
        lambda: iceberg.open_catalog(
            iceberg_settings(s3, tmp_path, bucket, **defaulted), SECRETS, Quiet()
        ),
        lambda: delta.open_catalog(
            delta_settings(s3, bucket, AWS_SECRET_ACCESS_KEY=SECRET), SECRETS, Quiet()
        ),
    ]
    for act in opened:
        with pytest.raises(InvalidError) as refused:
            act()
        assert "P441" == refused.value.code
        assert "${file:/path}" in refused.value.hint
        assert SECRET not in str(refused.value)


def test_a_worker_without_the_variable_says_which(tmp_path, s3):
    settings = iceberg_settings(s3, tmp_path, s3.bucket())
    catalog = iceberg.open_catalog(settings, SECRETS, Quiet())
    table = catalog.create("bronze.t", TableDefinition(ORDERS), [origin(CHAIN, {0: 0})])
    with pytest.raises(InvalidError, match="LAKE_KEY") as refused:
        iceberg.open_writer(
            table.state(CHAIN).target, prefix="x", observer=Quiet(), secrets=ProcessSecrets({})
        )
    assert "P123" == refused.value.code


def test_paths_and_the_layout_for_object_stores_are_honoured(tmp_path, s3):
    bucket = s3.bucket()
    catalog = iceberg.open_catalog(iceberg_settings(s3, tmp_path, bucket), SECRETS, Quiet())
    properties = {
        "write.data.path": f"s3://{bucket}/elsewhere",
        "write.metadata.path": f"s3://{bucket}/metadata",
        "write.object-storage.enabled": "true",
    }
    definition = TableDefinition(ORDERS, ("bucket(2, id)",), properties)
    table = catalog.create("bronze.t", definition, [origin(CHAIN, {0: 0})])
    state = table.state(CHAIN)
    writer = iceberg.open_writer(state.target, prefix="x", observer=Quiet(), secrets=SECRETS)
    writer.write(batch_of(state.schema, orders({0: (0, 9)})))
    files = tuple(writer.close())
    given = {"files": files, "uuid": state.uuid, "schema_id": state.schema_id, "held": claim()}
    table.commit(state, prepared(CHAIN, {0: (0, 9)}, **given), retain=25)
    placed = [file.path.removeprefix(f"s3://{bucket}/elsewhere/").split("/") for file in files]
    found = catalog.load("bronze.t").row_coordinates(
        {"topic": "_kafka_topic", "partition": "_kafka_partition", "offset": "_kafka_offset"}
    )

    assert [2, 2] == [len({tuple(path[:4]) for path in placed}), len(files)]
    assert all(set(part) <= {"0", "1"} for path in placed for part in path[:4])
    assert {"elsewhere", "metadata"} == {key.partition("/")[0] for key in s3.keys(bucket)}
    assert [] == list(table.missing_files(files))
    assert 9 == found.num_rows
