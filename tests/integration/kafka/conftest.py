"""A real broker behind a proxy that loses, doubles and delays frames."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.processes.broker import PROPERTIES, Cluster
from tests.servers.kafka_proxy import KafkaProxy, before

from penstock.dev.broker import down, up
from penstock.dev.ports import free_port
from penstock.testing.sent import Sent

RECORDS = 2000
"""In the topic `far`."""


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaProxy]:
    """A broker that says its clients the proxy's address, so that all frames go through it."""
    port = free_port()
    own = free_port(port)
    directory = tmp_path_factory.mktemp("behind")
    reported = {**PROPERTIES, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with before(KafkaProxy(port), ("127.0.0.1", own)) as opened:
        up(directory, own, properties=reported)
        try:
            cluster = Cluster(f"127.0.0.1:{port}")
            cluster.create("far")
            cluster.send("far", 0, [Sent(b"%d" % n, key=b"k" * 50) for n in range(RECORDS)])
            yield opened
        finally:
            down(directory)
