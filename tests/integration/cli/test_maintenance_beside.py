"""`maintain: { every: … }`: a run keeps its tables healthy, in a process of its own."""

from __future__ import annotations

import signal

from tests.integration.cli.shop import Shop


def test_a_run_maintains_its_tables_while_it_lands(shop: Shop) -> None:
    shop.spec["commit"] = {"every": "50ms"}
    shop.spec["maintain"] = {"every": "1s"}
    with shop.producing() as sent, shop.driver() as run:
        maintained = run.wait_for("TableMaintained", 2)
        assert sent()
        run.send(signal.SIGTERM)
        assert 0 == run.end().code

    assert maintained.data["files_before"] > maintained.data["files_after"]
    assert 0 == shop.run().code
    shop.prove()


def test_what_cannot_be_maintained_is_said_and_landing_goes_on(shop: Shop) -> None:
    del shop.spec["tables"][1]
    shop.spec["tables"][0]["properties"] = {"format-version": "1"}
    shop.spec["maintain"] = {"every": "1s", "only": ["rearrange"]}
    shop.send(0, 10)
    with shop.driver() as run:
        run.wait_for("TableCommitted")
        shop.send(10, 10)
        failed = run.wait_for("MaintenanceFailed")
        shop.send(20, 10)
        run.wait_for("TableCommitted", 3)
        run.send(signal.SIGTERM)
        assert 0 == run.end().code
    assert "P436" in failed.data["reason"]
    assert "lake.shop.orders" == failed.data["table"]
