"""One connection with one broker: a request, its answer, and nothing in between.

Invariants:
- whatever fails is an FallbackError, and then the connection is closed: it is never used again;
- a connection has at most one request under way, and its answer is read or the connection closed;
- secrets are in no error.

Source: KIP-35 (ApiVersions), KIP-152 and KIP-368 (SASL); docs/design/0120.
"""

from __future__ import annotations

import contextlib
import io
import logging
import math
import socket
import ssl
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any

from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from penstock.core.errors import UnavailableError

CONNECT_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 15.0
ANSWER_BYTES_MAX = 1 << 30
KEPT_BYTES_MAX = 16 << 20
"""A buffer that one large answer needed is not kept."""
HEADER_BYTES_MAX = 1024
VERSIONS_REQUEST = 3  # brokers since 2.4; an older one answers otherwise and is left to librdkafka
HANDSHAKE_VERSION = 1
SESSION_SHARE = 0.8
"""The share of a SASL session's life after which the connection is replaced (KIP-368)."""

logging.getLogger("kafka").addHandler(logging.NullHandler())

_NOT_UNDERSTOOD = (OSError, KafkaError, ValueError, TypeError, LookupError, struct.error)


class FallbackError(Exception):
    """Something that the columnar reader does not support: the librdkafka reader takes over.

    `lasting`: trying again soon would be in vain; `lost`: a connection that had been made was lost,
    and another may do.
    """

    def __init__(self, reason: str, *, lasting: bool = False, lost: bool = False) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.lost = lost

    @property
    def is_of_network(self) -> bool:
        """Return whether nobody answered, of the brokers or for a token, or a broker went: a
        setting is not what is wrong.
        """
        cause = self.__cause__
        while isinstance(cause, FallbackError):
            cause = cause.__cause__
        return isinstance(cause, OSError | UnavailableError) and not isinstance(cause, ssl.SSLError)


class Wire:
    """A connection, ready for requests once made. Raises FallbackError from every method.

    `features` are the levels that the cluster has finalized, by name (KIP-584).
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        tls: ssl.SSLContext | None,
        sasl: Mapping[str, Any],
        patience_seconds: float = ANSWER_SECONDS_MAX,
    ) -> None:
        self._patience_seconds = patience_seconds
        self.pending: Any = None
        self._number = 0
        self._buffer = bytearray()
        self._versions: dict[int, tuple[int, int]] = {}
        self.features: dict[str, int] = {}
        self._fresh_until = math.inf
        with self._failing(f"no connection with {address[0]}:{address[1]}", lasting=True):
            self._socket = _connected(address, tls)
        try:
            self._introduce(address[0], sasl)
        except FallbackError as error:
            raise FallbackError(str(error), lasting=True) from error

    @property
    def fresh(self) -> bool:
        """Return whether it can be used for a new request."""
        return time.monotonic() < self._fresh_until

    def version(self, request: Any, wanted_max: int) -> int:
        """Return the version of a request that both sides know, at most the one wanted."""
        low, high = self._versions.get(request.API_KEY, (0, -1))
        version = min(high, wanted_max)
        if version < max(low, request.valid_versions[0]):
            raise FallbackError(
                f"the broker has no version of {request.name} that we know", lasting=True
            )
        return version

    def ask(self, request: Any, version: int) -> Any:
        """Send a request and return its response."""
        self.send(request, version)
        return self.answer(time.monotonic() + self._patience_seconds)

    def send(self, request: Any, version: int) -> None:
        """Send a request; its answer is to be taken before the next is sent."""
        assert self.pending is None, "one request at a time"
        self._number += 1
        request.API_VERSION = version
        request.with_header(correlation_id=self._number, client_id="penstock")
        with self._failing(f"{request.name} was not sent"):
            self._socket.settimeout(ANSWER_SECONDS_MAX)
            self._socket.sendall(request.encode(framed=True, header=True))
        self.pending = request

    def answer(self, until: float) -> Any:
        """Wait for the answer to what was sent, until a monotonic time."""
        request, self.pending = self.pending, None
        with self._failing(f"{request.name} was not answered"):
            frame = self._frame(until)
            kind = request.header.get_response_class()
            head = io.BytesIO(bytes(frame[:HEADER_BYTES_MAX]))
            number = kind.parse_header(head).correlation_id
            if number != self._number:
                raise ValueError(f"the answer bears the number {number}")
            return kind.decode(frame[head.tell() :])

    def close(self) -> None:
        """Close it; it is not fresh from then on."""
        self._fresh_until = 0.0
        with contextlib.suppress(OSError, AttributeError):
            self._socket.close()

    def _frame(self, until: float) -> memoryview:
        size = int.from_bytes(self._exactly(4, until), "big", signed=True)
        if not 0 < size <= ANSWER_BYTES_MAX:
            raise ValueError(f"an answer of {size} bytes")
        return self._exactly(size, until)

    def _exactly(self, size: int, until: float) -> memoryview:
        """Read so many bytes; they are valid until the next are read."""
        if size > len(self._buffer) or len(self._buffer) > KEPT_BYTES_MAX:
            self._buffer = bytearray(size)
        whole = memoryview(self._buffer)[:size]
        rest = whole
        while rest:
            self._socket.settimeout(max(0.001, until - time.monotonic()))
            got = self._socket.recv_into(rest)
            if not got:
                raise ConnectionError("closed by the broker")
            rest = rest[got:]
        return whole

    def _introduce(self, host: str, sasl: Mapping[str, Any]) -> None:
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version="0")
        answer = self.ask(request, VERSIONS_REQUEST)
        if answer.error_code:
            self.close()
            raise FallbackError(
                f"the broker does not report its versions (error {answer.error_code})"
            )
        self._versions = {
            each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
        }
        self.features = {
            each.name: each.max_version_level for each in answer.finalized_features or ()
        }
        if sasl:
            self._authenticate(host, sasl)

    def _authenticate(self, host: str, sasl: Mapping[str, Any]) -> None:
        name = sasl["sasl_mechanism"]
        shaken = self.ask(SaslHandshakeRequest(mechanism=name), HANDSHAKE_VERSION)
        with self._failing("authentication failed"):
            if shaken.error_code:
                raise ValueError(f"the broker does not offer {name}")
            mechanism, answer = get_sasl_mechanism(name)(host=host, **sasl), None
            while not mechanism.is_done():
                answer = self.ask(SaslAuthenticateRequest(mechanism.auth_bytes()), 1)
                if answer.error_code:
                    raise ValueError(f"the broker refuses (error {answer.error_code})")
                mechanism.receive(answer.auth_bytes)
            if answer is None or not mechanism.is_authenticated():
                raise ValueError("the exchange did not end well")
            if answer.session_lifetime_ms > 0:
                life = answer.session_lifetime_ms / 1000 * SESSION_SHARE
                self._fresh_until = time.monotonic() + life

    @contextlib.contextmanager
    def _failing(self, what: str, *, lasting: bool = False) -> Iterator[None]:
        """Translate what sockets, TLS and the protocol's messages raise; then close."""
        try:
            yield
        except _NOT_UNDERSTOOD as error:
            self.close()
            kind = type(error).__name__
            raise FallbackError(f"{what}: {kind}", lasting=lasting, lost=not lasting) from error
        except BaseException:  # half an answer may have been read
            self.close()
            raise


def _connected(address: tuple[str, int], tls: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(address, CONNECT_SECONDS_MAX)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if tls is None:
        return plain
    try:
        return tls.wrap_socket(plain, server_hostname=address[0])
    except OSError:
        plain.close()
        raise
