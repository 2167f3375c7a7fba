"""Fail-over: two hosts share one PostgreSQL store; catalog and tables are on PostgreSQL too."""

import pytest
from tests.story.backend import CATALOG
from tests.story.real_backends import IcebergWithoutBroker
from tests.story.world import World

from penstock.connectors import iceberg, sql
from penstock.core.crash_points import CrashPoint
from penstock.spec.secrets import ProcessSecrets

SECRETS = ProcessSecrets({})


class SharedGround(IcebergWithoutBroker):
    """Hosts that share store and catalog."""

    def __init__(self, directory, server):
        super().__init__(directory)
        self.address = server.address(server.database())

    @property
    def _settings(self):
        place = f"{self.directory}/lake"
        uri = self.address.replace("postgresql:", "postgresql+psycopg:")
        return {"type": "sql", "uri": uri, "warehouse": place}

    def open_store(self, host):
        del host
        return sql.open_postgresql(self.address, SECRETS)

    def open_catalog(self, observer):
        return iceberg.open_catalog({"name": CATALOG, **self._settings}, SECRETS, observer)


@pytest.fixture
def world(tmp_path, postgresql):
    return World(SharedGround(tmp_path, postgresql))


@pytest.mark.parametrize(
    "point", [CrashPoint.PREPARE_AFTER, CrashPoint.COMMIT_BEFORE, CrashPoint.COMMIT_AFTER]
)
def test_the_other_host_finishes_what_the_first_had_prepared(world, point):
    world.send("orders", 3)
    world.run(host="a")
    world.send("orders", 4)
    assert world.life(host="a", crash=f"{point.value}").run().crashed
    waiting = len(world.pending("b"))
    life = world.run(host="b")

    assert 1 == waiting
    assert life.error is None
    assert {0: 7} == world.offsets()
    assert [] == world.breaks()


def test_a_host_that_was_taken_over_in_mid_epoch_writes_no_more(world):
    world.send("orders", 3)
    world.run(host="a")
    world.send("orders", 2)

    def another():
        world.send("orders", 5)
        assert {} == world.life(host="b").run(takeover=True).parked

    life = world.life(host="a").at(CrashPoint.PREPARE_BEFORE, another).run()

    assert "P501" == life.code
    assert {0: 10} == world.offsets()
    assert [] == world.pending("a")
    assert [] == world.breaks()


def test_the_roles_may_change_again_and_again(world):
    for host in ("a", "b", "a", "b"):
        world.send("orders", 2)
        world.run(host=host)

    assert 4 == world.landed().generation
    assert {0: 8} == world.offsets()
    assert [] == world.breaks()
