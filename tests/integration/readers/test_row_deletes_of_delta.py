"""Row deltas of Delta tables, read by Spark; vectors of Spark, read by us; each on top of the other.

Invariant: every row and value is compared, with and without filters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.integration.delta.keyed import VECTORS, Keyed, counted, queried
from tests.integration.readers.lakes import Lakes, by_id, chain
from tests.integration.readers.test_tables_of_spark import COLUMNS, row

from penstock.app.inspect.metadata_audit import values_of
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log.commit_file import log_of
from penstock.connectors.delta.read.live_files import live_adds
from penstock.connectors.delta.vectors.descriptor import unpacked, vector_of
from penstock.connectors.delta.vectors.store import read_vector
from penstock.core.schema import Field, Kind, Struct
from penstock.files.deletion_vectors import encoded
from penstock.ports.row_deletes import POSITION
from penstock.ports.tables import TableDefinition, Verdict

pytestmark = pytest.mark.spark

PLAIN = Struct(
    (
        Field("id", Kind.LONG),
        Field("name", Kind.STRING),
        Field("part", Kind.STRING),
        Field("price", Kind.DOUBLE),
    )
)
AT_ONCE = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
}
"""What lets Spark's VACUUM remove files of now, with one task instead of thousands."""
PARTS = ["a b", "Ö%20ü", "100%", "日本=x:y", "#?&+", None]


class OneOf:
    """One table of the lakes, as `Keyed` takes it."""

    def __init__(self, lakes: Lakes, name: str) -> None:
        self.lakes, self.name = lakes, name
        self.table = lakes.table(name)

    def state(self):
        return self.table.state(chain(self.name))

    def write(self, state, rows):
        return self.lakes._written(self.name, state, rows)


def keyed_table(lakes: Lakes, name: str) -> Keyed:
    return Keyed(OneOf(lakes, name), chain(name))


def plain(number: int, turn: int) -> dict[str, Any]:
    part = PARTS[(number + turn) % len(PARTS)]
    return {"id": number, "name": f"{number} at {turn}", "part": part, "price": number / 4}


def read_by_us(keyed: Keyed, columns) -> list[dict[str, Any]]:
    state = keyed.lake.state()
    files = keyed.lake.table.live_files(state)
    found = [b for f in files for b in keyed.lake.table.read_live(state, f, columns)]
    return by_id(pa.Table.from_batches(found).drop_columns([POSITION]).to_pylist())


def same_everywhere(lakes: Lakes, keyed: Keyed, filters=()) -> None:
    """Compare what must be live with what Spark, deltalake and we read, by filters as well."""
    name, expected = keyed.lake.name, keyed.live()
    assert expected == lakes.by_spark(name)
    assert expected == lakes.by_own(name)
    assert expected == read_by_us(keyed, list(expected[0]))
    summed = "SELECT count(*) AS n, min(id) AS low, max(id) AS high FROM {t}"  # by statistics alone
    ids = [each["id"] for each in expected]
    assert [{"n": len(ids), "low": ids[0], "high": ids[-1]}] == lakes.sql(summed, t=name)
    assert [len(ids), ids[0], ids[-1]] == counted(lakes.handle(name))
    for where, holds in filters:
        text = f"SELECT * FROM {{t}} WHERE {where}"
        matching = [each for each in expected if holds(each)]
        assert matching == by_id(lakes.sql(text, t=name)), where
        assert matching == queried(lakes.handle(name), where), where


FILTERS = (
    ("id >= 50 AND id < 90", lambda each: 50 <= each["id"] < 90),
    ("part = 'a b'", lambda each: each["part"] == "a b"),
    ("part = '日本=x:y'", lambda each: each["part"] == "日本=x:y"),
    ("part IS NULL", lambda each: each["part"] is None),
    ("name = '7 at 3'", lambda each: each["name"] == "7 at 3"),
    ("price > 20.5", lambda each: each["price"] > 20.5),
)


@pytest.mark.parametrize("layout", ["flat", "parted"])
def test_ours_and_those_of_spark_on_top_of_each_other(lakes: Lakes, layout: str) -> None:
    name = f"delta.shop.deltas_{layout}"
    by = ("part",) if layout == "parted" else ()
    lakes.create(name, TableDefinition(PLAIN, partition_by=by, properties=VECTORS))
    keyed, draw = keyed_table(lakes, name), np.random.default_rng(5)
    for turn in range(5):
        touched = draw.choice(200, 50, replace=False).tolist()
        keyed.change([plain(n, turn) for n in touched[:35]], touched[35:])
    same_everywhere(lakes, keyed, FILTERS)

    lakes.sql("DELETE FROM {t} WHERE id % 10 = 3", t=name)
    keyed.rows = {n: each for n, each in keyed.rows.items() if n % 10 != 3}
    same_everywhere(lakes, keyed)
    keyed.change([plain(n, 9) for n in range(0, 60, 4)], range(5, 200, 6))
    same_everywhere(lakes, keyed, FILTERS)

    lakes.sql("UPDATE {t} SET price = -1.0 WHERE id % 10 = 4", t=name)
    for n, each in keyed.rows.items():
        keyed.rows[n] = {**each, "price": -1.0} if n % 10 == 4 else each
    lakes.spark.sql(f"OPTIMIZE {lakes.in_spark(name)}")
    same_everywhere(lakes, keyed)
    keyed.change([plain(n, 11) for n in range(0, 60, 5)], range(1, 200, 9))
    same_everywhere(lakes, keyed, FILTERS)
    lakes.spark.sql(f"REORG TABLE {lakes.in_spark(name)} APPLY (PURGE)")
    same_everywhere(lakes, keyed)
    assert Verdict.AGREED is keyed.lake.state().verdict
    assert () == values_of(lakes.catalogs["delta"], name.removeprefix("delta.")).mismatches
    operations = [each["operation"] for each in lakes.sql("DESCRIBE HISTORY {t}", t=name)]
    assert "MERGE" in operations


def test_vacuum_keeps_the_vectors_of_live_files_and_removes_the_others(lakes: Lakes) -> None:
    name = "delta.shop.vacuumed"
    lakes.create(name, TableDefinition(PLAIN, properties=VECTORS))
    keyed = keyed_table(lakes, name)
    keyed.change([plain(n, 0) for n in range(30)])
    for turn in range(1, 4):
        keyed.change([plain(n, turn) for n in range(turn, 30, 7)], [turn])
    before = {*vector_files(lakes, name)}
    for setting, value in AT_ONCE.items():
        lakes.spark.conf.set(setting, value)
    try:
        lakes.spark.sql(f"VACUUM {lakes.in_spark(name)} RETAIN 0 HOURS")
    finally:
        for setting in AT_ONCE:
            lakes.spark.conf.unset(setting)

    kinds = {each.delete_state[:1] for each in keyed.lake.table.live_files(keyed.lake.state())}
    assert {"", "u"} == kinds
    assert set() < {*vector_files(lakes, name)} < before
    keyed.change([plain(n, 9) for n in range(0, 30, 4)], range(1, 30, 5))
    assert keyed.live() == lakes.by_spark(name) == lakes.by_own(name)


def vector_files(lakes: Lakes, name: str) -> list[str]:
    return [each.name for each in (lakes.place / name.replace(".", "/")).glob("*.bin")]


MADE = {
    "v2": ("", "'delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2'"),
    "named": ("PARTITIONED BY (on_day)", "'delta.columnMapping.mode'='name'"),
    "numbered": ("PARTITIONED BY (ok, name)", "'delta.columnMapping.mode'='id'"),
    "counted": (
        "",
        "'delta.checkpoint.writeStatsAsJson'='false', 'delta.checkpointInterval'='2'",
    ),
}


@pytest.mark.parametrize("made", MADE)
def test_tables_that_spark_made_take_row_deltas(lakes: Lakes, made: str) -> None:
    layout, properties = MADE[made]
    name = f"delta.shop.deltas_{made}"
    options = f"TBLPROPERTIES ('delta.enableDeletionVectors'='true', {properties})"
    lakes.sql(f"CREATE TABLE {{t}} ({COLUMNS}) USING delta {layout} {options}", t=name)
    keyed = keyed_table(lakes, name)
    keyed.change([row(n) for n in range(40)])
    keyed.change([row(n, score=-1.5) for n in range(0, 40, 3)], [1, 2, 4])
    lakes.sql("DELETE FROM {t} WHERE id % 8 = 7", t=name)
    keyed.rows = {n: each for n, each in keyed.rows.items() if n % 8 != 7}
    if made == "named":
        lakes.sql("ALTER TABLE {t} RENAME COLUMN id TO number", t=name)
        lakes.sql("ALTER TABLE {t} RENAME COLUMN number TO id", t=name)
    lakes.sql("DELETE FROM {t} WHERE id = 39", t=name)
    keyed.rows.pop(39, None)
    cold = keyed_table(lakes, name)
    cold.rows, cold.offset = keyed.rows, keyed.offset
    cold.change([row(n, ok=None) for n in range(5, 40, 5) if made != "numbered"], [3, 6])

    same_everywhere(lakes, cold)
    state = cold.lake.state()
    for file in cold.lake.table.live_files(state):
        found = pa.Table.from_batches(cold.lake.table.read_live(state, file, ["id"]))
        if "id" in file.bounds and found.num_rows:
            low, high = file.bounds["id"]
            assert low <= min(found["id"].to_pylist()) <= max(found["id"].to_pylist()) <= high


CHOSEN = {
    "few": lambda n: n in {0, 7, 65_535, 65_536, 199_999},
    "every third": lambda n: n % 3 == 1,
    "half": lambda n: n % 2 == 0 and n < 150_000,
    "runs": lambda n: 10 <= n < 90_000 or 120_000 <= n < 180_000,
    "mixed": lambda n: n < 500 or n % 7 == 0 or n > 190_000,
}
WHERE = {
    "few": "id IN (0, 7, 65535, 65536, 199999)",
    "every third": "id % 3 = 1",
    "half": "id % 2 = 0 AND id < 150000",
    "runs": "(id >= 10 AND id < 90000) OR (id >= 120000 AND id < 180000)",
    "mixed": "id < 500 OR id % 7 = 0 OR id > 190000",
}


def test_a_vector_of_spark_is_the_one_that_we_would_write(lakes: Lakes) -> None:
    for number, (chosen, where) in enumerate(WHERE.items()):
        name = f"delta.shop.same_{number}"
        lakes.sql(
            "CREATE TABLE {t} USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
            " AS SELECT /*+ COALESCE(1) */ id FROM range(0, 200000, 1, 1)",
            f"DELETE FROM {{t}} WHERE {where}",
            t=name,
        )
        root, table = StorageRoot(f"{lakes.place}/delta"), name.removeprefix("delta.")
        log = log_of(root, table)
        [add] = live_adds(log, log.versions()[-1])
        vector = vector_of(add)
        assert vector is not None, add
        expected = np.array([n for n in range(200_000) if CHOSEN[chosen](n)], np.int64)

        assert expected.tolist() == read_vector(root, table, vector).tolist()
        if vector.storage == "i":
            data = unpacked(vector.text)[: vector.size_bytes]
        else:
            file = lakes.place / "delta" / table.replace(".", "/") / vector.name
            data = file.read_bytes()[vector.starts + 4 :][: vector.size_bytes]
        assert encoded(expected) == data, chosen


def test_a_million_positions_are_read_by_spark(lakes: Lakes) -> None:
    name, count = "delta.shop.million", 1_200_000
    lakes.create(name, TableDefinition(Struct((Field("id", Kind.LONG),)), properties=VECTORS))
    keyed = keyed_table(lakes, name)
    rows = pa.RecordBatch.from_arrays([pa.array(np.arange(count))], ["id"])
    lakes.landed(name, rows)
    keyed.offset = count
    gone = np.random.default_rng(3).choice(count, 1_000_000, replace=False)
    keyed.change(deletes=gone)
    left = np.setdiff1d(np.arange(count), gone)

    found = pa.Table.from_batches(lakes.spark.table(lakes.in_spark(name))._collect_as_arrow())
    assert left.tolist() == sorted(found["id"].to_pylist())
    [some] = lakes.sql("SELECT count(*) AS n FROM {t} WHERE id >= 70000 AND id < 170000", t=name)
    assert int(((left >= 70_000) & (left < 170_000)).sum()) == some["n"]


def test_a_shallow_clone_is_read_with_the_vectors_it_names(lakes: Lakes) -> None:
    name, copy = "delta.shop.cloned", "delta.shop.clone"
    lakes.create(name, TableDefinition(PLAIN, partition_by=("part",), properties=VECTORS))
    keyed = keyed_table(lakes, name)
    keyed.change([plain(n, 0) for n in range(30_000)])
    keyed.change(deletes=range(0, 30_000, 5))
    lakes.sql(f"CREATE TABLE {lakes.in_spark(copy)} SHALLOW CLONE {{t}}", t=name)
    other = keyed_table(lakes, copy)
    other.rows = dict(keyed.rows)
    kinds = {each.delete_state[:1] for each in other.lake.table.live_files(other.lake.state())}

    assert "p" in kinds
    assert other.live() == read_by_us(other, PLAIN.names)
    other.change([plain(n, 5) for n in range(0, 300, 7)], [1, 3])
    assert other.live() == lakes.by_spark(copy) == read_by_us(other, PLAIN.names)
    assert keyed.live() == lakes.by_spark(name)
