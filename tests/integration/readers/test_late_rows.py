"""Rows that land late, outside of their partitions: read by everybody, before and after they are
moved, and moved once, whatever others do to the table meanwhile.
"""

from __future__ import annotations

import random  # noqa: TID251  seeded
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.expressions import BooleanExpression, EqualTo, In, IsNull
from pyiceberg.transforms import BucketTransform
from tests.integration.iceberg.keyed import read_by_duckdb
from tests.integration.maintaining import maintained
from tests.integration.readers.lakes import CONNECTORS, SECRETS, Lakes, by_id, chain
from tests.integration.readers.own_rows import FILTERS, SCHEMA, comparable, row

from penstock.app.inspect.metadata_audit import values_of
from penstock.core.commits import CommitKind
from penstock.core.errors import ConflictError, InvalidError
from penstock.core.maintenance import groups_of, health_of
from penstock.ports.row_deletes import POSITION, RowDeletes
from penstock.ports.tables import Table, TableDefinition, TableState, Verdict
from penstock.ports.writers import Distribution, Placing
from penstock.testing.contracts.table_fixture import Quiet, batch_of
from penstock.testing.prepared import prepared

NAME = "lake.shop.late"
LATE, AUTO = Placing(Distribution.LATE), Placing(Distribution.AUTO)
WRITER = partial(CONNECTORS["lake"].open_writer, secrets=SECRETS)
KIND_A = EqualTo("kind", "a b")
Row = dict[str, Any]


@pytest.fixture
def places(tmp_path: Path):
    opened = Lakes(tmp_path)
    yield opened
    opened.close()


def create(lakes: Lakes, by: Sequence[str] = ("kind",), name: str = NAME, **given: Any) -> Table:
    return lakes.create(name, TableDefinition(SCHEMA, tuple(by), **given))


def land(lakes: Lakes, numbers: range, placing: Placing = LATE, name: str = NAME) -> None:
    """Land a row for each number, as one task does that is committed until it landed."""
    table, rows = lakes.table(name), [row(number, 1) for number in numbers]
    state = table.state(chain(name))
    writer = WRITER(state.target, prefix="shop-1-0-0c0ffee0", observer=Quiet(), placing=placing)
    for start in range(0, len(rows), 40):
        writer.write(batch_of(state.schema, rows[start : start + 40]))
    files = writer.close()
    while True:
        given = {"files": files, "uuid": state.uuid, "schema_id": state.schema_id}
        origins = {0: 0} if state.landed is None else {}
        commit = prepared(chain(name), {0: (numbers.start, numbers.stop)}, origins=origins, **given)
        try:
            table.commit(state, commit, retain=25)
        except ConflictError:  # the table was given a spec for late rows
            state = table.state(chain(name))
        else:
            return


def maintain(lakes: Lakes, meanwhile: Callable[[], object] = lambda: None, name: str = NAME):
    return maintained(chain(name), lakes.table(name), CONNECTORS["lake"], meanwhile)


def specs(lakes: Lakes, name: str = NAME) -> list[int]:
    return sorted(each.spec_id for each in lakes.files(name))


def scanned(lakes: Lakes, where: BooleanExpression) -> tuple[list[Row], int]:
    """Read by PyIceberg; return the rows, and how many files it opens."""
    scan = lakes.known(NAME).scan(row_filter=where)
    return comparable(by_id(scan.to_arrow().to_pylist())), len([*scan.plan_files()])


def require_rows(lakes: Lakes, count: int, name: str = NAME) -> None:
    """Check that the rows are there, once each, for each reader, and that metadata agree."""
    wanted = comparable(row(number, 1) for number in range(count))
    assert wanted == comparable(lakes.by_own(name))
    for where, holds in FILTERS:
        found = comparable(read_by_duckdb(lakes, name, where))
        assert [
            each for each, of in zip(wanted, range(count), strict=True) if holds(row(of, 1))
        ] == found, where
    state = lakes.state(name)
    assert (Verdict.AGREED, count) == (state.verdict, state.landed.offsets[at_zero(state)])
    assert () == values_of(lakes.catalogs["lake"], name.partition(".")[2]).mismatches


def row_ids(lakes: Lakes) -> dict[int, tuple[int, int]]:
    """Return row id and sequence number of the last change, by the rows' own ids."""
    table, state = lakes.table(NAME), lakes.state(NAME)
    return {
        number: (row_id, changed)
        for file in table.live_files(state)
        for batch in table.read_live(state, file, ["id", *state.row_ids])
        for number, row_id, changed, _ in zip(*batch.to_pydict().values(), strict=True)
    }


def at_zero(state: TableState):
    (at,) = state.landed.offsets
    return at


@pytest.mark.parametrize("by", [("kind",), ("day(at)", "bucket(5, id)"), ("price",)], ids=str)
def test_they_are_read_before_and_after_they_are_moved(places: Lakes, by: Sequence[str]) -> None:
    create(places, by)
    land(places, range(100))
    land(places, range(100, 180))
    assert [1, 1] == specs(places), "one file a task, of the second spec"
    require_rows(places, 180)

    done = maintain(places)
    partitions = {tuple(each.partition) if by else () for each in places.files(NAME)}
    assert (1, 2, 1, 0) == (done.groups, done.files_before, done.commits, done.given_up)
    assert done.files_after == len(partitions) == len(places.files(NAME)) > 2
    assert {0} == {*specs(places)}, "all are of the table's own spec"
    require_rows(places, 180)
    assert 0 == maintain(places).groups


def test_filters_open_all_late_files_and_only_one_of_those_that_were_moved(places: Lakes) -> None:
    create(places)
    for first in (0, 50, 100):
        land(places, range(first, first + 50))
    before = [scanned(places, where) for where in (KIND_A, IsNull("kind"))]
    maintain(places)
    after = [scanned(places, where) for where in (KIND_A, IsNull("kind"))]

    assert [rows for rows, _ in before] == [rows for rows, _ in after]
    assert [[3, 3], [1, 1]] == [[files for _, files in found] for found in (before, after)]


def test_a_late_file_is_sorted_by_partition_and_cut_at_its_borders(places: Lakes) -> None:
    create(places, ("bucket(4, id)",), properties={"write.parquet.row-group-size-bytes": "4000"})
    land(places, range(400))
    (file,) = places.files(NAME)
    (read,) = places.table(NAME).live_files(places.state(NAME))
    batches = places.table(NAME).read_live(places.state(NAME), read, ["id"])
    ids = [number for batch in batches for number in batch["id"].to_pylist()]
    bucket = BucketTransform(4).transform(places.known(NAME).schema().find_type("id"))
    found = [bucket(each) for each in ids]

    assert sorted(found) == found
    assert len(file.split_offsets) > 4
    assert file.sort_order_id is None, "it is sorted by partition first"


def test_the_spec_is_added_once_and_stays_nobody_elses(places: Lakes) -> None:
    create(places)
    land(places, range(10))
    land(places, range(10, 20))
    metadata = places.known(NAME).metadata
    places.known(NAME).append(places.known(NAME).scan().to_arrow().slice(0, 0))

    assert [[1], []] == [
        [len(each.fields)] if each.fields else [] for each in metadata.partition_specs
    ]
    assert (0, "1") == (metadata.default_spec_id, metadata.properties["penstock.late-spec"])


def test_the_plan_names_late_files_and_where_they_go(places: Lakes) -> None:
    create(places)
    land(places, range(60), Placing())
    for first in (60, 70):
        land(places, range(first, first + 10))
    table, state = places.table(NAME), places.state(NAME)
    layout = table.layout(state)
    (late,) = [each for each in groups_of(layout) if each.late]
    health = health_of(layout, groups_of(layout))

    assert ("late", 2, 20, 3) == (late.partition, len(late.files), late.rows, late.files_after)
    assert (5, 2, 5) == (health.files, health.late, health.files_after)


def test_rows_that_are_deleted_while_they_are_moved_stay_deleted(places: Lakes) -> None:
    create(places)
    land(places, range(90))
    table, state = places.table(NAME), places.state(NAME)
    (file,) = table.live_files(state)
    gone: set[int] = set()

    def delete() -> None:
        now = table.state(chain(NAME))
        (batch,) = table.read_live(now, file, ["id"])
        at = np.array([3, 40, 41, 89], np.int64)
        gone.update(batch["id"].take(at.tolist()).to_pylist())
        assert np.array_equal(at, batch[POSITION].take(at.tolist()).to_numpy())
        commit = prepared(
            chain(NAME),
            {0: (90, 91)},
            uuid=now.uuid,
            schema_id=now.schema_id,
            kind=CommitKind.ROW_DELTA,
        )
        table.commit(now, commit, retain=25, row_deletes=[RowDeletes(file.path, "", at)])

    done = maintain(places, delete)
    left = [each for each in range(90) if each not in gone]
    assert (1, 4, 0) == (done.groups, done.carried, done.given_up)
    assert 4 == len(gone)
    assert left == [each["id"] for each in places.by_own(NAME)]
    assert {0} == {*specs(places)}


def test_they_go_to_the_partitions_that_the_table_has_then(places: Lakes) -> None:
    create(places)
    land(places, range(60))
    with places.known(NAME).update_spec() as update:
        update.add_field("id", BucketTransform(3), "id_bucket")
    land(places, range(60, 80))
    maintain(places)

    assert {2} == {*specs(places)}
    require_rows(places, 80)


def test_a_table_that_is_partitioned_no_more_has_no_late_rows(places: Lakes) -> None:
    create(places)
    land(places, range(30))
    with places.known(NAME).update_spec() as update:
        update.remove_field("kind")
    land(places, range(30, 50))
    maintain(places)

    assert 1 == len({*specs(places)}) == len(places.files(NAME))
    require_rows(places, 50)


def test_a_branch_has_late_rows_of_its_own(places: Lakes) -> None:
    create(places)
    land(places, range(20))
    land(places, range(20), name=f"{NAME}@audited")
    maintain(places, name=f"{NAME}@audited")

    assert [1] == specs(places)
    assert 20 == len(places.by_own(NAME))


def test_in_a_table_of_format_version_3_they_keep_their_ids(places: Lakes) -> None:
    create(places, properties={"format-version": "3"})
    land(places, range(20))
    land(places, range(20, 30))
    ids = row_ids(places)
    maintain(places)

    assert {0} == {*specs(places)}
    assert ids == row_ids(places)
    assert 30 == len({number for number, _ in ids.values()})
    assert comparable(row(number, 1) for number in range(30)) == comparable(places.by_own(NAME))


def test_a_table_of_format_version_1_has_none(places: Lakes) -> None:
    create(places, properties={"format-version": "1"})
    with pytest.raises(InvalidError) as raised:
        land(places, range(20))
    assert "P869" == raised.value.code


@pytest.mark.parametrize(
    ("rows", "given", "late"),
    [
        (100, {}, True),
        (20_000, {}, False),
        (100, {"write.distribution-mode": "none"}, False),
        (100, {"write.distribution-mode": "hash"}, False),
        (100, {"write.distribution-mode": "range"}, False),
        (100, {"format-version": "3"}, True),
    ],
    ids=str,
)
def test_auto_chooses_by_the_rows_of_a_task_and_by_the_table(
    places: Lakes, rows: int, given: dict[str, str], late: bool
) -> None:
    create(places, ("bucket(10, id)",), properties=given)
    land(places, range(rows), AUTO)

    assert late == (1 in specs(places))
    assert rows == len(places.by_own(NAME))


def test_auto_leaves_tables_of_others_as_they_are(places: Lakes) -> None:
    create(places, ("bucket(10, id)",))
    with places.known(NAME).transaction() as transaction:
        transaction.remove_properties("penstock.created")
    land(places, range(100), AUTO)

    assert {0} == {*specs(places)}


@pytest.mark.parametrize(("placing", "orders"), [(Placing(), None), (Placing(is_sorted=True), 1)])
def test_the_sort_order_is_kept_where_it_is_asked_for(
    places: Lakes, placing: Placing, orders: int | None
) -> None:
    create(places, sort_by=("id desc",))
    land(places, range(60), placing)
    table, state = places.table(NAME), places.state(NAME)
    found = []
    for file in table.live_files(state):
        ids = [n for batch in table.read_live(state, file, ["id"]) for n in batch["id"].to_pylist()]
        found.append(ids == sorted(ids, reverse=True))

    assert {orders} == {each.sort_order_id for each in places.files(NAME)}
    assert {orders is not None} == {*found}


def test_maintenance_sorts_by_the_order_of_the_table(places: Lakes) -> None:
    create(places, sort_by=("price", "id desc"))
    land(places, range(60), Placing())
    land(places, range(60, 100))
    assert 3 == maintain(places).files_after, "late rows get to partitions first"
    maintain(places)

    assert [1, 1, 1] == [each.sort_order_id for each in places.files(NAME)]
    require_rows(places, 100)


@pytest.mark.spark
def test_spark_reads_filters_and_changes_them(lakes: Lakes) -> None:
    create(lakes)
    land(lakes, range(60))
    land(lakes, range(60, 100), Placing())
    wanted = comparable(row(number, 1) for number in range(100))
    filtered = "SELECT * FROM {t} WHERE kind = 'a b' ORDER BY id"
    mine = [each for each in wanted if each["kind"] == "a b"]

    assert wanted == comparable(lakes.by_spark(NAME))
    assert mine == comparable(lakes.sql(filtered, t=NAME))
    lakes.sql("DELETE FROM {t} WHERE kind = 'a b' AND id < 10", t=NAME)
    left = [each for each in wanted if each["kind"] != "a b" or each["id"] >= 10]
    assert left == comparable(lakes.by_spark(NAME))
    maintain(lakes)
    assert {0} == {*specs(lakes)}
    assert left == comparable(lakes.by_spark(NAME)) == comparable(lakes.by_own(NAME))
    assert [each for each in left if each["kind"] == "a b"] == comparable(
        lakes.sql(filtered, t=NAME)
    )


@pytest.mark.spark
def test_a_dynamic_overwrite_of_spark_leaves_rows_that_are_late(lakes: Lakes) -> None:
    """As the how-to says: it replaces files of the table's own spec."""
    name = "lake.shop.overwritten"
    create(lakes, name=name)
    land(lakes, range(30), name=name)
    lakes.sql(
        "SET spark.sql.sources.partitionOverwriteMode = dynamic",
        "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE kind = 'a b' AND id = 5",
        "SET spark.sql.sources.partitionOverwriteMode = static",
        t=name,
    )

    assert 31 == len(lakes.by_own(name))


@pytest.mark.parametrize("other", [NAME, f"{NAME}@audited"])
def test_two_that_add_the_spec_at_once_share_it(places: Lakes, other: str) -> None:
    table = create(places)
    land(places, range(10), Placing())
    state, former = table.state(chain(NAME)), places.table(other).state(chain(other))
    writer = WRITER(state.target, prefix="shop-1-0-0c0ffee0", observer=Quiet(), placing=LATE)
    writer.write(batch_of(state.schema, [row(number, 1) for number in range(10, 20)]))
    given = {"files": writer.close(), "uuid": state.uuid, "schema_id": state.schema_id}
    commit = prepared(chain(NAME), {0: (10, 20)}, **given)
    with pytest.raises(ConflictError):
        table.commit(state, commit, retain=25)
    with pytest.raises(ConflictError):  # it looked at the table before
        places.table(other).commit(former, replace(commit, chain=chain(other)), retain=25)
    table.commit(table.state(chain(NAME)), commit, retain=25)

    assert 1 == specs(places).count(1)
    assert 2 == len(places.known(NAME).metadata.partition_specs)
    require_rows(places, 20)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_others_do_in_whatever_order_each_row_is_there_once(
    places: Lakes, seed: int
) -> None:
    """Rows land late or not, are moved, and others delete, append, and change the partitioning."""
    chance, truth, landed = random.Random(seed), set[int](), 0
    create(places, ("on_day", "kind"), sort_by=("id",))

    def lands(placing: Placing) -> None:
        nonlocal landed
        land(places, range(landed, landed + 25), placing)
        truth.update(range(landed, landed + 25))
        landed += 25

    def deletes() -> None:
        gone = set(chance.sample(sorted(truth), min(len(truth), 7)))
        places.known(NAME).delete(In("id", gone))
        truth.difference_update(gone)

    def appends() -> None:
        number = 1_000_000 + len(truth)
        schema = places.known(NAME).schema().as_arrow()
        rows = batch_of(places.state(NAME).schema, [row(number, 1)])
        places.known(NAME).append(pa.Table.from_batches([rows]).cast(schema))
        truth.add(number)

    def partitions() -> None:
        fields = [each.name for each in places.known(NAME).spec().fields]
        with places.known(NAME).update_spec() as update:
            update.remove_field("kind") if "kind" in fields else update.add_identity("kind")

    acts = [lands, lands, deletes, appends, partitions, maintain]
    for _ in range(14):
        act = chance.choice(acts)
        if act is lands:
            lands(chance.choice([LATE, LATE, AUTO, Placing(), Placing(is_sorted=True)]))
        else:
            maintain(places) if act is maintain else act()
        assert sorted(truth) == [each["id"] for each in places.by_own(NAME)]
        said = values_of(places.catalogs["lake"], "shop.late").mismatches
        assert [] == [each for each in said if "/shop-" in each.file], "PyIceberg counts no NaN"
    lands(LATE)
    maintain(places)
    assert comparable(row(each, 1) for each in sorted(truth)) == comparable(places.by_own(NAME))
    assert {places.known(NAME).metadata.default_spec_id} >= {
        each.spec_id for each in places.files(NAME) if not each.partition
    }
