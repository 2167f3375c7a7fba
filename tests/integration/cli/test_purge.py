"""`penstock purge` from end to end: kills, a run beside it, other readers with filters, an audit."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from tests.integration.cli.shop import Shop
from tests.integration.delta.keyed import queried
from tests.integration.iceberg.keyed import read_by_duckdb

from penstock.app.assembly.process import SystemClock
from penstock.testing.sent import Sent

DAY_MS = 24 * 3_600_000
TABLES = ("lake.shop.orders", "delta.shop.orders")
OLD, NEW, LIVE = range(10), range(10, 20), range(20, 40)
POINTS = (("resolve.after:1", "manifest.written:1"), ("row_deletes.written:1", "commit.before:1"))
LANDED = ("commit.after:1", "read-back:1")


class ByDuckDB(NamedTuple):
    """What `read_by_duckdb` opens a table with."""

    known: Callable[[str], Table]


@pytest.fixture
def shop(shops: Callable[[], Shop]) -> Shop:
    shop = shops()
    shop.spec["records"] = {"format": "json"}
    for table in shop.spec["tables"]:
        table |= {"mode": "cdc", "keys": ["id"], "deletes": "soft"}
        table["operation"] = {"field": "op", "map": {"U": "update", "D": "delete"}}
        table["schema"]["hints"] = {"id": "long", "op": "string"}
    return shop


def send(shop: Shop, numbers: range, op: str, days_ago: int = 0) -> None:
    stamp = SystemClock().now_ms() - days_ago * DAY_MS
    values = [json.dumps({"id": n, "op": op}).encode() for n in numbers]
    shop.cluster.send(shop.topic, 0, [Sent(each, timestamp_ms=stamp) for each in values])


def purge(shop: Shop, table: str, *words: str, **environment: str) -> Any:
    return shop.call("purge", table, "--older-than", "30d", *words, **environment)


def found_by_all(shop: Shop, where: str) -> dict[str, list[int]]:
    """Read ids by all readers, with a filter."""
    catalog = load_catalog(
        "lake",
        type="sql",
        uri=f"sqlite:///{shop.directory}/lake/catalog.db",
        warehouse=f"{shop.directory}/lake",
    )
    known = catalog.load_table("shop.orders")
    by_duckdb = read_by_duckdb(ByDuckDB(lambda _: known), TABLES[0], where)  # type: ignore[arg-type]
    rows = {
        "pyiceberg": known.scan(row_filter=where).to_arrow().to_pylist(),
        "duckdb": by_duckdb,
        "deltalake": queried(DeltaTable(shop.directory / "delta/shop/orders"), where),
    }
    return {reader: sorted(row["id"] for row in found) for reader, found in rows.items()}


def require(shop: Shop, ids: list[int], flagged: list[int]) -> None:
    for reader, found in found_by_all(shop, "id >= 0").items():
        assert ids == found, reader
    for reader, found in found_by_all(shop, "_is_deleted = true").items():
        assert flagged == found, reader


def test_old_rows_of_deleted_keys_go_whatever_dies_and_while_a_run_goes_on(shop: Shop) -> None:
    send(shop, range(40), "U", 50)
    assert 0 == shop.run().code
    send(shop, OLD, "D", 40)
    send(shop, NEW, "D", 1)
    assert 0 == shop.run().code
    for table, points in zip(TABLES, POINTS, strict=True):
        told = purge(shop, table, "--json")
        assert (0, None) == (told.code, told.json["done"]), told.err
        assert (10, table) == (told.json["plan"]["found"]["rows"], told.json["plan"]["table"])
        for point in points:
            killed = purge(shop, table, "--yes", "shop", PENSTOCK_FAULTS=point)
            assert -signal.SIGKILL == killed.code, (point, killed.err)
    require(shop, [*range(40)], [*OLD, *NEW])

    with shop.driver() as driver:
        send(shop, range(1), "U")  # it gets a row again: that stays
        driver.wait_until(lambda: len(found_by_all(shop, "id = 0")["deltalake"]) == 1, "a row")
        for table, point in zip(TABLES, LANDED, strict=True):
            killed = purge(shop, table, "--yes", "shop", PENSTOCK_FAULTS=point)
            assert -signal.SIGKILL == killed.code, (point, killed.err)
            again = purge(shop, table, "--yes", "shop", "--json")
            assert (0, None) == (again.code, again.json["done"]), again.err
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code

    assert 0 == shop.run().code
    audited = shop.call("audit", "--count", "--json")
    assert 0 == audited.code, audited.out
    status = shop.call("status", "--json").json["tables"]
    assert all(status[table]["purged_through_ms"] for table in TABLES)
    assert 0 == shop.call("audit", "--values").code
    left = [each["id"] for each in shop.lake()]
    assert {*NEW, *LIVE} <= {*left}
    assert {*OLD} & {*left} <= {0}
    require(shop, sorted(left), [*NEW])


def test_what_cannot_be_purged_is_refused(shop: Shop) -> None:
    codes = [
        shop.call("purge", TABLES[0], "--older-than", "10m", "--json").json["error"]["code"],
        shop.call("purge", "lake.shop.order", "--older-than", "1d", "--json").json["error"]["code"],
        purge(shop, TABLES[0], "--json").json["error"]["code"],
    ]

    assert ["P286", "P185", "P461"] == codes
