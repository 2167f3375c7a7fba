"""What is prepared of keyed tables waits while Spark deletes, doubles and rewrites their rows.

Invariant: the tables are as the database is, less the one row that another writer deleted for good.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.integration.cli.database import COLUMNS, Database, Image, compared, keyed, send
from tests.integration.cli.shop import Shop
from tests.integration.readers.lakes import Lakes
from tests.processes.broker import Cluster

from penstock.dev.broker import Running

pytestmark = [pytest.mark.spark, pytest.mark.broker]

TABLES = ("lake.shop.overnight", "delta.shop.overnight")


@pytest.fixture
def shop(lakes: Lakes, broker: Running, tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, Cluster(broker.bootstrap), "overnight")
    shop.cluster.create(shop.topic, 2)
    shop.spec["catalogs"] = {"lake": lakes.iceberg, "delta": lakes.delta}
    for table, name in zip(shop.spec["tables"], TABLES, strict=True):
        table["into"] = name
    shop.spec["quarantine"] = {"into": "lake.ops.overnight"}
    return keyed(shop)


def by_spark(lakes: Lakes, table: str) -> list[Image]:
    return [{name: row[name] for name in COLUMNS} for row in lakes.by_spark(table)]


def test_rows_that_spark_changes_meanwhile_are_looked_for_again(lakes: Lakes, shop: Shop) -> None:
    database = Database(5, keys=40)
    send(shop, database, 120)
    assert 0 == shop.run().code
    before = dict(database.rows)

    send(shop, database, 16)
    assert -signal.SIGKILL == shop.run(PENSTOCK_FAULTS="prepare.after:1").code
    after = database.rows
    updated = [key for key in before if key in after and after[key] != before[key]]
    gone = [key for key in before if key not in after]
    untouched = [key for key in before if after.get(key) == before[key]]
    for table in TABLES:
        away = ", ".join(map(str, (updated[0], gone[0], untouched[0])))
        lakes.sql(
            f"DELETE FROM {{t}} WHERE id IN ({away})",
            f"INSERT INTO {{t}} SELECT * FROM {{t}} WHERE id IN ({updated[1]}, {gone[1]})",
            t=table,
        )
    name = TABLES[0].removeprefix("lake.")
    options = "options => map('rewrite-all', 'true')"
    lakes.spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', {options})")
    lakes.spark.sql(f"OPTIMIZE {lakes.in_spark(TABLES[1])}")
    del database.rows[untouched[0]]

    ended = shop.run()
    assert 0 == ended.code, ended.err
    compared(shop, database)
    for table in TABLES:
        assert database.expected() == by_spark(lakes, table)
    assert 0 == shop.pending()
    audited = shop.call("audit", "--count", "--json")
    counts = {each["table"]: each["row_count"] for each in audited.json["tables"]}
    for table in TABLES:  # the row that another writer deleted for good, and that alone
        assert ["lost"] == [each["kind"] for each in counts[table]["breaks"]]
