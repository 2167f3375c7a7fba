"""On a real broker: `penstock plan` ends as the run does, and says of records what it then does."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import planned, within

from penstock.testing.sent import Sent

LAKE, DELTA = "lake.shop.orders", "delta.shop.orders"
CREATE: dict[str, Any] = {"create": True}

MONEY = [{"id": n, "amount": f"{n},50"} for n in range(150)]
MIXED = [{"id": n if n % 2 else str(n), "tags": [None, n]} for n in range(30)]
TIMES = [{"id": n, "at": "2026-01-02T03:04:05Z", "seen": 1767323045 + n} for n in range(20)]
ITEMS = [{"id": n, "items": [{"sku": f"s{n}", "price": n / 4}]} for n in range(20)]
KEYS = [{"id": n, "labels": {f"k{n}": n}} for n in range(20)]
CHANGES = [
    {"before": None, "after": {"id": n, "amount": n}, "op": "c", "source": {"db": "x"}}
    for n in range(20)
]
ODD = [None, b"", b"no json", b"[1]", b'{"id": 1, "id": 2}', b"{}", b'{"id": null}', b"\xff"]


def messy(records: list[dict[str, Any]]) -> list[Sent]:
    """Write records as they come, with tombstones, empty values and other oddities among them."""
    written = [json.dumps(each).encode() for each in records]
    return [Sent(value) for value in (*written[:5], *ODD, *written[5:])]


def ran(shop: Shop) -> tuple[int, dict[str, str]]:
    """Run until caught up; give the exit code, and what is parked with which code."""
    done = within("run", shop.path, "--until-caught-up", "--json")
    reported = done.json
    parked = {"": reported["error"]} if "error" in reported else reported["parked"]
    return done.code, {name: error["code"] for name, error in parked.items()}


def by_name(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["table"]: each for each in plan["tables"]}


@pytest.mark.parametrize(
    ("records", "schema", "of_records"),
    [
        (MIXED, CREATE, {}),
        (TIMES, {**CREATE, "hints": {"at": "timestamptz", "seen": "long"}}, {}),
        (TIMES, {**CREATE, "hints": {"id": "string", "at": "date"}}, {}),
        (ITEMS, {**CREATE, "columns": "drop_value"}, {}),
        (KEYS, {**CREATE, "columns": "evolve", "types": "evolve"}, {}),
        (CHANGES, CREATE, {"records": {"envelope": "debezium"}}),
        (MONEY, {**CREATE, "hints": {"amount": "decimal(9,2)"}}, {}),
    ],
)
def test_a_run_of_a_messy_topic_does_what_its_plan_says(
    shop: Shop, records: list[dict[str, Any]], schema: dict[str, Any], of_records: dict[str, Any]
) -> None:
    shop.spec["quarantine"]["stop_above"] = "50%"
    for table in shop.spec["tables"]:
        table |= {"schema": dict(schema), **of_records}
    shop.cluster.send(shop.topic, 0, messy(records))

    code, plan = planned(shop)
    reported = {
        name: each["problem"]["code"] for name, each in by_name(plan).items() if each["problem"]
    }
    ended, parked = ran(shop)

    assert code == plan["run"]["exit_code"] == ended
    assert reported == parked or {*reported.values()} == {*parked.values()}
    if parked:
        return
    for name, rows in ((LAKE, shop.lake()), (DELTA, shop.delta())):
        said = by_name(plan)[name]
        assert [column for column, _ in said["columns"]] == list(rows[0])
        rejects = Counter(row["code"] for row in shop.rejects() if row["table"] == name)
        assert (said["sampled"]["landed"], said["sampled"]["quarantined"]) == (len(rows), rejects)
        assert said["sampled"]["complete"]


def test_code_field_and_an_example_are_named_and_whether_stop_above_trips(shop: Shop) -> None:
    shop.spec["quarantine"]["stop_above"] = "5%"
    for table in shop.spec["tables"]:
        table["schema"] = {**CREATE, "hints": {"amount": "decimal(9,2)"}}
    shop.cluster.send(shop.topic, 1, [Sent(json.dumps(each).encode()) for each in MONEY])

    code, plan = planned(shop)
    (rejects,) = by_name(plan)[LAKE]["sampled"]["rejects"]
    assert (4, "P345") == (code, by_name(plan)[LAKE]["problem"]["code"])
    assert ("P366", "amount", 150) == (rejects["code"], rejects["field"], rejects["count"])
    assert (shop.topic, 1, 0) == tuple(rejects[key] for key in ("topic", "partition", "offset"))
    assert rejects["value"] == '{"id": 0, "amount": "0,50"}'

    reported = within("plan", shop.path)
    assert 4 == reported.code
    assert "a run would end with 4: P345" in reported.out
    assert "of 150 sampled records 0 fit" in reported.out
    assert "quarantine.stop_above (5.0%) would stop this table" in " ".join(reported.out.split())
    assert f"{shop.topic}:1:0" in reported.out
    assert 4 == ran(shop)[0]


def test_the_newest_records_are_sampled_as_well_as_the_oldest(shop: Shop) -> None:
    shop.spec["quarantine"]["stop_above"] = "50%"
    shop.send(0, 3000)
    shop.cluster.send(shop.topic, 0, [Sent(b'{"id": "x"}')] * 200)

    code, plan = planned(shop)
    sampled = by_name(plan)[LAKE]["sampled"]
    assert 0 == code
    assert not sampled["complete"]
    assert ["P366"] == [*sampled["quarantined"]]


def test_a_layout_that_the_format_refuses_is_reported_before_the_run_is_refused(shop: Shop) -> None:
    shop.spec["tables"][0]["partition_by"] = ["day(nowhere)"]
    shop.spec["tables"][1]["partition_by"] = ["nowhere"]
    shop.send(0, 3)

    code, plan = planned(shop)
    assert {"P434"} == {each["problem"]["code"] for each in plan["tables"]}
    assert (code, {LAKE: "P434", DELTA: "P434"}) == ran(shop)


def test_a_plan_with_a_live_run_ends_as_a_second_run_would(shop: Shop) -> None:
    shop.send(0, 3)
    with shop.driver() as driver:
        driver.wait_for("TableCommitted", 2)
        beside = within("plan", shop.path, "--json")
        second = shop.run()
        taking_over = within("plan", shop.path, "--takeover")

    assert (75, "P510") == (beside.code, beside.json["run"]["reason"]["code"])
    assert (75, 0) == (second.code, taking_over.code)


def test_peek_and_plan_infer_alike(shop: Shop) -> None:
    orders = [{"id": n, "amount": n / 2} for n in range(40)]
    shop.cluster.send(shop.topic, 0, [Sent(json.dumps(each).encode()) for each in orders])
    shop.cluster.send(shop.topic, 1, [Sent(b'{"id": 41, "amount": 7}')])

    _, plan = planned(shop)
    (peeked,) = within("peek", "--spec", shop.path, "--at", f"{shop.topic}:1:0", "--json").json
    columns = {
        name: [column for column, _ in each["columns"]] for name, each in by_name(plan).items()
    }
    outcomes = {outcome["table"]: outcome["rows"][0] for outcome in peeked["outcomes"]}
    assert columns == {name: list(row) for name, row in outcomes.items()}
    assert {7.0} == {row["amount"] for row in outcomes.values()}

    assert 0 == ran(shop)[0]
    assert {float} == {type(row["amount"]) for row in (*shop.lake(), *shop.delta())}


def test_a_table_that_cannot_be_landed_in_is_not_headed_by_nothing_to_do(shop: Shop) -> None:
    shop.spec["tables"] = [{"from": shop.topic, "into": LAKE}]
    shop.send(0, 3)
    reported = within("plan", shop.path)

    assert 2 == reported.code
    assert "a run would end with 2: P456" in reported.out
    assert "nothing to do" not in reported.out
    assert 2 == ran(shop)[0]


def test_hints_that_match_no_field_of_the_records_are_reported_with_the_one_that_is_meant(
    shop: Shop,
) -> None:
    hints = {"amout": "double", "item.pice": "long", "id": "long", "zzz": "date"}
    shop.spec["tables"][0]["schema"] = {"create": True, "hints": hints}
    records = [{"id": n, "amount": n / 2, "item": {"price": n}} for n in range(5)]
    shop.cluster.send(shop.topic, 0, [Sent(json.dumps(each).encode()) for each in records])

    tables = by_name(planned(shop)[1])
    said = within("plan", shop.path).out

    unmatched_hints = [["amout", "amount"], ["item.pice", "item.price"], ["zzz", ""]]
    assert unmatched_hints == tables[LAKE]["unmatched_hints"]
    assert [] == tables[DELTA]["unmatched_hints"]
    assert "the hint amout matches no field of the sampled records; did you mean amount?" in said
