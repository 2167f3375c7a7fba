"""`penstock replay` and `penstock seek`: what landed lands again, once, in real tables."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import fingerprint, land, within
from tests.processes.process import penstock as command

import penstock

LAKE, DELTA = "lake.shop.orders", "delta.shop.orders"


def landed_thrice(shop: Shop) -> str:
    """Land 100 orders three times, each in a file of its own; give the topic's name."""
    for first in (0, 100, 200):
        shop.send(first, 100)
        land(shop)
    return shop.topic


@pytest.mark.parametrize("table", [LAKE, DELTA])
def test_a_stretch_is_landed_by_the_present_spec_in_one_commit(shop: Shop, table: str) -> None:
    topic = landed_thrice(shop)
    for rule in shop.spec["tables"]:
        rule["where"] = "id <> 150"
        rule["schema"]["hints"] = {"id": "long"}
    asked = ("replay", table, f"{topic}:0:100-200", "--spec", shop.path)
    before = fingerprint(shop.directory)
    shown = within(*asked, "--json")
    assert (0, None, before) == (shown.code, shown.json["done"], fingerprint(shop.directory))
    assert [False, True] == [each["destructive"] for each in shown.json["plan"]["steps"]]
    assert "100 rows in 1 file are replaced" in shown.json["plan"]["steps"][1]["text"]
    assert "P171" in within(*asked, "--yes", "other").err

    done = within(*asked, "--yes", "shop", "--json")
    rule = 0 if table == LAKE else 1
    counts = {"removed": 100, "landed": 99, "filtered": {f"tables[{rule}].where": 1}}
    assert (0, counts) == (done.code, done.json["done"])
    without = [number for number in range(300) if number != 150]
    ids = shop.ids()[0] if table == LAKE else shop.ids_of_delta()
    assert without == ids
    assert [] == list(penstock.open(shop.path).audit().tables[0].breaks)
    shop.send(300, 10)
    land(shop)
    assert [*without, *range(300, 310)] == (shop.ids()[0] if table == LAKE else shop.ids_of_delta())


def test_a_kill_in_the_middle_of_a_replay_doubles_and_loses_nothing(shop: Shop) -> None:
    topic = landed_thrice(shop)
    asked = ("replay", LAKE, f"{topic}:0:0-100", "--spec", shop.path, "--yes", "shop")
    killed = command(*asked, environment={"PENSTOCK_FAULTS": "commit.after"})
    assert -9 == killed.code
    shop.prove()
    assert 0 == within(*asked).code
    shop.prove()
    assert (list(range(300)), list(range(300))) == shop.ids()


def test_files_across_the_edge_are_named_with_the_stretch_that_holds_them(shop: Shop) -> None:
    topic = landed_thrice(shop)
    for table in (LAKE, DELTA):
        asked = ("replay", table, f"{topic}:0:50-200", "--spec", shop.path)
        refused = within(*asked, "--yes", "shop", "--json")
        assert (2, "P473") == (refused.code, refused.json["error"]["code"])
        assert ".parquet" in refused.json["error"]["message"]
        assert f"{table} {topic}:0:0-200" in refused.json["error"]["hint"]
    assert (list(range(300)), list(range(300))) == shop.ids()


def test_tables_that_were_rolled_back_are_put_back_and_land_the_rest(shop: Shop) -> None:
    landed_thrice(shop)
    DeltaTable(str(shop.directory / "delta/shop/orders")).restore(1)
    lake = load_catalog("lake", type="sql", uri=f"sqlite:///{shop.directory}/lake/catalog.db")
    table = lake.load_table("shop.orders")
    first = min(table.metadata.snapshots, key=lambda each: each.sequence_number)
    table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert {LAKE, DELTA} == set(penstock.open(shop.path).run().parked)

    for name in (LAKE, DELTA):
        shown = within("seek", name, "--spec", shop.path)
        assert "is put back from 300 to 100" in shown.err
        done = within("seek", name, "--spec", shop.path, "--yes", "shop", "--json")
        moves = [{"topic": shop.topic, "partition": 0, "start": 300, "stop": 100}]
        assert (0, {"moves": moves}) == (done.code, done.json["done"])
    land(shop)
    shop.prove()
    assert (list(range(300)), list(range(300))) == shop.ids()
