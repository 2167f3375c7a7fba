"""Who may see the page: the loopback address without a word, anybody else with a token.

Invariants (docs/design/0341):
- all but `/enter` is GET or HEAD: nothing changes anything, so there is nothing to forge;
- the `Host` of each request is one that is listened to or named, which no rebound name is;
- a token is compared in constant time, is in no URL and no log, and a cookie holds its hash alone;
- no header of a proxy is believed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

ENTER = "/enter"
STATIC = "/static/"
LOOPBACK = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What a request says of itself; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer instead of a page: a status, a sentence, and where to go."""

    status: int
    text: str
    location: str = ""


@dataclass(frozen=True, slots=True)
class Guard:
    """Decides on each request. `hosts` are what `Host` may say, `token` is "" where none is asked.

    Behind TLS (`is_secure`) the cookie goes over TLS only.
    """

    hosts: frozenset[str]
    token: str = field(default="", repr=False)
    is_secure: bool = False

    @property
    def cookie_name(self) -> str:
        """Return the name of the cookie: of one that is set over TLS only, browsers make sure."""
        return "__Host-penstock" if self.is_secure else "penstock"

    @property
    def cookie_value(self) -> str:
        """Return what the cookie holds: a hash of the token."""
        return hmac.new(self.token.encode(), b"penstock page", hashlib.sha256).hexdigest()

    def refusal(self, request: Request) -> Refusal | None:
        """Return why a request gets no page, or None."""
        if request.headers.get("host", "").lower() not in self.hosts:
            return Refusal(421, "This host is not served here: name it with --host.")
        is_entering = request.path == ENTER and self.token
        allowed = ("GET", "HEAD", "POST") if is_entering else ("GET", "HEAD")
        if request.method not in allowed:
            return Refusal(405, "Nothing can be changed here.")
        if request.method == "POST" and not self._is_from_here(request):
            return Refusal(403, "The token is taken from this page only.")
        is_open = request.path == ENTER or request.path.startswith(STATIC)
        if is_open or not self.token or self._is_known(request):
            return None  # the form that asks for a token, and how it looks, are seen without one
        if wants_data(request.path):
            return Refusal(401, "Send the token as `Authorization: Bearer …`.")
        return Refusal(303, "Enter the token first.", ENTER)

    def is_token(self, given: str) -> bool:
        """Return whether a text is the token."""
        return bool(self.token) and _is_same(given, self.token)

    def _is_known(self, request: Request) -> bool:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.is_token(given.strip()):
            return True
        for each in request.headers.get("cookie", "").split(";"):
            name, _, value = each.strip().partition("=")
            if name == self.cookie_name and _is_same(value, self.cookie_value):
                return True
        return False

    def _is_from_here(self, request: Request) -> bool:
        """Return whether a form was sent by our own page: browsers name its origin."""
        origin = urlsplit(request.headers.get("origin", ""))
        return origin.netloc.lower() == request.headers.get("host", "").lower() != ""


def guard_of(host: str, port: int, *, named: Sequence[str] = (), token: str = "") -> Guard:
    """Return the guard of what is listened to, or of names that a proxy serves it under."""
    hosts = {f"{f'[{each}]' if ':' in each else each}:{port}".lower() for each in {host}}
    if host in LOOPBACK:
        hosts |= {f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"}
    hosts |= {each.lower() for each in named}
    return Guard(frozenset(hosts), token, is_secure=bool(named))


def wants_data(path: str) -> bool:
    """Return whether a path is one for programs, which are not led to a form."""
    return path.endswith((".json", ".live"))


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))
