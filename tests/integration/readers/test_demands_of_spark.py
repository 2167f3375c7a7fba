"""What tables of Spark demand of rows: records are landed as demanded, and Spark goes on with them.

Records go the way of a worker: a job as the driver describes it, converted and written; the others
are refused by the demand's name.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from tests.integration.readers.lakes import Lakes, by_id, chain

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.landing.epoch.runner import job_of
from penstock.landing.settings import TableLocation, TableTarget
from penstock.landing.tables.opening import require_usable
from penstock.landing.task.convert import convert_for_table
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.route.compute import no_functions

pytestmark = pytest.mark.spark
AT = TopicPartition("id", 0, "orders")
OPTIONS = RowOptions({}, fills_defaults=True)


def landed(lakes: Lakes, table: str, *records: dict[str, Any]) -> dict[int, tuple[str, str]]:
    """Land records; return code and what is named of each that was refused, by place."""
    state = lakes.state(table)
    values = [json.dumps(each).encode() for each in records]
    batch = pa.record_batch(
        {
            "offset": pa.array(range(len(values)), pa.int64()),
            "timestamp": pa.array([0] * len(values), pa.timestamp("ms", "UTC")),
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    job = job_of(target(table), state, {"orders"})
    made = convert_for_table(job, batch, AT, ReaderCache(), no_functions)
    lakes.landed(table, made.rows)
    return {each.offset: (each.code, each.message.partition(":")[0]) for each in made.rejects}


def target(table: str, options: RowOptions = OPTIONS) -> TableTarget:
    return TableTarget(TableLocation(table, "", "", ""), options, create=False)


def read(lakes: Lakes, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table on which its readers agree."""
    found = lakes.by_spark(table)
    assert found == lakes.by_own(table) == lakes.by_duckdb(table)
    return found


AT_NIGHT = dt.datetime(2024, 2, 29, 23, 30, tzinfo=dt.UTC)
GOOD = {
    "id": 1,
    "name": "äöüß€",
    "code": "x",
    "at": AT_NIGHT.isoformat(),
    "price": 1.5,
    "place": {"city": "Ulm", "zip": 89073},
}
STORED = {
    **GOOD,
    "at": AT_NIGHT,
    "day": dt.date(2024, 2, 29),
    "month": "2024-02",
    "size": 5,
    "country": "de",
    "since": dt.date(2020, 1, 2),
}


def test_rows_are_as_a_delta_table_demands_them(lakes: Lakes) -> None:
    table = "delta.shop.demanding"
    lakes.sql(
        "CREATE TABLE {t} (id BIGINT, name VARCHAR(5), code CHAR(3), at TIMESTAMP, price DOUBLE,"
        " place STRUCT<city: STRING, zip: INT>, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),"
        " month STRING GENERATED ALWAYS AS (date_format(at, 'yyyy-MM')),"
        " size INT GENERATED ALWAYS AS (length(name)),"
        " country STRING NOT NULL DEFAULT 'de', since DATE DEFAULT DATE'2020-01-02')"
        " USING delta PARTITIONED BY (day)"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (price > 0 AND id BETWEEN 1 AND 1000)",
        "ALTER TABLE {t} ADD CONSTRAINT Known CHECK (Place.city IN ('Ulm', 'Bonn'))",
        t=table,
    )
    messy = [
        GOOD,
        {**GOOD, "id": 2, "country": "fr", "day": "2024-02-29", "since": None},
        {**GOOD, "price": 0},
        {**GOOD, "id": None},
        {**GOOD, "place": {"city": "Rom"}},
        {**GOOD, "place": None},
        {**GOOD, "name": "äöüß€!"},
        {**GOOD, "code": "wxyz"},
        {**GOOD, "day": "2024-03-01"},
        {**GOOD, "size": 6},
        {**GOOD, "id": 3, "at": None},
    ]
    refused = landed(lakes, table, *messy)

    second = {**STORED, "id": 2, "country": "fr"}
    third = {**STORED, "id": 3, "at": None, "day": None, "month": None}
    checks = ["check constraint positive"] * 2 + ["check constraint known"] * 2
    assert (
        dict(enumerate([("P376", each) for each in checks], 2))
        | {
            6: ("P377", "name"),
            7: ("P377", "code"),
            8: ("P379", "day"),
            9: ("P379", "size"),
        }
        == refused
    )
    padded = [{**each, "code": "x  "} for each in (STORED, second, third)]
    assert padded == lakes.by_spark(table)  # it fills char(3) up as it reads
    assert [STORED, second, third] == lakes.by_own(table) == lakes.by_duckdb(table)

    lakes.sql(
        "INSERT INTO {t} (id, name, at, price, place) VALUES (4, 'abc', TIMESTAMP'2024-03-01"
        " 00:00:00Z', 2, named_struct('city', 'Bonn', 'zip', 1))",
        "MERGE INTO {t} USING (SELECT 2 AS n) ON id = n WHEN MATCHED THEN UPDATE SET name = 'ab'",
        "OPTIMIZE {t}",
        "ALTER TABLE {t} DROP CONSTRAINT known",
        t=table,
    )
    assert {0: ("P376", "check constraint positive")} == landed(
        lakes, table, {**GOOD, "id": 1001}, {**GOOD, "id": 5, "place": {"city": "Rom"}}
    )
    found = lakes.by_spark(table)
    sizes = {each["id"]: (each["size"], each["country"], str(each["day"])) for each in found}
    assert {
        1: (5, "de", "2024-02-29"),
        2: (2, "fr", "2024-02-29"),
        3: (5, "de", "None"),
        4: (3, "de", "2024-03-01"),
        5: (5, "de", "2024-02-29"),
    } == sizes
    assert [each["id"] for each in found] == [each["id"] for each in by_id(lakes.by_own(table))]
    seen = lakes.sql("SELECT id FROM {t} WHERE at < TIMESTAMP'2024-03-01 00:00:00Z'", t=table)
    assert {1, 2, 5} == {each["id"] for each in seen}  # partitions are told by the expression
    _refused_without_a_choice(lakes, table)


def test_defaults_of_an_iceberg_table_are_filled_in(lakes: Lakes) -> None:
    table = "lake.shop.defaults"
    lakes.sql(
        "CREATE TABLE {t} (id BIGINT, country STRING, since DATE, price BIGINT, at TIMESTAMP)"
        " USING iceberg TBLPROPERTIES ('format-version' = '3')",
        "INSERT INTO {t} VALUES (0, NULL, NULL, NULL, NULL)",
        t=table,
    )
    _set_defaults(lakes, table, country="de", price=5)
    assert {} == landed(lakes, table, {"id": 1}, {"id": 2, "country": "fr", "price": None})
    lakes.sql(
        "INSERT INTO {t} VALUES (3, 'it', NULL, 2, NULL)",
        "MERGE INTO {t} USING (SELECT 2 AS n) ON id = n WHEN MATCHED THEN UPDATE SET price = 7",
        t=table,
    )
    assert {} == landed(lakes, table, {"id": 4, "since": "2024-01-01"})
    found = [(row["id"], row["country"], str(row["price"])) for row in read(lakes, table)]
    assert [
        (0, None, "None"),
        (1, "de", "5"),
        (2, "fr", "7"),
        (3, "it", "2"),
        (4, "de", "5"),
    ] == found
    _refused_without_a_choice(lakes, table)


def _refused_without_a_choice(lakes: Lakes, table: str) -> None:
    undecided = target(table, replace(OPTIONS, fills_defaults=False))
    with pytest.raises(InvalidError, match="has a default for the column country") as caught:
        require_usable(undecided, chain(table), lakes.table(table), lakes.state(table))
    assert "P436" == caught.value.code


def _set_defaults(lakes: Lakes, table: str, **values: Any) -> None:
    """Set them by Iceberg's Java API: Spark's SQL has no word for it yet.

    None of a decimal: Iceberg 1.11 fails to read files of such a table.
    """
    assert lakes.spark is not None
    java: Any = lakes.spark._jvm
    loaded = java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        lakes.spark._jsparkSession, lakes.in_spark(table)
    )
    update = loaded.updateSchema()
    for column, value in values.items():
        literal = java.org.apache.iceberg.expressions.Expressions.lit(value)
        update = update.updateColumnDefault(column, literal)
    update.commit()


REFUSED = {
    "check constraint odd, id % 2 = 1": ("id BIGINT", "id % 2 = 1"),
    "the length of tags, array<varchar(4)>": ("tags ARRAY<VARCHAR(4)>", ""),
    "the generated column up, upper(name)": (
        "name STRING, up STRING GENERATED ALWAYS AS (upper(name))",
        "",
    ),
    "the table feature identityColumns": ("id BIGINT GENERATED ALWAYS AS IDENTITY, n INT", ""),
    "the default of n, 3 + 4": ("id BIGINT, n INT DEFAULT 3 + 4", ""),
}


def test_what_cannot_be_computed_is_refused_with_its_text(lakes: Lakes) -> None:
    said = {}
    for number, (columns, check) in enumerate(REFUSED.values()):
        table = f"delta.shop.uncomputed_{number}"
        with_defaults = " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
        options = with_defaults if "DEFAULT" in columns else ""
        lakes.sql(f"CREATE TABLE {{t}} ({columns}) USING delta{options}", t=table)
        if check:
            lakes.sql(f"ALTER TABLE {{t}} ADD CONSTRAINT odd CHECK ({check})", t=table)
        with pytest.raises(InvalidError) as caught:
            lakes.state(table)
        assert "P436" == caught.value.code
        said[list(REFUSED)[number]] = caught.value.message

    assert [] == [name for name, message in said.items() if name not in message], said
