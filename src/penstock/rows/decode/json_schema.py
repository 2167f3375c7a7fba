"""Reads JSON Schemas: the columns that their records need, and the types of Connect.

The records themselves are plain JSON, and are read as such. A schema that Connect's converter wrote
names types that JSON does not have (`org.apache.kafka.connect.data.Decimal`): its records are read
by the schema of Connect that it was written from.

Invariants:
- a schema declares types and checks nothing: records that violate it are rejected where a value
  does not fit its column, and only there (docs/design/0161);
- what it leaves open, or says in a way that is not known here, is `unknown`.

Source: JSON Schema 2020-12 and draft-07, "Validation"; Confluent, `JsonSchemaData`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.schema import Field, Kind, List, Map, Struct, Type
from penstock.core.schema_join import join
from penstock.rows.decode.connect.block_reader import connect_reader
from penstock.rows.decode.format_reader import FormatReader
from penstock.rows.decode.logical_types import CONNECT_DECIMAL, NAMED
from penstock.rows.decode.schema_tree import NodeCount

DEPTH_MAX = 64
_FORMATS = {"date-time": Kind.TIMESTAMPTZ, "date": Kind.DATE, "uuid": Kind.UUID}
_SHORT = ("int8", "int16", "int32")
_SINGLE = ("float", "float32")
_PLAIN = {"boolean": "boolean", "string": "string", "integer": "int64", "number": "double"}
_INDEX, _KIND = "connect.index", "connect.type"


@dataclass(frozen=True, slots=True)
class PlainJson:
    """Values that are plain JSON, and the type that their schema declares."""

    type: Type


class _OtherError(Exception):
    """The schema is none that Connect's converter writes."""


def reader_for(
    text: str, references: Iterable[tuple[str, str]], depth_max: int
) -> PlainJson | FormatReader:
    """Return how the records of a schema are read. Raises RejectError (P312)."""
    reading = _Reading({name: _parsed(each) for name, each in references})
    document = _parsed(text)
    if any(name in text for name in (CONNECT_DECIMAL, *NAMED)):
        try:
            return connect_reader(reading.of_connect(document, document, 0), depth_max)
        except _OtherError:
            reading.count = NodeCount()
    return PlainJson(reading.type(document, document, ()))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None  # it declares nothing; the registry accepted it


@dataclass(slots=True)
class _Reading:
    others: Mapping[str, Any]
    count: NodeCount = field(default_factory=NodeCount)

    def type(self, schema: Any, document: Any, within: tuple[int, ...]) -> Type:
        self.count.add()
        if not isinstance(schema, dict) or id(schema) in within or len(within) > DEPTH_MAX:
            return Kind.UNKNOWN
        within = (*within, id(schema))
        if "$ref" in schema:
            found, document = self._referred(schema["$ref"], document)
            return self.type(found, document, within)
        names = _listed(schema.get("type")) or _implied(schema)
        own = _one_for(
            self._named(str(name), schema, document, within) for name in names if name != "null"
        )
        for each in _listed(schema.get("allOf")):
            part = self.type(each, document, within)
            own = part if own is Kind.UNKNOWN else join(own, part)[0]
        for word in ("oneOf", "anyOf"):
            if own is Kind.UNKNOWN and word in schema:
                parts = [each for each in _listed(schema[word]) if not _is_null(each)]
                own = _one_for(self.type(each, document, within) for each in parts)
        return own

    def _named(
        self, name: str, schema: Mapping[str, Any], document: Any, within: tuple[int, ...]
    ) -> Type:
        sizes = (schema.get("format"), schema.get(_KIND))
        match name:
            case "string" if schema.get("contentEncoding") == "base64" or "bytes" in sizes:
                return Kind.BINARY
            case "string":
                return _FORMATS.get(str(schema.get("format")), Kind.STRING)
            case "integer":
                return Kind.INT if any(size in _SHORT for size in sizes) else Kind.LONG
            case "number":
                return Kind.FLOAT if any(size in _SINGLE for size in sizes) else Kind.DOUBLE
            case "boolean":
                return Kind.BOOLEAN
            case "array":
                return List(self.type(schema.get("items"), document, within))
            case "object":
                return self._object(schema, document, within)
            case _:
                return Kind.UNKNOWN

    def _object(self, schema: Mapping[str, Any], document: Any, within: tuple[int, ...]) -> Type:
        properties = schema.get("properties")
        if isinstance(properties, dict) and properties:
            members = [
                Field(name, self.type(each, document, within)) for name, each in properties.items()
            ]
            return Struct(tuple(members))
        value = self.type(schema.get("additionalProperties"), document, within)
        return Kind.UNKNOWN if value is Kind.UNKNOWN else Map(Kind.STRING, value)

    def of_connect(self, schema: Any, document: Any, depth: int) -> dict[str, Any]:
        """Return the schema of Connect that a schema was written from. Raises _OtherError."""
        self.count.add()
        if not isinstance(schema, dict) or depth > DEPTH_MAX:
            raise _OtherError
        if "$ref" in schema:
            found, document = self._referred(schema["$ref"], document)
            return self.of_connect(found, document, depth + 1)
        parts = [each for each in _listed(schema.get("oneOf")) if not _is_null(each)]
        if len(parts) == 1 and "type" not in schema:
            return self.of_connect(parts[0], document, depth + 1)
        inside = self._inside_connect(schema, document, depth + 1)
        if "title" in schema:
            inside["name"] = schema["title"]
        return {**inside, "parameters": schema.get("connect.parameters")}

    def _inside_connect(
        self, schema: Mapping[str, Any], document: Any, depth: int
    ) -> dict[str, Any]:
        kind = schema.get(_KIND)
        match schema.get("type"):
            case "string" | "number" if kind == "bytes":
                return {"type": "bytes"}
            case "boolean" | "string" | "integer" | "number" as name:
                return {"type": kind or _PLAIN[name]}
            case "array" if kind != "map":
                items = self.of_connect(schema.get("items"), document, depth)
                return {"type": "array", "items": items}
            case "object" if kind == "map":
                values = self.of_connect(schema.get("additionalProperties"), document, depth)
                return {"type": "map", "keys": {"type": "string"}, "values": values}
            case "object" if isinstance(schema.get("properties"), dict):
                members = [
                    {**self.of_connect(each, document, depth), "field": name}
                    for name, each in schema["properties"].items()
                ]
                return {"type": "struct", "fields": members}
            case _:
                raise _OtherError

    def _referred(self, reference: Any, document: Any) -> tuple[Any, Any]:
        """Find what a reference means, in this document or another: that, and its document."""
        name, _, pointer = str(reference).partition("#")
        found = document = self.others.get(name) if name else document
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901  as it is written
            found = found.get(step) if isinstance(found, dict) else None
        return found, document


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return [] if value is None else [value]


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _implied(schema: Mapping[str, Any]) -> list[str]:
    """Name the type of a schema that names none, by what it says of its members."""
    if "properties" in schema:
        return ["object"]
    if "items" in schema:
        return ["array"]
    values = [schema["const"]] if "const" in schema else _listed(schema.get("enum"))
    return ["string"] if values and all(isinstance(each, str) for each in values) else []


def _one_for(types: Iterable[Type]) -> Type:
    """Return the type that holds all of some; `unknown` where none does."""
    found: Type | None = None
    for each in types:
        if each is Kind.UNKNOWN:
            return each
        joined, clashes = (each, []) if found is None else join(found, each)
        if clashes:
            return Kind.UNKNOWN
        found = joined
    return Kind.UNKNOWN if found is None else found
