"""One topic into several tables, for real: conditions, names made of records, the census."""

from __future__ import annotations

import json

from tests.integration.cli.shop import Shop
from tests.integration.cli.within import within

from penstock.testing.sent import Sent

HINTS = {"kind": "string", "amount": "decimal(10,2)", "customer.country": "string"}


def rule(shop: Shop, into: str, **more: object) -> dict[str, object]:
    schema = {"create": True, "hints": HINTS}
    return {"from": shop.topic, "into": into, "schema": schema, **more}


def send(shop: Shop, *records: dict[str, object], key: bytes = b"") -> None:
    sent = [Sent(json.dumps(each).encode(), key=key or None) for each in records]
    shop.cluster.send(shop.topic, 0, sent)


def test_records_go_to_the_first_rule_that_takes_them_and_to_tables_of_their_own(
    shop: Shop,
) -> None:
    big = "amount > 100.00 and customer.country in ('DE', 'AT')"
    shop.spec["tables"] = [
        rule(shop, "lake.shop.big", where=big),
        rule(
            shop,
            "delta.kinds.of_{kind}",
            route={"kind": "lower(kind)"},
            unknown_tables="create",
        ),
    ]
    german = {"customer": {"country": "DE"}}
    send(shop, *({"id": n, "kind": "Order", "amount": "100.01", **german} for n in range(3)))
    send(shop, *({"id": n, "kind": "Refund", "amount": "100.00", **german} for n in range(3, 7)))
    send(shop, {"id": 7, "amount": "1e5", "customer": {"country": "FR"}}, {"id": 8, "amount": "x"})
    assert 0 == shop.call("validate").code
    planned = {each["table"]: each for each in shop.call("plan", "--json").json["tables"]}
    assert planned["delta.kinds.of_refund"]["create"]
    ran = shop.run()
    assert 0 == ran.code, ran.err

    assert [0, 1, 2] == sorted(row["id"] for row in shop.lake("shop.big"))
    assert [3, 4, 5, 6] == sorted(row["id"] for row in shop.delta("kinds/of_refund"))
    reported = {(row["table"], row["code"]) for row in shop.rejects()}
    assert {("lake.shop.big", "P366"), ("delta.kinds.of_{kind}", "P381")} == reported

    send(shop, {"id": 9, "kind": "../etc", "amount": "1"}, {"id": 10, "kind": "Sale"})
    assert 0 == shop.run().code
    assert [10] == [row["id"] for row in shop.delta("kinds/of_sale")]
    assert 2 == sum(row["code"] == "P381" for row in shop.rejects())
    audit = shop.call("audit", "--count", "--json")
    assert 0 == audit.code, audit.out
    tables = {each["table"] for each in audit.json["tables"]}
    assert {"lake.shop.big", "delta.kinds.of_refund", "delta.kinds.of_sale"} == tables
    told_of = within("status", shop.path, "--json").json["tables"]
    assert {"P381": 1} == told_of["delta.kinds.of_{kind}"]["quarantined"]
    asked = shop.call("validate", "--json")
    assert "routes records to 2 existing tables" in json.dumps(asked.json)


def test_a_condition_reads_keys_headers_and_topics(shop: Shop) -> None:
    shop.spec["tables"] = [
        rule(shop, "lake.shop.mine", where="_kafka_headers['tenant'] = 'me'"),
        rule(shop, "lake.shop.keyed", where="_kafka_key like 'k%' and _kafka_partition = 0"),
        rule(shop, "lake.shop.rest", where="regexp_matches(_kafka_topic, 'orders$')"),
    ]
    value = json.dumps({"id": 1}).encode()
    headers = (("tenant", b"you"), ("tenant", b"me"))
    shop.cluster.send(
        shop.topic,
        0,
        [Sent(value, headers=headers), Sent(value, key=b"k1"), Sent(value, key=b"\xff")],
    )
    ran = shop.run()
    assert 0 == ran.code, ran.err

    found = [
        [row["_kafka_offset"] for row in shop.lake(f"shop.{name}")]
        for name in ("mine", "keyed", "rest")
    ]
    assert [[0], [1], [2]] == found
    shop.prove()


def test_a_table_that_no_rule_leads_to_any_more_is_reported_by_validate(shop: Shop) -> None:
    shop.send(0, 3)
    assert 0 == shop.run().code
    shop.spec["tables"] = shop.spec["tables"][1:]
    reported = json.dumps(shop.call("validate", "--json").json)

    assert "no rule writes to it any more" in reported
