"""Tables that Spark changes, read as a publication reads them: equal rows, each once.

What is read is compared with Spark's own reading, and by DuckDB with what was there before.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.integration.readers.lakes import CONNECTORS, SECRETS, Lakes, by_id
from tests.integration.readers.test_tables_of_spark import COLUMNS, NAN, ROWS, row

from penstock.core.errors import DecisionNeededError
from penstock.observe.fanout import UNHEARD
from penstock.ports.sources import EpochLimit, Stands
from penstock.publishing.settings import Changes
from penstock.publishing.table_source import TableSource
from penstock.publishing.table_work import TableReader
from penstock.testing.contracts.increments import Ticks

pytestmark = pytest.mark.spark

MADE = {
    "lake": "USING iceberg PARTITIONED BY (name, days(at)) TBLPROPERTIES ("
    "'format-version' = '2', 'write.delete.mode' = 'merge-on-read')",
    "delta": "USING delta PARTITIONED BY (name) TBLPROPERTIES ("
    "'delta.enableDeletionVectors' = 'true')",
}
COMPACTED = {
    "lake": "CALL lake.system.rewrite_data_files("
    "table => '{t}', options => map('rewrite-all', 'true'))",
    "delta": "OPTIMIZE {t}",
}


class Published:
    """A table of Spark's, and a publication that reads it."""

    def __init__(self, lakes: Lakes, name: str, changes: Changes = "stop") -> None:
        self.lakes, self.name = lakes, name
        catalog, _, self.bare = name.partition(".")
        settings = {"name": catalog, **(lakes.iceberg if catalog == "lake" else lakes.delta)}
        connector = CONNECTORS[catalog]
        assert connector.open_increments is not None
        assert connector.open_file_rows is not None
        lakes.sql(f"CREATE TABLE {{t}} ({COLUMNS}) {MADE[catalog]}", t=name)
        increments = connector.open_increments(settings, SECRETS, UNHEARD, self.bare)
        self.source = TableSource(increments, name, changes, Ticks().monotonic)
        self.reader = TableReader(connector.open_file_rows(SECRETS), Ticks())
        self.stands: Stands = {}

    def insert(self, *rows: dict[str, Any]) -> None:
        spark = self.lakes.spark
        assert spark is not None
        table = self.lakes.in_spark(self.name)
        schema = spark.table(table).schema
        spark.createDataFrame(list(rows), schema).coalesce(1).write.insertInto(table)

    def sql(self, text: str) -> None:
        self.lakes.sql(text, t=self.name)

    def compact(self) -> None:
        table = self.bare if self.name.startswith("lake.") else self.lakes.in_spark(self.name)
        assert self.lakes.spark is not None
        self.lakes.spark.sql(COMPACTED[self.name.partition(".")[0]].replace("{t}", table)).collect()

    def read(self) -> list[dict[str, Any]]:
        """Read what is behind the position, in stretches of a few rows."""
        stands = self.stands or self.source.starts("earliest")
        found: list[pa.RecordBatch] = []
        limit = EpochLimit(2, 1 << 30)
        while stretches := self.source.plan(stands, self.source.ends(), limit):
            for stretch in stretches:
                for each in self.reader.read(stretch, deadline=float("inf")):
                    found += [each.rows] if each.rows.num_rows else []
                    stands = {stretch.of: each.reached}
        self.stands = stands
        return by_id(pa.Table.from_batches(found).to_pylist() if found else [])


@pytest.fixture(params=["lake", "delta"])
def table_name(request: pytest.FixtureRequest) -> str:
    return f"{request.param}.shop.published_{request.node.name.partition('[')[0][-20:]}"


def test_what_spark_writes_is_read_once(lakes: Lakes, table_name: str) -> None:
    table = Published(lakes, table_name)
    table.insert(*ROWS)
    table.insert(NAN)
    table.sql("DELETE FROM {t} WHERE id = 1")
    first = table.read()

    assert str(lakes.by_spark(table_name)) == str(first)  # NaN equals nothing, itself neither
    table.compact()
    more = [row(8), row(9, name=None)]
    table.insert(more[0])
    table.compact()
    table.insert(more[1])
    assert by_id(more) == table.read()
    assert [] == table.read()
    with duckdb.connect() as session:
        session.execute("SET TimeZone = 'UTC'")
        read = pa.Table.from_pylist([*first, *more])  # noqa: F841 - DuckDB finds it by its name
        live = pa.Table.from_pylist(lakes.by_spark(table_name))  # noqa: F841
        left = session.execute("SELECT count(*) FROM (FROM read EXCEPT ALL FROM live)").fetchone()
        right = session.execute("SELECT count(*) FROM (FROM live EXCEPT ALL FROM read)").fetchone()
    assert (0,) == left == right


@pytest.mark.parametrize("changes", ["stop", "whole"])
def test_what_spark_rewrites_is_asked_for_or_read_anew(
    lakes: Lakes, table_name: str, changes: Changes
) -> None:
    table = Published(lakes, f"{table_name}_{changes}", changes)
    table.insert(row(1), row(2), row(4))
    table.read()
    table.sql("MERGE INTO {t} t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    table.sql("UPDATE {t} SET score = 0.5 WHERE id = 1")
    if changes == "stop":
        with pytest.raises(DecisionNeededError) as caught:
            table.read()
        assert "P827" == caught.value.code
    else:
        assert lakes.by_spark(table.name) == table.read()
