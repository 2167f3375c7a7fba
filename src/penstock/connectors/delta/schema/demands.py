"""Reads what a Delta table demands of its rows: constraints, lengths, generated columns, defaults.

Invariant: a demand that is not surely read is refused with its text, so that no row ever lands
which another writer would have refused.

Source: Delta transaction log protocol, "CHECK Constraints", "Column Invariants", "Generated
Columns", "Default Columns"; for lengths `CharVarcharConstraint` of Delta's Spark writer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from penstock.core.demands import Constraint, Default, Demands, Generated, Length
from penstock.core.errors import InvalidError
from penstock.core.expressions.literals import UnsupportedError
from penstock.core.expressions.parser import parse, parse_constant
from penstock.core.schema import Kind, Schema
from penstock.core.schema_walk import member
from penstock.core.table_errors import unsupported

CONSTRAINTS = "delta.constraints."
"""What the keys of a table's check constraints begin with."""
_INVARIANT = "delta.invariants"
_GENERATED = "delta.generationExpression"
_DEFAULT = "CURRENT_DEFAULT"
_LENGTH = "__CHAR_VARCHAR_TYPE_STRING"
_LIMITED = re.compile(r"(?:var)?char\((\d+)\)", re.IGNORECASE)
_TEXT_MAX = 200
Made = TypeVar("Made")


def demands_of(table: str, text: str, schema: Schema, configuration: Mapping[str, str]) -> Demands:
    """Read the demands of a table from its schema string and properties.

    Raises InvalidError (P436) with the first that cannot be honoured.
    """
    fields = [*_demanding(json.loads(text), "")]
    if not fields and not any(key.startswith(CONSTRAINTS) for key in configuration):
        return Demands()
    reading = _Reading(table, schema)
    checks = [
        reading.constraint(f"check constraint {key.removeprefix(CONSTRAINTS)}", value)
        for key, value in sorted(configuration.items())
        if key.startswith(CONSTRAINTS)
    ]
    invariants = [
        reading.constraint(f"column invariant of {path}", reading.invariant(path, held))
        for path, held in _having(fields, _INVARIANT)
    ]
    return Demands(
        constraints=(*checks, *invariants),
        lengths=tuple(reading.length(path, held) for path, held in _having(fields, _LENGTH)),
        generated=tuple(
            reading.generated(path, held) for path, held in _having(fields, _GENERATED)
        ),
        defaults=tuple(reading.default(path, held) for path, held in _having(fields, _DEFAULT)),
    )


class _Reading:
    def __init__(self, table: str, schema: Schema) -> None:
        self.table = table
        self.schema = schema

    def constraint(self, name: str, text: str) -> Constraint:
        condition = self._read(f"the {name}", text, lambda: parse(text, self.schema))
        if condition.type is not Kind.BOOLEAN:
            raise self._refused(f"the {name}", text, "it is no condition")
        return Constraint(name, condition)

    def invariant(self, path: str, text: str) -> str:
        try:
            return str(json.loads(text)["expression"]["expression"])
        except (ValueError, KeyError, TypeError) as error:
            what = f"the column invariant of {path}"
            raise self._refused(what, text, "it names no expression") from error

    def length(self, path: str, text: str) -> Length:
        found, column = _LIMITED.fullmatch(text.strip()), self.schema.field(path)
        if found is None or column is None or column.type is not Kind.STRING:
            raise self._refused(f"the length of {path}", text, "it is within another type")
        return Length(path, int(found[1]))

    def generated(self, path: str, text: str) -> Generated:
        what, column = f"the generated column {path}", self.schema.field(path)
        value = self._read(what, text, lambda: parse(text, self.schema))
        if column is None or column.type != value.type:
            raise self._refused(what, text, f"the expression is a {value.type}")
        return Generated(path, value)

    def default(self, path: str, text: str) -> Default:
        what, column = f"the default of {path}", self.schema.field(path)
        if column is None:
            raise self._refused(what, text, "it is within a column")
        return Default(path, self._read(what, text, lambda: parse_constant(text, column.type)))

    def _read(self, what: str, text: str, read: Callable[[], Made]) -> Made:
        try:
            return read()
        except UnsupportedError as error:
            raise self._refused(what, text, str(error)) from error

    def _refused(self, what: str, text: str, why: str) -> InvalidError:
        shown = text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"
        return unsupported(self.table, f"{what}, {shown}", why)


def _demanding(data: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return the fields with metadata that we read, at any depth, by path."""
    match data:
        case {"type": "struct", "fields": list(fields)}:
            for each in fields:
                where = member(path, each["name"])
                metadata = each.get("metadata") or {}
                if {_INVARIANT, _GENERATED, _DEFAULT, _LENGTH} & metadata.keys():
                    yield where, metadata
                yield from _demanding(each["type"], where)
        case {"type": "array", "elementType": element}:
            yield from _demanding(element, f"{path}[]")
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _demanding(key, f"{path}{{key}}")
            yield from _demanding(value, f"{path}{{value}}")


def _having(fields: list[tuple[str, Mapping[str, Any]]], key: str) -> Iterator[tuple[str, str]]:
    return ((path, str(metadata[key])) for path, metadata in fields if key in metadata)
