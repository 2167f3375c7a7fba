"""Exit code 4: a person must decide; and `--accept` goes on as decided, skipping nothing else."""

from __future__ import annotations

import signal

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.integration.cli.shop import Shop, problem
from tests.processes.broker import Cluster

BOTH = {"lake.shop.orders", "delta.shop.orders"}


def test_a_topic_that_was_created_again_is_another_topic(shop: Shop) -> None:
    """failure-modes.md K7: land to 100, delete, create again with more records than before, resume."""
    shop.send(0, 100)
    assert 0 == shop.run().code
    shop.cluster.delete(shop.topic)
    shop.cluster.create(shop.topic, 2)
    shop.send(1000, 150)

    stopped = shop.run()
    assert (4, "P251") == (stopped.code, problem(stopped)[0])
    assert "penstock run --accept topic" in problem(stopped)[1]
    assert (list(range(100)), list(range(100))) == shop.ids()

    assert 0 == shop.run("--accept", "topic").code
    all_ids = [*range(100), *range(1000, 1150)]
    assert (all_ids, all_ids) == shop.ids()
    shop.send(2000, 10)
    assert 0 == shop.run().code, "accepted once is accepted"
    assert [*all_ids, *range(2000, 2010)] == shop.ids()[0]


def test_a_topic_created_again_while_the_pipeline_runs_stops_it(shop: Shop) -> None:
    shop.send(0, 100)
    with shop.driver() as driver:
        driver.wait_for("TableCommitted", 2)
        driver.send(signal.SIGSTOP)  # or it may list topics while there is none: P253
        shop.cluster.delete(shop.topic)
        shop.cluster.create(shop.topic, 2)
        shop.send(1000, 150)
        driver.send(signal.SIGCONT)
        ended = driver.end()
    assert (4, "P251") == (ended.code, problem(ended)[0])
    assert (list(range(100)), list(range(100))) == shop.ids()


def test_records_that_retention_took_are_named_and_skipped_only_by_consent(shop: Shop) -> None:
    """failure-modes.md K8."""
    shop.send(0, 100)
    assert 0 == shop.run().code
    shop.send(100, 100)
    shop.cluster.delete_before(shop.topic, 0, 150)

    stopped = shop.run()
    assert (4, BOTH) == (stopped.code, set(stopped.json["parked"]))
    message = stopped.json["parked"]["lake.shop.orders"]["message"]
    assert "offsets 100 to 150" in message
    assert f"{shop.topic}[0]" in message
    assert "penstock run --accept gap" in problem(stopped)[1]

    assert 0 == shop.run("--accept", "gap").code
    all_ids = [*range(100), *range(150, 200)]
    assert (all_ids, all_ids) == shop.ids()
    assert 0 == shop.call("audit").code
    assert 0 == shop.run().code


def test_an_iceberg_table_that_was_rolled_back_stops_alone(shop: Shop) -> None:
    shop.send(0, 100)
    assert 0 == shop.run().code
    lake = load_catalog("lake", type="sql", uri=f"sqlite:///{shop.directory}/lake/catalog.db")
    table = lake.load_table("shop.orders")
    first = table.current_snapshot()
    shop.send(100, 100)
    assert 0 == shop.run().code
    table.refresh()
    newest = table.current_snapshot()
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    shop.send(200, 100)

    stopped = shop.run()
    assert (4, {"lake.shop.orders"}) == (stopped.code, set(stopped.json["parked"]))
    assert "P455" == problem(stopped)[0]
    assert (list(range(100)), list(range(300))) == shop.ids()
    assert 4 == shop.call("audit", "lake.shop.orders").code

    table.refresh()
    table.manage_snapshots().set_current_snapshot(newest.snapshot_id).commit()
    assert 0 == shop.run().code, "rolled forward again, it goes on"
    assert (list(range(300)), list(range(300))) == shop.ids()


def test_a_delta_table_that_was_restored_stops_alone(shop: Shop) -> None:
    """failure-modes.md S4, W3."""
    for first in (0, 100):
        shop.send(first, 100)
        assert 0 == shop.run().code
    DeltaTable(str(shop.directory / "delta/shop/orders")).restore(1)
    shop.send(200, 100)

    stopped = shop.run()
    assert (4, {"delta.shop.orders"}) == (stopped.code, set(stopped.json["parked"]))
    assert "P455" == problem(stopped)[0]
    assert "RESTORE" in stopped.out
    assert list(range(300)) == shop.ids()[0]
    assert 4 == shop.call("audit", "delta.shop.orders").code


def test_c7_another_cluster_is_not_taken_for_the_former_one(
    shop: Shop, other_cluster: Cluster
) -> None:
    """Both clusters are named, and no offset of the new one is compared with ours."""
    shop.send(0, 10)
    assert 0 == shop.run().code
    former, shop.cluster = shop.cluster, other_cluster
    other_cluster.create(shop.topic, 2)
    shop.send(1000, 50)
    shop.spec["kafka"]["brokers"] = other_cluster.bootstrap
    stopped = shop.run()

    assert (4, "P454") == (stopped.code, problem(stopped)[0])
    assert (list(range(10)), list(range(10))) == shop.ids()
    shop.spec["kafka"]["brokers"] = former.bootstrap
    assert 0 == shop.run().code
