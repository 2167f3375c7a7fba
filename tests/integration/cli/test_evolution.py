"""Tables that grow, for real: Iceberg and Delta, read back by others than us."""

from __future__ import annotations

import json
from typing import Any

import duckdb
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.integration.cli.shop import Shop

from penstock.testing.sent import Sent


def grow(shop: Shop) -> None:
    for rule in shop.spec["tables"]:
        rule["schema"] |= {
            "columns": "evolve",
            "types": "evolve",
            "hints": {"n": "int", "f": "float", "price": "decimal(5,2)", "at": "timestamptz"},
        }


def send(shop: Shop, *records: dict[str, Any], partition: int = 0) -> None:
    sent = [Sent(json.dumps(each).encode()) for each in records]
    shop.cluster.send(shop.topic, partition, sent)


FIRST = {"id": 1, "n": 1, "f": 0.5, "price": "1.25", "s": {"a": 1}, "l": [{"x": 1}]}
THEN = (
    {"id": 2, "n": 1 << 40, "f": 0.1},
    {"id": 3, "price": "12345678.25", "at": "2026-11-01T00:00:00Z"},
    {"id": 4, "s": {"a": 2, "b": {"deep": [1.5]}}, "l": [{"x": 2, "y": "why"}, {"x": None}]},
    {"id": 5, "n": "no number"},
)


def test_tables_grow_with_their_records_and_every_reader_reads_old_and_new_rows(
    shop: Shop,
) -> None:
    grow(shop)
    send(shop, FIRST)
    assert 0 == shop.run().code
    send(shop, *THEN[:2])
    send(shop, *THEN[2:], partition=1)
    ran = shop.run()
    assert 0 == ran.code, ran.err

    lake = {row["id"]: row for row in shop.lake()}
    assert [1, 2, 3, 4] == sorted(lake)
    assert (1 << 40, 0.1) == (lake[2]["n"], lake[2]["f"])
    assert "12345678.25" == str(lake[3]["price"])
    assert (1, None) == (lake[1]["s"]["a"], lake[1]["s"]["b"])
    assert [{"x": 2, "y": "why"}, {"x": None, "y": None}] == lake[4]["l"]
    # Delta widens no types: such records are quarantined, and columns are added all the same.
    delta = {row["id"]: row for row in shop.delta()}
    assert [1, 4] == sorted(delta)
    assert {"deep": [1.5]} == delta[4]["s"]["b"]
    changes = [json.loads(line) for line in ran.err.splitlines() if "SchemaChanged" in line]
    assert ["delta.shop.orders", "lake.shop.orders"] == sorted(each["table"] for each in changes)
    shop.prove()

    catalog = load_catalog("lake", uri=f"sqlite:///{shop.directory}/lake/catalog.db")
    table = catalog.load_table("shop.orders")
    assert 2 == len(table.schemas())
    old = table.scan(snapshot_id=table.history()[0].snapshot_id).to_arrow()
    assert 1 >= old.num_rows
    place = DeltaTable(shop.directory / "delta" / "shop" / "orders")
    rows = duckdb.from_arrow(place.to_pyarrow_dataset())
    assert [(2,)] == rows.aggregate("count(*)").fetchall()
    assert "ADD COLUMNS" in {entry["operation"] for entry in place.history()}
