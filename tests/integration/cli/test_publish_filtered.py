"""Records of a real topic, filtered and changed: killed, read by librdkafka, proved by the audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.cli.test_publish import PARTITIONS, Mirror
from tests.processes.broker import Cluster
from tests.processes.process import KILLED

from penstock.testing.sent import Sent

ORDERS = 60
AT_MS = 1_700_000_000_000
B = "_kafka_headers['b']"
RULE = {
    "where": "status <> 'draft' and _kafka_headers['app'] is not null",
    "transform": {"columns": {"total": "price * quantity"}},
    "value": {"columns": ["id", "total"]},
    "headers": {"app": "_kafka_headers['app']", "none": "null", "raw": "_kafka_key", "b": B},
}


class Filtered(Mirror):
    """A topic of orders, some of which are published."""

    def __init__(self, cluster: Cluster, directory: Path, producer: str) -> None:
        super().__init__(cluster, directory)
        self.rejects = f"{self.into}.rejects"
        columns = {"id": "long", "status": "string", "price": "decimal(9,2)", "quantity": "int"}
        columns["prise"] = "string"  # no record has it
        source = {"topic": self.source, "records": {"format": "json"}, "columns": columns}
        self.spec["publish"][0] |= {  # type: ignore[index]
            **RULE,
            "from": source,
            "producer": producer,
            "rejects": {"into": self.rejects, "stop_above": "90%"},
        }
        cluster.create(self.rejects, 1)

    def fill(self) -> None:
        """Send orders, tombstones, and what is none of both."""
        for partition in range(PARTITIONS):
            records = [_record(number) for number in range(ORDERS)]
            self.cluster.send(self.source, partition, records)

    def expected(self) -> list[tuple[object, ...]]:
        """Return what a reader of a partition of the target has to find, in order."""
        return [
            (
                _key(number),
                _value(number),
                (1, AT_MS + number),
                [
                    ("app", None if number % 7 == 5 else b"shop"),
                    ("b", None if number % 7 == 5 else b"\xff"),
                    ("none", None),
                    ("raw", _key(number)),
                ],
            )
            for number in range(ORDERS)
            if number % 7 in {0, 1, 2, 5}
        ]


def _key(number: int) -> bytes:
    return b"\xff%d" % (number % 5)


def _value(number: int) -> bytes | None:
    if number % 7 == 5:
        return None
    return json.dumps(
        {"id": number, "total": f"{number * 1.5 * 2:.2f}"}, separators=(",", ":")
    ).encode()


def _record(number: int) -> Sent:
    """Return an order; of seven one is a draft, one has no header, one a tombstone, one bad."""
    order = {"id": number, "price": f"{number * 1.5:.2f}", "quantity": 2, "note": {"x": [1]}}
    order["status"] = "draft" if number % 7 == 3 else "paid"
    value = {5: None, 6: b"{not an order"}.get(number % 7, json.dumps(order).encode())
    headers = () if number % 7 in {4, 5} else (("app", b"shop"), ("b", b"\xff"))
    return Sent(value, key=_key(number), headers=headers, timestamp_ms=AT_MS + number)


@pytest.mark.parametrize("producer", ["own", "librdkafka"])
def test_each_order_that_is_wanted_is_there_once_though_the_process_is_killed(
    cluster: Cluster, tmp_path: Path, producer: str
) -> None:
    orders = Filtered(cluster, tmp_path, producer)
    orders.fill()
    planned = orders.call("plan")
    assert planned.code == 0, planned.err
    objects = PARTITIONS * sum(number % 7 < 5 for number in range(ORDERS))
    bad = PARTITIONS * sum(number % 7 == 6 for number in range(ORDERS))
    assert f"{bad} rejected\n    rejected by P302: {bad}, first " in planned.out
    assert f"of {objects} records looked at none has the field 'prise'\n" in planned.out
    peeked = orders.call("peek", "-n", "7", "--json")
    assert peeked.code == 0, peeked.err
    outcomes = ["filtered"] + ["published"] * 6  # three of one partition, four of the other
    assert outcomes == sorted(each["outcome"] for each in peeked.json)

    for point in ("send.after", "end.after"):
        run = orders.call("publish", "--until-caught-up", PENSTOCK_FAULTS=point)
        assert run.code == KILLED, run.err
    run = orders.call("publish", "--until-caught-up", "--takeover")
    assert run.code == 0, run.err
    expected = dict.fromkeys(range(PARTITIONS), orders.expected())
    assert expected == orders.read(orders.into)
    rejects = orders.read(orders.rejects, partitions=1)[0]
    bad = sum(number % 7 == 6 for number in range(ORDERS))
    assert PARTITIONS * bad == len(rejects)
    told = [dict(headers) for *_, headers in rejects]
    assert {b"6", b"13"} <= {each["penstock.offset"] for each in told}
    assert all(each["penstock.code"].startswith(b"P3") for each in told)
    for key, value, _, headers in rejects:
        number = int(dict(headers)["penstock.offset"])
        sent = _record(number)
        assert (sent.key, sent.value, [*sent.headers]) == (key, value, headers[: len(sent.headers)])

    audit = orders.call("audit", "--count")
    assert audit.code == 0, audit.out + audit.err
    assert f"compared with the source: {PARTITIONS * ORDERS} records" in audit.out
    status = orders.call("status")
    assert "lag: 0 records" in status.out
