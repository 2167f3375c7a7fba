"""A directory of schemas as a registry: `mock:///path`, for tests and for single-object records.

A file `7.avsc` is the schema with number 7, `<guid>.avsc` that with a GUID; `.avsc` is Avro,
`.json` JSON Schema, `.proto` Protobuf, which may import the others there. Avro schemas are found by
their fingerprints too, whatever their files are called.

Source of the fingerprint: Apache Avro specification 1.12, "Schema Fingerprints" and "Parsing
Canonical Form".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.connectors.registry.compiling import compiled
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.registry import RegisteredSchema, SchemaFormat, SchemaKey

SCHEME = "mock://"
_EMPTY = 0xC15D213AA4D7A795
_KEPT = ("name", "type", "fields", "symbols", "items", "values", "size")
_FORMATS: Mapping[str, SchemaFormat] = {
    ".avsc": "avro",
    ".json": "json-schema",
    ".proto": "protobuf",
}
_PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class DirectoryRegistry:
    """Finds schemas in files, read when they are asked for."""

    def __init__(self, url: str) -> None:
        """Open a directory. Raises InvalidError (P670)."""
        self.place = Path(url.removeprefix(SCHEME))
        self._compiled: dict[Path, RegisteredSchema] = {}
        if not self.place.is_dir():
            raise InvalidError(
                f"there is no directory of schemas {self.place}",
                code="P670",
                hint=f"run 'ls -d {self.place}' as the user of this process",
            )

    def find(self, key: SchemaKey) -> RegisteredSchema | None:
        """Return a schema, or None when no file holds it.

        Raises InvalidError (P670), UnavailableError (P671) when the directory is missing or empty.
        """
        found = self._found(key)
        if found is None and not self._is_filled():  # else there is none: a mount may be lost
            raise UnavailableError(
                f"the directory of schemas {self.place} is missing or empty",
                code="P671",
                hint=f"run 'ls {self.place}' as the user of this process; its records wait",
            )
        return found

    def _is_filled(self) -> bool:
        try:
            return any(self.place.iterdir())
        except OSError:
            return False

    def _found(self, key: SchemaKey) -> RegisteredSchema | None:
        if key.kind == "fingerprint":
            return self._by_fingerprint(key.value)
        for suffix, format_ in _FORMATS.items():
            file = self.place / f"{key.value}{suffix}"
            if file.is_file():
                return self._schema(format_, file)
        return None

    def _schema(self, format_: SchemaFormat, file: Path) -> RegisteredSchema:
        if format_ != "protobuf":
            return RegisteredSchema(format_, _text(file))
        if file not in self._compiled:
            others = sorted(self.place.rglob("*.proto"))
            texts = {each.relative_to(self.place).as_posix(): _text(each) for each in others}
            found = RegisteredSchema(format_, _text(file), tuple(texts.items()))
            self._compiled[file] = replace(compiled(found), references=())
        return self._compiled[file]

    def _by_fingerprint(self, wanted: str) -> RegisteredSchema | None:
        for file in sorted(self.place.glob("*.avsc")):
            text = _text(file)
            try:
                found = fingerprint(json.loads(text))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise _unreadable(file, "it holds no Avro schema") from error
            if found == wanted:
                return RegisteredSchema("avro", text)
        return None


def fingerprint(schema: Any) -> str:
    """Return the CRC-64-AVRO of a schema's canonical form as 16 hexadecimal digits."""
    canonical = json.dumps(_canonical(schema, ""), separators=(",", ":"), ensure_ascii=False)
    value = _EMPTY
    for byte in canonical.encode():
        value = (value >> 8) ^ _row((value ^ byte) & 0xFF)
    return f"{value:016x}"


def _canonical(schema: Any, space: str) -> Any:
    match schema:
        case list():
            return [_canonical(branch, space) for branch in schema]
        case str():
            full = schema in _PRIMITIVES or "." in schema or not space
            return schema if full else f"{space}.{schema}"
        case {"type": "record" | "error" | "enum" | "fixed"}:
            return _canonical_named(schema, space)
        case {"type": "array" | "map"}:
            inside = "items" if schema["type"] == "array" else "values"
            return {"type": schema["type"], inside: _canonical(schema[inside], space)}
        case _:
            return _canonical(schema["type"], space)


def _canonical_named(schema: Mapping[str, Any], space: str) -> dict[str, Any]:
    name = str(schema["name"])
    if "." not in name:
        space = str(schema.get("namespace", space) or "")
        name = f"{space}.{name}" if space else name
    inner: dict[str, Any] = {**schema, "name": name}
    if "fields" in schema:
        inside = name.rpartition(".")[0]
        inner["fields"] = [
            {"name": field["name"], "type": _canonical(field["type"], inside)}
            for field in schema["fields"]
        ]
    return {name: inner[name] for name in _KEPT if name in inner}


def _row(index: int) -> int:
    value = index
    for _ in range(8):
        value = (value >> 1) ^ (_EMPTY & -(value & 1))
    return value


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise _unreadable(file, type(error).__name__) from error


def _unreadable(file: Path, what: str) -> InvalidError:
    return InvalidError(
        f"the schema {file} cannot be read: {what}",
        code="P670",
        hint=f"run 'cat {file}' as the user of this process",
    )
