"""Compressed values become plain ones, within the limit of a record's size.

Source: RFC 1952 (gzip); members may follow each other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.rows.arrow_arrays import counts_of, lengths_of, validity_of
from penstock.rows.decode.json.block_parser import BLOCK_BYTES_MAX
from penstock.rows.reject_codes import RejectCode, RejectError

Sizes = npt.NDArray[np.int64]

_GZIP = 31
_MEMBER = b"\x1f\x8b\x08"
_SIZE_BYTES = 4
_MEMBERS_MAX = 1000


def gunzip_values(
    values: pa.BinaryArray, bytes_max: int, block_bytes: int = BLOCK_BYTES_MAX
) -> Iterator[tuple[pa.BinaryArray, dict[int, RejectError]]]:
    """Unpack non-null values, block by block in their order, each when it is asked for.

    A block has less than `block_bytes` before its last value. A reject, known by its position in
    the block, has an empty value in its place.
    """
    plain: list[bytes] = []
    errors: dict[int, RejectError] = {}
    unpacked = 0
    for value in values:
        try:
            plain.append(gunzip(value.as_py(), bytes_max))
        except RejectError as error:
            error.__cause__ = error.__context__ = None  # their frames hold what was unpacked
            errors[len(plain)] = error.with_traceback(None)
            plain.append(b"")
        unpacked += len(plain[-1])
        if unpacked >= block_bytes:
            yield pa.array(plain, pa.binary()), errors
            plain, errors, unpacked = [], {}, 0
    if plain:
        yield pa.array(plain, pa.binary()), errors


def uncompressed_sizes(values: pa.BinaryArray, bytes_max: int) -> Sizes:
    """Return how many bytes each value has once it is unpacked, 0 for one that cannot be.

    A value of one member tells it in its last bytes, or is damaged; others are unpacked for it. A
    larger value than allowed may give any number, for it becomes nothing.
    """
    lengths = np.where(validity_of(values), lengths_of(values), 0)
    sizes = np.zeros(len(values), np.int64)
    told = np.flatnonzero(lengths >= _SIZE_BYTES)
    if len(told):
        _, offsets, data = values.buffers()
        ends = np.frombuffer(offsets, np.int32, len(values), 4 * (values.offset + 1))[told]
        last = np.frombuffer(data, np.uint8)[ends[:, None] + np.arange(-_SIZE_BYTES, 0)]
        sizes[told] = last.view("<u4")[:, 0]
    for index in np.flatnonzero(counts_of(values, _MEMBER) > 1).tolist():
        sizes[index] = len(_gunzip_or_nothing(values[index].as_py() or b"", bytes_max))
    return sizes


def count_in_uncompressed(values: pa.BinaryArray, what: bytes, bytes_max: int) -> Sizes:
    """Count how often some bytes stand in each value once it is unpacked."""
    plain = (_gunzip_or_nothing(each or b"", bytes_max) for each in values.to_pylist())
    return np.array([each.count(what) for each in plain], np.int64)


def _gunzip_or_nothing(value: bytes, bytes_max: int) -> bytes:
    try:
        return gunzip(value, bytes_max)
    except RejectError:
        return b""


def gunzip(value: bytes, bytes_max: int) -> bytes:
    """Unpack one value of at most `bytes_max` bytes. Raises RejectError."""
    members: list[bytes] = []
    size = 0
    for _ in range(_MEMBERS_MAX):
        unpacker = zlib.decompressobj(_GZIP)
        try:
            members.append(unpacker.decompress(value, bytes_max + 1 - size))
        except zlib.error as error:
            raise RejectError(RejectCode.NOT_UNPACKED, "it is not gzip, or damaged") from error
        size += len(members[-1])
        if size > bytes_max:
            reason = f"unpacked, the value has more than {bytes_max} bytes"
            raise RejectError(RejectCode.TOO_LARGE, reason)
        if not unpacker.eof:
            raise RejectError(RejectCode.NOT_UNPACKED, "the gzip stream is cut off")
        if not unpacker.unused_data:
            return b"".join(members)
        value = unpacker.unused_data
    raise RejectError(RejectCode.NOT_UNPACKED, f"more than {_MEMBERS_MAX} gzip members")
