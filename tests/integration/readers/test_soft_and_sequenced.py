"""Keyed tables with soft deletes, by the log's order and by a sequence: read by all, with filters.

Then Spark deletes, merges and doubles rows, and `penstock audit --keys` must count what is left.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random  # noqa: TID251  seeded
from typing import Any

import duckdb
import pytest
from tests.integration.cli.shop import Shop
from tests.integration.delta.keyed import queried
from tests.integration.iceberg.keyed import read_by_duckdb
from tests.integration.readers.lakes import Lakes, by_id
from tests.processes.broker import Cluster

from penstock.dev.broker import Running
from penstock.testing.sent import Sent

pytestmark = [pytest.mark.spark, pytest.mark.broker]

PARTITIONS, KEYS, BEGAN_MS = 2, 40, 1_700_000_000_000
HINTS = {"id": "long", "version": "long", "op": "string", "name": "string", "amount": "double"}
NAMES = ("Zürich 50%", "", "日本/東京", None)
TABLES = [f"{lake}.shop.{order}" for lake in ("lake", "delta") for order in ("soft", "sequenced")]
Row = dict[str, Any]

FILTERS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("_is_deleted = true", lambda row: row["_is_deleted"]),
    ("_kafka_offset >= 70 AND _kafka_partition = 1", lambda row: row["_kafka_offset"] >= 70 and row["_kafka_partition"] == 1),
)  # fmt: skip
"""Filters as SQL of all readers, on flags, sequences and sources."""


class Changes:
    """Changes in another order than they were made in, and the tables they come to."""

    def __init__(self, seed: int, shop: Shop) -> None:
        draw, self.shop = Random(seed), shop
        self.coming = [self._change(draw, version) for version in range(240)]
        draw.shuffle(self.coming)
        self.sent = [0] * PARTITIONS
        self.soft: dict[int, Row] = {}
        self.sequenced: dict[int, Row] = {}

    @staticmethod
    def _change(draw: Random, version: int) -> Row:
        return {
            "id": draw.randrange(KEYS),
            "version": version,
            "op": "D" if draw.random() < 0.3 else "U",
            "name": NAMES[version % len(NAMES)],
            "amount": version / 8 if version % 5 else None,
        }

    def send(self, count: int) -> None:
        waiting: list[list[Sent]] = [[] for _ in range(PARTITIONS)]
        for change in self.coming[:count]:
            partition = change["id"] % PARTITIONS
            offset = self.sent[partition]
            self.sent[partition] += 1
            stamp = BEGAN_MS + 1000 * (offset * PARTITIONS + partition)
            waiting[partition].append(Sent(json.dumps(change).encode(), timestamp_ms=stamp))
            self._count(change, partition, offset, stamp)
        self.coming = self.coming[count:]
        for partition, records in enumerate(waiting):
            self.shop.cluster.send(self.shop.topic, partition, records)

    def _count(self, change: Row, partition: int, offset: int, stamp: int) -> None:
        at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=stamp)
        is_deleted = change["op"] == "D"
        row = {
            **change,
            "_is_deleted": is_deleted,
            "_deleted_at": at if is_deleted else None,
            "_kafka_topic": self.shop.topic,
            "_kafka_partition": partition,
            "_kafka_offset": offset,
            "_kafka_timestamp": at,
        }
        self.soft[row["id"]] = row
        if row["version"] >= self.sequenced.get(row["id"], row)["version"]:
            self.sequenced[row["id"]] = row

    def expected(self, table: str) -> list[Row]:
        rows = self.soft if table.endswith("soft") else self.sequenced
        return [rows[number] for number in sorted(rows)]


def rule(topic: str, table: str) -> dict[str, Any]:
    found = {
        "from": topic,
        "into": table,
        "continue": table != TABLES[-1],
        "mode": "cdc",
        "keys": ["id"],
        "deletes": "soft",
        "operation": {"field": "op", "map": {"U": "update", "D": "delete"}},
        "schema": {"create": True, "hints": dict(HINTS)},
    }
    return found | ({"sequence_by": ["version"]} if table.endswith("sequenced") else {})


@pytest.fixture
def shop(lakes: Lakes, broker: Running, tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, Cluster(broker.bootstrap), "sequenced")
    shop.cluster.create(shop.topic, PARTITIONS)
    shop.spec["catalogs"] = {"lake": lakes.iceberg, "delta": lakes.delta}
    shop.spec["records"] = {"format": "json"}
    shop.spec["tables"] = [rule(shop.topic, each) for each in TABLES]
    shop.spec["commit"] |= {"or_records": 40}
    shop.spec["quarantine"] = {"into": "lake.ops.sequenced"}
    return shop


def found_by_all(lakes: Lakes, table: str, where: str) -> dict[str, list[Row]]:
    found = {"spark": lakes.sql(f"SELECT * FROM {{t}} WHERE {where}", t=table)}
    if table.startswith("lake."):
        found["own"] = lakes.known(table).scan(row_filter=where).to_arrow().to_pylist()
        found["duckdb"] = read_by_duckdb(lakes, table, where)
    else:
        found["own"] = queried(lakes.handle(table), where)
        with duckdb.connect() as session:
            session.execute("SET TimeZone = 'UTC'")
            session.register("own", lakes.handle(table).scan())
            told = session.sql(f"SELECT * FROM own WHERE {where}")
            found["duckdb"] = told.to_arrow_table().to_pylist()
    return {reader: by_id(rows) for reader, rows in found.items()}


def require_same(lakes: Lakes, table: str, expected: list[Row]) -> None:
    filters = (("id >= 0", lambda _: True), *FILTERS)
    for where, holds in filters:
        matching = [row for row in expected if holds(row)]
        assert matching, where
        for reader, rows in found_by_all(lakes, table, where).items():
            assert matching == rows, (table, reader, where)


def keys_of(shop: Shop, table: str) -> tuple[int, Row]:
    """Let `penstock audit --keys` count; return its exit code and what it says of the table."""
    ended = shop.call("audit", table, "--keys", "id", "--json")
    [found] = ended.json["tables"]
    return ended.code, found


def test_all_read_the_rows_and_keys_are_audited_after_spark_changed_them(
    lakes: Lakes, shop: Shop
) -> None:
    changes = Changes(3, shop)
    for count in (120, 120):
        changes.send(count)
        ended = shop.run()
        assert 0 == ended.code, ended.err
    assert changes.soft != changes.sequenced, "the two orders differ, else this proves little"
    for table in TABLES:
        expected = changes.expected(table)
        require_same(lakes, table, expected)
        if table != TABLES[-1]:  # vectors of Delta are of one kind
            require_keys_audited(lakes, shop, table, [row["id"] for row in expected])


BY_POSITION = (
    "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read',"
    " 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read',"
    " 'write.delete.granularity'='%s')"
)
MERGE = (
    "MERGE INTO {t} AS t USING (SELECT explode(array(%d, %d)) AS id) AS s ON t.id = s.id"
    " WHEN MATCHED AND s.id = %d THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'merged'"
)


def require_keys_audited(lakes: Lakes, shop: Shop, table: str, ids: list[int]) -> None:
    """Delete, merge and double rows by Spark, and compare what the audit of keys counts."""
    deleted, merged_away, merged, doubled, *_ = ids
    if table.startswith("lake."):
        lakes.sql(BY_POSITION % ("partition" if "soft" in table else "file"), t=table)
    lakes.sql(f"DELETE FROM {{t}} WHERE id = {deleted}", t=table)
    assert 1 == deleted_by_position(lakes, table)
    lakes.sql(
        MERGE % (merged_away, merged, merged_away),
        f"INSERT INTO {{t}} SELECT * FROM {{t}} WHERE id IN ({merged}, {doubled})",
        f"DELETE FROM {{t}} WHERE id = {doubled}",
        t=table,
    )
    code, found = keys_of(shop, table)
    assert (4, len(ids) - 2) == (code, found["rows"]), found
    assert (1, 1, 0) == (found["repeated"], found["surplus"], found["keyless"])
    assert [{"key": f'{{"id": {merged}}}', "rows": 2}] == found["examples"]
    left = [row["id"] for row in lakes.by_spark(table)]
    assert sorted([*set(ids) - {deleted, merged_away, doubled}, merged]) == left
    lakes.sql(f"DELETE FROM {{t}} WHERE id = {merged}", t=table)
    code, found = keys_of(shop, table)
    assert (0, len(ids) - 4, 0) == (code, found["rows"], found["repeated"])


def deleted_by_position(lakes: Lakes, table: str) -> int:
    """Return how many rows Spark's last DELETE took from files that stay."""
    if table.startswith("lake."):
        told = lakes.known(table).current_snapshot().summary.additional_properties
        # With a delete file for each data file Spark writes a file's former ones again.
        return int(told["added-position-deletes"]) - int(told.get("removed-position-deletes", 0))
    [newest] = lakes.sql("DESCRIBE HISTORY {t} LIMIT 1", t=table)
    told = dict(newest["operationMetrics"])
    assert "1" == told["numDeletionVectorsAdded"], told
    return int(told["numDeletedRows"])
