"""Columns of plain values become Avro's binary encoding, by the types of a schema.

Invariants:
- a value is written exactly, or is a misfit of its row;
- a datum depends on its value alone, not on the rows around it.

Source: Apache Avro specification 1.12, "Binary encoding", "Logical Types".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.arrow_arrays import lengths_of, validity_of
from penstock.rows.decode.logical_types import PER_SECOND
from penstock.rows.encode.avro_schema import UUID_BYTES, bytes_for
from penstock.rows.encode.datums import (
    Datums,
    Numbers,
    found_in,
    nulled,
    rows_of_bytes,
    unsigned_varints,
    zigzag,
)
from penstock.rows.encode.json_texts import is_binary, is_text, times_of_day, utf8_texts, uuid_text
from penstock.rows.encode.nesting import UNKNOWN_SYMBOL, Cause, Misfits, out_of_range
from penstock.rows.reject_codes import RejectCode

_INT = 31
_UNITS = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_DECIMAL_BYTES = 16
_TOO_EXACT = Cause("it is more exact than the schema's type", RejectCode.INEXACT)


def scalars(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    """Write values that are not nested; None where the type is not the schema's."""
    own, logical = data["type"], data.get("logicalType", "")
    writer = _LOGICAL.get(logical) if logical else None
    if writer is not None and own in writer[0]:
        return writer[1](values, kind, data, path)
    return _PLAIN[own](values, kind, data, path) if own in _PLAIN else None


def _nulls(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    del data, path
    if not pa.types.is_null(kind):
        return None
    return Datums(pa.array([b""] * len(values), pa.binary()))


def _booleans(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    del data, path
    if not pa.types.is_boolean(kind):
        return None
    bits = values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)
    return Datums(rows_of_bytes(bits[:, None], values))


def _integers(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    if not pa.types.is_integer(kind):
        return None
    present, misfits = values.fill_null(0), list[Misfits]()
    if kind == pa.uint64():
        wide = present.to_numpy() > np.uint64(2**63 - 1)
        misfits = found_in(path, wide, out_of_range("it is no number of 64 bits with a sign"))
        present = pc.if_else(pa.array(wide), pa.scalar(0, kind), present)
    numbers = present.cast(pa.int64()).to_numpy()
    if data["type"] == "int":
        wide = (numbers >> _INT) != (numbers >> 63)
        misfits += found_in(path, wide, out_of_range("it is no number of 32 bits"))
    return Datums(varints(numbers, values), misfits)


def _floats(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    del path
    is_narrow = pa.types.is_float16(kind) or pa.types.is_float32(kind)
    if not (is_narrow or (pa.types.is_float64(kind) and data["type"] == "double")):
        return None
    wanted, width = (pa.float32(), 4) if data["type"] == "float" else (pa.float64(), 8)
    numbers = values.cast(wanted).fill_null(0.0).to_numpy()
    raw = np.ascontiguousarray(numbers).view(np.uint8)
    return Datums(rows_of_bytes(raw.reshape(-1, width), values))


def _texts(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    del data
    if not is_text(kind):
        return None
    texts, misfits = utf8_texts(values, path)
    return Datums(_sized(texts.cast(pa.binary())), misfits)


def _bytes(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    del data, path
    return Datums(_sized(values.cast(pa.binary()))) if is_binary(kind) else None


def _sized(data: pa.BinaryArray) -> pa.BinaryArray:
    """Write the size of each value before it."""
    sizes = lengths_of(data).astype(np.int64)
    return pc.binary_join_element_wise(varints(sizes), data, b"")


def _fixed(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    del path
    stored = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    if not pa.types.is_fixed_size_binary(stored) or stored.byte_width != data["size"]:
        return None
    return Datums(values.cast(pa.binary()))


def _enums(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    if not is_text(kind):
        return None
    texts, misfits = utf8_texts(values, path)
    places = pc.index_in(texts, pa.array(data["symbols"], pa.string()))
    unknown = validity_of(values) & ~validity_of(places)
    misfits = [*misfits, *found_in(path, unknown, UNKNOWN_SYMBOL)]
    numbers = places.fill_null(0).to_numpy().astype(np.int64)
    return Datums(varints(numbers, values), misfits)


def _uuids(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    if data["type"] == "fixed":
        return _fixed(values, kind, {"size": UUID_BYTES}, path)
    if kind != pa.uuid():
        return _texts(values, kind, data, path)
    texts = pa.array([each and uuid_text(each) for each in values.to_pylist()], pa.binary())
    return Datums(_sized(texts))


def _dates(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    if not pa.types.is_date(kind):
        return None
    return _integers(values.cast(pa.date32()).view(pa.int32()), pa.int32(), data, path)


def _clocks(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    """Write times of day."""
    if not pa.types.is_time(kind):
        return None
    values, misfits = times_of_day(values, path)
    found = _counts(values, kind.unit, data, path)
    return Datums(found.data, [*misfits, *found.misfits])


def _instants(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    is_local = data["logicalType"].startswith("local-")
    if not pa.types.is_timestamp(kind) or (kind.tz is None) != is_local:
        return None
    return _counts(values, kind.unit, data, path)


def _counts(values: pa.Array, unit: str, data: Mapping[str, Any], path: str) -> Datums:
    """Write counts of one unit as those of another, exactly."""
    width = pa.int32() if values.type.bit_width == 32 else pa.int64()  # noqa: PLR2004
    counts = values.view(width).cast(pa.int64()).fill_null(0).to_numpy()
    given, wanted = PER_SECOND[unit], _UNITS[data["logicalType"].rpartition("-")[2]]
    if given > wanted:
        rest = counts % (given // wanted)
        misfits = found_in(path, rest != 0, _TOO_EXACT)
        counts = counts // (given // wanted)
    else:
        factor = wanted // given
        wide = (counts > (2**63 - 1) // factor) | (counts < -(2**63 // factor))
        misfits = found_in(path, wide, out_of_range("it is out of range"))
        counts = np.where(wide, 0, counts) * factor
    found = _integers(pa.array(counts), pa.int64(), data, path)
    assert found is not None, "counts are integers"
    return Datums(nulled(found.data, values), [*misfits, *found.misfits])


def _decimals(values: pa.Array, kind: Any, data: Mapping[str, Any], path: str) -> Datums | None:
    size = data.get("size", _DECIMAL_BYTES)
    if (
        not pa.types.is_decimal(kind)
        or kind.scale != data.get("scale", 0)
        or kind.precision > data.get("precision", 0)
        or not bytes_for(kind.precision) <= size <= _DECIMAL_BYTES
    ):
        return None
    values = values.cast(pa.decimal128(kind.precision, kind.scale))
    raw = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(-1, _DECIMAL_BYTES)
    digits = raw[values.offset : values.offset + len(values), ::-1]
    sign = np.where(digits[:, -size] >= 0x80, 0xFF, 0)[:, None]  # noqa: PLR2004
    wide = (digits[:, :-size] != sign).any(axis=1) & validity_of(values)
    misfits = found_in(path, wide, out_of_range("it has more digits than its type"))
    made = rows_of_bytes(digits[:, -size:], values)
    return Datums(_sized(made) if data["type"] == "bytes" else made, misfits)


def varints(numbers: Numbers, like: pa.Array | None = None) -> pa.BinaryArray:
    """Write numbers zigzag, seven bits in a byte; null where `like` is."""
    return unsigned_varints(zigzag(numbers), like)


_Writer = Callable[[Any, Any, Mapping[str, Any], str], Datums | None]
_PLAIN: Mapping[str, _Writer] = {
    "null": _nulls,
    "boolean": _booleans,
    "int": _integers,
    "long": _integers,
    "float": _floats,
    "double": _floats,
    "string": _texts,
    "bytes": _bytes,
    "fixed": _fixed,
    "enum": _enums,
}
_LOGICAL: Mapping[str, tuple[tuple[str, ...], _Writer]] = {
    "date": (("int",), _dates),
    "time-millis": (("int",), _clocks),
    "time-micros": (("long",), _clocks),
    **{
        f"{local}timestamp-{unit}": (("long",), _instants)
        for local in ("", "local-")
        for unit in _UNITS
    },
    "decimal": (("bytes", "fixed"), _decimals),
    "uuid": (("string", "fixed"), _uuids),
}
