"""Keyed tables whose files are written again where rows go: for readers that know no row deletes.

What the metadata names is read as plain Parquet files, with nothing that could leave out a row.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from tests.integration.cli.database import COLUMNS, Database, compared, keyed, send
from tests.integration.cli.shop import Shop, problem

POINTS = ("files.rewritten:2", "commit.before:2", "commit.after:1")
Row = dict[str, Any]


@pytest.fixture
def shop(shops: Callable[[], Shop]) -> Shop:
    shop = keyed(shops())
    for table in shop.spec["tables"]:
        table["row_deletes"] = "rewrite"
    return shop


def iceberg(shop: Shop) -> Table:
    uri = f"sqlite:///{shop.directory}/lake/catalog.db"
    return load_catalog("lake", type="sql", uri=uri).load_table("shop.orders")


def delta(shop: Shop) -> DeltaTable:
    return DeltaTable(str(shop.directory / "delta/shop/orders"))


def by_id(rows: list[Row]) -> list[Row]:
    found = [{name: row[name] for name in COLUMNS} for row in rows]
    return sorted(found, key=lambda row: row["id"])


def plainly(paths: list[str]) -> list[Row]:
    """Read Parquet files, all rows that are in them."""
    with duckdb.connect() as session:
        found = session.sql(f"SELECT {', '.join(COLUMNS)} FROM read_parquet({paths!r})")
        return by_id(found.to_arrow_table().to_pylist())


def read_without_deletes(shop: Shop) -> dict[str, list[Row]]:
    """Read both tables by readers that know no row deletes; the metadata name none."""
    lake, lines = iceberg(shop), delta(shop)
    tasks = [*lake.scan().plan_files()]
    assert not any(task.delete_files for task in tasks)
    assert 0 == lake.inspect.delete_files().num_rows
    assert lines.protocol().reader_features is None
    files = [task.file.file_path.removeprefix("file://") for task in tasks]
    return {
        "PyIceberg": by_id(lake.scan().to_arrow().to_pylist()),
        "Parquet of Iceberg": plainly(files),
        "deltalake": by_id(lines.to_pyarrow_table().to_pylist()),
        "Parquet of Delta": plainly(lines.file_uris()),
    }


def test_all_rows_of_all_files_are_the_database_after_each_kill(shop: Shop) -> None:
    database = Database(11)
    send(shop, database, 80)
    planned = shop.call("plan").out
    assert 2 == planned.count("files that lose rows are written again, up to 1.0 GB a commit")
    assert 0 == shop.run().code
    for point in POINTS:
        send(shop, database, 60)
        killed = shop.run(PENSTOCK_FAULTS=point)
        assert -signal.SIGKILL == killed.code, point
        send(shop, database, 20)
        ended = shop.run()
        assert 0 == ended.code, ended.err
        for reader, rows in read_without_deletes(shop).items():
            assert database.expected() == rows, (point, reader)
        assert 0 == shop.pending()
    assert [] == shop.rejects()
    assert "written again" in shop.call("status").out
    shop.prove()
    values = shop.call("audit", "--values")
    assert 0 == values.code, values.out
    by_key = shop.call("audit", "--keys", "rules")
    assert 0 == by_key.code, by_key.err


def test_a_table_goes_over_to_rewriting_and_back_and_stops_where_it_would_be_too_much(
    shop: Shop,
) -> None:
    database, tables = Database(12), shop.spec["tables"]

    def write(mode: str) -> None:
        for table in tables:
            table["row_deletes"] = mode
        send(shop, database, 60)
        ended = shop.run()
        assert 0 == ended.code, ended.err
        compared(shop, database)

    for mode in ("auto", "auto", "rewrite", "auto"):
        write(mode)
    for table in tables:
        table |= {"row_deletes": "rewrite", "rewrite_bytes_max": "100B"}
    send(shop, database, 60)
    parked = shop.run()
    assert (4, "P265") == (parked.code, problem(parked)[0]), parked.err
    planned = shop.call("plan", "--json")
    problems = {each["problem"] and each["problem"]["code"] for each in planned.json["tables"]}
    assert (4, {"P265"}) == (planned.code, problems)
    for table in tables:
        table["rewrite_bytes_max"] = "1MB"
    ended = shop.run()
    assert 0 == ended.code, ended.err
    compared(shop, database)
    shop.prove()
