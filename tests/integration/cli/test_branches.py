"""Rows on a branch: progress, recovery, quarantine and audit are the branch's own."""

from __future__ import annotations

from pyiceberg.catalog import load_catalog
from tests.integration.cli.shop import Shop

from penstock.testing.sent import Sent

BRANCH = "lake.shop.orders@audited"


def landed(shop: Shop, branch: str) -> list[int]:
    catalog = load_catalog("lake", uri=f"sqlite:///{shop.directory}/lake/catalog.db")
    scan = catalog.load_table("shop.orders").scan().use_ref(branch)
    return sorted(row["ID"] for row in scan.to_arrow().to_pylist())


def test_a_branch_is_landed_on_recovered_and_audited_by_itself(shop: Shop) -> None:
    main = {
        "from": shop.topic,
        "into": "lake.shop.orders",
        "continue": True,
        "identifier_fields": ["ID"],
        "sort_by": ["ID desc"],
        "schema": {"create": True, "hints": {"ID": "long"}, "case_sensitive": False},
    }
    shop.spec["tables"] = [main]
    shop.cluster.send(shop.topic, 0, [Sent(b'{"ID": 0}'), Sent(b'{"name": "nobody"}')])
    assert 0 == shop.run().code
    shop.spec["tables"] = [main, {**main, "branch": "audited"}]
    shop.send(1, 5)
    killed = shop.run(PENSTOCK_FAULTS="commit.after:1")
    assert 0 != killed.code
    shop.send(6, 4, partition=1)
    ran = shop.run()
    assert 0 == ran.code, ran.err

    assert list(range(10)) == landed(shop, "main")
    assert sorted([0, *range(10)]) == landed(shop, "audited")  # it began at main's head, with 0
    assert {("lake.shop.orders", "P362"), (BRANCH, "P362")} == {
        (row["table"], row["code"]) for row in shop.rejects()
    }
    found = shop.call("audit", "--json")
    assert 0 == found.code, found.out
    assert {"lake.shop.orders", BRANCH} == {each["table"] for each in found.json["tables"]}
