"""Spark's MERGE folds the same changes into a table of its own: keyed tables have the same rows.

Nothing of ours decodes here: Spark reads the events from the text of the records.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.integration.cli.database import PARTITIONS, Database, event, keyed, send
from tests.integration.cli.shop import Shop
from tests.integration.readers.lakes import Lakes
from tests.processes.broker import Cluster
from tests.story.oracle import Record, committed_records

from penstock.dev.broker import Running
from penstock.testing.sent import Sent

pytestmark = [pytest.mark.spark, pytest.mark.broker]

KEYED = ("lake.shop.keyed", "delta.shop.keyed")
MERGED = "lake.shop.merged"
IMAGE = "STRUCT<id: BIGINT, name: STRING, amount: DOUBLE>"
MERGE = f"""
MERGE INTO {{t}} AS t USING (
  WITH events AS (
    SELECT at, from_json(said, 'before {IMAGE}, after {IMAGE}, op STRING') AS e FROM events
  ), changes AS (
    SELECT at, 0 AS place, e.before.id, CAST(NULL AS {IMAGE}) AS row FROM events
    WHERE e.before IS NOT NULL
    UNION ALL
    SELECT at, 1 AS place, e.after.id, e.after AS row FROM events WHERE e.after IS NOT NULL
  )
  SELECT id, max_by(struct(row), struct(at, place)).row AS row FROM changes GROUP BY id
) AS s ON t.id = s.id
WHEN MATCHED AND s.row IS NULL THEN DELETE
WHEN MATCHED THEN UPDATE SET name = s.row.name, amount = s.row.amount
WHEN NOT MATCHED AND s.row IS NOT NULL THEN
  INSERT (id, name, amount) VALUES (s.row.id, s.row.name, s.row.amount)
"""
"""A key is in one partition, so offsets order its changes; of one event the former row goes first."""


class Moving(Database):
    """A database in which rows also change their key; the event has both rows."""

    def change(self) -> tuple[int, list[Sent]]:
        former = next(iter(self.rows), None)
        if former is None or self.random.random() < 0.8:
            return super().change()
        self.changes += 1
        number = (former + PARTITIONS) % self.keys  # in the same partition, whoever was there
        before, after = self.rows.pop(former), {"id": number, "name": "moved", "amount": -0.5}
        self.rows[number] = after
        return number % PARTITIONS, [Sent(event("u", before, after), b'{"id": %d}' % number)]


@pytest.fixture
def shop(lakes: Lakes, broker: Running, tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, Cluster(broker.bootstrap), "merged")
    shop.cluster.create(shop.topic, PARTITIONS)
    shop.spec["catalogs"] = {"lake": lakes.iceberg, "delta": lakes.delta}
    for table, name in zip(shop.spec["tables"], KEYED, strict=True):
        table["into"] = name
    shop.spec["quarantine"] = {"into": "lake.ops.merged"}
    return keyed(shop)


def merge(lakes: Lakes, records: list[Record]) -> None:
    events = pa.table(
        {
            "at": [each.at.offset for each in records if each.value is not None],
            "said": [each.value.decode() for each in records if each.value is not None],
        }
    )
    lakes.spark.createDataFrame(events).createOrReplaceTempView("events")
    lakes.sql(MERGE, t=MERGED)


def test_spark_merges_the_same_changes_into_the_same_rows(lakes: Lakes, shop: Shop) -> None:
    lakes.sql("CREATE TABLE {t} (id BIGINT, name STRING, amount DOUBLE) USING iceberg", t=MERGED)
    database = Moving(11, keys=40)
    merged: set[Record] = set()
    for changes in (200, 60):
        send(shop, database, changes)
        ended = shop.run()
        assert 0 == ended.code, ended.err
        records = committed_records(shop.cluster.bootstrap, [shop.topic])
        merge(lakes, [each for each in records if each not in merged])
        merged |= {*records}

        expected = lakes.by_spark(MERGED)
        assert database.expected() == expected, "the oracle is right itself"
        for table in KEYED:
            found = lakes.sql("SELECT id, name, amount FROM {t} ORDER BY id", t=table)
            assert expected == found, table
