"""Reads the schema id of a record, from its value or a header.

- registry: byte 0 and a four byte number, or byte 1 and a 16 byte GUID, before the value, or in the
  header `__value_schema_id`, for keys `__key_schema_id`;
- Protobuf: the same, and after the id which message of the schema it is: how many indexes follow,
  and the indexes, each in zigzag; a zero byte alone means the first message;
- single object: the bytes C3 01 and an eight byte fingerprint, before the value.

Invariant: a record belongs to one schema, or is a reject; none is left out.

Source: Confluent Schema Registry, "Wire format" and "Schema ID in header"; Apache Avro
specification 1.12, "Single-object encoding".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.ports.registry import SchemaKey
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode, RejectError

Positions = npt.NDArray[np.int64]

_INDEX_MAX, _NESTED_MAX = 100_000, 64
_VARINT_BYTES_MAX = 5


@dataclass(frozen=True, slots=True)
class SchemaGroup:
    """The values of one schema without their frames; `positions` are in the values given.

    `message` are the indexes of a Protobuf message in its schema.
    """

    key: SchemaKey
    positions: Positions
    values: pa.BinaryArray
    message: tuple[int, ...] = ()


def group_by_schema(
    values: pa.BinaryArray, headers: pa.Array | None, options: RowOptions
) -> tuple[list[SchemaGroup], dict[int, RejectError]]:
    """Sort non-null values by their schemas, and return the rejects by position."""
    single = options.framing == "single-object"
    with_messages = options.format == "protobuf"
    found: list[SchemaGroup] = []
    rest = np.arange(len(values))
    if headers is not None and not single:
        named = pa.array(
            _in_headers(headers, options.schema_id_header, longer=with_messages), pa.binary()
        )
        for frame in _REGISTRY:
            found += _sorted(frame, values, named, rest, 0)
        rest = np.flatnonzero(named.is_null().to_numpy(zero_copy_only=False))
    errors: dict[int, RejectError] = {}
    for frame in _SINGLE if single else _REGISTRY:
        heads = pc.binary_slice(values, 0, frame.length)
        some = _sorted(frame, values, heads, rest, frame.length)
        rest = np.setdiff1d(rest, np.concatenate([rest[:0], *(each.positions for each in some)]))
        for each in some:
            found += _by_message(each, errors) if with_messages else [each]
    reason = "it begins with no " + ("fingerprint" if single else "schema id")
    errors |= dict.fromkeys(rest.tolist(), RejectError(RejectCode.UNFRAMED, reason))
    return found, errors


def _by_message(framed: SchemaGroup, errors: dict[int, RejectError]) -> list[SchemaGroup]:
    named: dict[tuple[int, ...], tuple[list[int], list[bytes]]] = {}
    for position, value in zip(framed.positions.tolist(), framed.values.to_pylist(), strict=True):
        found = message_indexes(value)
        if found is None:
            reason = "the id of its schema is not followed by the indexes of a message"
            errors[position] = RejectError(RejectCode.UNFRAMED, reason)
            continue
        message, length = found
        positions, bodies = named.setdefault(message, ([], []))
        positions.append(position)
        bodies.append(value[length:])
    return [
        SchemaGroup(framed.key, np.array(at, np.int64), pa.array(bodies, pa.binary()), message)
        for message, (at, bodies) in named.items()
    ]


def message_indexes(data: bytes) -> tuple[tuple[int, ...], int] | None:
    """Read the indexes of a message, and how many bytes they take; None where there are none."""
    if data[:1] == b"\x00":
        return (0,), 1
    numbers: list[int] = []
    at = 0
    while not numbers or len(numbers) <= numbers[0]:
        number, at = _zigzag(data, at)
        if number is None or not 0 <= number <= _INDEX_MAX:
            return None
        numbers.append(number)
        if not 1 <= numbers[0] <= _NESTED_MAX:
            return None
    return tuple(numbers[1:]), at


def _zigzag(data: bytes, at: int) -> tuple[int | None, int]:
    number = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(data):
            break
        byte = data[at + place]
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # noqa: PLR2004  the high bit says that more follows
            return (number >> 1) ^ -(number & 1), at + place + 1
    return None, at


@dataclass(frozen=True, slots=True)
class _IdFormat:
    magic: bytes
    length: int
    kind: Literal["id", "guid", "fingerprint"]
    text: Callable[[bytes], str]

    def key(self, head: bytes) -> SchemaKey:
        return SchemaKey(self.kind, self.text(head[len(self.magic) :]))


_REGISTRY = (
    _IdFormat(b"\x00", 5, "id", lambda data: str(int.from_bytes(data, "big"))),
    _IdFormat(b"\x01", 17, "guid", lambda data: str(UUID(bytes=data))),
)
_SINGLE = (_IdFormat(b"\xc3\x01", 10, "fingerprint", lambda data: data[::-1].hex()),)


def named_by(value: bytes) -> SchemaKey | None:
    """Return the schema that the first bytes of a value name, if they are a frame at all."""
    for frame in (*_REGISTRY, *_SINGLE):
        if value.startswith(frame.magic) and len(value) > frame.length:
            return frame.key(value[: frame.length])
    return None


def _sorted(
    frame: _IdFormat, values: pa.BinaryArray, heads: pa.BinaryArray, among: Positions, bare: int
) -> list[SchemaGroup]:
    """Group the values at some positions that begin with a whole header of a frame."""
    heads = heads.take(pa.array(among))
    # A head that is longer, in a header, names a message as well (`_in_headers`).
    right = pc.and_(
        pc.starts_with(heads, frame.magic),
        pc.greater_equal(pc.binary_length(heads), frame.length),
    ).fill_null(False)
    positions = among[right.to_numpy(zero_copy_only=False)]
    if not len(positions):
        return []
    encoded = heads.filter(right).dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    groups = np.split(positions[order], np.flatnonzero(np.diff(codes[order])) + 1)
    found = []
    for at, head in zip(groups, encoded.dictionary.to_pylist(), strict=True):
        taken = values if len(at) == len(values) else values.take(pa.array(at))
        # `pc.binary_slice` fails without a stop (pyarrow 26: negative buffer resize).
        bodies = pc.binary_replace_slice(taken, 0, bare, b"") if bare else taken
        message = message_indexes(head[frame.length :])
        key = frame.key(head[: frame.length])
        found.append(SchemaGroup(key, at, bodies, () if message is None else message[0]))
    return found


def _in_headers(headers: pa.Array, name: str, *, longer: bool) -> list[bytes | None]:
    """Return the last header that names a schema, as consumers do; a malformed one names none.

    With `longer` it names a message after the schema, and nothing else.
    """
    named: list[bytes | None] = []
    for entries in headers.to_pylist():
        found = None
        for entry in entries or ():
            value = entry["value"] or b""
            if entry["key"] == name and _names_schema(value, longer=longer):
                found = value
        named.append(found)
    return named


def _names_schema(value: bytes, *, longer: bool) -> bool:
    for frame in _REGISTRY:
        if value.startswith(frame.magic) and len(value) >= frame.length:
            rest = value[frame.length :]
            found = message_indexes(rest) if longer else ((), 0)
            return found is not None and found[1] == len(rest)
    return False
