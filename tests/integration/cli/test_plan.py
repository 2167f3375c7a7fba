"""`penstock plan`: what it says before a run comes true in the run, and it writes nothing."""

from __future__ import annotations

from tests.integration.cli.shop import Shop
from tests.integration.cli.within import land, planned, within

from penstock.testing.sent import Sent

LAKE, DELTA = "lake.shop.orders", "delta.shop.orders"


def test_a_plan_reports_tables_columns_offsets_and_backlog_and_the_run_does_just_that(
    shop: Shop,
) -> None:
    shop.send(0, 300)
    shop.send(300, 100, partition=1)

    code, plan = planned(shop, "--exit-code")
    assert (10, 10, "lake.ops.quarantine") == (code, plan["change"], plan["creates_quarantine"])
    assert [DELTA, LAKE] == [each["table"] for each in plan["tables"]]
    for table in plan["tables"]:
        assert (True, 400, None) == (table["create"], table["records"], table["problem"])
        assert ["id", "long"] == table["columns"][0]
        starts = [(each["start"], each["stop"], each["reason"]) for each in table["ranges"]]
        assert [(0, 300, "kafka.start: earliest"), (0, 100, "kafka.start: earliest")] == starts
        assert 400 * 8 < table["size_bytes"] < 400 * 200

    land(shop)
    created = list(shop.lake()[0])
    assert created == [name for name, _ in plan["tables"][1]["columns"]]
    assert 400 == len(shop.lake()) == len(shop.delta())

    code, plan = planned(shop, "--exit-code")
    assert (0, 0) == (code, plan["change"])
    assert {0} == {table["records"] for table in plan["tables"]}
    whys = {each["reason"] for table in plan["tables"] for each in table["ranges"]}
    assert {"the position of the table"} == whys


def test_a_plan_says_which_records_would_not_fit(shop: Shop) -> None:
    shop.send(0, 10)
    land(shop)
    bad = [Sent(b'{"id": 1, "coupon": {"code": "X"}}'), Sent(b"no json"), Sent(b'{"id": 11}')]
    shop.cluster.send(shop.topic, 0, bad)

    code, plan = planned(shop, "--exit-code")
    assert 10 == code
    for table in plan["tables"]:
        assert ["coupon", "struct<code: string>"] == table["missing"][0]
        assert ("quarantine", 3) == (table["columns_policy"], table["sampled"]["records"])
        assert ({"P302": 1, "P361": 1}, 1) == (
            table["sampled"]["quarantined"],
            table["sampled"]["landed"],
        )
    reported = within("plan", shop.path).out
    assert "fields without a column: their records go to quarantine: coupon" in reported
    assert "P302" in reported
    assert "P361  coupon" in reported


def test_records_that_retention_took_are_a_destructive_step(shop: Shop) -> None:
    shop.send(0, 100)
    land(shop)
    shop.send(100, 100)
    shop.cluster.delete_before(shop.topic, 0, 150)

    code, plan = planned(shop, "--exit-code")
    assert 11 == code
    steps = [error for table in plan["tables"] for error in table["destructive"]]
    assert ["P252", "P252"] == [error["code"] for error in steps]
    assert "--accept gap" in steps[0]["hint"]
    assert "50 offsets would be given up" in " ".join(within("plan", shop.path).out.split())
    assert 4 == within("plan", shop.path).code

    accepted = within("plan", shop.path, "--accept", "gap", "--json")
    starts = {each["start"] for table in accepted.json["tables"] for each in table["ranges"]}
    assert (0, {0, 150}) == (accepted.code, starts)


def test_a_table_that_cannot_be_landed_in_is_reported_with_its_exit_code(shop: Shop) -> None:
    shop.spec["tables"][0].pop("schema")
    shop.send(0, 1)

    code, plan = planned(shop, "--exit-code")
    problems = {each["table"]: (each["problem"] or {}).get("code") for each in plan["tables"]}
    assert (2, {LAKE: "P456", DELTA: None}) == (code, problems)
