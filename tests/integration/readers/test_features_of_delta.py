"""Delta tables that Spark made with features for writers: landed in, changed by Spark, landed again.

One table has all that changes entries; another one is compacted in turn, one has a column that gets
wider.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from tests.integration.maintaining import maintained
from tests.integration.readers.lakes import Lakes, chain

from penstock.app.inspect.metadata_audit import values_of
from penstock.commit.rearranging import RearrangedFiles
from penstock.connectors import delta
from penstock.core.errors import InvalidError
from penstock.core.schema import Decimal as Decimal_
from penstock.core.schema import Field, Kind, List, Map, Struct

pytestmark = pytest.mark.spark

TRACKED = "delta.shop.tracked"
OF_EVERY_KIND = (
    "CREATE TABLE {t} (id BIGINT, name STRING, n INT) USING delta CLUSTER BY (name) TBLPROPERTIES ("
    "'delta.enableRowTracking'='true', 'delta.enableInCommitTimestamps'='true',"
    " 'delta.checkpointInterval'='3')"
)
ROWS = "SELECT id, name, _metadata.row_id AS row_id, _metadata.row_commit_version AS v FROM {t}"


def row(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"n{number}", "n": number}


def rows_with_ids(lakes: Lakes, table: str = TRACKED) -> dict[int, tuple[str, int, int]]:
    found = lakes.sql(ROWS, t=table)
    assert len(found) == len({each["row_id"] for each in found})
    return {each["id"]: (each["name"], each["row_id"], each["v"]) for each in found}


def test_rows_keep_their_ids_and_versions_their_times_between_spark_and_us(lakes: Lakes) -> None:
    lakes.sql(OF_EVERY_KIND, "INSERT INTO {t} VALUES (0, 'spark', 0)", t=TRACKED)
    # The column that the table is clustered by is the second, and one is to have statistics.
    indexed = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols'='1')"
    lakes.sql(indexed, t=TRACKED)
    lakes.landed(TRACKED, [row(1), row(2)])
    begun = rows_with_ids(lakes)
    assert {0: ("spark", 0, 1), 1: ("n1", 1, 3), 2: ("n2", 2, 3)} == begun

    lakes.sql(
        "MERGE INTO {t} t USING (SELECT 1L AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET name = 'merged'",
        "OPTIMIZE {t}",
        ROWS,
        t=TRACKED,
    )
    lakes.landed(TRACKED, [row(3)])
    lakes.table(TRACKED).housekeep()
    lakes.sql("UPDATE {t} SET name = 'again' WHERE id = 3", t=TRACKED)
    lakes.landed(TRACKED, [row(4)])
    ended = rows_with_ids(lakes)

    assert {0: begun[0], 2: begun[2]} == {each: ended[each] for each in (0, 2)}
    assert [begun[1][1], "merged"] == [ended[1][1], ended[1][0]]
    assert ended[4][1] > ended[3][1] > begun[2][1]
    expected = [0, 1, 2, 3, 4]
    for found in (lakes.by_spark(TRACKED), lakes.by_own(TRACKED), lakes.by_duckdb(TRACKED)):
        assert expected == [each["id"] for each in found]
    assert () == values_of(lakes.catalogs["delta"], "shop.tracked").mismatches
    found = lakes.sql("SELECT id FROM {t} WHERE name IN ('spark', 'n2')", t=TRACKED)
    assert {0, 2} == {each["id"] for each in found}
    _said_by_spark(lakes)
    assert {True, False} == {
        each.clustered for each in lakes.table(TRACKED).layout(lakes.state(TRACKED)).files
    }


def _said_by_spark(lakes: Lakes) -> None:
    """Let Spark read domains, and the times of versions, which are those that the log says."""
    detail = lakes.spark.sql(f"DESCRIBE DETAIL {lakes.in_spark(TRACKED)}")
    assert [(["name"],)] == detail.select("clusteringColumns").collect()
    history = {each["version"]: each for each in lakes.sql("DESCRIBE HISTORY {t}", t=TRACKED)}
    times = [history[each]["timestamp"] for each in sorted(history)]
    assert times == sorted({*times})
    state = lakes.state(TRACKED)
    ours = {int(c.snapshot): c for c in lakes.table(TRACKED).history(chain(TRACKED), state).commits}
    for version, commit in ours.items():
        at = history[version]["timestamp"].replace(tzinfo=dt.UTC)
        assert commit.timestamp_ms == round(at.timestamp() * 1000)
    first = ours[min(ours)].timestamp_ms / 1000
    then = dt.datetime.fromtimestamp(first, dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    at_first = f"SELECT id FROM {{t}} TIMESTAMP AS OF '{then}'"
    assert {0, 1, 2} == {each["id"] for each in lakes.sql(at_first, t=TRACKED)}


COMPACTED = "delta.shop.compacted"
WITH_VECTORS = (
    "CREATE TABLE {t} (id BIGINT, name STRING, n INT) USING delta TBLPROPERTIES ("
    "'delta.enableRowTracking'='true', 'delta.enableDeletionVectors'='true')"
)


@pytest.mark.slow  # next to what needs no Spark, in delta/test_features.py
def test_rows_keep_their_ids_where_we_and_spark_compact_in_turn(lakes: Lakes) -> None:
    lakes.sql(WITH_VECTORS, "INSERT INTO {t} VALUES (0, 'spark', 0)", ROWS, t=COMPACTED)
    for number in (1, 4, 7):
        lakes.landed(COMPACTED, [row(number), row(number + 1), row(number + 2)])
    lakes.sql("DELETE FROM {t} WHERE id = 5", t=COMPACTED)
    begun = rows_with_ids(lakes, COMPACTED)
    merge = (
        "MERGE INTO {t} t USING (SELECT 7L AS id) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET name = 'merged'"
    )
    table = lakes.table(COMPACTED)

    def compacted(*meanwhile: str) -> RearrangedFiles:
        beside = partial(lakes.sql, *meanwhile, t=COMPACTED) if meanwhile else lambda: None
        return maintained(chain(COMPACTED), table, delta.connector, beside)

    done = compacted("DELETE FROM {t} WHERE id = 2", merge)
    assert (1, 1, 2, 0) == (done.groups, done.deleted, done.carried, done.given_up)
    del begun[2]
    merged = rows_with_ids(lakes, COMPACTED)
    assert {each: begun[each] for each in begun if each != 7} == {
        each: merged[each] for each in merged if each != 7
    }
    assert ("merged", begun[7][1]) == merged[7][:2]
    assert merged[7][2] > begun[7][2]

    lakes.landed(COMPACTED, [row(10)])
    known = rows_with_ids(lakes, COMPACTED)
    assert 1 == compacted().groups
    assert known == rows_with_ids(lakes, COMPACTED)
    lakes.landed(COMPACTED, [row(11)])
    known = {**known, 11: rows_with_ids(lakes, COMPACTED)[11]}
    lakes.sql("OPTIMIZE {t}", ROWS, t=COMPACTED)
    assert known == rows_with_ids(lakes, COMPACTED)
    lakes.sql("UPDATE {t} SET name = 'again' WHERE id IN (1, 11)", t=COMPACTED)
    lakes.landed(COMPACTED, [row(12)])
    ended = rows_with_ids(lakes, COMPACTED)

    assert {each: known[each][1] for each in known} == {each: ended[each][1] for each in known}
    assert {1, 11} == {each for each in known if known[each] != ended[each]}
    expected = sorted(ended)
    for found in (lakes.by_spark(COMPACTED), lakes.by_own(COMPACTED), lakes.by_duckdb(COMPACTED)):
        assert expected == [each["id"] for each in found]
    assert () == values_of(lakes.catalogs["delta"], "shop.compacted").mismatches


WIDENED = "delta.shop.widened"
NARROW = (
    "CREATE TABLE {t} (id BIGINT, n INT, x FLOAT, d DECIMAL(6,2), on_day DATE, m INT, list ARRAY<INT>,"
    " s STRUCT<a: INT>, map MAP<STRING, INT>, k INT) USING delta TBLPROPERTIES ("
    "'delta.enableTypeWidening'='true', 'delta.enableDeletionVectors'='true',"
    " 'delta.feature.timestampNtz'='supported')"
)
BY_SPARK = (
    "ALTER TABLE {t} ALTER COLUMN on_day TYPE TIMESTAMP_NTZ",
    "ALTER TABLE {t} ALTER COLUMN m TYPE DECIMAL(14,2)",
)


def narrow(number: int) -> dict[str, Any]:
    day = dt.date(2026, 11, number)
    return {
        "id": number,
        "n": number,
        "x": number / 4,
        "d": Decimal(number).scaleb(-2),
        "on_day": day,
        "m": number,
        "list": [number, None],
        "s": {"a": number},
        "map": {"k": number},
        "k": number,
    }


def wide(number: int) -> dict[str, Any]:
    given = narrow(number)
    at = dt.datetime.combine(given["on_day"], dt.time())
    return {**given, "on_day": at, "m": Decimal(number).scaleb(2).scaleb(-2)}


def test_columns_are_widened_by_spark_and_by_us_and_read_by_both(lakes: Lakes) -> None:
    lakes.sql(NARROW, t=WIDENED)
    lakes.landed(WIDENED, [narrow(1), narrow(2)])
    lakes.sql(*BY_SPARK, t=WIDENED)
    state = lakes.state(WIDENED)
    assert state.can_widen
    grown = {
        "n": Kind.LONG,
        "x": Kind.DOUBLE,
        "d": Decimal_(12, 4),
        "list": List(Kind.LONG),
        "s": Struct((Field("a", Kind.LONG),)),
        "map": Map(Kind.STRING, Kind.LONG),
    }
    fields = [Field(f.name, grown.get(f.name, f.type)) for f in state.schema.fields]
    _keeps_what_a_constraint_reads(lakes, fields)
    lakes.table(WIDENED).evolve(lakes.state(WIDENED), Struct(tuple(fields)))
    far = {**wide(3), "n": 1 << 40, "list": [1 << 40], "s": {"a": 1 << 40}, "x": 1e300}
    lakes.landed(WIDENED, [far])
    lakes.sql("DELETE FROM {t} WHERE id = 2", t=WIDENED)
    lakes.landed(WIDENED, [wide(4)])

    expected = [wide(1), far, wide(4)]
    assert expected == lakes.by_spark(WIDENED)
    assert expected == read_by_us(lakes)
    assert () == values_of(lakes.catalogs["delta"], "shop.widened").mismatches
    assert [3] == [each["id"] for each in lakes.sql("SELECT id FROM {t} WHERE n > 9", t=WIDENED)]
    lakes.sql("OPTIMIZE {t}", "ALTER TABLE {t} ALTER COLUMN s.a TYPE DECIMAL(20,0)", t=WIDENED)
    assert [1, 3, 4] == [each["id"] for each in lakes.by_spark(WIDENED)]


def _keeps_what_a_constraint_reads(lakes: Lakes, fields: list[Field]) -> None:
    lakes.sql("ALTER TABLE {t} ADD CONSTRAINT positive CHECK (k > 0)", t=WIDENED)
    with pytest.raises(Exception, match="DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"):
        lakes.sql("ALTER TABLE {t} ALTER COLUMN k TYPE BIGINT", t=WIDENED)
    wider = [Field(f.name, Kind.LONG) if f.name == "k" else f for f in fields]
    with pytest.raises(InvalidError, match="that a constraint or a generated column reads"):
        lakes.table(WIDENED).evolve(lakes.state(WIDENED), Struct(tuple(wider)))


def read_by_us(lakes: Lakes) -> list[dict[str, Any]]:
    table, state = lakes.table(WIDENED), lakes.state(WIDENED)
    names = state.schema.names
    batches = (
        each for file in table.live_files(state) for each in table.read_live(state, file, names)
    )
    rows = [each for batch in batches for each in batch.select(names).to_pylist()]
    rows = [{**each, "map": dict(each["map"])} for each in rows]
    return sorted(rows, key=lambda each: each["id"])
