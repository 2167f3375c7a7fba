"""Dead letters of a quarantine of either format, in transactions of a real broker: killed, and
read back by librdkafka.

The oracle is the quarantine, as PyIceberg and deltalake have it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.integration.cli.published import PublishedShop
from tests.integration.cli.shop import Shop
from tests.processes.process import KILLED

from penstock.testing.sent import Sent

ICEBERG, DELTA = "lake.shop.orders", "delta.shop.orders"
BAD = [
    Sent(b"no order", key=b"k", headers=(("trace", b"\x00\xff"), ("trace", None))),
    Sent(b"\xff\x00", headers=(("penstock.topic", b"an older one"),)),
    Sent(None, key=b"gone"),
    Sent(None),
    Sent(b"", key=b""),
]


class DeadLetters(PublishedShop):
    """A shop, and a topic for what it rejects."""

    def __init__(self, shop: Shop, quarantine: str) -> None:
        self.quarantine = quarantine
        shop.spec["quarantine"] = {"into": quarantine, "headers": "keep"}
        rule = {
            "from": {"quarantine": "all"},
            "topic": {"create": True, "partitions": 1},
            "headers": {"__connect.errors.topic": "topic"},
            "transaction": {"interval": "100ms", "or_records": 4},
        }
        super().__init__(shop, f"{shop.name}.dead", rule)

    def letters(self) -> list[tuple[Any, ...]]:
        """Read the topic: key, value, time, headers."""
        return self.read(partitions=1)[0]

    def rejected(self) -> list[dict[str, Any]]:
        """Read what was rejected, by another reader; resolutions are not."""
        catalog, _, name = self.quarantine.partition(".")
        path = name.replace(".", "/")
        rows = self.shop.lake(name) if catalog == "lake" else self.shop.delta(path)
        return [row for row in rows if row["stage"] != "close"]

    def require_exact(self) -> None:
        """Require that each rejected record is there once for each table, as it was."""
        expected = sorted(map(letter_of, self.rejected()), key=str)
        assert expected == sorted(self.letters(), key=str)
        ids = [dict(headers)["penstock.id"] for *_, headers in self.letters()]
        assert len(ids) == len(set(ids))


def letter_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the message that a row of the quarantine is to be."""
    place = [row["pipeline"], row["table"], row["topic_id"], row["partition"], row["offset"]]
    own = {
        "id": "/".join(map(str, place)),
        **{name: row[name] for name in ("pipeline", "table", "topic", "partition", "offset")},
        "timestamp": text_of(row["timestamp"]),
        **{name: row[name] for name in ("stage", "code", "message")},
        "time": text_of(row["quarantined_at"]),
    }
    headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
    headers += [(f"penstock.{name}", str(value).encode()) for name, value in own.items()]
    headers.append(("__connect.errors.topic", row["topic"].encode()))
    when = int(row["quarantined_at"].timestamp() * 1000 + 0.5)
    return row["key"], row["value"], (1, when), headers


def text_of(when: datetime) -> str:
    return when.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.mark.parametrize("quarantine", ["lake.ops.quarantine", "delta.ops.quarantine"])
def test_each_rejected_record_is_a_dead_letter_once_though_who_publishes_is_killed(
    shop: Shop, quarantine: str
) -> None:
    dead = DeadLetters(shop, quarantine)
    early = dead.publish("--json")
    assert (75, "P889") == (early.code, early.json["publications"][0]["error"]["code"])
    shop.send(0, 20)
    shop.cluster.send(shop.topic, 1, BAD)
    assert 0 == shop.run().code
    plan, peek = dead.call("plan"), dead.call("peek", "-n", "1")
    assert (0, 0) == (plan.code, peek.code), plan.err + peek.err
    assert f"{quarantine} → {dead.into}" in plan.out
    for point in ("send.before:1", "send.after:1", "end.before:2", "end.after:2"):
        assert KILLED == dead.publish("--takeover", PENSTOCK_FAULTS=point).code
    dropped = shop.command(
        "quarantine", "drop", ICEBERG, "--spec", shop.path, "--code", "P302", "--yes", "shop"
    )
    assert 0 == dropped.code, dropped.err
    shop.cluster.send(shop.topic, 0, [Sent(b"nor this", key=b"k")])
    assert 0 == shop.run().code
    run = dead.publish("--takeover")
    assert 0 == run.code, run.err

    assert 2 * (len(BAD) + 1) == len(dead.letters())
    dead.require_exact()
    audit = dead.call("audit", "--count", "--json")
    assert 0 == audit.code, audit.out
    assert 2 * (len(BAD) + 1) + 1 == audit.json["publications"][0]["rows"]  # and the resolution
