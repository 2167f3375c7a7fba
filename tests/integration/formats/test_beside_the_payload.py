"""Keys with types, headers by name and rescued values land in both kinds of tables."""

from __future__ import annotations

from tests.integration.cli.shop import Shop

import penstock
from penstock.testing.sent import Sent


def test_keys_headers_and_what_does_not_fit_land_with_the_payload(shop: Shop) -> None:
    shop.spec["records"] = {"key_format": "json"}
    for table in shop.spec["tables"]:
        table["source_columns"] = ["topic", "partition", "offset", "key"]
        table["header_columns"] = {"trace": "x-trace", "tries": "x-tries"}
        table["schema"] |= {"columns": "rescue", "types": "rescue", "hints": {"tries": "int"}}
    headers = (("x-trace", b"t"), ("x-tries", b"3"))
    shop.cluster.send(shop.topic, 0, [Sent(b'{"id":1}', b'{"k":7}', headers=headers)])
    assert {} == dict(penstock.open(shop.path).run().parked)
    later = [
        Sent(b'{"id":"two","more":[1.50]}', b'{"k":8}'),
        Sent(b'{"id":3}', b"{"),
        Sent(b'{"id":4}', None, headers=(("x-tries", b"many"),)),
    ]
    shop.cluster.send(shop.topic, 0, later)

    assert {} == dict(penstock.open(shop.path).run().parked)

    first = {"id": 1, "_kafka_key": {"k": 7}, "trace": "t", "tries": 3, "_rescued": None}
    second = {"id": None, "_kafka_key": {"k": 8}, "trace": None, "tries": None}
    second["_rescued"] = '{"id":"two","more":[1.50]}'
    for rows in (shop.lake(), shop.delta()):
        reported = sorted(rows, key=lambda row: row["_kafka_offset"])
        assert [first, second] == [{n: row[n] for n in first} for row in reported]
    for table in ("lake.shop.orders", "delta.shop.orders"):
        refused = {r["value"]: r["code"] for r in shop.rejects() if r["table"] == table}
        assert {b'{"id":3}': "P302", b'{"id":4}': "P366"} == refused
    shop.prove()
