"""Records with schemas, from a real broker and a registry over HTTP into both kinds of tables."""

from __future__ import annotations

import gzip
import io
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from tests.integration.cli.shop import Shop, problem
from tests.processes.schema_registry import Registered, serving

from penstock.connectors.registry.http import HttpRegistry
from penstock.ports.registry import SchemaKey
from penstock.rows.decode.protobuf.schema import message_class
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.sent import Sent

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "extra", "type": {"type": "map", "values": "double"}},
    ],
}
AT = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)


@pytest.fixture
def registered() -> Registered:
    return Registered()


@pytest.fixture
def url(registered: Registered) -> Iterator[str]:
    with serving(registered) as address:
        yield address


def order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "at": AT,
        "day": date(1969, 12, 31),
        "price": Decimal("-12.34"),
        "tags": ["a", "é"],
        "extra": {"x": 0.5},
    }


def datum(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def framed(number: int, body: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + body


def bare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kept = [{n: v for n, v in row.items() if not n.startswith("_kafka_")} for row in rows]
    for row in kept:
        if isinstance(row.get("extra"), list):
            row["extra"] = dict(row["extra"])
    return sorted(kept, key=lambda row: row["id"])


def test_avro_of_two_schemas_lands_and_unknown_ones_are_quarantined(
    shop: Shop, registered: Registered, url: str
) -> None:
    first = registered.register("orders-value", ORDER)
    longer = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string"}]}
    second = registered.register("orders-value", longer)
    guid = uuid.UUID(registered.guid(first)).bytes
    shop.spec["records"] = {"format": "avro", "registry": url, "schema_id": "headers"}
    good = [
        Sent(framed(first, datum(ORDER, order(0)))),
        Sent(framed(second, datum(longer, {**order(1), "note": "n"}))),
        Sent(b"\x01" + guid + datum(ORDER, order(2))),
        Sent(datum(ORDER, order(3)), headers=(("__value_schema_id", b"\x01" + guid),)),
    ]
    bad = {
        framed(99, datum(ORDER, order(4))): "P311",
        framed(first, datum(ORDER, order(5))[:-1]): "P302",
        framed(first, datum(ORDER, order(6)) + b"\x00"): "P308",
        b'{"id": 1}': "P310",
        b"\x00\x00": "P310",
        b"": "P301",
    }
    shop.cluster.send(shop.topic, 0, [*good, *(Sent(value) for value in bad)])

    assert 0 == shop.run().code

    expected = [{**order(number), "note": "n" if number == 1 else None} for number in range(4)]
    assert expected == bare(shop.lake())
    assert expected == bare(shop.delta())
    for table in ("lake.shop.orders", "delta.shop.orders"):
        assert bad == {r["value"]: r["code"] for r in shop.rejects() if r["table"] == table}
    shop.prove()


MONEY = 'syntax = "proto3"; package common; message Money { int64 cents = 1; }'
PROTO = """
syntax = "proto3";
import "common/money.proto";
import "google/protobuf/timestamp.proto";
enum State { NEW = 0; OLD = 1; }
message Other { string what = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  google.protobuf.Timestamp at = 3;
  State state = 4;
  common.Money price = 5;
  map<string, double> extra = 6;
  repeated string tags = 7;
}
"""


def test_protobuf_with_references_lands_by_message_and_what_it_does_not_know_is_quarantined(
    shop: Shop, registered: Registered, url: str
) -> None:
    registered.register("money", MONEY, kind="PROTOBUF")
    reference = {"name": "common/money.proto", "subject": "money", "version": 1}
    number = registered.register("orders", PROTO, kind="PROTOBUF", references=[reference])
    found = HttpRegistry({"url": url}, ProcessSecrets({})).find(SchemaKey("id", str(number)))
    assert found is not None
    made = message_class(found.descriptors, (1,))
    guid = b"\x01" + uuid.UUID(registered.guid(number)).bytes
    shop.spec["records"] = {"format": "protobuf", "registry": url, "schema_id": "headers"}
    row = {
        "at": {"seconds": 1_700_000_000, "nanos": 123_456_000},
        "state": 1,
        "price": {"cents": -5},
        "extra": {"x": 0.5},
        "tags": ["a", "é"],
    }
    bodies = [made(id=each, **row).SerializeToString() for each in range(2)]
    good = [
        Sent(framed(number, b"\x02\x02" + bodies[0])),
        Sent(bodies[1], headers=(("__value_schema_id", guid + b"\x02\x02"),)),
    ]
    bad = {
        framed(number, b"\x02\x02" + bodies[0] + b"\xfa\x07\x01a"): "P302",
        framed(number, b"\x02\x02\x20\x07"): "P302",
        framed(number, b"\x02\x0e" + bodies[0]): "P312",
        framed(number, b""): "P310",
        framed(99, b"\x00"): "P311",
    }
    shop.cluster.send(shop.topic, 0, [*good, *(Sent(value) for value in bad)])

    assert 0 == shop.run().code

    moment = datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    reported = {"at": moment, "state": "OLD", "price": {"cents": -5}, "note": None}
    reported |= {"extra": {"x": 0.5}, "tags": ["a", "é"]}
    expected = [{"id": each, **reported} for each in range(2)]
    assert expected == bare(shop.lake())
    assert expected == bare(shop.delta())
    for table in ("lake.shop.orders", "delta.shop.orders"):
        assert bad == {r["value"]: r["code"] for r in shop.rejects() if r["table"] == table}
    shop.prove()


def test_tables_grow_with_the_schemas_of_their_records_and_conditions_read_them(
    shop: Shop, registered: Registered, url: str
) -> None:
    first = registered.register("orders-value", ORDER)
    longer = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"]}]}
    second = registered.register("orders-value", longer)
    shop.spec["records"] = {"format": "avro", "registry": url}
    for table in shop.spec["tables"]:
        table["schema"] |= {"columns": "evolve", "hints": {"id": "long"}}
        table["where"] = "id <> 1"
    shop.cluster.send(
        shop.topic, 0, [Sent(framed(first, datum(ORDER, order(n)))) for n in range(3)]
    )
    assert 0 == shop.run().code

    shop.cluster.send(
        shop.topic, 0, [Sent(framed(second, datum(longer, {**order(3), "note": "n"})))]
    )
    assert 0 == shop.run().code

    expected = [{**order(n), "note": "n" if n == 3 else None} for n in (0, 2, 3)]
    assert expected == bare(shop.lake())
    assert expected == bare(shop.delta())
    assert [] == shop.rejects()
    shop.prove()


def test_json_with_a_schema_of_connect_lands_with_its_types(shop: Shop) -> None:
    schema = {
        "type": "struct",
        "fields": [
            {"field": "id", "type": "int64"},
            {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
            {
                "field": "price",
                "type": "bytes",
                "name": "org.apache.kafka.connect.data.Decimal",
                "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            },
        ],
    }
    rows = [{"id": n, "at": 1_700_000_000_001, "price": "+y4="} for n in range(2)]
    bad = {
        b'{"id":1}': "P320",
        json.dumps({"schema": schema, "payload": {"id": "x"}}).encode(): "P302",
    }
    shop.spec["records"] = {"format": "json-schema-envelope"}
    sent = [json.dumps({"schema": schema, "payload": row}).encode() for row in rows]
    shop.cluster.send(shop.topic, 0, [Sent(each) for each in [*sent, *bad]])

    assert 0 == shop.run().code

    moment = datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=UTC)
    expected = [{"id": n, "at": moment, "price": Decimal("-12.34")} for n in range(2)]
    assert expected == bare(shop.lake())
    assert expected == bare(shop.delta())
    for table in ("lake.shop.orders", "delta.shop.orders"):
        assert bad == {r["value"]: r["code"] for r in shop.rejects() if r["table"] == table}
    shop.prove()


def test_records_wait_while_the_registry_does_not_answer(
    shop: Shop, registered: Registered, url: str
) -> None:
    number = registered.register("orders-value", ORDER)
    shop.spec["records"] = {"format": "avro", "registry": url}
    shop.cluster.send(shop.topic, 0, [Sent(framed(number, datum(ORDER, order(0))))])
    registered.failures = [503] * 1000

    ran = shop.run()

    assert (75, "P671") == (ran.code, problem(ran)[0])
    registered.failures.clear()
    assert 0 == shop.run().code
    assert [order(0)] == bare(shop.lake())
    assert [] == shop.rejects()


def test_debezium_text_and_compressed_records_share_a_pipeline(shop: Shop) -> None:
    other = f"{shop.name}.lines"
    shop.cluster.create(other, 1)
    shop.spec["kafka"]["topics"].append(other)
    shop.spec["tables"] = [
        {
            "from": shop.topic,
            "into": "lake.shop.orders",
            "schema": {"create": True},
            "records": {"envelope": "debezium", "compression": "gzip"},
        },
        {
            "from": other,
            "into": "delta.shop.lines",
            "schema": {"create": True},
            "records": {"format": "text"},
        },
    ]
    source = {"lsn": 5, "ts_ms": 1_700_000_000_000}
    events = [
        {"op": "c", "before": None, "after": {"id": 1}, "source": source},
        {"op": "d", "before": {"id": 1}, "after": None, "source": source},
        {"op": "t", "before": None, "after": None, "source": source},
    ]
    packed = [Sent(gzip.compress(json.dumps(event).encode())) for event in events]
    shop.cluster.send(shop.topic, 0, [*packed, Sent(None), Sent(b"plain")])
    shop.cluster.send(other, 0, [Sent("é".encode()), Sent(b""), Sent(b"\xff")])

    assert 0 == shop.run().code

    changes = [(r["id"], r["_change_operation"], r["_change_timestamp"]) for r in shop.lake()]
    moment = datetime.fromtimestamp(1_700_000_000, UTC)
    assert [(1, "insert", moment), (1, "delete", moment)] == sorted(changes, reverse=True)
    assert ["", "é"] == sorted(row["value"] for row in shop.delta("shop/lines"))
    assert {None: "P309", b"plain": "P313", b"\xff": "P303"} == {
        r["value"]: r["code"] for r in shop.rejects()
    }
    shop.prove()
