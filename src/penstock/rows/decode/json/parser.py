"""One record's bytes become one JSON object whose numbers are still text.

Invariants:
- accepted is exactly RFC 8259 in UTF-8 with an object on top, and nothing before or after it;
- rejected beyond the RFC: duplicate keys, lone surrogates, nesting deeper than the limit;
- the verdict depends on the bytes and the limit only, never on the interpreter's stack;
- numbers keep their text (`JsonNumber`), so that no conversion rounds twice.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from json import JSONDecodeError, JSONDecoder
from typing import Any, Never

import msgspec

from penstock.rows.decode.logical_types import DateValue, TimestampValue, TimeValue
from penstock.rows.reject_codes import RejectCode, RejectError

_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SYNTAX = msgspec.json.Decoder(msgspec.Raw)
_CUT_OFF = "Input data was truncated"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class JsonNumber(str):
    """A JSON number as it was written."""

    __slots__ = ()


def parse_object(value: bytes, *, depth_max: int) -> dict[str, Any]:
    """Read one record into dicts, lists, str, bool, None and `JsonNumber`.

    Raises RejectError of stage decode or limit.
    """
    if not value or value.isspace():
        raise RejectError(RejectCode.EMPTY, "the value is empty")
    if value.startswith(BOM_UTF8):
        raise RejectError(RejectCode.BYTE_ORDER_MARK, "the value begins with a byte order mark")
    check_depth(value, depth_max)
    text = utf8_text(value)
    _check_syntax(value)
    tree = _parse(text)
    if not isinstance(tree, dict):
        raise RejectError(RejectCode.NOT_AN_OBJECT, f"the value is {kind_of(tree)}, not an object")
    return tree


def parse_value(text: bytes) -> Any:
    """Read any JSON value, as `parse_object` reads the members of a record. Raises RejectError."""
    return _parse(utf8_text(text))


def kind_of(value: Any) -> str:
    """Name the type of a decoded value, for messages."""
    match value:
        case dict():
            return "an object"
        case list():
            return "an array"
        case bool():
            return "a boolean"
        case JsonNumber():
            return "a number"
        case str():
            return "a string"
        case bytes():
            return "bytes"
        case DateValue() | TimeValue() | TimestampValue():
            return "a date or time"
        case None:
            return "null"
        case _:
            return "a number"


def is_empty(value: Any) -> bool:
    """Return whether a value is null or an empty shell of nulls, which no column is made for."""
    match value:
        case None:
            return True
        case dict():
            return all(is_empty(member) for member in value.values())
        case list():
            return all(is_empty(element) for element in value)
        case _:
            return False


def utf8_text(value: bytes) -> str:
    """Read text. Raises RejectError."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
        raise RejectError(RejectCode.NOT_UTF8, reason) from error


def _check_syntax(value: bytes) -> None:
    """Reject at C speed what is not JSON. Raises RejectError; what it passes is still to be parsed.

    Escapes are left to the parser: msgspec takes a lone surrogate for a syntax error.
    """
    try:
        _SYNTAX.decode(value)
    except msgspec.DecodeError as error:
        if b"\\u" in value:
            return
        said = str(error).removeprefix("JSON is malformed: ")
        if said.startswith("trailing characters"):
            raise RejectError(RejectCode.TRAILING_DATA, "something follows the JSON text") from None
        if said == _CUT_OFF:
            said = f"the text is cut off after byte {len(value)}"
        raise RejectError(RejectCode.MALFORMED, said) from None
    except RecursionError:
        return


def _parse(text: str) -> Any:
    try:
        tree = _DECODER.decode(text)
    except JSONDecodeError as error:
        code = RejectCode.TRAILING_DATA if error.msg == "Extra data" else RejectCode.MALFORMED
        raise RejectError(
            code, f"{error.msg.lower().removesuffix(' at')} at character {error.pos}"
        ) from error
    if _SURROGATE.search(text):
        try:
            json.dumps(tree, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            reason = "a string escapes half a surrogate pair"
            raise RejectError(RejectCode.LONE_SURROGATE, reason) from error
    return tree


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise RejectError(RejectCode.DUPLICATE_KEY, f"the key {twice!r} occurs twice in one object")
    return members


def _no_constant(name: str) -> Never:
    raise RejectError(RejectCode.MALFORMED, f"{name} is not JSON")


_DECODER = JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=JsonNumber,
    parse_float=JsonNumber,
    parse_constant=_no_constant,
)


def check_depth(value: bytes, depth_max: int) -> None:
    """Count open brackets outside strings; malformed values may count either way.

    Raises RejectError.
    """
    if value.count(b"{") + value.count(b"[") <= depth_max:
        return
    depth = 0
    for bracket in _STRINGS.sub(b"", value).translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"{[" else -1
        if depth > depth_max:
            raise RejectError(RejectCode.TOO_DEEP, f"nested deeper than {depth_max}")
