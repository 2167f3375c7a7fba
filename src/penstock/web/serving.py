"""Serving the page: an address, a guard, and a server in a thread of this process."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from penstock.app.page.views import Watched
from penstock.core.errors import InvalidError
from penstock.ports.runtime import Clock
from penstock.web.guard import LOOPBACK, guard_of
from penstock.web.site import Site

TOKEN_CHARACTERS_MIN = 16
TOKEN_BYTES_MAX = 4_096
PORT_MAX = 65_535
ENDS_WITHIN_SECONDS = 1
CONNECTIONS_MAX = 256


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page is served, under which further names, and who asks for which token."""

    host: str
    port: int
    named: Sequence[str] = ()
    token_file: Path | None = None

    def token(self) -> str:
        """Return the token; "" where none is needed. Raises InvalidError (P540, P542)."""
        if self.token_file is not None:
            return token_in(self.token_file)
        if self.host in LOOPBACK and not self.named:
            return ""
        raise InvalidError(
            f"at {self.host}:{self.port} others than this machine see the page, and no token is "
            "asked of them",
            code="P540",
            hint="name a file with one:  penstock ui --token FILE",
        )


def address_of(
    listen: str, *, named: Sequence[str] = (), token_file: Path | None = None
) -> Address:
    """Read `host:port`, or a port alone on the loopback address. Raises InvalidError (P541)."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise InvalidError(
            f"{listen[:80]!r} is not an address for the page",
            code="P541",
            hint="write  127.0.0.1:8090",
        )
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return Address(bare or "127.0.0.1", int(port), tuple(named), token_file)


def token_in(file: Path) -> str:
    """Read a token. Raises InvalidError (P542) for one that is not there, too short, or seen by
    other users of this machine.
    """
    try:
        mode, text = file.stat().st_mode, file.read_bytes()[:TOKEN_BYTES_MAX]
    except OSError as error:
        raise _unfit(file, error.strerror or "it cannot be read") from error
    token = text.decode(errors="replace").strip()
    if len(token) < TOKEN_CHARACTERS_MIN:
        raise _unfit(file, f"it has less than {TOKEN_CHARACTERS_MIN} characters")
    if mode & 0o007:
        raise _unfit(file, "every user of this machine may read it")
    return token


@contextmanager
def page_served(address: Address, watched: Sequence[Watched], clock: Clock) -> Iterator[str]:
    """Serve the page inside the block; yield its URL.

    Raises InvalidError: P540 without a token that is needed, P541 where the address is not free.
    """
    token, listening = address.token(), _listening(address)
    port = int(listening.getsockname()[1])
    guard = guard_of(address.host, port, named=address.named, token=token)
    site = Site(watched, guard, clock)
    server = _server(site)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), name="page", daemon=True
    )
    thread.start()
    try:
        host = f"[{address.host}]" if ":" in address.host else address.host
        yield f"http://{host}:{port}/"
    finally:
        site.end()
        server.should_exit = True
        thread.join(timeout=2 * ENDS_WITHIN_SECONDS + 1)
        listening.close()


def _server(site: Site) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            site.application(),
            access_log=False,
            log_config=None,
            log_level="error",  # anybody can send what is no HTTP: that is nothing to tell
            limit_concurrency=CONNECTIONS_MAX,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=ENDS_WITHIN_SECONDS,
            http="h11",
            ws="none",
            loop="asyncio",
        )
    )


def _listening(address: Address) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise InvalidError(
            f"the page cannot be served at {address.host}:{address.port}: "
            f"{error.strerror or os.strerror(error.errno or 0)}",
            code="P541",
            hint="choose another address:  penstock ui --listen 127.0.0.1:0",
        ) from error


def _unfit(file: Path, why: str) -> InvalidError:
    return InvalidError(
        f"the file {file} holds no token for the page: {why}",
        code="P542",
        hint=f"make one:  (umask 077; openssl rand -hex 32 > {file})",
    )
