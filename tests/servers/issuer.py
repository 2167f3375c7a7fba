"""A local issuer of tokens: a token endpoint for clients' credentials, and the keys to verify them by.

Source: RFC 6749 4.4, 5.1 and 5.2; RFC 7517 (JWKS), RFC 7515 (RS256).
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

AUDIENCE = "kafka"


@dataclass(slots=True)
class Issuer:
    """What it gives, and whom; `status` is answered in place of a token, when set."""

    client_id: str = "shop"
    client_secret: str = "client-secret"
    lifetime_seconds: float = 300.0
    audience: str = AUDIENCE
    status: int = 0
    issued: int = 0
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    address: str = ""
    _key: Any = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    @property
    def endpoint(self) -> str:
        return f"{self.address}/token"

    def token(self, **claims: Any) -> str:
        """Sign a token; claims win over the usual ones."""
        now = time.time()
        usual = {
            "sub": self.client_id,
            "aud": self.audience,
            "iat": int(now),
            "exp": now + self.lifetime_seconds,
        }
        head = {"alg": "RS256", "typ": "JWT", "kid": "one"}
        signed = f"{_packed(head)}.{_packed(usual | claims)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256())
        return f"{signed}.{_base64(signature)}"

    def keys(self) -> dict[str, Any]:
        """Return what brokers verify tokens by."""
        public = self._key.public_key().public_numbers()
        n, e = (_base64(each.to_bytes(256, "big").lstrip(b"\0")) for each in (public.n, public.e))
        one = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "one", "n": n, "e": e}
        return {"keys": [one]}

    def answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """Answer a client at the token endpoint."""
        self.asked.append(form)
        if self.status:
            return self.status, {}
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        if [self.client_id, self.client_secret] != [unquote_plus(each) for each in pair.split(":")]:
            return 401, {"error": "invalid_client", "error_description": authorization}
        self.issued += 1
        return 200, {
            "access_token": self.token(),
            "token_type": "Bearer",
            "expires_in": self.lifetime_seconds,
        }


@contextmanager
def issuing(issuer: Issuer | None = None, tls: ssl.SSLContext | None = None) -> Iterator[Issuer]:
    """Serve an issuer on a free port, with TLS where it has a context."""
    given = issuer or Issuer()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(given))
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    given.address = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield given
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(200, issuer.keys())

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = parse_qs(self.rfile.read(length).decode())
            self._say(*issuer.answer(self.headers["Authorization"] or "", form))

        def _say(self, status: int, said: dict[str, Any]) -> None:
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _packed(said: dict[str, Any]) -> str:
    return _base64(json.dumps(said).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
