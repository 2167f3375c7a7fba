"""The digest of a key: what keys are grouped and looked up by.

Invariants:
- equal keys have equal digests, whatever batch or file they come from, on every machine;
- a key of one column of at most 128 bits is its digest, so different keys have different ones; of
  others it is 128 bits of BLAKE2b, and equal digests are taken for equal keys: among 1e14
  comparisons two keys are confused with a probability of 3e-25;
- a column that is widened from int to long, or to a decimal of more digits, keeps its digests.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DIGEST_BYTES = 16
DIGEST = pa.binary(DIGEST_BYTES)

_LENGTH = struct.Struct("<I")
_LONG = struct.Struct("<q")


def key_digests(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the digest of each row's key: a long for one column of at most 64 bits, else `DIGEST`.

    `columns` are the key's, in the key's order, without nulls, of types that compare exactly.
    """
    assert columns, "a key has columns"
    assert not any(column.null_count for column in columns), "a key has no nulls"
    if len(columns) == 1:
        [column] = columns
        if is_short(column.type):
            return longs(column)
        if is_wide(column.type):
            return wide(column)
    return _hashed(columns)


def is_hashed(digests: pa.Array) -> bool:
    """Return whether digests are of 128 bits: most are hashes of what is longer or of columns."""
    return bool(digests.type == DIGEST)


def words_of(digests: pa.Array) -> list[npt.NDArray[np.int64]]:
    """Return digests as numbers: one for each that is a long, two halves for others."""
    if pa.types.is_int64(digests.type):
        return [digests.to_numpy()]
    data = np.frombuffer(digests.buffers()[1], np.int64)
    pairs = data[2 * digests.offset :][: 2 * len(digests)].reshape(-1, 2)
    return [np.ascontiguousarray(pairs[:, half]) for half in range(2)]


def grouped(digests: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return an order in which equal digests are neighbours, and where each begins in it."""
    words = words_of(digests)
    order = np.argsort(words[0])
    begins = _begins([words[0][order]])
    if len(words) > 1 and len(begins) < len(_begins([word[order] for word in words])):
        order = np.lexsort(words[::-1])  # equal in the first half and not in the second
        begins = _begins([word[order] for word in words])
    return order, begins


def key_columns_of(
    rows: pa.RecordBatch, types: Mapping[str, pa.DataType]
) -> tuple[list[pa.Array], npt.NDArray[np.bool_]]:
    """Return the key columns of rows, brought to the types of the keys that they are compared with,
    and which rows have no null in them.
    """
    columns = [alike(rows.column(name), type_) for name, type_ in types.items()]
    whole = np.ones(rows.num_rows, np.bool_)
    for column in columns:
        if column.null_count:
            whole &= column.is_valid().to_numpy(zero_copy_only=False)
    return columns, whole


def alike(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return a column that is compared with keys of a type; one that was widened since stays."""
    if pa.types.is_integer(column.type) and pa.types.is_integer(type_):
        return column
    if pa.types.is_decimal(column.type) and column.type.scale == getattr(type_, "scale", None):
        return column
    return column.cast(type_)


def is_short(type_: pa.DataType) -> bool:
    """Return whether values of a type are numbers of at most 64 bits."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_date32(type_)
        or pa.types.is_time64(type_)
        or pa.types.is_timestamp(type_)
    )


def is_wide(type_: pa.DataType) -> bool:
    """Return whether values of a type have 128 bits."""
    return bool(pa.types.is_decimal128(type_) or type_ == DIGEST)


def longs(column: pa.Array) -> pa.Array:
    """Return short values as longs."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    elif pa.types.is_time64(column.type) or pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    return column.cast(pa.int64())


def wide(column: pa.Array) -> pa.Array:
    """Return values of 128 bits as they lie in memory."""
    data = column.buffers()[1].slice(column.offset * DIGEST_BYTES, len(column) * DIGEST_BYTES)
    return pa.Array.from_buffers(DIGEST, len(column), [None, data])


def _begins(ordered: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return where values differ from those before them."""
    differs = np.ones(len(ordered[0]), np.bool_)
    differs[1:] = np.logical_or.reduce([each[1:] != each[:-1] for each in ordered])
    return np.flatnonzero(differs)


def _hashed(columns: Sequence[pa.Array]) -> pa.Array:
    digests = np.empty(len(columns[0]), f"V{DIGEST_BYTES}")
    for place, key in enumerate(zip(*map(_encoded, columns), strict=True)):
        digest = hashlib.blake2b(b"".join(key), digest_size=DIGEST_BYTES).digest()
        digests[place] = np.void(digest)
    return pa.Array.from_buffers(DIGEST, len(digests), [None, pa.py_buffer(digests)])


def _encoded(column: pa.Array) -> Iterator[bytes]:
    """Yield each value in bytes, its length before it: the next column's can be told from it."""
    encode: Callable[[Any], bytes]
    if is_short(column.type):
        column, encode = longs(column), _LONG.pack
    elif pa.types.is_decimal128(column.type):
        column, encode = wide(column), bytes
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        encode = str.encode
    else:
        encode = bytes
    for value in column.to_pylist():
        data = encode(value)
        yield _LENGTH.pack(len(data)) + data
