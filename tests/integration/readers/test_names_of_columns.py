"""What Spark makes of names of columns: which it takes for one, and which for metadata.

Measured with Spark 4.1 (c: two columns of a table, m: two members of a struct, w: a Parquet file
with both is not written), and what `folded` says:

| names | c | m | w | folded alike |
|---|---|---|---|---|
| i, I | one | one | yes | yes |
| dotless i, i | | one | | yes |
| I with a dot, i | | one | | yes |
| I with a dot, i and a combining dot | | | yes | yes |
| long s, s | | one | | yes |
| Kelvin, k | one | one | yes | yes |
| sharp s, capital sharp s | one | one | yes | yes |
| sharp s, ss | | | | yes |
| sigma, final sigma | | one | | yes |
| capital sigma, final sigma (at the end) | one | one | yes | yes |
| micro, mu | | one | | yes |

`ss` is the one that is not needed for Spark: it is Unicode's, and costs a column next to another.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType
from tests.integration.readers.lakes import Lakes

from penstock.connectors.delta.schema.reserved_names import reserved
from penstock.connectors.iceberg.schema.reserved_names import RESERVED
from penstock.core.errors import InvalidError
from penstock.core.names import folded
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.tables import TableDefinition

pytestmark = pytest.mark.spark

PAIRS = {
    ("xi", "xI"): "cmw",
    ("x\u0131", "xi"): "m",
    ("x\u0131", "xI"): "m",
    ("x\u0130", "xi"): "m",
    ("x\u0130", "x\u0131"): "m",
    ("x\u0130", "xi\u0307"): "w",
    ("x\u017f", "xs"): "m",
    ("x\u212a", "xk"): "cmw",
    ("x\u00df", "x\u1e9e"): "cmw",
    ("x\u00df", "xss"): "",
    ("x\u03c3", "x\u03c2"): "m",
    ("x\u03a3", "x\u03c2"): "cmw",
    ("x\u03a3", "x\u03c3"): "m",
    ("x\u00b5", "x\u03bc"): "m",
    ("x\u0345", "x\u03b9"): "m",
    ("x\u1e9b", "x\u1e61"): "m",
    ("xe", "x\u00e9"): "",
}


OF_FEEDS = reserved({"delta.enableChangeDataFeed": "true"})
PLAIN = ("_metadata", "file", "_change_ordinal", "_commit_snapshot_id")


@pytest.fixture
def spark(lakes: Lakes) -> SparkSession:
    return lakes.spark


@pytest.mark.parametrize("name", [*RESERVED, *OF_FEEDS, *PLAIN])
def test_spark_reads_no_iceberg_table_with_a_column_of_a_reserved_name(
    lakes: Lakes, name: str
) -> None:
    """Made by PyIceberg: we refuse to make it."""
    catalog = SqlCatalog("lake", **lakes.iceberg)
    made = catalog.create_table(
        f"shop.t{name}", pa.schema([("id", pa.int64()), (name, pa.int64())])
    )
    made.append(pa.table({"id": [1], name: [2]}))
    shown = lakes.spark.table(f"lake.shop.t{name}")

    if name in RESERVED:
        with pytest.raises(Exception, match="conflict with names reserved"):
            shown.collect()
        definition = TableDefinition(Struct((Field(name.upper(), Kind.LONG),)))
        with pytest.raises(InvalidError, match="metadata") as refused:
            lakes.create(f"lake.shop.ours{name}", definition)
        assert "P435" == refused.value.code
    else:
        assert [(1, 2)] == [tuple(row) for row in shown.collect()]


@pytest.mark.parametrize("name", [*OF_FEEDS, "_row_id", "_file"])
def test_a_delta_table_has_no_change_feed_with_a_column_of_its_names(
    lakes: Lakes, name: str
) -> None:
    table = f"delta.shop.t{name}"
    lakes.create(table, TableDefinition(Struct((Field("id", Kind.LONG), Field(name, Kind.LONG)))))
    lakes.landed(table, [{"id": 1, name: 2}])
    assert [{"id": 1, name: 2}] == lakes.by_spark(table)

    feed = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    if name in OF_FEEDS:
        assert () == lakes.state(table).reserved
        with pytest.raises(Exception, match="CDC"):
            lakes.sql(feed, t=table)
    else:
        lakes.sql(feed, t=table)
        assert OF_FEEDS == lakes.state(table).reserved


def test_what_spark_takes_for_one_folds_alike(spark: SparkSession, tmp_path: Path) -> None:
    found = {pair: taken_for_one(spark, *pair, tmp_path) for pair in PAIRS}

    assert PAIRS == found
    for first, second in PAIRS:
        assert folded(first) == folded(second) or not found[first, second]
    assert folded("xe") != folded("x\u00e9")


def test_every_letter_folds_as_java_compares_it(spark: SparkSession) -> None:
    """Letters that Java takes for one where it ignores case, all of them, fold alike."""
    java = spark._jvm.java.lang.Character
    differing = []
    for code in range(0x110000):
        letter = chr(code)
        if {letter} == {letter.lower(), letter.upper(), letter.casefold()} or letter.isascii():
            continue
        if folded(chr(java.toLowerCase(java.toUpperCase(code)))) != folded(letter):
            differing.append(letter)

    assert [] == differing


def taken_for_one(spark: SparkSession, first: str, second: str, place: Path) -> str:
    """Return whether two columns, and two members, are one to Spark, and no file has both."""
    both = StructType([StructField(name, IntegerType()) for name in (first, second)])
    columns = spark.createDataFrame([], both)
    members = spark.createDataFrame([], StructType([StructField("m", both)]))
    tried = {
        "c": lambda: columns.select(f"`{first}`"),
        "m": lambda: members.select(f"m.`{first}`"),
        "w": lambda: columns.write.parquet(f"{place}/{first}-{second}"),
    }
    found = ""
    for what, act in tried.items():
        try:
            act()
        except AnalysisException:
            found += what
    return found
