"""The catalog that lies, as a tool of tests: what a cut of all lines promises."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.servers.lying import Liar, Lie, lying

SECONDS_MAX = 60.0


class Slow:
    """A server that holds the answer to `/slow`, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.came, self.gate = threading.Event(), threading.Event()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if handler.path == "/slow":
            self.came.set()
            self.gate.wait(SECONDS_MAX)
        self.asked.append(handler.path)
        handler.send_response(204)
        handler.end_headers()


@contextmanager
def served(slow: Slow) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            slow.answer(self)

        def log_message(self, *words: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def line(liar: Liar) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(liar.address.removeprefix("http://"), timeout=SECONDS_MAX)


def posted(connection: http.client.HTTPConnection, path: str) -> int:
    connection.request("POST", path)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def test_what_was_asked_before_a_cut_has_arrived_or_never_does() -> None:
    slow = Slow()
    with served(slow) as server, lying(server) as liar:
        liar.queue("/late", Lie.DELAY)
        kept = line(liar)
        delayed = posted(kept, "/late")
        under_way = line(liar)
        under_way.request("POST", "/slow")
        assert slow.came.wait(SECONDS_MAX)
        cutting = threading.Thread(target=liar.cut)
        cutting.start()
        cutting.join(0.2)
        waited = cutting.is_alive()
        slow.gate.set()
        cutting.join(SECONDS_MAX)
        arrived = list(slow.asked)
        with pytest.raises(ConnectionError):
            posted(kept, "/after")
        released = liar.release()
        fresh = posted(line(liar), "/fresh")

    assert (504, True, ["/slow"]) == (delayed, waited, arrived)
    assert ([], 204, ["/slow", "/fresh"]) == (released, fresh, slow.asked)
