"""Changes of a database land in keyed tables: each key's last row, whatever dies when.

The tables are read by PyIceberg and deltalake alone; the truth is a dict, folded over what was sent.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from random import Random  # noqa: TID251  seeded

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from tests.integration.cli.database import (
    COLUMNS,
    PARTITIONS,
    Database,
    compared,
    event,
    keyed,
    read,
    send,
)
from tests.integration.cli.shop import Shop, problem
from tests.integration.delta.keyed import queried

from penstock.testing.sent import Sent

POINTS = (
    "prepare.after:1",
    "resolve.after:1",
    "row_deletes.written:1",
    "manifest.written:1",
    "commit.before:2",
    "commit.after:1",
)


@pytest.fixture
def shop(shops: Callable[[], Shop]) -> Shop:
    return keyed(shops())


def test_changes_are_peeked_at_with_the_rows_that_they_change(shop: Shop) -> None:
    first, second = ({"id": n, "name": "a", "amount": 0.5} for n in (1, 2))
    shop.cluster.send(shop.topic, 0, [Sent(event("c", None, each)) for each in (first, second)])
    assert 0 == shop.run().code
    moved = {**second, "id": 3}
    changes = [("u", first, first), ("d", first, None), ("u", second, moved), ("d", moved, None)]
    shop.cluster.send(shop.topic, 0, [Sent(event(*each)) for each in changes])

    peeked = shop.call("peek", shop.topic, "-n", "6")
    assert 0 == peeked.code, peeked
    for table in ("lake.shop.orders", "delta.shop.orders"):
        at = f"{shop.topic}[0] offset"
        for said in (
            'upsert of {"id": 1}: is the row already',
            f'upsert of {{"id": 1}}: replaces the row of {at} 0',
            f'delete of {{"id": 1}}: deletes the row of {at} 0',
            f'delete of {{"id": 2}}: deletes the row of {at} 1',
            'upsert of {"id": 3}: inserts',
            'delete of {"id": 3}: finds no row',
        ):
            assert f"→ {table}  {said}\n" in peeked.out, (said, peeked.out)
    assert "quarantine" not in peeked.out

    first_outcome, *_ = shop.call("peek", shop.topic, "-n", "1", "--json").json[0]["outcomes"]
    change = {"change": "delete", "key": {"id": 3}, "effect": "finds no row"}
    assert [{**change, "rows": [], "detail": ""}] == first_outcome["changes"]


def test_the_tables_are_the_database_after_each_kill_in_the_middle_of_a_commit(shop: Shop) -> None:
    database = Database(7)
    send(shop, database, 80)
    assert 0 == shop.run().code
    compared(shop, database)
    for point in POINTS:
        send(shop, database, 80)
        killed = shop.run(PENSTOCK_FAULTS=point)
        assert -signal.SIGKILL == killed.code, point
        send(shop, database, 20)
        assert 0 == shop.run().code
        compared(shop, database)
        assert 0 == shop.pending()
    assert [] == shop.rejects()

    before = shop.lake()
    assert 0 == shop.run().code
    assert before == shop.lake()
    shop.prove()
    values = shop.call("audit", "--values")
    assert 0 == values.code, values.out


def test_keys_that_move_to_new_partitions_stop_nothing_but_for_producers_that_have_not_heard(
    shop: Shop,
) -> None:
    for table in shop.spec["tables"]:
        table["across_partitions"] = "stop"
    database = Database(9)
    send(shop, database, 40)
    assert 0 == shop.run().code
    send(shop, database, 200)
    shop.cluster.grow(shop.topic, 2 * PARTITIONS)
    database.partitions *= 2
    send(shop, database, 60)
    planned = shop.call("plan")
    assert "after what all partitions had when some were added" in " ".join(planned.out.split())
    killed = shop.run(PENSTOCK_FAULTS="commit.after:1")
    assert -signal.SIGKILL == killed.code, killed.out
    assert 0 == shop.run().code
    compared(shop, database)
    shop.prove()

    database.partitions = PARTITIONS
    send(shop, database, 40)
    stopped = shop.run()
    assert (4, "P489") == (stopped.code, problem(stopped)[0])
    for table in shop.spec["tables"]:
        table["across_partitions"] = "warn"
    assert 0 == shop.run().code
    compared(shop, database)


def test_deleted_rows_stay_with_a_flag_in_both_formats(shop: Shop) -> None:
    for table in shop.spec["tables"]:
        table["deletes"] = "soft"
    database = Database(8)
    send(shop, database, 40)
    assert 0 == shop.run().code
    for point in ("row_deletes.written:1", "commit.after:1"):
        send(shop, database, 40)
        planned = shop.call("plan")
        assert re.search(r" (is|are) deleted; ", planned.out), planned.out
        killed = shop.run(PENSTOCK_FAULTS=point)
        assert -signal.SIGKILL == killed.code, killed.out
        send(shop, database, 40)
        assert 0 == shop.run().code
        for where, rows in read(shop, (*COLUMNS, "_is_deleted")).items():
            assert database.flagged() == rows, where
    for rows in read(shop, ("id", "_is_deleted", "_deleted_at")).values():
        assert [each["_is_deleted"] for each in rows] == [
            each["_deleted_at"] is not None for each in rows
        ]
    assert database.gone
    assert [] == shop.rejects()
    shop.prove()

    first = {"id": min(database.gone), "name": "a", "amount": 0.5}
    shop.cluster.send(shop.topic, PARTITIONS - 1, [Sent(event("d", first, None))])
    peeked = shop.call("peek", shop.topic, "-n", "10").out
    assert f'delete of {{"id": {first["id"]}}}: flags the row of {shop.topic}' in peeked, peeked


def test_changes_that_come_in_any_order_leave_the_row_of_the_highest_version(shop: Shop) -> None:
    shop.spec["records"] = {"format": "json"}
    for table in shop.spec["tables"]:
        table["operation"] = {"field": "op", "map": {"U": "update", "D": "delete"}}
        table |= {"deletes": "soft", "sequence_by": ["version"]}
        table["schema"]["hints"] = {"id": "long", "version": "long", "op": "string"}
    draw = Random(5)
    made = [
        {"id": draw.randrange(9), "version": number, "op": "D" if draw.random() < 0.3 else "U"}
        for number in range(240)
    ]
    highest = {each["id"]: each for each in made}
    draw.shuffle(made)
    said = ""
    for number, point in enumerate(("", "row_deletes.written:1", "commit.after:1")):
        for each in made[80 * number : 80 * number + 80]:
            sent = Sent(json.dumps(each).encode())
            shop.cluster.send(shop.topic, draw.randrange(PARTITIONS), [sent])
        if point:
            assert -signal.SIGKILL == shop.run(PENSTOCK_FAULTS=point).code
        run = shop.run()
        assert 0 == run.code
        said += run.err
    expected = [
        {"id": number, "version": each["version"], "_is_deleted": each["op"] == "D"}
        for number, each in sorted(highest.items())
    ]
    for where, rows in read(shop, ("id", "version", "_is_deleted")).items():
        assert expected == rows, where
    assert '"late": ' in said
    shop.prove()

    for table in shop.spec["tables"]:
        table["sequence_by"] = ["id"]
    assert "P262" in shop.call("validate").err
    for table in shop.spec["tables"]:
        del table["sequence_by"]
    assert ("P464", 4) == (problem(ended := shop.run())[0], ended.code)


def test_an_audit_finds_the_rows_that_other_writers_put_back(shop: Shop) -> None:
    database = Database(9)
    send(shop, database, 60)
    assert 0 == shop.run().code
    former = {row["id"]: row for row in shop.lake()}
    send(shop, database, 60)
    assert 0 == shop.run().code
    audited = shop.call("audit", "--count")
    assert 0 == audited.code, audited.out
    assert 2 == audited.out.count("has the row of its last one, or none after a delete")

    table = iceberg(shop)
    now = {row["id"]: row for row in shop.lake()}
    number = next(each for each in sorted(now) if each in former and former[each] != now[each])
    table.delete(EqualTo("id", number))
    table.append(pa.Table.from_pylist([former[number]], schema=table.schema().as_arrow()))

    found = shop.call("audit", "--count", "--json")
    assert 4 == found.code
    tables = {each["table"]: each["row_count"] for each in found.json["tables"]}
    assert ["stale"] == [each["kind"] for each in tables["lake.shop.orders"]["breaks"]]
    assert [] == tables["delta.shop.orders"]["breaks"]
    (place,) = tables["lake.shop.orders"]["applied_again"]
    shown = shop.call("audit", "--count")
    assert f"penstock seek --reapply lake.shop.orders {place}" in shown.out

    words = ("--reapply", "lake.shop.orders", place, "--yes", "shop")
    assert 0 == shop.call("seek", *words).code
    assert 0 == shop.run().code
    compared(shop, database)
    shop.prove()


def iceberg(shop: Shop) -> Table:
    """Open the Iceberg table as another program does."""
    uri = f"sqlite:///{shop.directory}/lake/catalog.db"
    return load_catalog("lake", type="sql", uri=uri).load_table("shop.orders")


def keys_of_delta(shop: Shop) -> set[int]:
    table = DeltaTable(str(shop.directory / "delta/shop/orders"))
    return {row["id"] for row in queried(table, columns="id")}


def put(shop: Shop, database: Database, number: int) -> None:
    row = {"id": number, "name": "again", "amount": 0.5}
    database.rows[number] = row
    shop.cluster.send(shop.topic, number % PARTITIONS, [Sent(event("c", None, row))])


def test_another_program_deletes_from_a_table_that_is_paused_while_records_keep_coming(
    shop: Shop,
) -> None:
    database = Database(3)
    send(shop, database, 40)
    assert 0 == shop.run().code
    assert "no table is paused\n" == shop.call("pause").out
    gone = min(database.rows)

    with shop.driver() as driver:
        driver.wait_for("PipelineStarted")
        put(shop, database, 100)
        driver.wait_until(lambda: len(shop.lake()) == len(database.rows), "the record")

        paused = shop.call("pause", "lake.shop.orders", "--for", "1h", "--json")
        assert (0, True) == (paused.code, paused.json["confirmed"])
        table = iceberg(shop)
        before = len(table.snapshots())
        for number in range(101, 106):
            put(shop, database, number)
            driver.wait_until(lambda n=number: n in keys_of_delta(shop), "the other table")
        assert before == len(iceberg(shop).snapshots())
        table.delete(f"id == {gone}")
        assert {*range(100, 106)} - {row["id"] for row in shop.lake()} == {*range(101, 106)}

        (listed,) = shop.call("pause", "--json").json["pauses"]
        assert paused.json == listed
        status = shop.call("status", "--json").json["tables"]["lake.shop.orders"]
        assert (listed["until_ms"], None) == (status["paused_until_ms"], status["parked"])
        assert "paused until" in shop.call("status").out

        put(shop, database, gone)
        assert 0 == shop.call("resume", "lake.shop.orders").code
        driver.wait_until(lambda: len(shop.lake()) == len(database.rows), "the rows held back")
        assert (1, 1) == (driver.count("PauseBegan"), driver.count("PauseEnded"))
        assert 0 == driver.count("TableParked")
        driver.send(signal.SIGTERM)
        assert 0 == driver.end().code
    compared(shop, database)
    shop.prove()


def test_a_run_that_ends_by_itself_says_that_a_table_is_paused(shop: Shop) -> None:
    database = Database(4)
    send(shop, database, 10)
    assert 0 == shop.run().code
    assert 0 == shop.call("pause", "lake.shop.orders").code
    send(shop, database, 10)

    assert ("P445", 75) == (problem(ended := shop.run())[0], ended.code)
    assert (2, 2) == (
        shop.call("pause", "lake.shop.other").code,
        shop.call("pause", "lake.shop.orders", "--for", "25h").code,
    )
    assert "paused no longer" in shop.call("resume", "lake.shop.orders").out
    assert "was not paused" in shop.call("resume", "lake.shop.orders").out
    assert 0 == shop.run().code
    compared(shop, database)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_keys_that_meet_in_several_slices_on_spark_have_one_row(shop: Shop) -> None:
    """A worker dies and its task runs again; then the driver dies, and a run without Spark goes on."""
    shop.spec["spark"]["master"] = "local[2]"
    shop.spec["slice_bytes"] = "4MB"  # records count as 500 bytes before any was read
    shop.spec["commit"]["or_records"] = 100_000
    database = Database(11, keys=300)
    send(shop, database, 40_000)
    with shop.driver(PENSTOCK_FAULTS="row_deletes.written:1") as driver:
        driver.wait_until(lambda: bool(driver.workers()), "a worker runs")
        driver.workers()[0].kill()
        driver.wait_for("TableCommitted", 2)
        compared(shop, database)
        send(shop, database, 400)
        assert -signal.SIGKILL == driver.end().code
    assert shop.pending() > 0
    for place in ("lake", "delta"):
        written = [each.name for each in (shop.directory / place).rglob("shop-1-*.parquet")]
        assert len({name.split("-")[2] for name in written}) > 2, place

    shop.spec["spark"]["master"] = "inline"
    send(shop, database, 50)
    assert 0 == shop.run().code
    compared(shop, database)
    assert [] == shop.rejects()
    shop.prove()


@pytest.mark.parametrize("table", ["lake.shop.orders", "delta.shop.orders"])
def test_a_rejected_change_lands_where_no_later_one_has(shop: Shop, table: str) -> None:
    """Of three keys one has an older row, one a later one, one was deleted since."""
    rows = [{"id": n, "name": "a", "amount": 0.5} for n in (1, 2, 3)]
    bad = [{**row, "amount": "much"} for row in rows]
    changes = [("c", None, row) for row in rows] + [("u", None, row) for row in bad]
    changes += [("u", None, {**rows[1], "name": "later"}), ("d", rows[2], None)]
    shop.cluster.send(shop.topic, 0, [Sent(event(*each)) for each in changes])
    assert 0 == shop.run().code
    for each in shop.spec["tables"]:
        each["schema"]["types"] = "drop_value"

    planned = shop.call("quarantine", "retry", table, "--json").json["plan"]
    assert ["wins", "loses", "absent"] == [each["fate"] for each in planned["records"]]
    for point in ("quarantine.after:1", "row_deletes.written:1", "commit.after:1"):
        killed = shop.call("quarantine", "retry", table, "--yes", "shop", PENSTOCK_FAULTS=point)
        assert -signal.SIGKILL == killed.code, (point, killed)
    done = shop.call("quarantine", "retry", table, "--yes", "shop", "--json")
    assert 0 == done.code, done
    kept = shop.call("quarantine", "retry", table, "--insert", "--yes", "shop", "--json")
    done = kept.json["done"]
    assert (0, {table: 1}, {"loses": 1}) == (kept.code, done["landed"], done["withheld"])
    where = "iceberg" if table.startswith("lake") else "delta"
    wanted = {1: ("a", None), 2: ("later", 0.5), 3: ("a", None)}
    rows = read(shop, COLUMNS)[where]
    assert wanted == {row["id"]: (row["name"], row["amount"]) for row in rows}
    counted = shop.call("audit", table, "--count")
    assert 0 == counted.code, counted
    assert "1 deleted key with the row of a record that was retried" in counted.out
    assert 0 == shop.call("audit", table, "--keys", "rules").code


def test_validate_says_what_a_run_would_refuse_of_a_table(shop: Shop) -> None:
    shop.cluster.send(
        shop.topic, 0, [Sent(event("c", None, {"id": 1, "name": "a", "amount": 1.5}))]
    )
    assert 0 == shop.run().code
    for table in shop.spec["tables"]:
        table["keys"] = ["name"]
    validated, ran = shop.call("validate", "--json"), shop.run()
    refused = [each["code"] for each in validated.json["problems"]]

    assert (["P464"] * 2, 4, 4) == (refused, validated.code, ran.code)
    by_key = shop.call("audit", "--keys", "rules", "--json")
    assert (0, [1, 1], [0, 0]) == (
        by_key.code,
        [each["rows"] for each in by_key.json["tables"]],
        [each["repeated"] for each in by_key.json["tables"]],
    )
    assert "P434" in shop.call("audit", "lake.shop.orders", "--keys", "no").err
    assert "P444" in shop.call("audit", "lake.shop.orders", "--keys", "id,id").err

    for table in shop.spec["tables"]:
        table["keys"] = ["id"]
    place = str(shop.directory / "delta" / "shop" / "orders")
    DeltaTable(place).alter.set_table_properties({"delta.enableDeletionVectors": "false"})
    validated = shop.call("validate", "--json")

    (refusal,) = validated.json["problems"]
    assert ("P436", 2) == (refusal["code"], validated.code)
    assert "delta.shop.orders: shop.orders has no deletion vectors" in refusal["message"]
    by_key = shop.call("audit", "delta.shop.orders", "--keys", "id")
    assert (2, True) == (by_key.code, "P436" in by_key.err)
    assert "1 row by id" in by_key.out
    assert {"delta.shop.orders": "P436"} == {
        name: each["code"] for name, each in shop.run().json["parked"].items()
    }
