"""One payload becomes a tree of values of its schema: the authority on what it means.

Invariants: a payload says exactly what its schema announces, or is rejected (P302); members that
are missing are null, members that the schema does not have are rejected unless they are null.

Source: Kafka Connect, `JsonConverter`; its decimals are base64 of unscaled bytes, or numbers where
`decimal.format` is `NUMERIC`.
"""

from __future__ import annotations

import decimal
import re
from typing import Any

from penstock.core.column_paths import joined_path
from penstock.core.schema import Kind
from penstock.rows.decode.json.exact_text import base64_bytes, float32_of
from penstock.rows.decode.json.parser import JsonNumber, kind_of
from penstock.rows.decode.logical_types import (
    EpochCount,
    UnscaledDecimal,
    VariableScaleDecimal,
    unscaled,
)
from penstock.rows.decode.schema_tree import Listed, Mapped, Node, Record, Scalar
from penstock.rows.reject_codes import RejectCode, RejectError

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_EXPONENT_MAX = 1000


def read_payload(node: Record, tree: dict[str, Any]) -> dict[str, Any]:
    """Return a parsed payload in the logical types of its schema. Raises RejectError."""
    return _record(node, tree, "")


def _value(node: Node, value: Any, path: str) -> Any:
    if value is None:
        return None
    match node:
        case Scalar():
            return _scalar(node, value, path)
        case Listed(items):
            if not isinstance(value, list):
                raise _clash(value, "array", path)
            return [_value(items, each, f"{path}[]") for each in value]
        case Mapped():
            return _mapped(node, value, path)
        case Record(_, VariableScaleDecimal()):
            parts = _record(Record(node.fields), value, path)
            if None in parts.values():
                raise _clash(None, "decimal", path)
            return unscaled(parts["value"], parts["scale"])
        case Record():
            return _record(node, value, path)
        case _:
            raise AssertionError(node)


def _record(node: Record, value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _clash(value, "struct", path)
    row = {
        name: _value(member, value.get(name), joined_path(path, name))
        for name, member in node.fields
    }
    for name, member in value.items():
        if name not in row and member is not None:
            reason = "the record's schema has no such field"
            raise RejectError(RejectCode.MALFORMED, reason, joined_path(path, name))
    return row


def _mapped(node: Mapped, value: Any, path: str) -> dict[Any, Any]:
    place = f"{path}{{}}"
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list) and all(isinstance(e, list) and len(e) == 2 for e in value):  # noqa: PLR2004
        pairs = [tuple(each) for each in value]
    else:
        raise _clash(value, "map", path)
    entries: dict[Any, Any] = {}
    for key, member in pairs:
        read = _value(node.key, key, place)
        if read is None or isinstance(read, dict | list):
            raise _clash(key, "key of a map", place)
        if read in entries:
            raise RejectError(RejectCode.DUPLICATE_KEY, "a map has the same key twice", path)
        entries[read] = _value(node.value, member, place)
    return entries


def _scalar(node: Scalar, value: Any, path: str) -> Any:
    match node.kind:
        case Kind.INT | Kind.LONG:
            number = _integer(node, value, path)
            meaning = node.logical_type
            return meaning.value_of(number) if isinstance(meaning, EpochCount) else number
        case Kind.FLOAT | Kind.DOUBLE:
            return _real(node, value, path)
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.STRING if isinstance(value, str) and not isinstance(value, JsonNumber):
            return value
        case Kind.BINARY:
            return _bytes(node, value, path)
        case _:
            raise _clash(value, node.kind.value, path)


def _integer(node: Scalar, value: Any, path: str) -> int:
    if not isinstance(value, JsonNumber) or _INTEGER.fullmatch(value) is None:
        raise _clash(value, f"int{node.bits}", path)
    number = int(value)
    if not -(1 << (node.bits - 1)) <= number < 1 << (node.bits - 1):
        raise RejectError(RejectCode.MALFORMED, f"the number does not fit its int{node.bits}", path)
    return number


def _real(node: Scalar, value: Any, path: str) -> Any:
    if isinstance(value, str) and not isinstance(value, JsonNumber) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if not isinstance(value, JsonNumber):
        raise _clash(value, node.kind.value, path)
    if node.kind is Kind.DOUBLE:
        return value
    try:
        return float32_of(value)
    except RejectError as error:
        code = RejectCode.MALFORMED if error.code is RejectCode.OUT_OF_RANGE else error.code
        raise RejectError(code, "the number does not fit its float", path) from error


def _bytes(node: Scalar, value: Any, path: str) -> Any:
    if isinstance(node.logical_type, UnscaledDecimal):
        if isinstance(value, JsonNumber):
            return _decimal(value, path)
        return node.logical_type.value_of(_decoded(value, path))
    return _decoded(value, path)


def _decimal(text: JsonNumber, path: str) -> decimal.Decimal:
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:  # an exponent of more digits than Python's decimals take
        number = None
    if number is None or abs(number.adjusted()) > _EXPONENT_MAX:
        raise RejectError(RejectCode.OUT_OF_RANGE, "a decimal of so many digits", path)
    return number


def _decoded(value: Any, path: str) -> bytes:
    if isinstance(value, JsonNumber) or not isinstance(value, str):
        raise _clash(value, "bytes", path)
    try:
        return base64_bytes(value)
    except RejectError as error:
        raise RejectError(RejectCode.MALFORMED, error.reason, path) from error


def _clash(value: Any, wanted: str, path: str) -> RejectError:
    reason = f"{kind_of(value)}, the record's own schema says {wanted}"
    return RejectError(RejectCode.MALFORMED, reason, path)
