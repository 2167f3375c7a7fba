"""What a start refuses, a plan, a peek, `validate` and `doctor` refuse before, with its code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.test_publish import PARTITIONS, Mirror
from tests.integration.cli.within import within
from tests.processes.broker import Cluster

from penstock.testing.sent import Sent

COLUMNS = {"id": "long", "status": "string"}


class Orders(Mirror):
    """A topic that is read as rows; what it writes is created."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        super().__init__(cluster, directory)
        self.rule: dict[str, Any] = self.spec["publish"][0]  # type: ignore[index]
        records = {"records": {"format": "json"}, "columns": COLUMNS}
        self.rule |= {"from": {"topic": self.source, **records}, "topic": {"create": True}}
        self.rule |= {"into": f"{self.into}.new", "where": "status = 'paid'"}
        self.rule["rejects"] = {"into": f"{self.into}.rejects", "stop_above": "90%"}
        order = json.dumps({"id": 1, "status": "paid"}).encode()
        cluster.send(self.source, 0, [Sent(order, key=b"a"), Sent(b"no order", key=b"b")])

    def code(self, command: str, *words: str) -> tuple[int, str]:
        """Return with what a command ends, and the code that it names."""
        path = self.save()
        named = [path] if command in {"plan", "validate", "doctor"} else ["--spec", path]
        done = within(command, *named, *words)
        found = re.search(r"\b(P\d{3})\b", done.out + done.err)
        return done.code, found.group(1) if found else ""

    def published(self) -> None:
        """Publish all that is there."""
        assert (0, "P302") == self.code("publish", "--until-caught-up")


def few(orders: Orders) -> None:
    """Give the target fewer partitions than its source; the topic for rejects is to be created."""
    orders.cluster.create(orders.rule["into"], PARTITIONS - 1)


def few_asked(orders: Orders) -> None:
    """Ask for too few."""
    orders.rule["topic"]["partitions"] = PARTITIONS - 1


def other_rejects(orders: Orders) -> None:
    """Name another topic for rejects once there is one."""
    orders.published()
    orders.rule["rejects"]["into"] += ".new"


def no_rejects(orders: Orders) -> None:
    """Name none any more."""
    orders.published()
    del orders.rule["rejects"]


def other_source(orders: Orders) -> None:
    """Create the source again where the topic for rejects is not there yet."""
    rejects = orders.rule.pop("rejects")
    orders.rule["where"] = "id is not null"
    orders.make_again(orders.source)
    orders.cluster.send(orders.source, 0, [Sent(b'{"id": 1}', key=b"a")])
    assert (0, "") == orders.code("publish", "--until-caught-up")
    orders.make_again(orders.source)
    orders.rule["rejects"] = rejects


def no_target(orders: Orders) -> None:
    """Create nothing."""
    del orders.rule["topic"]


def no_source(orders: Orders) -> None:
    """Misspell the source."""
    orders.rule["from"]["topic"] += "x"


def deleting_offsets(orders: Orders) -> None:
    """Keep positions in a topic that forgets them."""
    orders.rule["offsets"] = orders.into


def no_condition(orders: Orders) -> None:
    """Write a condition that is none."""
    orders.rule["where"] = "status"


def no_time(orders: Orders) -> None:
    """Take a number for a time."""
    orders.rule["timestamp"] = "id"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (few, "P813"),
        (few_asked, "P813"),
        (other_rejects, "P808"),
        (no_rejects, "P808"),
        (other_source, "P812"),
        (no_target, "P205"),
        (no_source, "P205"),
        (deleting_offsets, "P800"),
        (no_condition, "P838"),
        (no_time, "P839"),
    ],
)
def test_what_a_start_refuses_is_refused_before(
    cluster: Cluster, tmp_path: Path, change: Callable[[Orders], None], code: str
) -> None:
    orders = Orders(cluster, tmp_path)
    change(orders)
    before = [orders.code(each) for each in ("plan", "peek", "validate")]
    (examined, _), (ended, said) = orders.code("doctor"), orders.code("publish", "--once")

    assert code == said
    assert [(ended, code)] * 3 == before
    assert ended == examined


def test_a_plan_ends_as_a_run_does_that_finds_what_waits(cluster: Cluster, tmp_path: Path) -> None:
    """At too many rejects, and at the first one where there is no topic for them."""
    orders = Orders(cluster, tmp_path)
    cluster.send(orders.source, 0, [Sent(b"no order", key=b"b")] * 99)
    told = {"P860": within("plan", orders.save())}
    del orders.rule["rejects"]
    told["P840"] = within("plan", orders.save())

    for code, done in told.items():
        assert (4, True) == (done.code, code in done.out + done.err), done.out + done.err
        assert "0 filtered, 100 rejected\n    rejected by P302: 100, first " in done.out
    assert (4, "P840") == orders.code("publish", "--once")


def test_a_peek_begins_where_it_is_told_to(cluster: Cluster, tmp_path: Path) -> None:
    orders = Orders(cluster, tmp_path)
    orders.published()
    at = f"{orders.source}:0:1"
    (found,) = within("peek", "--spec", orders.save(), "--at", at, "--json").json

    assert ("rejected", "P302") == (found["outcome"], found["code"])
    assert "offset 1" in found["place"]
    assert (2, "P817") == orders.code("peek", "--at", f"{orders.source}:0:9")
    assert (2, "P817") == orders.code("peek", "--at", "other:0:0")
