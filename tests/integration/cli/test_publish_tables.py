"""Tables of both formats, published: killed anywhere, read by librdkafka, proved, landed again."""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import StringType
from tests.integration.cli.test_publish import Mirror
from tests.processes.broker import Cluster
from tests.processes.process import KILLED

NUMBERS = itertools.count()
PARTITIONS = 3
POINTS = ["send.before", "send.after", "ledger.after", "end.before", "end.after"]
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("closed", pa.bool_()),
    ]
)


def rows(begin: int, stop: int) -> pa.Table:
    """Make rows: every seventh has no customer, every tenth is closed, every ninth is left out.

    A row that is closed deletes its customer: without one it is no message.
    """
    made = [
        {
            "id": -1 if number % 9 == 8 else number,
            "customer": None if number % 7 == 6 else f'c"{number % 5} é',
            "price": Decimal(number) / 100,
            "at": EPOCH + dt.timedelta(microseconds=number),
            "day": EPOCH.date() + dt.timedelta(days=number),
            "raw": bytes([number % 256, 255]),
            "tags": [None, "x\n"] if number % 2 else None,
            "closed": number % 10 == 9,
        }
        for number in range(begin, stop)
    ]
    return pa.Table.from_pylist(made, SCHEMA)


class Published(Mirror):
    """A table, and the spec that publishes it."""

    def __init__(self, cluster: Cluster, directory: Path, kind: str) -> None:
        self.cluster, self.directory, self.kind = cluster, directory, kind
        self.number = next(NUMBERS)
        self.into = f"tables{self.number}.{kind}"
        self.rejects = f"{self.into}.rejects"
        self.catalog = (
            {"type": "delta", "root": str(directory / "delta")}
            if kind == "delta"
            else {
                "type": "sql",
                "uri": f"sqlite:///{directory}/catalog.db",
                "warehouse": f"file://{directory}/warehouse",
            }
        )
        rule = {
            "name": f"t{self.number}",
            "from": {"table": "lake.shop.rows"},
            "into": self.into,
            "topic": {"create": True, "partitions": PARTITIONS},
            "key": "customer",
            "where": "id >= 0",
            "delete_when": "closed",
            "rejects": {"into": self.rejects},
            "timestamp": "at",
            "transaction": {"interval": "100ms", "or_records": 60},
        }
        self.spec = {
            "name": "shop",
            "kafka": {"brokers": cluster.bootstrap},
            "catalogs": {"lake": self.catalog},
            "publish": [rule],
            "spark": {"master": "inline"},
        }

    def append(self, begin: int, stop: int) -> None:
        """Append rows to the table."""
        if self.kind == "delta":
            (self.directory / "delta/shop").mkdir(parents=True, exist_ok=True)
            place = self.directory / "delta/shop/rows"
            write_deltalake(place, self.rows(begin, stop), mode="append")
            return
        made = self.sql()
        made.create_namespace_if_not_exists("shop")
        made.create_table_if_not_exists("shop.rows", SCHEMA).append(self.rows(begin, stop))

    def rows(self, begin: int, stop: int) -> pa.Table:
        """Make the table's rows."""
        return rows(begin, stop)

    def found(self) -> list[tuple[object, ...]]:
        """Return all messages that librdkafka reads."""
        read = self.read(self.into, partitions=PARTITIONS)
        return [(k, v, time[1]) for own in read.values() for k, v, time, _ in own]

    def rejected(self) -> list[tuple[object, ...]]:
        """Return what librdkafka reads of the topic for rejects: codes and columns."""
        read = self.read(self.rejects, partitions=1)
        told = [dict(headers) for *_, headers in read[0]]
        return [(each["penstock.code"].decode(), each["penstock.column"].decode()) for each in told]

    def table(self, name: str) -> pa.Table:
        """Read a table, in the order of times, which are unique; ids are not."""
        if self.kind == "delta":
            found = DeltaTable(self.directory / "delta/shop" / name).to_pyarrow_table()
        else:
            found = self.sql().load_table(f"shop.{name}").scan().to_arrow()
        return found.select(SCHEMA.names).cast(SCHEMA).sort_by("at")

    def sql(self) -> SqlCatalog:
        """Open the catalog of Iceberg."""
        return SqlCatalog("lake", **{k: v for k, v in self.catalog.items() if k != "type"})


def in_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return what JSON says of a row, by Python."""
    return {
        **row,
        "price": str(row["price"]),
        "at": row["at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "day": row["day"].isoformat(),
        "raw": base64.b64encode(row["raw"]).decode(),
    }


def expected(begin: int, stop: int) -> list[tuple[object, ...]]:
    """Return what rows make, by Python."""
    made: list[tuple[object, ...]] = []
    for row in rows(begin, stop).to_pylist():
        if row["id"] < 0 or (row["closed"] and row["customer"] is None):
            continue
        key = row["customer"] and row["customer"].encode()
        time_ms = (row["at"] - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(milliseconds=1)
        made.append((key, None if row["closed"] else in_json(row), time_ms))
    return made


@pytest.fixture(params=["iceberg", "delta"])
def published(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Published:
    return Published(cluster, tmp_path, request.param)


def by_key(messages: list[tuple[object, ...]]) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {}
    for key, value, time_ms in messages:
        read = json.loads(value) if isinstance(value, bytes) else value
        found.setdefault(key, []).append((read, time_ms))
    if None in found:
        found[None].sort(key=lambda it: it[0]["id"])
    return found


def test_a_table_that_is_killed_anywhere_has_each_row_once(published):
    written = 0
    for point in POINTS:
        published.append(written, written := written + 100)
        killed = published.call("publish", "--until-caught-up", PENSTOCK_FAULTS=f"{point}:2")
        assert KILLED == killed.code, (point, killed.err)
    planned = published.call("plan", "--json")
    done = published.call("publish", "--until-caught-up", "--takeover")
    audit = published.call("audit", "--count", "--json")
    status = published.call("status", "--json")

    assert (0, 0) == (planned.code, done.code), done.err
    assert by_key(expected(0, written)) == by_key(published.found())
    (stands,) = status.json["publications"]
    left_out = sum(number % 9 == 8 for number in range(written))
    wrong = written - left_out - len(expected(0, written))
    assert (written - left_out - wrong, left_out, wrong, 0) == (
        stands["published"],
        stands["filtered"],
        stands["rejected"],
        stands["backlog"],
    )
    assert [("P373", "customer")] * wrong == published.rejected()
    (found,) = audit.json["publications"]
    assert (0, [], [], written) == (
        audit.code,
        found["breaks"],
        found["not_compared"],
        found["rows"],
    )


def test_a_table_that_was_published_lands_again_with_equal_rows(published):
    (rule,) = published.spec["publish"]
    del rule["delete_when"], rule["where"], rule["rejects"]
    published.append(0, 100)
    done = published.call("publish", "--until-caught-up")
    types = ["long", "string", "decimal(12,2)", "timestamptz", "date", "binary", "list<string>"]
    hints = dict(zip(SCHEMA.names, [*types, "boolean"], strict=True))
    into = {"into": "lake.shop.again", "schema": {"create": True, "hints": hints}}
    published.spec["kafka"]["topics"] = [published.into]
    published.spec |= {
        "tables": [{"from": published.into, **into}],
        "quarantine": {"into": "lake.shop.quarantine"},
    }
    del published.spec["publish"]
    landed = published.call("run", "--until-caught-up")

    assert (0, 0) == (done.code, landed.code), done.err + landed.err
    assert published.table("rows").to_pylist() == published.table("again").to_pylist()


def test_a_seek_says_in_words_where_it_puts_a_table(published):
    published.append(0, 50)
    (rule,) = published.spec["publish"]
    seek = ("seek", rule["name"], "earliest")
    published.call("publish", "--until-caught-up")
    shown = published.call(*seek)
    moved = published.call(*seek, "--yes", "shop")
    again = published.call("publish", "--until-caught-up")
    audit = published.call("audit", "--count")

    words = r"lake.shop.rows goes on at the first row of the 50 rows of snapshot \S+, not behind "
    assert re.search(words + r"snapshot \S+ \(50 rows\): 50 rows are published again", shown.err)
    assert [0, 0, 0] == [moved.code, again.code, audit.code], moved.err + again.err + audit.out
    assert by_key(expected(0, 50) * 2) == by_key(published.found())


def test_an_audit_passes_over_what_brokers_changed(published):
    """Times that they replace are not compared, nor are transactions whose records they deleted."""
    (rule,) = published.spec["publish"]
    rule["topic"]["config"] = {"message.timestamp.type": "LogAppendTime"}
    published.append(0, 100)
    published.call("publish", "--until-caught-up")
    stamped = published.call("audit", "--count", "--json")
    places = [TopicPartition(published.into, number, 1) for number in range(PARTITIONS)]
    admin = AdminClient({"bootstrap.servers": published.cluster.bootstrap})
    for done in admin.delete_records(places).values():
        done.result(30)
    deleted = published.call("audit", "--count", "--json")

    for audit, rows in ((stamped, 100), (deleted, 40)):
        (found,) = audit.json["publications"]
        assert (0, [], rows) == (audit.code, found["breaks"], found["rows"])
    assert "transaction 1: its records are gone" in found["not_compared"]


LINES = pa.list_(pa.struct([("sku", pa.string())]))
NESTED = pa.schema([("id", pa.int64()), ("to", pa.struct([("city", pa.string())])), ("of", LINES)])


def test_an_audit_knows_fields_that_were_added_within_others(
    cluster: Cluster, tmp_path: Path
) -> None:
    """And columns that stand in another order."""
    table = Published(cluster, tmp_path, "iceberg")
    rule = table.spec["publish"][0]
    for name in ("where", "delete_when", "timestamp", "rejects"):
        del rule[name]
    rule["key"] = "id"
    lake = table.sql()
    lake.create_namespace("shop")
    made = lake.create_table("shop.rows", NESTED)
    rows = [
        {"id": n, "to": {"city": f"c{n}"}, "of": [{"sku": "s"}, None][: n % 3]} for n in range(9)
    ]
    made.append(pa.Table.from_pylist(rows, NESTED))
    assert 0 == table.call("publish", "--until-caught-up").code
    with made.update_schema() as update:
        update.add_column(("to", "zip"), StringType())
        update.add_column(("of", "price"), StringType())
        update.move_first("of")
    done = table.call("audit", "--count", "--json")

    assert 0 == done.code, done.out + done.err
    (found,) = done.json["publications"]
    assert ([], 9) == (found["breaks"], found["rows"])
    assert "of.price, to.zip" in found["not_compared"][0]
