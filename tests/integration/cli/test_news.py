"""News of real tables of both formats, in transactions of real brokers: killed, and read back.

The oracle is the history of each chain, as PyIceberg and deltalake have it: each commit is told
once, in its order.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from tests.integration.cli.published import PublishedShop
from tests.integration.cli.shop import Shop
from tests.processes.process import KILLED

from penstock.testing.sent import Sent

KINDS = ["commits", "tables", "through"]
CHAINS = {
    ("lake.shop.orders", "shop"),
    ("delta.shop.orders", "shop"),
    ("lake.ops.quarantine", "shop/lake.shop.orders"),
    ("lake.ops.quarantine", "shop/delta.shop.orders"),
}


@dataclass(frozen=True)
class Told:
    """An event as a reader of committed records finds it."""

    key: str
    headers: dict[str, str]
    data: dict[str, Any]

    @property
    def type(self) -> str:
        return self.headers["ce_type"].removeprefix("dev.penstock.").removesuffix(".v1")

    @property
    def chain(self) -> tuple[str, str]:
        return self.data["table"], self.data["chain"]


class News(PublishedShop):
    """A shop, and the news of it."""

    @property
    def directory(self) -> Path:
        return self.shop.directory

    def save(self) -> Path:
        return self.shop.path

    def __init__(self, shop: Shop, **more: Any) -> None:
        rule = {
            "from": {"news": KINDS},
            "topic": {"create": True, "partitions": 2},
            "transaction": {"interval": "100ms"},
            **more,
        }
        super().__init__(shop, f"{shop.name}.news", rule)

    def told(self) -> list[Told]:
        """Read the topic with librdkafka."""
        found = []
        for records in self.read(partitions=2).values():
            for key, value, _, headers in records:
                named = {name: text.decode() for name, text in headers}
                found.append(Told(key.decode(), named, json.loads(value)))
        return found

    def commits(self) -> dict[tuple[str, str], list[str]]:
        """Return the commits that were told, in order."""
        found: dict[tuple[str, str], list[str]] = {}
        for each in self.told():
            if each.type == "commit.landed":
                found.setdefault(each.chain, []).append(each.headers["ce_id"])
        return found

    def written(self) -> dict[tuple[str, str], list[str]]:
        """Return the commits of each chain, as other readers have them."""
        place = self.shop.directory / "lake/catalog.db"
        lake = SqlCatalog("lake", uri=f"sqlite:///{place}")
        found: dict[tuple[str, str], list[str]] = {}
        for name in ("shop.orders", "ops.quarantine"):
            for each in lake.load_table(name).snapshots():
                said = each.summary.additional_properties
                if said.get("penstock.kind") not in {None, "fence"}:
                    chain = f"lake.{name}", said["penstock.pipeline"]
                    found.setdefault(chain, []).append(said["penstock.commit-id"])
        for each in reversed(DeltaTable(self.shop.directory / "delta/shop/orders").history()):
            for mark in json.loads(json.dumps(each.get("penstock", {}))).get("chains", []):
                if "commit" in mark:
                    found.setdefault(("delta.shop.orders", mark["chain"]), []).append(
                        mark["commit"]
                    )
        return found

    def require_exact(self) -> None:
        """Require that each commit was told once, in its order, and each event counted."""
        assert self.written() == self.commits()
        for of in {(each.key, each.data["chain"]) for each in self.told()}:
            own = [each for each in self.told() if (each.key, each.data["chain"]) == of]
            assert [int(e.headers["ce_sequence"]) for e in own] == [*range(1, len(own) + 1)]
        ids = Counter((e.headers["ce_source"], e.headers["ce_id"]) for e in self.told())
        assert set(ids.values()) == {1}

    def require_freshness(self) -> None:
        """Require that what nothing waits for is fresh, and that a record breaks a short promise."""
        self.shop.spec["tables"][0]["freshness"] = "1ms"
        assert 0 == self.call("status", "--exit-code").code
        self.shop.send(100, 1)
        found = self.call("status", "--exit-code", "--json")
        assert (11, "broken") == (found.code, found.json["freshness"]["lake.shop.orders"]["state"])
        assert "lake.shop.orders is broken: valid through" in self.call("status").out
        assert 0 == self.call("status").code


@pytest.fixture
def news(shop: Shop) -> News:
    return News(shop)


def send(shop: Shop, first: int, count: int) -> None:
    """Send orders, and one that is none."""
    shop.send(first, count)
    shop.cluster.send(shop.topic, 1, [Sent(b"no order")])


def test_each_commit_is_told_once_though_who_tells_is_killed(news: News) -> None:
    shop = news.shop
    send(shop, 0, 50)
    assert 0 == shop.run().code
    for point in ("send.before:1", "send.after:1", "end.before:2", "end.after:2"):
        assert KILLED == news.publish("--takeover", PENSTOCK_FAULTS=point).code
    send(shop, 50, 50)
    assert 0 == shop.run().code
    run = news.publish("--takeover")
    assert 0 == run.code, run.err

    assert CHAINS == news.commits().keys()
    news.require_exact()
    through = [e.data["valid_through_ms"] for e in news.told() if e.type == "through.advanced"]
    assert through == sorted(set(through))
    assert Counter(e.type for e in news.told())["table.created"] == 2
    news.require_freshness()
    audit = news.call("audit", "--json")
    assert (0, []) == (audit.code, audit.json["publications"][0]["breaks"])
