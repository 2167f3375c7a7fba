"""Columns of plain values become Protobuf's wire format, by the kinds of fields.

Invariants:
- a value is written exactly, or is a misfit of its row;
- bytes depend on a value alone, not on the rows around it.

Source: Protocol Buffers, "Encoding"; `google/protobuf/timestamp.proto`: years 1 to 9999.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import validity_of
from penstock.rows.cast import iso8601
from penstock.rows.decode.logical_types import PER_SECOND
from penstock.rows.encode.avro_scalars import scalars as avro_scalars
from penstock.rows.encode.avro_schema import bytes_for
from penstock.rows.encode.datums import (
    Datums,
    Numbers,
    found_in,
    nulled,
    rows_of_bytes,
    sized,
    unsigned_varints,
    zigzag,
)
from penstock.rows.encode.json_texts import (
    NO_YEAR,
    JsonForm,
    bare_texts,
    is_binary,
    is_text,
    utf8_texts,
)
from penstock.rows.encode.nesting import UNKNOWN_SYMBOL, Misfits, out_of_range

_VARINT, _WIDE, _SIZED, _NARROW = 0, 1, 2, 5
WIRE_TYPES: Mapping[str, int] = {
    **dict.fromkeys(("int32", "int64", "uint32", "uint64", "sint32", "sint64"), _VARINT),
    **dict.fromkeys(("bool", "enum"), _VARINT),
    **dict.fromkeys(("double", "fixed64", "sfixed64"), _WIDE),
    **dict.fromkeys(("float", "fixed32", "sfixed32"), _NARROW),
    **dict.fromkeys(("string", "bytes", "timestamp", "decimal"), _SIZED),
}
"""By the kinds of fields but messages."""
PACKED = frozenset(kind for kind, wire_type in WIRE_TYPES.items() if wire_type != _SIZED)
"""What a list has in one piece."""
_DAY = 86_400


def scalars(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    """Write values that are not nested; None where the type is not the field's."""
    return _WRITERS[field["kind"]](values, kind, field, path)


def _integers(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    if not pa.types.is_integer(kind):
        return None
    name, present = field["kind"], values.fill_null(0)
    bits = 32 if name.endswith("32") else 64
    unsigned = name.startswith(("uint", "fixed"))
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    numbers = present.to_numpy()
    span = np.iinfo(numbers.dtype)
    wide = np.zeros(len(numbers), np.bool_)
    if span.min < low:
        wide |= numbers < low
    if span.max > high:
        wide |= numbers > high
    misfits = found_in(path, wide, out_of_range(f"it is no number of {bits} bits, as {name} is"))
    fitting = np.where(wide, numbers.dtype.type(0), numbers)
    return Datums(_written(fitting, name, bits, values), misfits)


def _written(numbers: Any, name: str, bits: int, like: pa.Array) -> pa.BinaryArray:
    """Write numbers that fit a kind of integers."""
    if "fixed" in name:
        sign = "i" if name.startswith("s") else "u"
        return _raw(numbers.astype(f"<{sign}{bits // 8}"), like)
    if name.startswith("sint"):
        return unsigned_varints(zigzag(numbers.astype(np.int64)), like)
    wide = numbers.astype(np.uint64 if numbers.dtype.kind == "u" else np.int64)
    return unsigned_varints(wide.view(np.uint64), like)


def _raw(numbers: Any, like: pa.Array) -> pa.BinaryArray:
    data = np.ascontiguousarray(numbers)
    return rows_of_bytes(data.view(np.uint8).reshape(len(data), data.itemsize), like)


def _booleans(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    del field
    return avro_scalars(values, kind, {"type": "boolean"}, path)


def _floats(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    return avro_scalars(values, kind, {"type": field["kind"]}, path)


def _texts(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    """Write text, and what has no message of Protobuf's own as JSON has it."""
    del field
    if is_text(kind):
        texts, misfits = utf8_texts(values, path)
    elif kind == pa.uuid() or pa.types.is_temporal(kind):
        if pa.types.is_duration(kind) or pa.types.is_interval(kind):
            return None
        texts, _, misfits = bare_texts(values, kind, path, JsonForm())
    else:
        return None
    return Datums(sized(texts.cast(pa.binary())), misfits)


def _bytes(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    del field, path
    return Datums(sized(values.cast(pa.binary()))) if is_binary(kind) else None


def _enums(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    if not is_text(kind):
        return None
    texts, misfits = utf8_texts(values, path)
    symbols: Mapping[str, int] = field["symbols"]
    places = pc.index_in(texts, pa.array([*symbols], pa.string()))
    unknown = validity_of(values) & ~validity_of(places)
    misfits = [*misfits, *found_in(path, unknown, UNKNOWN_SYMBOL)]
    numbers = np.array([*symbols.values()], np.int64)[places.fill_null(0).to_numpy()]
    return Datums(unsigned_varints(numbers.view(np.uint64), values), misfits)


def _timestamps(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    del field
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return None
    counts = values.view(pa.int64()).fill_null(0).to_numpy()
    per_second = PER_SECOND[kind.unit]
    seconds, rest = np.divmod(counts, per_second)
    wide = (seconds < iso8601.DAY_MIN * _DAY) | (seconds >= (iso8601.DAY_MAX + 1) * _DAY)
    misfits: list[Misfits] = found_in(path, wide, NO_YEAR)
    nanos = rest * (10**9 // per_second)
    both = (_varints(np.where(wide, 0, seconds)), _varints(nanos))
    data = pc.binary_join_element_wise(b"\x08", both[0], b"\x10", both[1], b"")
    return Datums(nulled(sized(data), values), misfits)


def _varints(numbers: Numbers) -> pa.BinaryArray:
    return unsigned_varints(numbers.view(np.uint64))


def _decimals(values: pa.Array, kind: Any, field: Mapping[str, Any], path: str) -> Datums | None:
    """Write Confluent's message: unscaled bytes, precision, scale."""
    del field
    if not pa.types.is_decimal(kind) or kind.scale < 0:
        return None
    digits = {"precision": kind.precision, "scale": kind.scale}
    fixed = {"type": "fixed", "logicalType": "decimal", "size": bytes_for(kind.precision), **digits}
    found = avro_scalars(values, kind, fixed, path)
    if found is None:
        return None
    end = bytes([0x10, kind.precision, 0x18, kind.scale])
    data = pc.binary_join_element_wise(b"\x0a", sized(found.data), end, b"")
    return Datums(nulled(sized(data), values), found.misfits)


_Writer = Callable[[pa.Array, Any, Mapping[str, Any], str], Datums | None]
_WRITERS: Mapping[str, _Writer] = {
    **{kind: _integers for kind in WIRE_TYPES if "int" in kind or "fixed" in kind},
    "bool": _booleans,
    "float": _floats,
    "double": _floats,
    "string": _texts,
    "bytes": _bytes,
    "enum": _enums,
    "timestamp": _timestamps,
    "decimal": _decimals,
}
