"""Keeps one token for all connections of a process, and renews it before it expires.

Invariants:
- an issuer is asked once for as long as a token is good, whichever client connects;
- a token is renewed in the last quarter of its life, and used to its end where that fails.

Source: KIP-255 (renewal before the end); librdkafka renews at four fifths of what is left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

from penstock.connectors.kafka.tokens.token import Token
from penstock.core.errors import PenstockError

USED_SHARE = 0.75
"""The share of its life after which a token is renewed: before any client asks for another one."""
AGAIN_SECONDS = 5.0
"""How soon an issuer is asked again that failed while a token is still good."""
SOURCES_MAX = 32

ForClient = tuple[str, float, str, dict[str, str]]
"""What librdkafka takes: the token, its end in seconds since 1970, its user, extensions."""


class Issuer(Protocol):
    """Where tokens come from: hashable, and equal where its tokens are of one kind."""

    def fetch(self, now: float) -> Token:
        """Return a new token. Raises InvalidError (P179), UnavailableError (P178)."""


class TokenSource:
    """The present token of an issuer. Thread-safe; librdkafka calls it as its `oauth_cb`."""

    def __init__(
        self,
        issuer: Issuer,
        extensions: tuple[tuple[str, str], ...] = (),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.extensions = dict(extensions)
        self._issuer, self._clock = issuer, clock
        self._guard = threading.Lock()
        self._kept: Token | None = None
        self._renew_at = 0.0

    @property
    def user(self) -> str:
        """Return what the brokers call the user of the present token, as far as it is known."""
        return (self._kept.user if self._kept else "") or "(of the token)"

    def token(self) -> Token:
        """Return a token that is good. Raises as `Issuer.fetch` does."""
        with self._guard:
            now = self._clock()
            if self._kept is None or now >= self._renew_at:
                self._kept = self._renewed(now)
            return self._kept

    def __call__(self, _: str | None = None) -> ForClient:
        """Return a token as librdkafka takes it. Raises as `token` does."""
        token = self.token()
        return token.value, token.expires_at, token.user, self.extensions

    def _renewed(self, now: float) -> Token:
        try:
            token = self._issuer.fetch(now)
        except PenstockError:
            if self._kept is None or self._kept.expires_at <= now:
                raise
            self._renew_at = min(now + AGAIN_SECONDS, self._kept.expires_at)
            return self._kept
        self._renew_at = now + (token.expires_at - now) * USED_SHARE
        return token


@lru_cache(SOURCES_MAX)
def source_of(issuer: Issuer, extensions: tuple[tuple[str, str], ...]) -> TokenSource:
    """Return this process's source of an issuer's tokens."""
    return TokenSource(issuer, extensions)
