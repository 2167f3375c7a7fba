"""A catalog that takes a request and never answers is a catalog that gave no answer."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from tests.servers.listening import listening, shut

from penstock.connectors import iceberg
from penstock.core.errors import UnavailableError
from penstock.ports.tables import TableFormat
from penstock.testing.table_bench import Quiet

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
    """Tell the configuration of a REST catalog, and nothing else."""
    asked = client.recv(4096)
    if b"/v1/config" not in asked:
        silent(client)
    else:
        client.sendall(ANSWER)
        shut(client)


@contextmanager
def served(serve: Callable[[socket.socket], object], kind: str) -> Iterator[Mapping[str, str]]:
    with listening(0, serve) as port:
        scheme = "thrift" if kind == "hive" else "http"
        yield {
            "name": "lake",
            "type": kind,
            "uri": f"{scheme}://127.0.0.1:{port}",
            "penstock.timeout_ms": "300",
        }


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
        with pytest.raises(UnavailableError) as told:
            iceberg.open_catalog(asked, Plain(), Quiet())

    assert "P430" == told.value.code


@pytest.mark.parametrize(("serve", "kind"), [(configured, "rest"), (silent, "hive")])
def test_a_catalog_that_falls_silent_gave_no_answer_about_a_table(
    serve: Callable[[socket.socket], object], kind: str
) -> None:
    with served(serve, kind) as settings:
        catalog = opened(settings)
        with pytest.raises(UnavailableError) as told:
            catalog.load("shop.orders")

    assert "P430" == told.value.code
