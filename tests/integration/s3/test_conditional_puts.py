"""Delta on S3 requires conditional PUTs: a storage without them is refused at start."""

import contextlib
import socket
import socketserver
import threading

import pytest
from tests.integration.s3.lake import SECRETS, delta_settings

from penstock.connectors import delta
from penstock.core.errors import InvalidError
from penstock.testing.contracts.table_fixture import Quiet


@pytest.fixture
def careless(s3):
    """A gateway to the same S3 that loses the condition on its way."""

    class Gateway(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(("127.0.0.1", s3.port)) as upstream:
                back = threading.Thread(target=relay, args=(upstream, self.request), daemon=True)
                back.start()
                relay(self.request, upstream)
                back.join(5)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def relay(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 20):
            sink.sendall(data.replace(b"if-none-match:", b"x-none-matched:"))
        sink.shutdown(socket.SHUT_WR)


def test_a_storage_that_honours_conditions_passes_and_keeps_nothing(s3):
    bucket = s3.bucket()
    delta.open_catalog(delta_settings(s3, bucket), SECRETS, Quiet()).check()

    assert {"delta/"} >= set(s3.keys(bucket))  # the mark that PyArrow leaves of a directory


def test_a_storage_that_loses_conditions_is_refused(s3, careless):
    bucket = s3.bucket()
    catalog = delta.open_catalog(
        delta_settings(s3, bucket, endpoint_url=careless), SECRETS, Quiet()
    )
    with pytest.raises(InvalidError) as refused:
        catalog.check()

    assert "P442" == refused.value.code
    assert {"delta/"} >= set(s3.keys(bucket))  # the mark that PyArrow leaves of a directory
