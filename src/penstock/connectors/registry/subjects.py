"""The subjects of a registry that speaks Confluent's protocol: finds and registers their schemas.

Invariants:
- the id of a schema never changes, so it is kept, and the registry is asked once for each;
- what is registered again has the same id: whatever fails may be asked again.

Source: Confluent Schema Registry, "API reference": Subjects, Compatibility.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from penstock.connectors.registry.http import (
    REASON_CHARACTERS_MAX,
    HttpRegistry,
    NotCompatibleError,
    NotFoundError,
)
from penstock.ports.registry import RegisteredSchema, SchemaConflict, SchemaKey

_TYPES = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}


class HttpSubjects:
    """Implements `ports.registry.Subjects`."""

    def __init__(self, registry: HttpRegistry) -> None:
        self._registry = registry
        self._ids: dict[tuple[str, RegisteredSchema], int] = {}

    def lookup(self, subject: str, schema: RegisteredSchema) -> int | None:
        """Return the id of a registered schema. Raises as `HttpRegistry.ask` does."""
        if (subject, schema) in self._ids:
            return self._ids[subject, schema]
        answer = self._ask(f"/subjects/{_quoted(subject)}", _said(schema))
        return None if answer is None else self._kept(subject, schema, answer)

    def register(self, subject: str, schema: RegisteredSchema) -> int | SchemaConflict:
        """Register a schema. Raises as `HttpRegistry.ask` does."""
        try:
            path = f"/subjects/{_quoted(subject)}/versions"
            answer = self._registry.object(self._registry.ask(path, _said(schema)))
        except NotCompatibleError as error:
            return SchemaConflict(str(error))
        return self._kept(subject, schema, answer)

    def conflict(self, subject: str, schema: RegisteredSchema) -> SchemaConflict | None:
        """Ask for the compatibility of a schema. Raises as `HttpRegistry.ask` does."""
        path = f"/compatibility/subjects/{_quoted(subject)}/versions/latest?verbose=true"
        answer = self._ask(path, _said(schema))
        if answer is None or answer.get("is_compatible", True):
            return None
        messages = answer.get("messages")
        reasons = messages if isinstance(messages, list) else []
        return SchemaConflict("; ".join(map(str, reasons))[:REASON_CHARACTERS_MAX])

    def by_id(self, number: int) -> RegisteredSchema | None:
        """Return a schema. Raises as `HttpRegistry.find` does."""
        return self._registry.find(SchemaKey("id", str(number)))

    def newest(self, subject: str) -> RegisteredSchema | None:
        """Return the newest schema of a subject. Raises as `HttpRegistry.ask` does."""
        answer = self._ask(f"/subjects/{_quoted(subject)}/versions/latest")
        return None if answer is None else self._registry.schema(answer)

    def _ask(self, path: str, said: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """Ask, and return None where there is no such subject, version or schema."""
        try:
            return self._registry.object(self._registry.ask(path, said))
        except NotFoundError as error:
            self._registry.require_registry(error)
            return None

    def _kept(self, subject: str, schema: RegisteredSchema, answer: Mapping[str, Any]) -> int:
        found = self._ids[subject, schema] = self._registry.number(answer)
        return found


def _said(schema: RegisteredSchema) -> dict[str, Any]:
    return {"schema": schema.text, "schemaType": _TYPES[schema.format]}


def _quoted(subject: str) -> str:
    return quote(subject, safe="")
