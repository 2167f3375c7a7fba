"""A function of the user's on real Spark workers: its columns land, and a record that it dies of is
found by halves and quarantined by itself.
"""

from __future__ import annotations

import pytest
from tests.integration.cli.conftest import cluster, shop, shops
from tests.integration.cli.shop import Shop
from tests.processes.process import penstock

__all__ = ["cluster", "shop", "shops"]

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(600)]

RECORDS, POISON = 8, 5
FUNCTION = f"""
import os, signal

import pyarrow as pa
import pyarrow.compute as pc


def doubled(rows):
    ids = rows.column("id")
    if {POISON} in ids.to_pylist():
        os.kill(os.getpid(), signal.SIGKILL)
    return pa.record_batch({{"twice": pc.multiply(ids, 2)}})
"""


def test_a_record_that_kills_its_worker_twice_is_quarantined_and_the_others_land(
    shop: Shop,
) -> None:
    (shop.directory / "shop_rules.py").write_text(FUNCTION)
    shop.spec["spark"] = {"master": "local[2]"}
    function = {"call": "shop_rules:doubled", "columns": {"twice": "long"}}
    shop.spec["tables"] = shop.spec["tables"][1:]
    shop.spec["tables"][0]["schema"]["hints"] = {"id": "long"}
    shop.spec["tables"][0]["transform"] = {"function": function}
    shop.send(0, RECORDS)

    ran = penstock(
        *("run", shop.path, "--until-caught-up", "--json"),
        environment={"PYTHONPATH": str(shop.directory)},
        directory=shop.directory,
        seconds_max=500,
    )

    assert 0 == ran.code, ran.err
    wanted = [(n, 2 * n) for n in range(RECORDS) if n != POISON]
    assert wanted == sorted((row["id"], row["twice"]) for row in shop.delta())
    assert [("P343", POISON)] == [(r["code"], r["offset"]) for r in shop.rejects()]
    shop.prove()
