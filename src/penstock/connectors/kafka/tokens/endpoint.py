"""Tokens of a token endpoint, for a client's own credentials.

Invariants:
- redirects are not followed and other schemes than http and https not opened: the secret goes to
  the endpoint alone, and is in no error;
- what may pass by itself (no answer, 408, 429, 5xx) is UnavailableError, a refusal InvalidError.

Source: RFC 6749 2.3.1 and 4.4 (client credentials), 5.2 (errors); KIP-768.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from penstock.connectors.kafka.tokens.token import (
    Token,
    no_token,
    no_token_now,
    stated,
    token_of,
)
from penstock.core.errors import PenstockError

ANSWER_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 256 << 10
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_ERROR = re.compile(r"[a-z_]{1,40}")
_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPErrorProcessor,
)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A client of a token endpoint; `ca` is a file of certificates to trust, or `""`."""

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    ca: str = ""

    def fetch(self, now: float) -> Token:
        """Return a new token. Raises InvalidError (P179), UnavailableError (P178)."""
        answer = self._answered()
        value, seconds = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(value, str):
            raise self._no_token("its answer has no access_token")
        try:
            stated_seconds = None if seconds is None else stated(seconds)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._no_token(
                "its answer has an expires_in that is no time in seconds"
            ) from error
        return token_of(value, now, stated_seconds=stated_seconds)

    def _answered(self) -> dict[str, Any]:
        try:
            with self._opener().open(self._request(), timeout=ANSWER_SECONDS_MAX) as response:
                found = json.loads(response.read(ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        except urllib.error.URLError as error:
            raise self._unreached(error.reason) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreached(error) from error
        except (ValueError, RecursionError) as error:
            raise self._no_token("its answer is no JSON") from error
        if not isinstance(found, dict):
            raise self._no_token("its answer is no JSON object")
        return found

    def _request(self) -> urllib.request.Request:
        pair = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}".encode()
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        return urllib.request.Request(  # noqa: S310  the opener knows http and https alone
            self.endpoint,
            data=urlencode(form).encode(),
            headers={
                "Accept": "application/json",
                "Authorization": f"Basic {base64.b64encode(pair).decode()}",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )

    def _opener(self) -> urllib.request.OpenerDirector:
        opener = urllib.request.OpenerDirector()
        for handler in _HANDLERS:
            opener.add_handler(handler())
        if urlsplit(self.endpoint).scheme.lower() == "https":
            context = ssl.create_default_context(cafile=self.ca or None)
            opener.add_handler(urllib.request.HTTPSHandler(context=context))
        return opener

    def _refused(self, error: urllib.error.HTTPError) -> PenstockError:
        if error.code in _PASSING or error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return no_token_now(f"{self.endpoint} answers HTTP {error.code}")
        return self._no_token(f"it answers HTTP {error.code}{_reason(error)}")

    def _unreached(self, reason: Any) -> PenstockError:
        if isinstance(reason, ssl.SSLError):
            return no_token(
                f"no TLS connection with {self.endpoint} came about: {reason.reason or 'refused'}",
                hint="check token_endpoint and token_ca under kafka.security",
            )
        said = getattr(reason, "strerror", None) or type(reason).__name__
        return no_token_now(
            f"{self.endpoint} does not answer: {said}",
            hint="check token_endpoint under kafka.security, and the network",
        )

    def _no_token(self, fact: str) -> PenstockError:
        return no_token(
            f"{self.endpoint} gives client {self.client_id} none: {fact}",
            hint="check token_endpoint, client_id, client_secret and scope under kafka.security",
        )


def _reason(error: urllib.error.HTTPError) -> str:
    """Return what an issuer says of a refusal, in the words that the RFC has for it."""
    try:
        said = json.loads(error.read(ANSWER_BYTES_MAX))["error"]
    except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
        return ""
    return f", {said}" if isinstance(said, str) and _ERROR.fullmatch(said) else ""
