"""An HTTP proxy that lies as networks and proxies do; the server behind it is real.

Lies are queued by a pattern of `METHOD path` and used up one a request, in order; what each does:

| lie            | reaches the server | the client sees                     |
|----------------|--------------------|-------------------------------------|
| LOSE_ANSWER    | yes                | a connection that is closed         |
| LOSE_REQUEST   | no                 | a connection that is closed         |
| REFUSE         | no                 | 503                                 |
| CONFLICT       | no                 | 409                                 |
| CONFLICT_AFTER | yes                | 409                                 |
| ERROR_AFTER    | yes                | 500, 502, 503 or 504 (in this turn) |
| OK_UNAPPLIED   | no                 | 200: to POST, the answer to GET     |
| DELAY          | at `release()`     | 504                                 |
| TWICE          | twice              | the second answer                   |

Invariants: bytes are passed on as they are; without a lie nothing is changed.
"""

from __future__ import annotations

import http.client
import itertools
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, assert_never
from urllib.parse import urlsplit

ANSWER_SECONDS_MAX = 60.0
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "expect"}
_CONFLICT = b'{"error": {"message": "it moved", "type": "CommitFailedException", "code": 409}}'
_ERROR = b'{"error": {"message": "no answer", "type": "ServiceFailure", "code": 500}}'


class Lie(StrEnum):
    """Name what goes wrong with one request."""

    LOSE_ANSWER = "lose answer"
    LOSE_REQUEST = "lose request"
    REFUSE = "refuse"
    CONFLICT = "409"
    CONFLICT_AFTER = "409 after success"
    ERROR_AFTER = "5xx after success"
    OK_UNAPPLIED = "OK without applying"
    DELAY = "delayed apply"
    TWICE = "duplicate request"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked, to be sent on once, twice or later."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def sent_to(self, host: str) -> Answer:
        """Send it on. Raises OSError."""
        line = http.client.HTTPConnection(host, timeout=ANSWER_SECONDS_MAX)
        try:
            line.request(self.method, self.path, self.body, self.headers)
            answer = line.getresponse()
            return Answer(answer.status, tuple(answer.getheaders()), answer.read())
        finally:
            line.close()


@dataclass(slots=True)
class Liar:
    """The lies to come, and those that were used; safe for threads."""

    address: str
    server: str
    reported: list[tuple[Lie, str]] = field(default_factory=list)
    _queued: list[tuple[re.Pattern[str], Lie]] = field(default_factory=list)
    _delayed: list[Request] = field(default_factory=list)
    _lines: dict[socket.socket, tuple[str, int]] = field(default_factory=dict)
    _cut: set[socket.socket] = field(default_factory=set)
    _under_way: list[socket.socket | None] = field(default_factory=list)
    _guard: threading.Condition = field(default_factory=threading.Condition)
    _statuses: Iterator[int] = field(default_factory=lambda: itertools.cycle((500, 502, 503, 504)))

    def queue(self, pattern: str, *lies: Lie) -> None:
        """Let the next requests whose `METHOD path` matches go wrong, one lie a request."""
        with self._guard:
            self._queued += [(re.compile(pattern), lie) for lie in lies]

    def clear(self) -> None:
        """Forget the lies that were not used."""
        with self._guard:
            self._queued.clear()

    def release(self) -> list[int]:
        """Send delayed requests now, oldest first; give the statuses they got."""
        with self.passing(None):
            with self._guard:
                delayed, self._delayed = self._delayed, []
            return [each.sent_to(self.server).status for each in delayed]

    def cut(self) -> None:
        """Cut all lines: what was asked so far has arrived when this returns, or never does.

        Waits for what is under way to the server; delayed requests are lost, and their clients
        have to open new lines.
        """
        place = urlsplit(self.address)
        with socket.create_connection((str(place.hostname), int(place.port or 0))) as last:
            own = last.getsockname()
            with self._guard:
                self._guard.wait_for(lambda: own in self._lines.values())  # after all others
                self._cut.update(self._lines)
                self._delayed.clear()
                mine = list(self._under_way)
                self._guard.wait_for(lambda: not any(each in self._under_way for each in mine))
                self._delayed.clear()

    def opened(self, line: socket.socket, address: tuple[str, int]) -> None:
        """Remember a client's line."""
        with self._guard:
            self._lines[line] = address
            self._guard.notify_all()

    def closed(self, line: socket.socket) -> None:
        """Forget a client's line."""
        with self._guard:
            self._lines.pop(line, None)
            self._cut.discard(line)

    @contextmanager
    def passing(self, line: socket.socket | None) -> Iterator[bool]:
        """Be under way with a request of a line; return whether the line was not cut."""
        with self._guard:
            self._under_way.append(line)
            whole = line not in self._cut
        try:
            yield whole
        finally:
            with self._guard:
                self._under_way.remove(line)
                self._guard.notify_all()

    def answer(self, request: Request) -> Answer | None:
        """Answer a request as the queue says; None closes the connection."""
        lie = self._next(request)
        match lie:
            case None:
                return request.sent_to(self.server)
            case Lie.LOSE_ANSWER:
                request.sent_to(self.server)
                return None
            case Lie.LOSE_REQUEST:
                return None
            case Lie.REFUSE:
                return Answer(503, (), _ERROR)
            case Lie.CONFLICT:
                return Answer(409, (), _CONFLICT)
            case Lie.CONFLICT_AFTER:
                request.sent_to(self.server)
                return Answer(409, (), _CONFLICT)
            case Lie.ERROR_AFTER:
                request.sent_to(self.server)
                return Answer(next(self._statuses), (), _ERROR)
            case Lie.OK_UNAPPLIED if request.method == "PUT":
                return Answer(200, (("etag", '"never-made"'),), b"")
            case Lie.OK_UNAPPLIED:
                headers = {k: v for k, v in request.headers.items() if k.lower() != "content-type"}
                return Request("GET", request.path, headers, b"").sent_to(self.server)
            case Lie.DELAY:
                with self._guard:
                    self._delayed.append(request)
                return Answer(504, (), _ERROR)
            case Lie.TWICE:
                request.sent_to(self.server)
                return request.sent_to(self.server)
            case _:
                assert_never(lie)

    def _next(self, request: Request) -> Lie | None:
        line = f"{request.method} {request.path}"
        with self._guard:
            for number, (pattern, lie) in enumerate(self._queued):
                if pattern.search(line):
                    del self._queued[number]
                    self.reported.append((lie, line))
                    return lie
        return None


@contextmanager
def lying(server: str) -> Iterator[Liar]:
    """Run a proxy before a server; give what it will lie about."""
    proxy = _Proxy(("127.0.0.1", 0), BaseHTTPRequestHandler)
    liar = Liar(f"http://127.0.0.1:{proxy.server_port}", urlsplit(server).netloc)
    proxy.liar = liar
    proxy.RequestHandlerClass = _handler(liar)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield liar
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


class _Proxy(ThreadingHTTPServer):
    liar: Liar
    daemon_threads = True

    def process_request(self, request: Any, client_address: Any) -> None:
        """Let the liar know of a line before its thread begins."""
        self.liar.opened(request, client_address)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Let the liar know that a line has ended."""
        self.liar.closed(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log nothing: clients are killed in mid-request here."""


def _handler(liar: Liar) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: object) -> None:
            """Log nothing."""

    for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", lambda handler: _answer(liar, handler))
    return Handler


def _answer(liar: Liar, handler: BaseHTTPRequestHandler) -> None:
    headers = {k: v for k, v in handler.headers.items() if k.lower() not in _HOP_BY_HOP}
    request = Request(handler.command, handler.path, headers, _body(handler))
    with liar.passing(handler.connection) as whole:
        answer = liar.answer(request) if whole else None
    if answer is None:
        handler.close_connection = True
        return
    handler.send_response_only(answer.status)
    reported = "0"
    for name, value in answer.headers:
        if name.lower() not in _HOP_BY_HOP:
            handler.send_header(name, value)
        elif name.lower() == "content-length":
            reported = value
    if answer.status != http.client.NO_CONTENT:
        is_head = handler.command == "HEAD"
        handler.send_header("content-length", reported if is_head else str(len(answer.body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(answer.body)


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    """Read what a client sends, in one piece or in chunks."""
    if handler.headers.get("transfer-encoding", "").lower() != "chunked":
        return handler.rfile.read(int(handler.headers.get("content-length") or 0))
    pieces = []
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        pieces.append(handler.rfile.read(size))
        handler.rfile.readline()
    while handler.rfile.readline().strip():
        pass  # trailers
    return b"".join(pieces)
