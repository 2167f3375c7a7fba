"""`penstock transactions`: what holds up reading is named everywhere, and can be ended."""

from __future__ import annotations

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import land, within

from penstock.ports import transactions
from penstock.testing.sent import Sent


def test_what_is_open_is_listed_and_then_nothing(shop: Shop) -> None:
    held = shop.cluster.begin(shop.topic, 0, [Sent(b"1"), Sent(b"2")])
    (found,) = within("transactions", shop.path, "--json").json["transactions"]
    people = within("transactions", shop.path).out

    assert ("open", 60_000, 2) == (
        found["state"],
        found["timeout_ms"],
        found["partitions"][0]["held_records"],
    )
    assert found["transactional_id"] in people
    assert f"2 records of {shop.topic}[0]" in " ".join(people.split())
    held.abort()
    assert "no transaction is open" in within("transactions", shop.path).out


def test_an_abort_is_shown_first_and_done_when_the_pipeline_is_named(shop: Shop) -> None:
    shop.send(0, 1)
    shop.cluster.begin(shop.topic, 0, [Sent(b"held")])
    shop.send(1, 1)
    (found,) = within("transactions", shop.path, "--json").json["transactions"]
    name = found["transactional_id"]

    shown = within("transactions", shop.path, "--abort", name, "--json")
    assert (0, None) == (shown.code, shown.json["done"])
    assert "its producer is fenced" in shown.json["plan"]["steps"][0]["text"]
    assert 1 == len(within("transactions", shop.path, "--json").json["transactions"])

    wrong = within("transactions", shop.path, "--abort", name, "--yes", "another")
    assert (2, True) == (wrong.code, "P171" in wrong.err)
    done = within("transactions", shop.path, "--abort", name, "--yes", "shop")
    assert f"aborted {name}" in done.out
    land(shop)
    reported = within("status", shop.path, "--json").json["tables"]["lake.shop.orders"]
    assert (2, 0) == (reported["table_rows"], reported["lag_records"])


def test_a_name_of_nothing_open_is_refused_with_what_is(shop: Shop) -> None:
    refused = within("transactions", shop.path, "--abort", "nobody", "--json")

    assert (2, "P801") == (refused.code, refused.json["error"]["code"])


def test_status_and_doctor_name_what_holds_up_reading(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.send(0, 1)
    held = shop.cluster.begin(shop.topic, 0, [Sent(b"held")])
    assert [] == within("status", shop.path, "--json").json["stuck_transactions"]
    monkeypatch.setattr(transactions, "STUCK_AFTER_MS", -1)

    (found,) = within("status", shop.path, "--json").json["stuck_transactions"]
    people = within("status", shop.path).out
    checks = within("doctor", shop.path, "--read-only", "--json").json["checks"]
    (warned,) = [each for each in checks if each["check"] == "transactions"]

    assert (
        f"transaction {found['transactional_id']} holds up 1 record of {shop.topic}[0]"
        in " ".join(people.split())
    )
    assert ("warning", found["transactional_id"]) == (warned["status"], warned["subject"])
    assert f"--abort {found['transactional_id']}" in warned["hint"]
    held.abort()
    checks = within("doctor", shop.path, "--read-only", "--json").json["checks"]
    assert ["ok"] == [each["status"] for each in checks if each["check"] == "transactions"]
