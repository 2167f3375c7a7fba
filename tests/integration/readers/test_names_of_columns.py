"""What Spark makes of names of columns: which of them it takes for one.

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

`ss` is the one that is not needed for Spark: it is Unicode's, and costs a column beside another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, StructField, StructType

from penstock.core.names import folded
from penstock.engines.spark.session import start_session
from penstock.engines.spark.settings import SparkSettings

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


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = start_session(SparkSettings(master="local[1]"))
    yield session.spark
    session.stop()


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
    """Tell whether two columns, and two members, are one to Spark, and no file has both."""
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
