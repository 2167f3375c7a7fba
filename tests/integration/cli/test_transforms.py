"""Columns that are computed for each record, by SQL and by a Python function, on real tables."""

from __future__ import annotations

import json
from datetime import date

from tests.integration.cli.shop import Shop

from penstock.testing.sent import Sent

MODULE = """\
import pyarrow as pa

def classify(rows):
    cents = rows.column("cents").to_pylist()
    return pa.record_batch({"segment": ["large" if each > 1000 else [].pop() if each < 0 else "small"
                                        for each in cents]})
"""


def test_columns_are_computed_by_sql_and_by_a_function_and_partition_the_tables(shop: Shop) -> None:
    (shop.directory / "shop_rules.py").write_text(MODULE)
    for rule, partition in zip(shop.spec["tables"], ("month(day)", "day"), strict=True):
        rule["partition_by"] = [partition]
        rule["schema"] |= {"hints": {"created_at": "timestamptz", "amount": "decimal(12,2)"}}
        rule["transform"] = {
            "columns": {
                "day": "cast(created_at as date)",
                "cents": "cast(amount * 100 as bigint)",
                "sent_on": "cast(_kafka_timestamp as date)",
            },
            "function": {"call": "shop_rules:classify", "columns": {"segment": "string"}},
        }
    amounts = ["9.99", "10.01", "-1.00"]
    shop.cluster.send(
        shop.topic,
        0,
        [
            Sent(
                json.dumps(
                    {"id": n, "amount": each, "created_at": f"2024-0{n + 1}-29T23:00:00Z"}
                ).encode()
            )
            for n, each in enumerate(amounts)
        ],
    )
    ran = shop.run()
    assert 0 == ran.code, [x for x in ran.err.splitlines() if "arked" in x]

    sent_on = date(2023, 11, 14)
    expected = [
        (0, date(2024, 1, 29), 999, "small", sent_on),
        (1, date(2024, 2, 29), 1001, "large", sent_on),
    ]
    for rows in (shop.lake(), shop.delta()):
        found = [(r["id"], r["day"], r["cents"], r["segment"], r["sent_on"]) for r in rows]
        assert expected == sorted(found)
    assert [("P383", 2)] * 2 == [(each["code"], each["offset"]) for each in shop.rejects()]
    shop.prove()
