"""One Avro datum becomes a tree of values: the authority on what bytes mean, and why they do not.

Invariants:
- a datum takes all of its bytes, or the record is rejected;
- no bytes, however hostile, make many more items than they have bytes (items may be empty);
- values are as written: numbers in the schema's unit (logical_types.py), nothing is rounded.

Source: Apache Avro specification 1.12, "Binary Encoding".
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from penstock.core.schema import Kind
from penstock.rows.decode.logical_types import (
    EpochCount,
    UnscaledDecimal,
    VariableScaleDecimal,
    unscaled,
)
from penstock.rows.decode.schema_tree import (
    FixedBytes,
    Listed,
    Mapped,
    Node,
    Record,
    Scalar,
    Symbols,
    Union,
)
from penstock.rows.reject_codes import RejectCode, RejectError

VARINT_BYTES_MAX = 10
EMPTY_ITEMS_MAX = 1000
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_LONG_BITS = 64
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def read_datum(node: Record, data: bytes) -> dict[str, Any]:
    """Read one datum, which is the whole of `data`. Raises RejectError."""
    cursor = _Cursor(data)
    value = _value(node, cursor)
    if cursor.at != len(data):
        raise trailing(len(data) - cursor.at)
    assert isinstance(value, dict), "records become dicts"
    return value


@dataclass(slots=True)
class _Cursor:
    data: bytes
    at: int = 0
    items: int = 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.data) - self.at:
            raise datum_error(DatumError.CUT_OFF if count >= 0 else DatumError.NEGATIVE)
        start, self.at = self.at, self.at + count
        return self.data[start : self.at]

    def long(self) -> int:
        number = 0
        for place in range(VARINT_BYTES_MAX):
            if self.at >= len(self.data):
                raise datum_error(DatumError.CUT_OFF)
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:  # noqa: PLR2004  the high bit says that more follows
                if number >> _LONG_BITS:
                    break
                return (number >> 1) ^ -(number & 1)
        raise _malformed("an integer of more than 64 bits")

    def int(self) -> int:
        number = self.long()
        if not _INT_MIN <= number <= _INT_MAX:
            raise datum_error(DatumError.WIDE)
        return number

    def text(self) -> str:
        data = self.take(self.long())
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise datum_error(DatumError.NOT_UTF8) from error


def _value(node: Node, cursor: _Cursor) -> Any:
    match node:
        case Scalar(kind, meaning):
            value = _plain(kind, cursor)
            return (
                meaning.value_of(value)
                if isinstance(meaning, EpochCount | UnscaledDecimal)
                else value
            )
        case Symbols(symbols):
            return symbols[_index(cursor, len(symbols), "a symbol")]
        case FixedBytes(length, meaning):
            data = cursor.take(length)
            return meaning.value_of(data) if isinstance(meaning, UnscaledDecimal) else data
        case Union(branches):
            return _value(branches[_index(cursor, len(branches), "a type of the union")], cursor)
        case Record(fields, meaning):
            record = {name: _value(member, cursor) for name, member in fields}
            if isinstance(meaning, VariableScaleDecimal):
                return unscaled(record["value"], record["scale"])
            return record
        case Listed(items):
            return [_value(items, cursor) for _ in _items(cursor)]
        case Mapped(keys, values):
            return _mapped(keys, values, cursor)
        case _:
            raise AssertionError(node)


def _plain(kind: Kind, cursor: _Cursor) -> Any:
    match kind:
        case Kind.UNKNOWN:
            return None
        case Kind.BOOLEAN:
            return _index(cursor, 2, "a boolean", wide=False) == 1
        case Kind.INT:
            return cursor.int()
        case Kind.LONG:
            return cursor.long()
        case Kind.FLOAT:
            return _FLOAT.unpack(cursor.take(_FLOAT.size))[0]
        case Kind.DOUBLE:
            return _DOUBLE.unpack(cursor.take(_DOUBLE.size))[0]
        case Kind.BINARY:
            return cursor.take(cursor.long())
        case _:
            return cursor.text()


def _index(cursor: _Cursor, count: int, what: str, *, wide: bool = True) -> int:
    index = cursor.long() if wide else cursor.take(1)[0]
    if not 0 <= index < count:
        raise _malformed(f"index {index} for {what} is out of range: there are {count}")
    return index


def _items(cursor: _Cursor) -> Any:
    """Yield once for each item of an array or map; the caller reads the item."""
    while count := cursor.long():
        if count < 0:
            count = -count
            if cursor.long() < 0:
                raise datum_error(DatumError.NEGATIVE)
        cursor.items += count
        if cursor.items > len(cursor.data) + EMPTY_ITEMS_MAX:
            raise _malformed("more items than bytes")
        yield from range(count)


def _mapped(keys: Node, values: Node, cursor: _Cursor) -> dict[Any, Any]:
    entries: dict[Any, Any] = {}
    for _ in _items(cursor):
        key = _value(keys, cursor)
        if key in entries:
            raise RejectError(RejectCode.DUPLICATE_KEY, "a map has the same key twice")
        entries[key] = _value(values, cursor)
    return entries


def _malformed(reason: str) -> RejectError:
    return RejectError(RejectCode.MALFORMED, reason)


def datum_error(fault: DatumError) -> RejectError:
    """Build the error for a fault that is certain."""
    return RejectError(*CERTAIN[fault])


def trailing(count: int) -> RejectError:
    """Build the error for a value that goes on after its datum."""
    return RejectError(RejectCode.TRAILING_DATA, f"{count} bytes follow the datum")


class DatumError(IntEnum):
    """Name what may be wrong with a datum that is read in columns; `UNSURE` is for `read_datum`."""

    NONE = 0
    UNSURE = 1
    CUT_OFF = 2
    NEGATIVE = 3
    WIDE = 4
    NOT_UTF8 = 5


CERTAIN: Mapping[DatumError, tuple[RejectCode, str]] = MappingProxyType(
    {
        DatumError.CUT_OFF: (RejectCode.MALFORMED, "the value is cut off"),
        DatumError.NEGATIVE: (RejectCode.MALFORMED, "a length is negative"),
        DatumError.WIDE: (RejectCode.MALFORMED, "an int of more than 32 bits"),
        DatumError.NOT_UTF8: (RejectCode.NOT_UTF8, "a string is not UTF-8"),
    }
)
"""The rejects that `read_datum` raises, by fault."""
