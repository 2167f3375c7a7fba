"""What Py4J logs of a Java that was ended is not printed: the error that follows says it."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest
from py4j.java_gateway import GatewayClient, GatewayParameters
from tests.servers.listening import listening, shut

from penstock.engines.spark import session


@pytest.fixture(autouse=True)
def root_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = [*root.filters]
    root.filters[:] = []
    yield
    root.filters[:] = before


def dying(client: socket.socket) -> None:
    """Take a command and break the connection, as Java does that is killed."""
    client.recv(1)
    shut(client)


def test_a_java_that_ends_under_a_command_prints_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with listening(0, dying) as port:
        parameters = GatewayParameters(port=port)
        GatewayClient(gateway_parameters=parameters).send_command("c\n", retry=False)
        assert "Exception while sending command." in caplog.messages

        caplog.clear()
        session._quiet_py4j()
        GatewayClient(gateway_parameters=parameters).send_command("c\n", retry=False)

    logging.getLogger().error("another's")
    assert ["another's"] == caplog.messages
