"""Records after a real schema registry: Apicurio's, which speaks Confluent's protocol."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from tests.integration.cli.shop import Shop
from tests.integration.formats.test_registered_records import MONEY, ORDER, PROTO, datum, framed
from tests.servers.registry import RegistryServer

from penstock.connectors.registry.http import HttpRegistry
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.registry import Registry, SchemaKey
from penstock.rows.decode.protobuf.schema import message_class
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.sent import Sent

NEVER = 2_000_000_000


def opened(url: str, **settings: Any) -> Registry:
    return HttpRegistry({"url": url, **settings}, ProcessSecrets({}))


def by_id(number: int) -> SchemaKey:
    return SchemaKey("id", str(number))


def test_records_of_each_format_land_and_those_of_unknown_schemas_are_quarantined(
    shop: Shop, server: RegistryServer
) -> None:
    server.register("money", MONEY, kind="PROTOBUF")
    reference = {"name": "common/money.proto", "subject": "money", "version": 1}
    proto = server.register("protobuf-value", PROTO, kind="PROTOBUF", references=[reference])
    avro = server.register("avro-value", ORDER)
    plain = server.register("json-value", {"properties": {"id": {"type": "integer"}}}, kind="JSON")
    found = opened(server.url).find(by_id(proto))
    assert found is not None
    order = message_class(found.descriptors, (1,))
    row = {"id": 1, "at": 0, "day": 0, "price": b"\x01", "tags": [], "extra": {}}
    values = {
        "avro": (avro, datum(ORDER, row)),
        "protobuf": (proto, b"\x02\x02" + order(id=1, price={"cents": 5}).SerializeToString()),
        "json-schema": (plain, b'{"id": 1}'),
    }
    topics = {name: f"{shop.name}.{name}" for name in values}
    shop.spec["kafka"]["topics"] = [*topics.values()]
    shop.spec["tables"] = [
        {
            "from": topic,
            "into": f"lake.shop.{name.replace('-', '_')}",
            "schema": {"create": True},
            "records": {"format": name, "registry": server.url},
        }
        for name, topic in topics.items()
    ]
    for name, (number, body) in values.items():
        shop.cluster.create(topics[name], 1)
        sent = [Sent(framed(number, body)), Sent(framed(NEVER, body)), Sent(b"{}")]
        shop.cluster.send(topics[name], 0, sent)

    assert 0 == shop.run().code

    for name in values:
        rows = shop.lake(f"shop.{name.replace('-', '_')}")
        assert [1] == [each["id"] for each in rows]
        codes = [r["code"] for r in shop.rejects() if r["topic"] == topics[name]]
        assert ["P310", "P311"] == sorted(codes)
    shop.prove()


def test_a_schema_comes_with_what_it_refers_to(server: RegistryServer) -> None:
    line = {"type": "record", "name": "shop.Line", "fields": [{"name": "n", "type": "long"}]}
    server.register("line", line)
    order = {"type": "record", "name": "O", "fields": [{"name": "line", "type": "shop.Line"}]}
    reference = {"name": "shop.Line", "subject": "line", "version": 1}

    found = opened(server.url).find(by_id(server.register("o", order, references=[reference])))

    assert found is not None
    assert ("avro", order) == (found.format, json.loads(found.text))
    assert [("shop.Line", line)] == [(name, json.loads(text)) for name, text in found.references]


def test_what_it_does_not_have_is_distinguished_from_a_wrong_address_and_from_no_answer(
    server: RegistryServer,
) -> None:
    registry = opened(server.url)
    assert None is registry.find(by_id(NEVER))
    assert None is registry.find(SchemaKey("guid", "00112233-4455-6677-8899-aabbccddeeff"))

    with pytest.raises(InvalidError) as wrong:
        opened(server.url.replace("/ccompat/v7", "/nothing")).find(by_id(1))
    server.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(UnavailableError) as silent:
            opened(server.url, timeout=0.2).find(by_id(1))
    finally:
        server.process.send_signal(signal.SIGCONT)

    assert ("P673", "P671") == (wrong.value.code, silent.value.code)
