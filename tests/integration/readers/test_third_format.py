"""Iceberg's format version 3 with Spark, which writes and reads all of it: row ids and vectors.

Row ids are compared over a REST catalog, row deletes in the SQL catalog that all readers share.
"""

from __future__ import annotations

import random  # noqa: TID251  seeded
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.contracts.test_iceberg_catalogs import empty
from tests.integration.iceberg.keyed import CITY, SCHEMA, KeyedTable, row
from tests.integration.maintaining import maintained
from tests.integration.readers.lakes import SECRETS, Lakes, chain

from penstock.commit.rearranging import RearrangedFiles
from penstock.connectors import iceberg
from penstock.connectors.iceberg.files.manifests import MERGE_AT
from penstock.core.errors import ConflictError, OutcomeUnknownError
from penstock.ports.tables import Table, TableDefinition
from penstock.ports.writers import AS_THEY_COME, Distribution, Placing
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import origin, prepared

pytestmark = pytest.mark.spark

NAME = "other.shop.rides"
MERGE_ON_READ = {
    "format-version": "3",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
}


class Rides:
    """A table of a REST catalog that Spark knows as well, and how far its partition has landed."""

    def __init__(self, lakes: Lakes, table: Table) -> None:
        self.lakes, self.table, self.offset = lakes, table, 0

    def prepared(self, count: int, placing: Placing = AS_THEY_COME) -> tuple[Any, Any]:
        state = self.table.state(chain(NAME))
        rows = [row(each, 0, each) for each in range(self.offset, self.offset + count)]
        writer = iceberg.connector.open_writer(
            state.target, prefix="shop-1-0", observer=Quiet(), secrets=SECRETS, placing=placing
        )
        writer.write(batch_of(state.schema, rows))
        ranges = {0: (self.offset, self.offset + count)}
        given = {"uuid": state.uuid, "schema_id": state.schema_id}
        return state, prepared(chain(NAME), ranges, files=tuple(writer.close()), **given)

    def land(self, count: int) -> None:
        state, commit = self.prepared(count)
        self.table.commit(state, commit, retain=25)
        self.offset += count

    def land_late(self, count: int) -> None:
        """Land rows without their partitions, once the table has a spec for these."""
        state, commit = self.prepared(count, Placing(Distribution.LATE))
        with pytest.raises(ConflictError):
            self.table.commit(state, commit, retain=25)
        self.table.commit(self.table.state(chain(NAME)), commit, retain=25)
        self.offset += count

    def maintain(self, meanwhile: Callable[[], object] = lambda: None) -> RearrangedFiles:
        return maintained(chain(NAME), self.table, iceberg.connector, meanwhile)

    def sql(self, text: str) -> list[dict[str, Any]]:
        return self.lakes.spark.sql(text.format(t=NAME)).toArrow().to_pylist()

    @property
    def ids(self) -> dict[int, tuple[int, int]]:
        """Row id and sequence number of the last change, by the rows' own ids."""
        found = self.sql("SELECT id, _row_id, _last_updated_sequence_number AS changed FROM {t}")
        assert len(found) == len({each["_row_id"] for each in found}), "a row id is given twice"
        return {each["id"]: (each["_row_id"], each["changed"]) for each in found}


@pytest.fixture
def kind() -> str:
    """Return the format of files."""
    return "parquet"


@pytest.fixture
def rides(lakes: Lakes, rest_catalog: str, kind: str) -> Iterator[Rides]:
    for key, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": rest_catalog,
        ".cache-enabled": "false",
    }.items():
        lakes.spark.conf.set(f"spark.sql.catalog.other{key}", value)
    settings = {"name": "other", "type": "rest", "uri": rest_catalog}
    catalog = iceberg.connector.open_catalog(settings, SECRETS, Quiet())
    properties = {"format-version": "3", "write.format.default": kind}
    definition = TableDefinition(SCHEMA, properties=properties)
    yield Rides(lakes, catalog.create("shop.rides", definition, [origin(chain(NAME), {0: 0})]))
    catalog.close()
    empty(iceberg_catalog(rest_catalog))


def iceberg_catalog(address: str) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("other", type="rest", uri=address)


def test_rows_keep_their_ids_through_appends_merged_manifests_a_refusal_and_a_compaction(
    rides: Rides,
) -> None:
    for _ in range(MERGE_AT + 2):
        rides.land(2)
    expected = {each: (each, 1 + each // 2) for each in range(2 * MERGE_AT)}
    landed = rides.ids

    assert expected == {each: landed[each] for each in expected}
    assert [MERGE_AT + 1, MERGE_AT + 2] == [landed[2 * MERGE_AT + each][1] for each in (0, 2)]

    state, commit = rides.prepared(3)
    rides.sql("INSERT INTO {t} (id) VALUES (1000)")
    with pytest.raises((ConflictError, OutcomeUnknownError)):
        rides.table.commit(state, commit, retain=25)
    rides.table.commit(rides.table.state(chain(NAME)), commit, retain=25)
    rides.offset += 3
    retried = rides.ids
    assert landed == {each: retried[each] for each in landed}
    assert len(landed) + 4 == len(retried)

    rides.sql(
        "CALL other.system.rewrite_data_files('shop.rides', options => map('rewrite-all','true'))"
    )
    assert retried == rides.ids
    rides.land(2)
    rides.land(1)
    assert retried == {each: rides.ids[each] for each in retried}


@pytest.mark.parametrize("kind", ["parquet", pytest.param("orc", marks=pytest.mark.slow)])
def test_rows_keep_their_ids_where_files_are_rearranged_in_turn_with_spark(
    rides: Rides, kind: str
) -> None:
    rides.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    for _ in range(4):
        rides.land(5)
    rides.sql("DELETE FROM {t} WHERE id IN (3, 11)")
    landed = rides.ids
    done = rides.maintain(lambda: rides.sql("DELETE FROM {t} WHERE id = 7"))
    del landed[7]

    assert (1, 4, 2, 1, 0) == (
        *(done.groups, done.files_before, done.deleted),
        *(done.carried, done.given_up),
    )
    assert landed == rides.ids
    assert [{"file_format": "PUFFIN", "record_count": 1}] == rides.sql(
        "SELECT file_format, record_count FROM {t}.delete_files"
    )

    rides.sql(
        "MERGE INTO {t} USING (SELECT 5L AS it) ON id = it WHEN MATCHED THEN UPDATE SET version = 9"
    )
    merged = rides.ids
    assert landed[5][0] == merged[5][0]
    assert landed[5][1] < merged[5][1]
    assert {k: v for k, v in landed.items() if k != 5} == {k: merged[k] for k in landed if k != 5}

    rides.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
    rides.land_late(6)
    rides.land(4)
    before = rides.ids
    assert merged == {each: before[each] for each in merged}
    assert rides.maintain().groups
    assert before == rides.ids
    rides.land(3)
    assert before == {each: rides.ids[each] for each in before}
    assert 30 == len(rides.ids)
    formats = rides.sql("SELECT DISTINCT file_format FROM {t}.data_files")
    assert [{"file_format": kind.upper()}] == formats


def assert_counts_what_is_live(lakes: Lakes, name: str) -> None:
    """A vector weighs what it takes of its file: so Spark counts, and an append carries it on."""
    [live] = lakes.sql(
        "SELECT (SELECT sum(file_size_in_bytes) FROM {t}.data_files)"
        " + (SELECT sum(content_size_in_bytes) FROM {t}.delete_files) AS bytes",
        t=name,
    )
    summary = lakes.known(name).current_snapshot().summary
    assert str(live["bytes"]) == summary["total-files-size"]


def test_row_deletes_of_spark_and_ours_take_turns(lakes: Lakes) -> None:
    table = KeyedTable(lakes, "lake.shop.turns", TableDefinition(SCHEMA, (CITY,), MERGE_ON_READ))
    table.change(range(60), files=3)
    chance = random.Random(7)
    for number in range(3):
        ids = chance.sample(range(80), 14)
        table.change(ids[:7], [each for each in ids[7:] if each in table.truth])
        gone = chance.sample(sorted(table.truth), 4)
        lakes.sql(f"DELETE FROM {{t}} WHERE id IN ({', '.join(map(str, gone))})", t=table.name)
        for each in gone:
            del table.truth[each]
        table.change([100 + number])
        assert_counts_what_is_live(lakes, table.name)
        assert_read_alike(lakes, table)
        if number == 1:
            lakes.sql("CALL lake.system.rewrite_position_delete_files('shop.turns')", t=table.name)
            lakes.sql("CALL lake.system.rewrite_manifests('shop.turns')", t=table.name)
            assert_read_alike(lakes, table)
    formats = lakes.sql("SELECT DISTINCT file_format FROM {t}.delete_files", t=table.name)

    assert [{"file_format": "PUFFIN"}] == formats
    assert len(table.rows) == table.table.describe().rows
    lakes.sql(
        "CALL lake.system.rewrite_data_files('shop.turns', options => map('rewrite-all','true'))",
        t=table.name,
    )
    table.change([1, 2], [3])
    assert_read_alike(lakes, table)


def test_a_table_that_was_upgraded_keeps_its_deletes_and_is_given_row_ids(lakes: Lakes) -> None:
    former = {**MERGE_ON_READ, "format-version": "2"}
    table = KeyedTable(lakes, "lake.shop.upgraded", TableDefinition(SCHEMA, (), former))
    table.change(range(20), files=2)
    table.change([3, 4], [5, 12])
    lakes.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')", t=table.name)
    assert_read_alike(lakes, table)
    table.change([6, 30], [3])
    assert_read_alike(lakes, table)
    given = lakes.sql("SELECT id, _row_id FROM {t} WHERE _row_id IS NOT NULL", t=table.name)
    table.change([7], [8])
    kept = lakes.sql("SELECT id, _row_id FROM {t} WHERE id NOT IN (7, 8)", t=table.name)

    assert sorted([*table.truth, 8]) == sorted(each["id"] for each in given)
    assert len(given) == len({each["_row_id"] for each in given})
    by_id = {each["id"]: each["_row_id"] for each in given}
    assert all(by_id[each["id"]] == each["_row_id"] for each in kept)
    assert_read_alike(lakes, table)


def test_rows_that_are_given_ids_while_they_are_rearranged_keep_them(lakes: Lakes) -> None:
    former = {**MERGE_ON_READ, "format-version": "2"}
    table = KeyedTable(lakes, "lake.shop.overtaken", TableDefinition(SCHEMA, (), former))
    table.change(range(20), files=2)
    given: dict[int, int] = {}

    def ids() -> dict[int, int]:
        found = lakes.sql("SELECT id, _row_id FROM {t}", t=table.name)
        return {each["id"]: each["_row_id"] for each in found}

    def meanwhile() -> None:
        lakes.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')", t=table.name)
        table.change([6, 30], [3])
        given.update(ids())

    done = maintained(chain(table.name), table.table, iceberg.connector, meanwhile)
    assert (1, 1) == (done.groups, done.given_up), "what was written has no ids: written again"
    assert given == ids()
    assert len(given) == len({*given.values()} - {None}) == len(table.truth)
    assert_read_alike(lakes, table)


def assert_read_alike(lakes: Lakes, table: KeyedTable) -> None:
    assert table.rows == lakes.by_spark(table.name)
    assert table.rows == lakes.by_own(table.name)
    assert table.rows == table.read_by_us()
