"""Rows that land late, through the commands: what they plan, do and say of them."""

from __future__ import annotations

from pyiceberg.catalog import load_catalog
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import land, within

import penstock

LAKE = "lake.shop.orders"


def late(shop: Shop) -> Shop:
    """Let orders land late in the Iceberg table."""
    rule = shop.spec["tables"][0]
    rule["partition_by"] = ["bucket(5, id)"]
    rule["schema"] = {"create": True, "hints": {"id": "long"}}
    rule["write"] = {"distribution": "late"}
    return shop


def planned(shop: Shop) -> dict:
    """Return the plan of the Iceberg table's maintenance."""
    (table,) = within("maintain", LAKE, "--dry-run", "--spec", shop.path, "--json").json["tables"]
    return table


def test_they_are_landed_again_moved_put_back_and_audited(shop: Shop) -> None:
    late(shop)
    for first in (0, 100, 200):
        shop.send(first, 100)
        land(shop)
    (group,) = planned(shop)["groups"]
    said = within("maintain", LAKE, "--dry-run", "--spec", shop.path).out
    assert (True, 3, 300) == (group["late"], group["files"], group["rows"])
    assert "3 files of rows that wait for their partitions" in said
    assert "late: 3 files" in said

    replay = ("replay", LAKE, f"{shop.topic}:0:100-200", "--spec", shop.path, "--yes", "shop")
    assert 0 == within(*replay).code
    shop.prove()
    assert 3 == planned(shop)["health"]["late"]

    done = within("maintain", LAKE, "--spec", shop.path, "--yes", "shop", "--json").json["done"]
    assert (3, 5) == tuple(done[0]["done"][each] for each in ("files_before", "files_after"))
    assert (0, 5) == tuple(planned(shop)["health"][each] for each in ("late", "files"))
    shop.prove()
    shop.send(300, 50)
    land(shop)
    shop.prove()
    assert 1 == planned(shop)["health"]["late"]
    assert [*range(350)] == shop.ids()[0]

    lake = load_catalog("lake", type="sql", uri=f"sqlite:///{shop.directory}/lake/catalog.db")
    table = lake.load_table("shop.orders")
    moved = next(each for each in table.snapshots() if each.summary.get("penstock.maintenance"))
    table.manage_snapshots().rollback_to_snapshot(moved.snapshot_id).commit()
    assert LAKE in penstock.open(shop.path).run().parked
    seek = within("seek", LAKE, "--spec", shop.path, "--yes", "shop", "--json")
    moves = [{"topic": shop.topic, "partition": 0, "start": 350, "stop": 300}]
    assert (0, {"moves": moves}) == (seek.code, seek.json["done"])
    land(shop)
    shop.prove()
    assert [*range(350)] == shop.ids()[0]
