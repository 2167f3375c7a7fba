"""`penstock load --replace`: partitions and whole tables land again in place, in real tables."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.transforms import TruncateTransform
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import fingerprint, land, within
from tests.processes.process import Finished
from tests.processes.process import penstock as command

LAKE, DELTA = "lake.shop.orders", "delta.shop.orders"
FORMER = {"slot": "cast(id % 3 as bigint)", "made": "'former'"}
PRESENT = {
    "slot": "cast(case when id = 4 then 7 when id = 0 then 1 else id % 3 end as bigint)",
    "made": "'present'",
}


def by_rules(shop: Shop, columns: dict[str, str], where: str = "true") -> None:
    for rule in shop.spec["tables"]:
        rule["partition_by"] = ["slot"]
        rule["where"] = where
        rule["schema"] = {"create": True, "hints": {"id": "long"}}
        rule["transform"] = {"columns": columns}


@pytest.fixture
def landed(shop: Shop) -> Shop:
    """Return a shop whose tables have 60 orders in three partitions, in files of 30 rows each."""
    by_rules(shop, FORMER)
    for first in (0, 30):
        shop.send(first, 30)
        land(shop)
    return shop


def rows(shop: Shop, table: str) -> list[dict]:
    found = shop.lake() if table == LAKE else shop.delta()
    named = ({name: row[name] for name in ("id", "slot", "made")} for row in found)
    return sorted(named, key=lambda row: row["id"])


def lake_of(shop: Shop) -> Table:
    at = f"sqlite:///{shop.directory}/lake/catalog.db"
    return load_catalog("lake", type="sql", uri=at).load_table("shop.orders")


def delta_of(shop: Shop) -> DeltaTable:
    return DeltaTable(str(shop.directory / "delta/shop/orders"))


def load(shop: Shop, table: str, *words: str) -> Finished:
    return within("load", table, "--replace", *words, "--spec", shop.path, "--json")


@pytest.mark.parametrize("table", [LAKE, DELTA])
def test_the_rows_of_a_partition_land_again_wherever_they_belong_now(
    landed: Shop, table: str
) -> None:
    by_rules(landed, PRESENT, where="id <> 10")
    landed.path.stat()
    before = fingerprint(landed.directory)
    shown = load(landed, table, "slot=1", "slot=9", "--dry-run")
    assert (0, None, before) == (shown.code, shown.json["done"], fingerprint(landed.directory))
    said = [each["text"].removeprefix(f"{table}: ") for each in shown.json["plan"]["steps"]]
    quote = '"' if table == DELTA else ""
    assert "no file is of slot=9" == said[0]
    assert f"20 rows in 2 files of slot={quote}1{quote} are replaced" == said[1]
    assert f"20 records of {landed.topic}[0][1, 59) land again by the present rules" == said[2]

    done = load(landed, table, "slot=1", "--yes", "shop").json["done"]
    rule = 0 if table == LAKE else 1
    assert {"removed": 20, "landed": 19, "filtered": {f"tables[{rule}].where": 1}} == done
    expected = [
        {"id": n, "slot": 7 if n == 4 else n % 3, "made": "present" if n % 3 == 1 else "former"}
        for n in range(60)
        if n != 10
    ]
    assert expected == rows(landed, table)
    by_rules(landed, PRESENT)
    landed.send(60, 3)
    land(landed)
    assert [*range(10), *range(11, 63)] == [each["id"] for each in rows(landed, table)]


@pytest.mark.parametrize("table", [LAKE, DELTA])
def test_a_table_is_rebuilt_from_its_topic_without_an_empty_moment(
    landed: Shop, table: str
) -> None:
    """Rows that somebody deleted come again; readers of before see the former ones."""
    if table == LAKE:
        lake_of(landed).delete("id = 7")
    else:
        delta_of(landed).delete("id = 7")
    by_rules(landed, PRESENT)
    versions = len(delta_of(landed).history())
    done = load(landed, table, "--yes", "shop")
    assert {"removed": 59, "landed": 60, "filtered": {}} == done.json["done"], done.err

    assert [*range(60)] == [each["id"] for each in rows(landed, table)]
    assert {"present"} == {each["made"] for each in rows(landed, table)}
    landed.prove()
    if table == LAKE:
        now = lake_of(landed)
        head = now.current_snapshot()
        assert head is not None
        assert "overwrite" == head.summary.operation.value
        former = now.scan(snapshot_id=head.parent_snapshot_id).to_arrow()
        assert 1 == now.scan(row_filter="slot = 7").to_arrow().num_rows
    else:
        now = delta_of(landed)
        assert versions == now.version(), "one entry"
        former = DeltaTable(now.table_uri, version=versions - 1).to_pyarrow_table()
        assert 1 == now.to_pyarrow_table(filters=[("slot", "=", 7)]).num_rows
    assert (59, {"former"}) == (former.num_rows, set(former["made"].to_pylist()))


@pytest.mark.parametrize(
    ("table", "point"),
    [(LAKE, "commit.after"), pytest.param(DELTA, "commit.before", marks=pytest.mark.slow)],
)
def test_a_kill_leaves_the_former_rows_or_the_present_ones(
    landed: Shop, table: str, point: str
) -> None:
    by_rules(landed, PRESENT)
    asked = ("load", table, "--replace", "slot=1", "--spec", landed.path, "--yes", "shop")
    assert -9 == command(*asked, environment={"PENSTOCK_FAULTS": point}).code
    landed.prove()
    made = "present" if point == "commit.after" else "former"
    assert {made} == {each["made"] for each in rows(landed, table) if each["id"] % 3 == 1}
    assert 0 == within(*asked).code
    landed.prove()
    assert [*range(60)] == [each["id"] for each in rows(landed, table)]


@pytest.mark.parametrize("table", [LAKE, DELTA])
def test_a_load_is_undone_by_what_the_format_has_for_it(landed: Shop, table: str) -> None:
    before = rows(landed, table)
    by_rules(landed, PRESENT)
    assert 0 == load(landed, table, "--yes", "shop").code
    if table == LAKE:
        now = lake_of(landed)
        head = now.current_snapshot()
        assert head is not None
        assert head.parent_snapshot_id is not None
        now.manage_snapshots().rollback_to_snapshot(head.parent_snapshot_id).commit()
    else:
        now = delta_of(landed)
        now.restore(now.version() - 1)
    assert before == rows(landed, table)
    put_back = within("seek", table, "--spec", landed.path, "--yes", "shop", "--json")
    assert (0, {"moves": []}) == (put_back.code, put_back.json["done"]), put_back.err
    landed.prove()
    landed.send(60, 3)
    land(landed)
    landed.prove()
    assert [*range(63)] == [each["id"] for each in rows(landed, table)]


@pytest.mark.parametrize("table", [LAKE, DELTA])
def test_rows_that_the_pipeline_has_not_landed_stop_it(landed: Shop, table: str) -> None:
    if table == LAKE:
        now = lake_of(landed)
        strange = now.scan(row_filter="id = 1").to_arrow()
    else:
        strange = delta_of(landed).to_pyarrow_table(filters=[("id", "=", 1)])
    at = strange.schema.get_field_index("_kafka_offset")
    strange = strange.set_column(at, strange.schema.field(at), pa.array([None], pa.int64()))
    if table == LAKE:
        lake_of(landed).append(strange)
    else:
        write_deltalake(delta_of(landed), strange, mode="append")
    before = rows(landed, table)

    for words in (("slot=1",), ()):
        refused = load(landed, table, *words, "--yes", "shop")
        assert (2, "P269") == (refused.code, refused.json["error"]["code"])
    assert before == rows(landed, table)
    assert 0 == load(landed, table, "slot=2", "--yes", "shop").code


def test_what_another_pipeline_has_landed_stops_it(landed: Shop) -> None:
    landed.spec["name"] = "second"
    land(landed)
    landed.spec["name"] = "shop"
    refused = load(landed, LAKE, "slot=1", "--yes", "shop")

    assert (2, "P276") == (refused.code, refused.json["error"]["code"])


def test_what_is_no_partition_and_what_was_not_asked_for_is_refused(landed: Shop) -> None:
    def code(*words: str) -> str:
        return within("load", LAKE, *words, "--spec", landed.path, "--json").json["error"]["code"]

    assert "P278" == code()
    assert "P263" == code("--replace", "slot")
    assert "P263" == code("--replace", "day=2026-10-01")


def test_rows_that_wait_for_their_partitions_stop_a_load_of_partitions(landed: Shop) -> None:
    landed.spec["tables"][0]["write"] = {"distribution": "late"}
    landed.send(60, 30)
    land(landed)
    refused = load(landed, LAKE, "slot=1", "--yes", "shop").json["error"]
    assert "P274" == refused["code"]
    assert "penstock maintain" in refused["hint"]
    assert 90 == load(landed, LAKE, "--yes", "shop").json["done"]["landed"]
    landed.prove()
    refused = load(landed, LAKE, "slot=1", "--yes", "shop").json["error"]
    assert "P274" == refused["code"], "all rows wait now, and the table is partitioned all the same"


def test_a_field_that_is_made_in_another_way_now_names_no_partition_of_former_files(
    landed: Shop,
) -> None:
    with lake_of(landed).update_spec() as change:
        change.add_field("slot", TruncateTransform(2), "pair")
    assert 60 == load(landed, LAKE, "--yes", "shop").json["done"]["landed"]
    with lake_of(landed).update_spec() as change:
        change.remove_field("pair")
    with lake_of(landed).update_spec() as change:
        change.add_field("slot", TruncateTransform(3), "pair")
    landed.send(60, 3)
    land(landed)
    refused = load(landed, LAKE, "pair=0", "--yes", "shop").json["error"]

    assert "P274" == refused["code"], "slot 2 of the former files is of pair=0 by now"
    assert 21 == load(landed, LAKE, "slot=2", "--yes", "shop").json["done"]["landed"]
