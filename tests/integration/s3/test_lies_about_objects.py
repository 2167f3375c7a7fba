"""S3 behind a proxy that lies about the objects of an Iceberg table: exact in the end.

Lies about entries of Delta's log, and of catalogs: tests/integration/landing/test_lying_catalogs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.integration.s3.lake import IcebergGroundOnS3
from tests.servers.lying import Liar, Lie, lying
from tests.story.world import ORDERS, World

from penstock.connectors.iceberg.files.manifests import MERGE_AT
from penstock.connectors.iceberg.io import s3_file_io

OBJECTS = {
    "rows": r"PUT .*/orders/data/.*\.parquet",
    "manifest": r"PUT .*/orders/metadata/.*-m\d+\.avro",
    "manifest list": r"PUT .*/orders/metadata/snap-.*\.avro",
    "metadata": r"PUT .*/orders/metadata/.*\.metadata\.json",
}


@pytest.fixture
def lies(s3) -> Iterator[Liar]:
    with lying(s3.endpoint) as liar:
        yield liar


@pytest.fixture
def world(tmp_path, s3, lies) -> World:
    ground = IcebergGroundOnS3(tmp_path, s3)
    ground.settings["s3.endpoint"] = lies.address
    return World(ground)


@pytest.fixture
def another(monkeypatch) -> Callable[[], None]:
    """What is to come is done by another process: it knows no file yet."""
    return lambda: monkeypatch.setattr(s3_file_io, "KEPT", s3_file_io.kept_files())


FEW = {
    ("rows", Lie.LOSE_ANSWER),
    ("rows", Lie.OK_UNAPPLIED),
    ("manifest", Lie.ERROR_AFTER),
    ("manifest list", Lie.LOSE_REQUEST),
    ("metadata", Lie.LOSE_ANSWER),
}
ALL = [
    pytest.param(what, lie, marks=() if (what, lie) in FEW else pytest.mark.slow)
    for what in OBJECTS
    for lie in (Lie.LOSE_ANSWER, Lie.LOSE_REQUEST, Lie.ERROR_AFTER, Lie.TWICE, Lie.OK_UNAPPLIED)
    if what == "rows" or lie is not Lie.OK_UNAPPLIED
]


@pytest.mark.parametrize(("what", "lie"), ALL)
def test_whatever_is_said_of_an_object_its_records_land_once(world, lies, what, lie) -> None:
    """`make test` plays a few."""
    world.send("orders", 3)
    world.run()
    world.send("orders", 2)
    lies.queue(OBJECTS[what], lie)
    world.run()
    world.send("orders", 1)
    world.run()

    assert [] == world.breaks()
    assert 6 == len(world.rows())
    assert [lie] == [reported for reported, _ in lies.reported]


@pytest.mark.parametrize(
    "what", [pytest.param("manifest list", marks=pytest.mark.slow), "metadata"]
)
def test_metadata_that_a_storage_did_not_keep_is_reported(world, lies, what, another) -> None:
    """Not promised: a storage that acknowledges what it does not keep. The next process reads it.

    The one that wrote it does not; and its next commit writes metadata and list anew, whole.
    """
    world.send("orders", 3)
    world.run()
    world.send("orders", 2)
    lies.queue(OBJECTS[what], Lie.OK_UNAPPLIED)
    world.run()
    world.send("orders", 1)
    another()

    assert {ORDERS: "P403"} == world.run().parked


@pytest.mark.slow
def test_a_manifest_that_a_storage_did_not_keep_is_reported_when_it_is_to_be_merged(
    world, lies, another
) -> None:
    """Commits in between do not read it: they name it again, with nothing lost or doubled."""
    world.send("orders", 3)
    world.run()
    world.send("orders", 2)
    lies.queue(OBJECTS["manifest"], Lie.OK_UNAPPLIED)
    parked = {}
    for _ in range(MERGE_AT):
        another()
        parked = world.run().parked
        world.send("orders", 1)

    assert {ORDERS: "P403"} == parked
