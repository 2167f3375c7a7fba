"""`penstock quarantine`: seen, tried again and given up, on Iceberg and Delta, with a kill in it."""

from __future__ import annotations

from collections import Counter

from tests.integration.cli.shop import Shop
from tests.processes.process import KILLED

from penstock.app.repair import quarantine
from penstock.landing.repair.selection import Selection
from penstock.spec.load import load
from penstock.testing.sent import Sent

ICEBERG, DELTA = "lake.shop.orders", "delta.shop.orders"
BAD = {
    b'{"id": 100, "colour": "red"}': "P361",
    b'{"id": 101, "colour": "blue"}': "P361",
    b"no json": "P302",
}


def refused(shop: Shop) -> Shop:
    """Land three orders, and let three records be refused for each of the two tables."""
    shop.send(0, 3)
    assert 0 == shop.run().code
    shop.cluster.send(shop.topic, 1, [Sent(value, key=b"k") for value in BAD])
    assert 0 == shop.run().code
    return shop


def statuses(shop: Shop) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for each in quarantine.groups(load(shop.path)):
        found[each.table, each.code, each.status] += each.records
    return found


def test_refused_records_are_listed_shown_retried_and_dropped(shop: Shop) -> None:
    refused(shop)
    spec = ("--spec", shop.path)
    listed = {
        (table, code, "open"): count
        for table in (ICEBERG, DELTA)
        for code, count in (("P361", 2), ("P302", 1))
    }
    assert listed == statuses(shop)
    (shown,) = quarantine.records(load(shop.path), ICEBERG, Selection(codes=("P302",)), 5)
    assert (b"no json", b"k", 1, 2) == (shown.value, shown.key, shown.partition, shown.offset)

    for rule in shop.spec["tables"]:
        rule["schema"]["columns"] = "drop_value"
    assert shop.path.exists()  # it is written again
    dry = shop.command("quarantine", "retry", ICEBERG, *spec)
    assert 0 == dry.code
    assert f"2 records are landed in {ICEBERG}, once, and marked as retried" in dry.err
    assert "1 record still does not fit: P302; it stays open" in dry.err
    assert "Nothing was changed. To apply this:  --yes shop" in dry.err
    assert listed == statuses(shop)

    # Killed between the closing and the rows, in Delta; the store is lost as well.
    words = ("quarantine", "retry", DELTA, *spec, "--yes", "shop", "--json")
    assert KILLED == shop.command(*words, PENSTOCK_FAULTS="quarantine.after:1").code
    assert [0, 1, 2] == shop.ids_of_delta()
    assert 2 == statuses(shop)[DELTA, "P361", "unfinished"]
    shop.store.unlink()
    done = shop.command(*words).json["done"]
    landed = {"landed": {DELTA: 2}, "rejected": {"P302": 1}, "finished": 2, "withheld": {}}
    assert landed == done
    assert {ICEBERG: 2} == quarantine.retry(load(shop.path), ICEBERG, Selection()).landed
    assert 1 == quarantine.drop(load(shop.path), ICEBERG, Selection())

    shop.send(3, 2)
    assert 0 == shop.run().code
    assert ([0, 1, 2, 3, 4, 100, 101],) * 2 == shop.ids()
    assert {
        (ICEBERG, "P361", "retried"): 2,
        (ICEBERG, "P302", "dropped"): 1,
        (DELTA, "P361", "retried"): 2,
        (DELTA, "P302", "open"): 1,
    } == statuses(shop)
    shop.prove()
