"""Tables that ask for ORC: landed in, changed by Spark, landed in again, and read by everybody.

Spark and PyIceberg read such files; DuckDB reads no ORC.
"""

from __future__ import annotations

import datetime as dt
import random  # noqa: TID251  seeded
from typing import Any

import pytest
from pyiceberg.manifest import FileFormat
from tests.integration.readers.lakes import CONNECTORS, SECRETS, Lakes, by_id
from tests.integration.readers.test_tables_of_spark import row, shown

from penstock.ports.connectors import TableConnector
from penstock.testing.contracts.table_fixture import Quiet

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NAME = "lake.shop.orc"
SMALL = {"write.orc.stripe-size-bytes": "4000", "write.orc.compression-codec": "zstd"}
COLUMNS = (
    "id BIGINT, name STRING, price DECIMAL(9,2), score DOUBLE, raw BINARY, ok BOOLEAN, "
    "on_day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, place STRUCT<city: STRING, zip: INT>, "
    "`a.b` INT, lots ARRAY<STRUCT<n: INT, s: STRUCT<m: INT>>>"
)


def new(number: int, **given: Any) -> dict[str, Any]:
    """Return a row with what writers of ORC get wrong, and times that Arrow's does not."""
    lots = [None, {"n": number, "s": None}, {"n": None, "s": {"m": number}}]
    text = random.Random(number).randbytes(2000).hex()
    named = {"id": number, "name": text, "a.b": number, "lots": lots}
    return row(number % 250 + 1, **{**named, **given})


def read_by_us(lakes: Lakes, name: str) -> list[dict[str, Any]]:
    """Read live rows as publications and maintenance do."""
    connector: TableConnector = CONNECTORS["lake"]
    assert connector.open_increments is not None
    assert connector.open_file_rows is not None
    settings = {"name": "lake", **lakes.iceberg}
    source = connector.open_increments(settings, SECRETS, Quiet(), name.partition(".")[2])
    head = source.head()
    rows, work = connector.open_file_rows(SECRETS), source.work(head)
    found = [
        each
        for file in source.live(head, head.snapshot) or ()
        for batch in rows.read(work, source.detail(head, file))
        for each in batch.drop_columns([batch.schema.names[-1]]).to_pylist()
    ]
    source.close()
    return by_id(found)


def require_read_alike(lakes: Lakes, rows: list[dict[str, Any]]) -> None:
    due = shown(sorted(rows, key=lambda each: each["id"]))
    assert due == shown(lakes.by_spark(NAME))
    assert due == shown(read_by_us(lakes, NAME))
    assert due == shown(lakes.by_own(NAME))


def test_orc_files_are_read_changed_and_landed_beside(lakes: Lakes) -> None:
    merge = "'write.merge.mode'='merge-on-read', 'write.delete.mode'='merge-on-read'"
    small = ", ".join(f"'{key}'='{value}'" for key, value in SMALL.items())
    lakes.spark.conf.set("spark.sql.session.timeZone", "UTC")
    lakes.sql(
        f"CREATE TABLE {{t}} ({COLUMNS}) USING iceberg PARTITIONED BY (bucket(2, id))"
        f" TBLPROPERTIES ('write.format.default'='orc', {small}, {merge})",
        t=NAME,
    )
    rows = [new(number) for number in range(1, 1200)]
    far = dt.datetime(2400, 1, 1)  # noqa: DTZ001 - the type has no zone
    early = [{**new(-3), **row(-3)}, new(5000, score=-0.0), new(5001, local=far)]
    lakes.landed(NAME, rows)
    stripes = [len(each.split_offsets) for each in lakes.files(NAME)]
    lakes.landed(NAME, early)
    rows += early

    formats = [each.file_format for each in lakes.files(NAME)]
    assert min(stripes) > 1
    assert {FileFormat.ORC, FileFormat.PARQUET} == {*formats}
    require_read_alike(lakes, rows)
    split = "SELECT count(*) AS n, sum(id) AS s FROM {t}"
    lakes.sql("ALTER TABLE {t} SET TBLPROPERTIES ('read.split.target-size'='1')", t=NAME)
    lakes.sql("ALTER TABLE {t} SET TBLPROPERTIES ('read.split.open-file-cost'='1')", t=NAME)
    assert [{"n": len(rows), "s": sum(each["id"] for each in rows)}] == lakes.sql(split, t=NAME)
    day = rows[99]["on_day"]
    for where, holds in {
        "at < TIMESTAMP '1970-01-01T00:00:00Z'": lambda each: each["at"].year < 1970,
        "`a.b` = 77": lambda each: each["a.b"] == 77,
        "local > TIMESTAMP_NTZ '2300-01-01'": lambda each: each["local"].year > 2300,
        "score = 0D": lambda each: each["score"] == 0,
        "place.zip = -101": lambda each: each["place"]["zip"] == -101,
        f"on_day = DATE '{day}'": lambda each: each["on_day"] == day,
    }.items():
        found = lakes.sql(f"SELECT id FROM {{t}} WHERE {where}", t=NAME)
        due = sorted(each["id"] for each in rows if holds(each))
        assert due == sorted(each["id"] for each in found), where

    lakes.sql(
        "ALTER TABLE {t} RENAME COLUMN `a.b` TO ab",
        "ALTER TABLE {t} ALTER COLUMN ab TYPE BIGINT",
        "ALTER TABLE {t} ADD COLUMN more STRING",
        "MERGE INTO {t} USING (SELECT explode(sequence(1, 9)) AS k) ON id = k"
        " WHEN MATCHED AND k < 5 THEN DELETE WHEN MATCHED THEN UPDATE SET name = 'merged'",
        t=NAME,
    )
    lakes.sql("DELETE FROM {t} WHERE id = 5001", t=NAME)  # its time Spark would write into ORC
    rows = [each for each in rows if each["id"] not in (*range(1, 5), 5001)]
    for each in rows:
        each["ab"], each["more"] = each.pop("a.b"), None
        if each["id"] in range(5, 10):
            each["name"] = "merged"
    require_read_alike(lakes, rows)
    added = [{**rows[0], "id": 6000 + at, "more": "new"} for at in range(20)]
    lakes.landed(NAME, added)
    lakes.sql(
        "CALL lake.system.rewrite_data_files(table => 'shop.orc',"
        " options => map('rewrite-all', 'true'))",
        t=NAME,
    )
    lakes.landed(NAME, [{**rows[0], "id": 7000, "more": "last"}])
    rows += [*added, {**rows[0], "id": 7000, "more": "last"}]
    require_read_alike(lakes, rows)


def test_the_third_format_version_reads_alike(lakes: Lakes) -> None:
    table = "lake.shop.orc_third"
    lakes.sql(
        f"CREATE TABLE {{t}} ({COLUMNS}) USING iceberg TBLPROPERTIES"
        " ('format-version'='3', 'write.format.default'='orc')",
        t=table,
    )
    rows = [new(number) for number in range(1, 40)]
    lakes.landed(table, rows)
    lakes.sql("DELETE FROM {t} WHERE id < 5", t=table)
    left = shown([each for each in rows if each["id"] >= 5])

    assert left == shown(lakes.by_spark(table))
    assert left == shown(read_by_us(lakes, table))
