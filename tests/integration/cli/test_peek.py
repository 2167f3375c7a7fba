"""`penstock peek`: a record's way, reported as a run would take it, and nothing is written."""

from __future__ import annotations

import base64

from tests.integration.cli.shop import Shop
from tests.integration.cli.within import fingerprint, land, within

from penstock.testing.sent import Sent

LAKE, DELTA = "lake.shop.orders", "delta.shop.orders"


def peeked(shop: Shop, *words: str) -> list[dict]:
    path = shop.path
    before = fingerprint(shop.directory)
    done = within("peek", "--spec", path, *words, "--json")
    assert (0, before) == (done.code, fingerprint(shop.directory)), done
    return done.json


def test_the_newest_records_are_followed_to_rows_of_tables_that_do_not_exist_yet(
    shop: Shop,
) -> None:
    shop.send(0, 10)
    found = peeked(shop, shop.topic, "-n", "2")

    assert [8, 9] == [each["offset"] for each in found]
    assert [{"id": 8}, {"id": 9}] == [each["decoded"] for each in found]
    assert b'{"id": 9}' == base64.b64decode(found[1]["value"])
    outcomes = found[1]["outcomes"]
    assert [DELTA, LAKE] == [outcome["table"] for outcome in outcomes]
    for outcome in outcomes:
        assert ("landed", True) == (outcome["outcome"], outcome["create"])
        assert {"id": 9, "_kafka_offset": 9}.items() <= outcome["rows"][0].items()


def test_a_record_that_would_be_refused_is_reported_with_its_code(shop: Shop) -> None:
    shop.send(0, 3)
    land(shop)
    bad = [Sent(b'{"id": "x"}'), Sent(b"\xff\x00"), Sent(None)]
    shop.cluster.send(shop.topic, 0, bad)

    found = peeked(shop, "--at", f"{shop.topic}:0:3", "-n", "3")
    reported = [(each["offset"], {f["code"] for f in each["outcomes"]}) for each in found]
    assert [(3, {"P366"}), (4, {"P303"}), (5, {"P309"})] == reported
    assert {"quarantined"} == {f["outcome"] for each in found for f in each["outcomes"]}
    assert (
        "would be rejected: P366"
        in within("peek", "--spec", shop.path, "--at", f"{shop.topic}:0:3").out
    )


def test_values_that_a_row_lacks_are_named_as_dropped_or_rescued(shop: Shop) -> None:
    for table, policy in zip(shop.spec["tables"], ("drop_value", "rescue"), strict=True):
        table["schema"] = {"create": True, "columns": policy, "types": policy}
    shop.send(0, 3)
    land(shop)
    shop.cluster.send(shop.topic, 0, [Sent(b'{"id": "x", "extra": {"a": 1}}')])

    (found,) = peeked(shop, "--at", f"{shop.topic}:0:3")
    by_table = {each["table"]: each for each in found["outcomes"]}
    assert {"landed"} == {each["outcome"] for each in by_table.values()}
    assert (["extra", "id"], []) == (by_table[LAKE]["dropped"], by_table[LAKE]["rescued"])
    assert ([], ["extra", "id"]) == (by_table[DELTA]["dropped"], by_table[DELTA]["rescued"])
    text = within("peek", "--spec", shop.path, "--at", f"{shop.topic}:0:3").out
    assert "    dropped: extra, id" in text
    assert "    kept in _rescued: extra, id" in text

    (plain,) = peeked(shop, "--at", f"{shop.topic}:0:2")
    assert [([], [])] * 2 == [(each["dropped"], each["rescued"]) for each in plain["outcomes"]]


def test_what_is_not_there_is_reported_with_what_is(shop: Shop) -> None:
    shop.send(0, 3)
    cases = {
        ("nothing",): "P161",
        ("--at", "orders"): "P162",
        ("--at", f"{shop.topic}:0:3"): "P163",
        ("--at", f"{shop.topic}:7:0"): "P163",
        (): "P162",
    }
    codes = {
        words: within("peek", "--spec", shop.path, *words, "--json").json["error"]["code"]
        for words in cases
    }
    assert cases == codes
    record = within("peek", f"{shop.topic}:0:1", "--spec", shop.path, "--json").json["error"]
    assert ("P161", True) == (record["code"], f"--at {shop.topic}:0:1" in record["hint"])


def test_records_that_a_condition_leaves_out_or_that_ask_for_a_table_are_reported(
    shop: Shop,
) -> None:
    shop.spec["tables"] = [
        {
            "from": shop.topic,
            "into": LAKE,
            "where": "id > 1",
            "continue": True,
            "schema": {"create": True, "hints": {"id": "long"}},
        },
        {
            "from": shop.topic,
            "into": "delta.shop.of_{id}",
            "route": {"id": "cast(id as varchar)"},
            "unknown_tables": "create",
            "schema": {"hints": {"id": "long"}},
        },
    ]
    shop.send(0, 3)
    found = peeked(shop, shop.topic)

    reported = [{f["table"]: f["outcome"] for f in each["outcomes"]} for each in found]
    assert ["filtered", "filtered", "landed"] == [each[LAKE] for each in reported]
    assert [f"delta.shop.of_{n}" for n in range(3)] == [
        next(f["detail"] for f in each["outcomes"] if "{" in f["table"]) for each in found
    ]
    before = fingerprint(shop.directory)
    plan = within("plan", shop.path, "--json").json
    assert before == fingerprint(shop.directory)
    assert [None] * len(plan["tables"]) == [each["problem"] for each in plan["tables"]]
    assert [] == [each["missing"] for each in plan["tables"] if each["missing"]]
