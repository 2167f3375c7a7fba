"""Every schema registry against its port, and what only one over HTTP can get wrong."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from tests.processes.schema_registry import Registered, serving

from penstock.connectors.registry import connector
from penstock.connectors.registry.directory import fingerprint
from penstock.connectors.registry.http import PAUSES_SECONDS
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.registry import RegisteredSchema, Registry, SchemaKey
from penstock.rows.decode.protobuf.block_reader import protobuf_reader
from penstock.spec.secrets import ProcessSecrets

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": "not part of the canonical form",
    "fields": [
        {"name": "id", "type": {"type": "long"}, "default": 0},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "OLD"]}},
        {"name": "past", "type": {"type": "array", "items": "State"}},
        {"name": "tags", "type": ["null", {"type": "map", "values": "string"}]},
    ],
}
Register = Callable[[Any, str], int]


def opened(url: str, **settings: Any) -> Registry:
    return connector.open_registry({"url": url, **settings}, ProcessSecrets({"PASSWORD": "s3cret"}))


def by_id(number: int) -> SchemaKey:
    return SchemaKey("id", str(number))


@pytest.fixture
def registered() -> Registered:
    return Registered()


@pytest.fixture
def url(registered: Registered) -> Iterator[str]:
    with serving(registered) as address:
        yield address


@pytest.fixture(params=["http", "directory"])
def registry(
    request: pytest.FixtureRequest, registered: Registered, url: str, tmp_path: Path
) -> tuple[Registry, Register]:
    if request.param == "http":
        kinds = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
        return opened(url), lambda schema, kind: registered.register("s", schema, kind=kinds[kind])

    suffixes = {"avro": "avsc", "json-schema": "json", "protobuf": "proto"}

    def write(schema: Any, kind: str) -> int:
        number = len(list(tmp_path.iterdir())) + 1
        text = schema if isinstance(schema, str) else json.dumps(schema)
        (tmp_path / f"{number}.{suffixes[kind]}").write_text(text)
        return number

    return opened(f"mock://{tmp_path}"), write


@pytest.mark.parametrize("kind", ["avro", "json-schema", "protobuf"])
def test_a_schema_is_found_as_it_was_registered(
    registry: tuple[Registry, Register], kind: Any
) -> None:
    found, register = registry
    text = 'message M { string a = 1; }  // "é"'

    number = register(text, kind)

    assert RegisteredSchema(kind, text) == found.find(by_id(number))


def test_a_number_that_was_never_given_is_reported_as_none(
    registry: tuple[Registry, Register],
) -> None:
    found, register = registry
    register(ORDER, "avro")

    assert found.find(by_id(99)) is None
    assert found.find(by_id(2_147_483_648)) is None
    assert found.find(by_id(4_294_967_295)) is None
    assert found.find(SchemaKey("guid", "00112233-4455-6677-8899-aabbccddeeff")) is None


def test_a_404_without_the_registrys_code_is_believed_when_it_is_a_registry(
    registered: Registered, url: str
) -> None:
    registered.failures = [404]

    assert opened(url).find(by_id(7)) is None
    assert ["/schemas/ids/7", "/schemas/types"] == registered.asked


def test_a_schema_of_a_type_that_is_not_known_is_no_fault_of_the_address(
    registered: Registered, url: str
) -> None:
    number = registered.register("s", "text", kind="THRIFT")

    assert RegisteredSchema("other", "text") == opened(url).find(by_id(number))


@pytest.mark.parametrize(
    "references",
    [
        [{"name": "B"}],
        [{"name": "B", "subject": "b", "version": "x"}],
        [{"name": 1, "subject": "b", "version": 1}],
        [{"name": "B", "subject": "b", "version": 9}],
    ],
)
def test_references_that_are_none_refuse_no_record(
    registered: Registered, url: str, references: list[dict[str, Any]]
) -> None:
    registered.register("b", "1")
    number = registered.register("a", "2", references=references)
    with pytest.raises(InvalidError) as caught:
        opened(url).find(by_id(number))
    assert "P673" == caught.value.code


def test_references_in_a_circle_end(registered: Registered, url: str) -> None:
    registered.register("b", "1", references=[{"name": "A", "subject": "a", "version": 1}])
    number = registered.register("a", "2", references=[{"name": "B", "subject": "b", "version": 1}])

    found = opened(url).find(by_id(number))

    assert RegisteredSchema("avro", "2", (("A", "2"), ("B", "1"))) == found


def test_a_registry_that_is_silent_is_asked_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(UnavailableError) as caught:
            opened(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.2).find(by_id(1))
        server.setblocking(False)
        server.accept()[0].close()
        with pytest.raises(BlockingIOError):
            server.accept()

    assert "P671" == caught.value.code


def test_an_error_whose_text_is_cut_off_is_unavailable() -> None:
    """The second half of an answer may be lost as well as the first."""

    def answer(server: socket.socket) -> None:
        head = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"
        for _ in range(1 + len(PAUSES_SECONDS)):
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(head)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        with pytest.raises(UnavailableError) as caught:
            opened(f"http://127.0.0.1:{server.getsockname()[1]}").find(by_id(1))
        thread.join(10)
    assert "P671" == caught.value.code


@pytest.mark.parametrize("key", [by_id(7), SchemaKey("fingerprint", "0" * 16)])
def test_a_directory_that_vanishes_or_is_empty_refuses_no_record(
    tmp_path: Path, key: SchemaKey
) -> None:
    place = tmp_path / "schemas"
    place.mkdir()
    registry = opened(f"mock://{place}")
    for _ in ("empty", "gone"):
        with pytest.raises(UnavailableError) as caught:
            registry.find(key)
        assert "P671" == caught.value.code
        if place.exists():
            place.rmdir()


def test_an_answer_is_kept(registered: Registered, url: str) -> None:
    number = registered.register("orders-value", ORDER)
    registry = opened(url)

    assert registry.find(by_id(number)) == registry.find(by_id(number))
    assert registry.find(by_id(9)) is registry.find(by_id(9)) is None
    assert [f"/schemas/ids/{number}", "/schemas/ids/9"] == registered.asked


def test_a_schema_is_found_by_its_guid(registered: Registered, url: str) -> None:
    number = registered.register("orders-value", ORDER)

    found = opened(url).find(SchemaKey("guid", registered.guid(number)))

    assert RegisteredSchema("avro", json.dumps(ORDER)) == found


def test_schemas_that_are_referred_to_come_along_those_used_by_others_first(
    registered: Registered, url: str
) -> None:
    registered.register("a/b", "1")
    registered.register("c", "2", references=[{"name": "B", "subject": "a/b", "version": 1}])
    number = registered.register(
        "d",
        "3",
        references=[
            {"name": "C", "subject": "c", "version": 1},
            {"name": "B", "subject": "a/b", "version": 1},
        ],
    )

    found = opened(url).find(by_id(number))

    assert RegisteredSchema("avro", "3", (("B", "1"), ("C", "2"))) == found


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again(registered: Registered, url: str, status: int) -> None:
    number = registered.register("orders-value", ORDER)
    registered.failures = [status, status]

    assert opened(url).find(by_id(number)) is not None


def test_a_registry_that_goes_on_failing_is_unavailable_and_says_nothing_of_the_schema(
    registered: Registered, url: str
) -> None:
    registered.failures = [503] * 20
    with pytest.raises(UnavailableError) as caught:
        opened(url).find(by_id(1))
    assert "P671" == caught.value.code


def test_a_registry_that_is_not_there_is_unavailable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(UnavailableError) as caught:
            opened(url).find(by_id(1))
    assert "P671" == caught.value.code


@pytest.mark.parametrize(("path", "failure"), [("/wrong", None), ("", 302), ("", 404), ("", 400)])
def test_an_address_that_is_no_registry_refuses_no_record(
    registered: Registered, url: str, path: str, failure: int | None
) -> None:
    """A 404 that does not come from a registry must not pour a topic into the quarantine."""
    registered.failures = [failure] * 3 if failure else []
    with pytest.raises(InvalidError) as caught:
        opened(url + path).find(by_id(1))
    assert "P673" == caught.value.code


@pytest.mark.parametrize(
    ("authorization", "settings"),
    [
        ("Bearer s3cret", {"token": "${env:PASSWORD}"}),
        (
            "Basic " + base64.b64encode(b"me:s3cret").decode(),
            {"username": "me", "password": "${env:PASSWORD}"},
        ),
    ],
)
def test_it_is_asked_with_credentials_that_no_error_shows(
    registered: Registered, url: str, authorization: str, settings: dict[str, str]
) -> None:
    number = registered.register("orders-value", ORDER)
    registered.authorization = authorization

    registry = opened(url, **settings)
    assert registry.find(by_id(number)) is not None
    assert "s3cret" not in repr(registry)
    assert authorization not in repr(registry)

    with pytest.raises(InvalidError) as caught:
        opened(url).find(by_id(number))
    assert "P672" == caught.value.code


@pytest.mark.parametrize("token", ["s3cret\n", "s3\rcret", "s3cret\u2026"])
def test_a_token_that_no_header_holds_is_refused_without_being_shown(token: str) -> None:
    secrets = ProcessSecrets({"TOKEN": token})
    with pytest.raises(InvalidError) as caught:
        connector.open_registry({"url": "http://127.0.0.1:1", "token": "${env:TOKEN}"}, secrets)
    assert "P672" == caught.value.code
    assert "cret" not in f"{caught.value!r} {caught.value.hint}"


def test_an_address_with_a_user_is_refused_without_being_shown() -> None:
    with pytest.raises(InvalidError) as caught:
        opened("http://me:${env:PASSWORD}@127.0.0.1:1")
    assert "P152" == caught.value.code
    assert "s3cret" not in f"{caught.value!r} {caught.value.hint}"


def test_a_schema_in_a_directory_is_found_by_its_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "other.avsc").write_text('"string"')
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    registry = opened(f"mock://{tmp_path}")

    found = registry.find(SchemaKey("fingerprint", fingerprint(ORDER)))

    assert RegisteredSchema("avro", json.dumps(ORDER)) == found
    assert registry.find(SchemaKey("fingerprint", "0" * 16)) is None


@pytest.mark.parametrize("schema", [ORDER, "string", ["null", "long"], ORDER["fields"]])
def test_a_fingerprint_is_that_of_another_library(schema: Any) -> None:
    if schema is ORDER["fields"]:
        schema = {"type": "record", "name": "a.b.C", "fields": schema}
    form = fastavro.schema.to_parsing_canonical_form(schema)
    expected = fastavro.schema.fingerprint(form, "CRC-64-AVRO")
    assert bytes.fromhex(expected)[::-1].hex() == fingerprint(schema)


def test_fingerprints_are_not_asked_of_a_registry_over_http(url: str) -> None:
    with pytest.raises(InvalidError) as caught:
        opened(url).find(SchemaKey("fingerprint", "0" * 16))
    assert "P674" == caught.value.code


def test_a_directory_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as caught:
        opened(f"mock://{tmp_path}/none")
    assert "P670" == caught.value.code


MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
PRICED = 'syntax = "proto3"; import "shop/money.proto"; message Priced { shop.Money cost = 1; }'


def test_protobuf_comes_compiled_with_what_it_refers_to(
    registered: Registered, url: str, tmp_path: Path
) -> None:
    registered.register("money", MONEY, kind="PROTOBUF")
    reference = {"name": "shop/money.proto", "subject": "money", "version": 1}
    number = registered.register("priced", PRICED, kind="PROTOBUF", references=[reference])
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/money.proto").write_text(MONEY)
    (tmp_path / f"{number}.proto").write_text(PRICED)

    for registry in (opened(url), opened(f"mock://{tmp_path}")):
        found = registry.find(by_id(number))

        assert found is not None
        assert ("", PRICED) == (found.fault, found.text)
        read = protobuf_reader(found.descriptors, (0,)).record(b"\x0a\x02\x08\x05")
        assert {"cost": {"cents": 5}} == read


def test_protobuf_that_does_not_compile_is_a_fault_of_the_schema(
    registered: Registered, url: str
) -> None:
    number = registered.register("broken", "message {", kind="PROTOBUF")

    found = opened(url).find(by_id(number))

    assert found is not None
    assert found.fault.startswith("it does not compile: schema:1:")
