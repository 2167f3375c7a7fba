"""Arrow columns become records of the wire, without a Python object for any of them.

Invariants:
- a null key or value has length -1, an empty one length 0; a record without headers has 0 of them;
- each record holds its fields and nothing else, its numbers in as few bytes as they need.

Source: Kafka documentation, "Record"; varints are those of Protocol Buffers, zigzag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

_BITS, _MORE = 7, 0x80
_NOTHING = pa.scalar(b"", pa.binary())
_NO_HEADERS = pa.scalar(b"\0", pa.binary())


@dataclass(frozen=True, slots=True)
class Fields:
    """What records hold besides their place: pieces of bytes, and the sizes of all of them.

    `sizes` leaves out the length of the record, and the deltas of time and offset.
    """

    key_length: Ints
    key: pa.BinaryArray | None
    rest: Sequence[pa.BinaryArray | pa.BinaryScalar]
    sizes: Ints


def fields_of(rows: pa.RecordBatch) -> Fields:
    """Return the fields of records in the columns `key`, `value` and, where it is, `headers`."""
    key_length, key = _bytes_of(rows["key"])
    value_length, value = _bytes_of(rows["value"])
    pieces = [numbers(value_length), *([value] if value is not None else [])]
    if "headers" in rows.schema.names:
        pieces += _headers(rows["headers"])
    sizes = 1 + number_bytes(key_length) + key_length.clip(0)
    for each in pieces:
        sizes += pc.binary_length(each).to_numpy(zero_copy_only=False)
    if "headers" not in rows.schema.names:
        pieces.append(_NO_HEADERS)
        sizes += 1
    return Fields(key_length, key, pieces, sizes)


def records_of(fields: Fields, time_delta: Ints, offset_delta: Ints) -> pa.BinaryArray:
    """Return each record with its length before it, at its place in a batch."""
    length = fields.sizes + number_bytes(time_delta) + number_bytes(offset_delta)
    attributes = np.zeros(len(length), np.int64)
    prefix = numbers(length, attributes, time_delta, offset_delta, fields.key_length)
    pieces = [prefix, *([fields.key] if fields.key is not None else []), *fields.rest]
    records: pa.BinaryArray = pc.binary_join_element_wise(*pieces, _NOTHING)
    return records


def number_bytes(values: Ints) -> Ints:
    """Return how many bytes each number takes."""
    return _bytes_needed(_zigzag(values))


def numbers(*columns: Ints) -> pa.BinaryArray:
    """Return the numbers of each row, one after the other."""
    unsigned = [_zigzag(each) for each in columns]
    sizes = [_bytes_needed(each) for each in unsigned]
    bounds = np.zeros(len(columns[0]) + 1, np.int64)
    np.cumsum(sum(sizes), out=bounds[1:])
    written = np.empty(bounds[-1], np.uint8)
    at = bounds[:-1].copy()
    for number, size in zip(unsigned, sizes, strict=True):
        _write(written, at, number, size)
        at += size
    held = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(written)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(at), held)


def _write(
    into: npt.NDArray[np.uint8], at: Ints, number: npt.NDArray[np.uint64], size: Ints
) -> None:
    """Write numbers at places, byte after byte; most have as many as the others."""
    if not len(size):
        return
    fewest, most = int(size.min()), int(size.max())
    for turn in range(most):
        low = (number >> np.uint64(_BITS * turn)).astype(np.uint8)
        if turn < fewest - 1:
            into[at + turn] = low | _MORE
            continue
        low &= _MORE - 1
        low |= (size > turn + 1).view(np.uint8) << 7
        if turn < fewest:
            into[at + turn] = low
        else:
            longer = size > turn
            into[at[longer] + turn] = low[longer]


def _headers(headers: pa.ListArray) -> list[pa.BinaryArray]:
    """Return the number of headers of each record, and the bytes of all of them."""
    counts = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
    pairs: pa.StructArray = headers.flatten()
    name_length, name = _bytes_of(pairs.field("key").cast(pa.binary()))
    value_length, value = _bytes_of(pairs.field("value"))
    assert not (name_length < 0).any(), "a header has a name"
    given = [each for each in (name, numbers(value_length), value) if each is not None]
    whole = pc.binary_join_element_wise(numbers(name_length), *given, _NOTHING)
    _, bounds, held = whole.buffers()
    ends = np.frombuffer(bounds, np.int32, len(whole) + 1, 4 * whole.offset)
    of_rows = ends[np.append(0, counts.cumsum())]
    own = [None, pa.py_buffer(of_rows), held]
    return [numbers(counts), pa.BinaryArray.from_buffers(pa.binary(), len(counts), own)]


def _bytes_of(column: pa.Array) -> tuple[Ints, pa.BinaryArray | None]:
    """Return the length of each text, -1 where there is none, and the texts if there are any."""
    if column.null_count == len(column):
        return np.full(len(column), -1, np.int64), None
    length = pc.binary_length(column).fill_null(-1).to_numpy().astype(np.int64)
    return length, column.fill_null(b"") if column.null_count else column


def _zigzag(values: Ints) -> npt.NDArray[np.uint64]:
    unsigned: npt.NDArray[np.uint64] = ((values << 1) ^ (values >> 63)).view(np.uint64)
    return unsigned


def _bytes_needed(number: npt.NDArray[np.uint64]) -> Ints:
    size = np.ones(len(number), np.int64)
    most = int(number.max(initial=0))
    for bits in range(_BITS, max(most.bit_length(), 1), _BITS):
        size += number >= np.uint64(1 << bits)
    return size
