"""Exit code 75: wait and start again; what was there is there, what was not yet, lands once."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

from tests.integration.cli.shop import Shop, problem
from tests.processes.broker import wait_until
from tests.servers import rest

from penstock.dev.ports import free_port


def test_a_parked_table_holds_up_nobody_and_goes_on_when_it_is_back(shop: Shop) -> None:
    """failure-modes.md C6: the table's files are away for a while, with records coming in."""
    shop.send(0, 100)
    assert 0 == shop.run().code
    metadata = shop.directory / "lake" / "shop" / "orders" / "metadata"
    away = metadata.rename(metadata.with_name("away"))
    shop.send(100, 100)

    ended = shop.run()
    assert (75, {"lake.shop.orders"}) == (ended.code, set(ended.json["parked"]))
    assert list(range(200)) == shop.ids_of_delta()
    status = shop.call("status", "--json").json["tables"]
    assert status["lake.shop.orders"]["parked"] is not None
    assert status["delta.shop.orders"]["parked"] is None

    away.rename(metadata)
    assert 0 == shop.run().code
    assert (list(range(200)), list(range(200))) == shop.ids()


def test_a_catalog_that_is_down_at_the_start_parks_its_tables_until_it_answers(
    shop: Shop, tmp_path: Path
) -> None:
    port = free_port()
    shop.spec["catalogs"]["served"] = {"type": "rest", "uri": f"http://127.0.0.1:{port}"}
    served = {"from": shop.topic, "into": "served.shop.orders", "schema": {"create": True}}
    shop.spec["tables"] = [{**shop.spec["tables"][1], "continue": True}, served]
    shop.send(0, 50)
    with shop.driver() as driver:
        parked = driver.wait_for("TableParked")
        driver.wait_for("TableCommitted")
        assert ("served.shop.orders", "P430") == (parked.data["table"], parked.data["code"])
        assert list(range(50)) == shop.ids_of_delta()
        with rest.running(tmp_path / "rest", port=port):
            driver.wait_for("TableResumed")
            driver.wait_for("TableCommitted", 2)
            driver.send(signal.SIGTERM)
            assert 0 == driver.end().code
            shop.prove()


def test_a_table_dropped_under_a_running_pipeline_goes_on_when_restored(shop: Shop) -> None:
    """failure-modes.md C6: the others advance for epochs; what is pending waits."""
    shop.send(0, 50)
    with shop.driver() as driver:
        driver.wait_for("TableCommitted", 2)
        table = shop.directory / "delta" / "shop" / "orders"
        away = table.rename(table.with_name("away"))
        for first in range(50, 300, 50):
            landed = driver.count("TableCommitted")
            shop.send(first, 50)
            driver.wait_for("TableCommitted", landed + 1)
        driver.wait_for("TableParked")
        driver.wait_for("CommitsStalled")
        assert list(range(300)) == sorted(row["id"] for row in shop.lake())
        if table.exists():
            shutil.rmtree(table)
        away.rename(table)
        driver.wait_for("TableResumed")
        wait_until(lambda: list(range(300)) == shop.ids_of_delta(), "it has caught up")
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code
    assert (list(range(300)), list(range(300))) == shop.ids()
    shop.prove()


def test_a_store_deleted_while_it_runs_ends_the_run_and_loses_nothing(shop: Shop) -> None:
    lives = 2
    for life in range(lives):
        shop.send(life * 200, 100)
        with shop.driver() as driver:
            driver.wait_for("TableCommitted", 2)
            for left in shop.store.parent.glob("shop.db*"):
                left.unlink()
            shop.send(life * 200 + 100, 100)
            ended = driver.end()
            assert (75, "P502") == (ended.code, problem(ended)[0])
    assert 0 == shop.run().code
    everything = list(range(lives * 200))
    assert (everything, everything) == shop.ids()
    shop.prove()
