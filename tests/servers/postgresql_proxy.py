"""A TCP proxy before PostgreSQL that loses the answer to a COMMIT: it was done, and nobody heard.

Source: PostgreSQL's frontend/backend protocol 3.0: psycopg ends a transaction by a query message
with the word COMMIT, alone, and waits for its answer before it asks anything else. It says the text
of a statement with its first uses on a connection; from about the sixth on, only a name of its own.

Invariant: bytes are passed on as they are; only the answer to a COMMIT that was meant is not.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.servers.listening import listening, shut

_CHUNK_BYTES = 1 << 16
_COMMIT, _ROLLBACK = b"COMMIT\0", b"ROLLBACK\0"


@dataclass(slots=True)
class PostgresqlProxy:
    """What is to be lost, and how much was; safe for threads."""

    port: int = 0
    lost: int = 0
    _waiting: re.Pattern[bytes] | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def queue(self, pattern: bytes) -> None:
        """Lose the answer to the next COMMIT of a transaction whose bytes match."""
        with self._guard:
            self._waiting = re.compile(pattern, re.DOTALL)

    def clear(self) -> None:
        """Lose nothing any more."""
        with self._guard:
            self._waiting = None

    def takes(self, said: bytes) -> bool:
        """Return whether the answer to this transaction is to be lost, once."""
        with self._guard:
            if self._waiting is None or not self._waiting.search(said):
                return False
            self._waiting = None
            return True

    def count(self) -> None:
        """Count an answer that came and was not passed on."""
        with self._guard:
            self.lost += 1


@contextmanager
def before(server_port: int) -> Iterator[PostgresqlProxy]:
    """Listen on a free port of this machine and pass on to a server."""
    proxy = PostgresqlProxy()

    def serve(client: socket.socket) -> None:
        line = _Line(proxy, client, socket.create_connection(("127.0.0.1", server_port)))
        threading.Thread(target=line.answer, daemon=True).start()
        line.ask()

    with listening(0, serve) as proxy.port:
        yield proxy


@dataclass(slots=True)
class _Line:
    """One connection."""

    proxy: PostgresqlProxy
    client: socket.socket
    server: socket.socket
    losing: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        """Pass on what the client says, and remember what it said in its transaction."""
        said = b""
        with suppress(OSError):
            while chunk := self.client.recv(_CHUNK_BYTES):
                said += chunk
                if said.endswith(_COMMIT) and self.proxy.takes(said):
                    self.losing.set()
                if said.endswith((_COMMIT, _ROLLBACK)):
                    said = b""
                self.server.sendall(chunk)
        shut(self.client, self.server)

    def answer(self) -> None:
        """Pass on what the server says, until an answer is lost: then the line is dead."""
        with suppress(OSError):
            while chunk := self.server.recv(_CHUNK_BYTES):
                if self.losing.is_set():
                    self.proxy.count()
                    break
                self.client.sendall(chunk)
        shut(self.client, self.server)
