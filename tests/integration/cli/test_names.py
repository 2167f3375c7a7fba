"""A name that is in no spec and no quarantine is an error, whatever the command, and what was meant
is suggested."""

from __future__ import annotations

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.cli.within import land, within

from penstock.testing.sent import Sent

TABLE = "lake.shop.orders"
MISSPELT = "lake.shop.ordres"
TABLES = {
    "audit": ["audit", MISSPELT],
    "audit of two": ["audit", TABLE, MISSPELT, "--count"],
    "seek": ["seek", MISSPELT],
    "replay": ["replay", MISSPELT, "TOPIC"],
    "quarantine list": ["quarantine", "list", MISSPELT],
    "quarantine show": ["quarantine", "show", MISSPELT],
    "quarantine retry": ["quarantine", "retry", MISSPELT],
    "quarantine drop": ["quarantine", "drop", MISSPELT],
}
TOPICS = {
    "peek": ["peek", "MISSPELT"],
    "peek --at": ["peek", "--at", "MISSPELT:0:0"],
    "quarantine show --at": ["quarantine", "show", TABLE, "--at", "MISSPELT:0:0"],
    "quarantine drop --at": ["quarantine", "drop", TABLE, "--at", "MISSPELT:0:0"],
}


def called(shop: Shop, words: list[str]) -> tuple[int, str, str]:
    """Call a command; give its exit code, and the code and hint of its error."""
    named = {"TOPIC": shop.topic, "MISSPELT": f"{shop.name}.ordres"}
    for name, topic in named.items():
        words = [word.replace(name, topic) if name in word else word for word in words]
    ended = within(*words, "--spec", shop.path, "--json")
    error = ended.json["error"]
    return ended.code, error["code"], error["hint"]


@pytest.mark.parametrize("verb", TABLES)
@pytest.mark.parametrize("landed", [False, True], ids=["before a run", "after a run"])
def test_a_table_that_is_misspelt_is_an_error_with_a_suggestion(
    shop: Shop, verb: str, landed: bool
) -> None:
    shop.send(0, 3)
    if landed:
        land(shop)

    assert (2, "P185", f"did you mean {TABLE}?") == called(shop, TABLES[verb])


@pytest.mark.parametrize("verb", TOPICS)
def test_a_topic_that_is_misspelt_is_an_error_with_a_suggestion(shop: Shop, verb: str) -> None:
    shop.send(0, 3)
    land(shop)

    assert (2, "P161", f"did you mean {shop.topic}?") == called(shop, TOPICS[verb])


def test_a_topic_for_a_table_and_a_table_for_a_topic_are_recognised(shop: Shop) -> None:
    shop.send(0, 1)
    audited = within("audit", shop.topic, "--spec", shop.path)
    peeked = within("peek", TABLE, "--spec", shop.path)

    assert (2, 2) == (audited.code, peeked.code)
    assert f"'{shop.topic}' is a topic, not a table" in audited.err
    assert f"'{TABLE}' is a table, not a topic" in peeked.err


def test_a_table_that_only_the_quarantine_knows_is_no_error(shop: Shop) -> None:
    shop.cluster.send(shop.topic, 0, [Sent(b"no json")])
    land(shop)
    shop.spec["tables"] = [{**shop.spec["tables"][0], "into": "lake.shop.renamed"}]

    listed = within("quarantine", "list", TABLE, "--spec", shop.path)
    shown = within("quarantine", "show", TABLE, "--spec", shop.path)

    assert (0, True) == (listed.code, TABLE in listed.out)
    assert (0, True) == (shown.code, "no json" in shown.out)


def test_a_table_that_a_pattern_or_a_route_may_lead_to_is_no_error(shop: Shop) -> None:
    shop.spec["tables"][0]["into"] = "lake.shop.of_{kind}"
    shop.spec["tables"][0]["route"] = {"kind": "kind"}
    shop.spec["tables"][0]["schema"] = {"create": True, "hints": {"kind": "string"}}
    shop.send(0, 1)

    assert 0 == within("quarantine", "list", "lake.shop.of_a", "--spec", shop.path).code
    assert 0 == within("quarantine", "show", "lake.shop.of_{kind}", "--spec", shop.path).code
    assert 2 == within("quarantine", "list", "lake.shop.a", "--spec", shop.path).code


def test_audit_of_what_nothing_landed_in_says_so_and_what_waits(shop: Shop) -> None:
    shop.send(0, 7)
    before = within("audit", "--count", "--spec", shop.path)
    land(shop)
    (shop.directory / "delta" / "shop" / "orders").rename(shop.directory / "away")
    after = within("audit", "--count", "--spec", shop.path)

    assert (2, 2) == (before.code, after.code)
    assert f"nothing has landed in {TABLE}, which does not exist yet; 7 records" in before.err
    assert f"→ land it first:  penstock run {shop.path} --until-caught-up" in before.err
    assert (
        "delta.shop.orders is not there, and this pipeline has read for it: it was dropped,"
        in after.err
    )
    assert "Kafka holds 7 records" in after.err
    assert "7 records in Kafka = 7 in the table" in after.out
