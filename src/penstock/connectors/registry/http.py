"""A schema registry that speaks Confluent's protocol.

Invariants:
- "there is no such schema" is trusted only from a registry: status 404 with its error code 40403,
  or another 404 while it lists the types of schemas that it knows; else a 404 is a wrong address,
  and no record is refused for it;
- what may pass (no answer, 408, 429, 5xx) is tried again for some seconds, then reported as
  UnavailableError;
- redirects are not followed, so that credentials go nowhere else; no secret is in an error.

Source: Confluent Schema Registry, "API reference": Schemas, Subjects, Errors.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from penstock.connectors.registry.compiling import compiled
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.connectors import Settings
from penstock.ports.registry import RegisteredSchema, SchemaFormat, SchemaKey
from penstock.ports.runtime import Secrets

ANSWER_BYTES_MAX = 32 << 20
REFERENCES_MAX = 500
ID_MAX = (1 << 31) - 1
"""Numbers are 32 bits with a sign: a larger one, of a stray record, is answered as a wrong path."""
ABSENT_SECONDS = 30.0
"""How long an answer "there is none" is kept: a schema may be registered later."""
ABSENT_MAX = 10_000
REASON_CHARACTERS_MAX = 500
PAUSES_SECONDS = (0.1, 0.3, 1.0)
"""The waits before each retry."""

_SCHEMA_NOT_FOUND = 40403
_HEADER_SAFE = re.compile(r"[!-~]+")
_REFUSED = (401, 403)
_PASSING = (408, 429)
_JSON = "application/vnd.schemaregistry.v1+json"
_FORMATS: Mapping[str, SchemaFormat] = {
    "AVRO": "avro",
    "JSON": "json-schema",
    "PROTOBUF": "protobuf",
}


class NotFoundError(Exception):
    """Something answers 404: with its own code it is a registry that has no such schema."""

    def __init__(self, code: object) -> None:
        super().__init__(code)
        self.is_certain = code == _SCHEMA_NOT_FOUND


class NotCompatibleError(Exception):
    """A registry answers 409: a subject does not take a schema."""


class HttpRegistry:
    """Asks one registry, and keeps what it has answered."""

    def __init__(self, settings: Settings, secrets: Secrets) -> None:
        """Read the block of a registry. Raises InvalidError."""
        self._known: dict[SchemaKey, RegisteredSchema] = {}
        self._absent: dict[SchemaKey, float] = {}
        self._compiled: dict[RegisteredSchema, RegisteredSchema] = {}
        given = {
            name: secrets.resolve(value) if isinstance(value, str) else value
            for name, value in settings.items()
            if value is not None
        }
        self._headers = {"Accept": f"{_JSON}, application/json"}
        if "token" in given:
            if not _HEADER_SAFE.fullmatch(str(given["token"])):
                raise InvalidError(
                    "the token for the schema registry has spaces, line ends or letters beyond"
                    " ASCII, which a header cannot hold",
                    code="P672",
                    hint="write it without a line end:  printf %s TOKEN > FILE",
                )
            self._headers["Authorization"] = f"Bearer {given['token']}"
        elif "username" in given:
            pair = f"{given['username']}:{given.get('password', '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        self.url = str(given["url"]).rstrip("/")
        if "@" in self.url:
            raise InvalidError(
                "the schema registry's address contains a user",
                code="P152",
                hint="write username and password next to the url under  registry",
            )
        handlers: list[Any] = [_NoRedirect()]
        if self.url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=_context(given)))
        self._opener = urllib.request.build_opener(*handlers)
        self._timeout_seconds = float(given.get("timeout", 10.0))

    def find(self, key: SchemaKey) -> RegisteredSchema | None:
        """Return a schema, or None when the registry answers that it has none.

        Raises UnavailableError (P671) and InvalidError (P672, P673).
        """
        if key in self._known:
            return self._known[key]
        if time.monotonic() - self._absent.get(key, float("-inf")) < ABSENT_SECONDS:
            return None
        if key.kind == "fingerprint":
            raise InvalidError(
                "a schema registry cannot look up fingerprints, and the records have nothing else",
                code="P674",
                hint="write  registry: mock:///path/of/schemas  for single-object records",
            )
        if key.kind == "id" and int(key.value) > ID_MAX:
            return None
        place = f"ids/{key.value}" if key.kind == "id" else f"guids/{quote(key.value)}"
        try:
            found = self.schema(self.ask(f"/schemas/{place}"))
        except NotFoundError as error:
            self.require_registry(error)
            if len(self._absent) >= ABSENT_MAX:
                self._absent.clear()
            self._absent[key] = time.monotonic()
            return None
        self._known[key] = found
        return found

    def require_registry(self, error: NotFoundError) -> None:
        """Raise InvalidError (P673) where a 404 is a wrong address."""
        if not error.is_certain and not self._is_registry():
            raise self._no_registry("HTTP 404") from error

    def schema(self, answer: Any) -> RegisteredSchema:
        """Read a schema that was answered. Raises as `find` does."""
        answer = self.object(answer)
        format_ = _FORMATS.get(str(answer.get("schemaType", "AVRO")), "other")
        references: dict[str, str] = {}
        self._refer(answer, references, set())
        found = RegisteredSchema(format_, self._text(answer), tuple(references.items()))
        if found not in self._compiled:
            self._compiled[found] = compiled(found)
        return self._compiled[found]

    def _text(self, answer: Mapping[str, Any]) -> str:
        text = answer.get("schema")
        if not isinstance(text, str):
            raise self._no_registry("its answer holds no schema")
        return text

    def number(self, answer: Mapping[str, Any]) -> int:
        """Read the id of a schema. Raises InvalidError (P673)."""
        match answer.get("id"):
            case int(found) if not isinstance(found, bool) and 0 <= found <= ID_MAX:
                return found
        raise self._no_registry("its answer holds no id of a schema")

    def _refer(self, answer: Mapping[str, Any], found: dict[str, str], seen: set[str]) -> None:
        """Add the schemas that are referred to, those used by others first."""
        references = answer.get("references") or []
        for each in references if isinstance(references, list) else [None]:
            match each:
                case {"name": str(name), "subject": str(subject), "version": int(version)}:
                    if name not in seen:
                        seen.add(name)  # before it is asked for: references may go in a circle
                        place = f"/subjects/{quote(subject, safe='')}/versions/{version}"
                        found_here = self._referred(place, name, seen)
                        self._refer(found_here, found, seen)
                        found[name] = self._text(found_here)
                case _:
                    raise self._no_registry("its answer has references that are none")

    def _referred(self, place: str, name: str, seen: set[str]) -> Mapping[str, Any]:
        if len(seen) > REFERENCES_MAX:
            raise self._no_registry(f"a schema refers to more than {REFERENCES_MAX} others")
        try:
            return self.object(self.ask(place))
        except NotFoundError as error:
            raise self._no_registry(f"a referenced schema is missing: {name}") from error

    def _is_registry(self) -> bool:
        """Ask what every registry answers with a list, and little else does."""
        for path in ("/schemas/types", "/subjects"):
            with contextlib.suppress(NotFoundError):
                if isinstance(self.ask(path), list):
                    return True
        return False

    def ask(self, path: str, said: Mapping[str, Any] | None = None) -> Any:
        """Ask for a path, or post what is said; return the answer, None of what is no JSON.

        What may pass is tried again; who was silent for the timeout is not: others wait.

        Raises UnavailableError (P671), InvalidError (P672, P673, P877), NotFoundError,
        NotCompatibleError.
        """
        until = time.monotonic() + self._timeout_seconds
        for pause in PAUSES_SECONDS:
            try:
                return self._asked_once(path, said)
            except UnavailableError:
                if time.monotonic() >= until:
                    raise
                time.sleep(pause)
        return self._asked_once(path, said)

    def _asked_once(self, path: str, said: Mapping[str, Any] | None) -> Any:
        body = None if said is None else json.dumps(said).encode()
        headers = self._headers if body is None else {**self._headers, "Content-Type": _JSON}
        request = urllib.request.Request(self.url + path, body, headers)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as answer:
                return self._parsed(answer.read(ANSWER_BYTES_MAX + 1))
        except urllib.error.HTTPError as error:
            raise self._refusal(error.code, self._body(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._silence(error) from error

    def _silence(self, error: Exception) -> Exception:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, ssl.SSLCertVerificationError):
            return InvalidError(
                f"the schema registry {self.url} is not trusted: {cause.verify_message}",
                code="P672",
                hint="name the certificates to trust:  registry.ca",
            )
        return self._unavailable(type(cause).__name__)

    def _body(self, error: urllib.error.HTTPError) -> bytes:
        try:
            with error:
                return error.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException) as broken:
            raise self._unavailable(type(broken).__name__) from broken

    def _parsed(self, data: bytes) -> Any:
        try:
            return json.loads(data) if len(data) <= ANSWER_BYTES_MAX else None
        except (ValueError, RecursionError):
            return None

    def object(self, answer: Any) -> Mapping[str, Any]:
        """Return an answer that is an object. Raises InvalidError (P673)."""
        if not isinstance(answer, dict):
            raise self._no_registry("its answer is not JSON of a registry")
        return answer

    def _refusal(self, status: int, data: bytes) -> Exception:
        if status in _REFUSED:
            return InvalidError(
                f"the schema registry {self.url} rejected the login (HTTP {status})",
                code="P672",
                hint="check username, password or token under  registry",
            )
        if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return self._unavailable(f"HTTP {status}")
        read = self._parsed(data)
        body = read if isinstance(read, dict) else {}
        if status == HTTPStatus.NOT_FOUND:
            return NotFoundError(body.get("error_code"))
        reason = " ".join(str(body.get("message", "")).split())[:REASON_CHARACTERS_MAX]
        if status == HTTPStatus.CONFLICT:
            return NotCompatibleError(reason)
        if status == HTTPStatus.UNPROCESSABLE_ENTITY:
            return InvalidError(
                f"the schema registry {self.url} does not take it: {reason}",
                code="P877",
                hint="correct what it names, in the schema, the subject or the registry",
            )
        return self._no_registry(f"HTTP {status}")

    def _unavailable(self, what: str) -> UnavailableError:
        return UnavailableError(
            f"the schema registry {self.url} does not answer: {what}",
            code="P671",
            hint=f"try  curl {self.url}/subjects ; its records wait meanwhile",
        )

    def _no_registry(self, what: str) -> InvalidError:
        return InvalidError(
            f"at {self.url} answers no schema registry: {what}",
            code="P673",
            hint=f"fix the address under  registry ; try  curl {self.url}/subjects",
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none: the redirect itself becomes the error."""


def _context(given: Mapping[str, Any]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=given.get("ca"))
        if "certificate" in given:
            context.load_cert_chain(
                given["certificate"], given.get("key"), given.get("key_password")
            )
    except (OSError, ValueError) as error:
        raise InvalidError(
            f"the certificates for the schema registry cannot be read: {type(error).__name__}",
            code="P670",
            hint="check the files  ca, certificate and key  under  registry",
        ) from error
    return context
