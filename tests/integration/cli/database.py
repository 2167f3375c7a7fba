"""Changes of a database as Debezium sends them, and tables that must be as the database is.

The tables are read by PyIceberg and deltalake alone; the truth is a dict, folded over what was sent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random  # noqa: TID251  seeded
from typing import Any

from deltalake import DeltaTable
from tests.integration.cli.shop import Shop
from tests.integration.delta.keyed import queried
from tests.story.oracle import iceberg_rows

from penstock.testing.sent import Sent

PARTITIONS = 2
COLUMNS = ("id", "name", "amount")
HINTS = {"id": "long", "name": "string", "amount": "double"}

Image = dict[str, Any]


class Database:
    """A table whose changes Debezium sends: an insert, an update or a delete of one of few keys."""

    def __init__(self, seed: int, keys: int = 12) -> None:
        self.keys = keys
        self.random = Random(seed)
        self.rows: dict[int, Image] = {}
        self.gone: dict[int, Image] = {}
        self.changes = 0
        self.partitions = PARTITIONS

    def change(self) -> tuple[int, list[Sent]]:
        """Change a row; return the partition and the records that say so."""
        self.changes += 1
        number = self.random.randrange(self.keys)
        before = self.rows.pop(number, None)
        key = json.dumps({"id": number}).encode()
        self.gone.pop(number, None)
        if before is not None and self.random.random() < 0.3:
            self.gone[number] = before
            gone = [Sent(event("d", before, None), key), Sent(None, key)]
            return number % self.partitions, gone
        after = {"id": number, "name": f"at {self.changes}", "amount": self.changes / 8}
        self.rows[number] = after
        op = "u" if before else self.random.choice("cr")
        return number % self.partitions, [Sent(event(op, before, after), key)]

    def expected(self) -> list[Image]:
        """Return the rows as they are now."""
        return [self.rows[number] for number in sorted(self.rows)]

    def flagged(self) -> list[Image]:
        """Return the rows with those deleted since, and whether they are."""
        rows = [{**each, "_is_deleted": False} for each in self.rows.values()]
        rows += [{**each, "_is_deleted": True} for each in self.gone.values()]
        return sorted(rows, key=lambda each: each["id"])


def event(op: str, before: Image | None, after: Image | None) -> bytes:
    source = {"connector": "postgresql", "table": "orders", "snapshot": "false"}
    value = {
        "before": before,
        "after": after,
        "source": source,
        "op": op,
        "ts_ms": 1_700_000_000_000,
    }
    return json.dumps(value).encode()


def keyed(shop: Shop) -> Shop:
    """Let the tables of a shop take changes."""
    shop.spec["records"] = {"format": "json", "envelope": "debezium"}
    for table in shop.spec["tables"]:
        table |= {"mode": "cdc", "keys": ["id"], "schema": {"create": True, "hints": HINTS}}
    shop.spec["commit"] |= {"or_records": 60}
    return shop


def send(shop: Shop, database: Database, changes: int) -> None:
    """Send what changes of a database say, in as few requests as partitions."""
    sent: dict[int, list[Sent]] = {}
    for partition, records in (database.change() for _ in range(changes)):
        sent.setdefault(partition, []).extend(records)
    for partition, records in sent.items():
        shop.cluster.send(shop.topic, partition, records)


def compared(shop: Shop, database: Database) -> None:
    """Compare both tables with the database, read by libraries of others."""
    for where, rows in read(shop, COLUMNS).items():
        assert database.expected() == rows, where


def read(shop: Shop, columns: Sequence[str]) -> dict[str, list[Image]]:
    """Read columns of both tables, by key."""
    names = [table["into"].partition(".")[2] for table in shop.spec["tables"]]
    uri = shop.spec["catalogs"]["lake"]["uri"].replace("./", f"{shop.directory}/")
    lake = [{name: row[name] for name in columns} for row in iceberg_rows(uri, names[0])]
    place = shop.directory / shop.spec["catalogs"]["delta"]["root"] / names[1].replace(".", "/")
    delta = queried(DeltaTable(str(place)), columns=",".join(columns))
    found = {"iceberg": lake, "delta": delta}
    return {where: sorted(rows, key=lambda row: row["id"]) for where, rows in found.items()}
