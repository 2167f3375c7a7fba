"""A catalog that takes a request and never answers is a catalog that gave no answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from tests.servers.listening import listening, shut

from penstock.connectors import iceberg
from penstock.connectors.iceberg.catalogs.opening import with_timeouts
from penstock.core.errors import UnavailableError
from penstock.ports.connectors import READ_ONLY
from penstock.ports.tables import TableFormat
from penstock.testing.contracts.table_fixture import Quiet

CONFIG = json.dumps({"defaults": {}, "overrides": {}}).encode()
ANSWER = (
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(CONFIG) + CONFIG
)


class Plain:
    def resolve(self, text: str) -> str:
        return text


def silent(client: socket.socket) -> None:
    """Take all that is sent, and say nothing."""
    while client.recv(4096):
        pass
    client.close()


def configured(client: socket.socket) -> None:
    """Serve the configuration of a REST catalog, and nothing else."""
    asked = client.recv(4096)
    if b"/v1/config" not in asked:
        silent(client)
    else:
        client.sendall(ANSWER)
        shut(client)


@contextmanager
def served(serve: Callable[[socket.socket], object], kind: str) -> Iterator[Mapping[str, str]]:
    with listening(0, serve) as port:
        address = f"127.0.0.1:{port}"
        own = {
            "rest": {"uri": f"http://{address}"},
            "hive": {"uri": f"thrift://{address}"},
            "sql": {"uri": f"postgresql+psycopg://shop@{address}/lake?connect_timeout=1"},
            "glue": {
                "glue.endpoint": f"http://{address}",
                "glue.region": "eu-west-1",
                "glue.access-key-id": "one",
                "glue.secret-access-key": "two",
                "glue.max-retries": "1",
            },
        }
        yield {"name": "lake", "type": kind, "penstock.timeout_ms": "300", **own[kind]}


def opened(settings: Mapping[str, str]) -> TableFormat:
    """Open a catalog that answers at first, though perhaps late on a busy machine."""
    while True:
        try:
            return iceberg.open_catalog(settings, Plain(), Quiet())
        except UnavailableError:
            continue


@pytest.mark.parametrize("credential", ["", "client:secret"])
def test_a_rest_catalog_that_is_silent_from_the_first_gave_no_answer(credential: str) -> None:
    with served(silent, "rest") as settings:
        tokens = {"oauth2-server-uri": f"{settings['uri']}/tokens", "credential": credential}
        asked = {**settings, **tokens} if credential else settings
        with pytest.raises(UnavailableError) as raised:
            iceberg.open_catalog(asked, Plain(), Quiet())

    assert "P430" == raised.value.code


@pytest.mark.parametrize("settings", [{}, {READ_ONLY: True}], ids=["to write", "to look"])
def test_a_postgresql_that_takes_the_connection_and_is_silent_gave_no_answer(
    settings: Mapping[str, object],
) -> None:
    with served(silent, "sql") as asked, pytest.raises(UnavailableError) as raised:
        iceberg.open_catalog({**asked, **settings}, Plain(), Quiet())

    assert ("P430", True) == (raised.value.code, "catalog lake" in raised.value.message)


def test_an_address_without_timeouts_gets_ours_and_one_with_them_keeps_its_own() -> None:
    bare, own = "postgresql+psycopg://u:p%40@h/db", "postgresql://h/db?connect_timeout=3"

    assert "u:p%40@h/db?connect_timeout=10&" in with_timeouts(bare)
    assert "connect_timeout=3&keepalives_count=3&" in with_timeouts(own)
    assert "sqlite:///./c.db" == with_timeouts("sqlite:///./c.db")


@pytest.mark.parametrize(
    ("serve", "kind"), [(configured, "rest"), (silent, "hive"), (silent, "glue")]
)
def test_a_catalog_that_falls_silent_gave_no_answer_about_a_table(
    serve: Callable[[socket.socket], object], kind: str
) -> None:
    with served(serve, kind) as settings:
        catalog = opened(settings)
        with pytest.raises(UnavailableError) as raised:
            catalog.load("shop.orders")

    assert "P430" == raised.value.code
