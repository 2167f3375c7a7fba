"""Compressed values become plain ones, within the limit of a record's size.

Source: RFC 1952 (gzip); members may follow each other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.rows.arrow_arrays import bounds_of, counts_of, lengths_of, validity_of
from penstock.rows.decode.format_reader import or_none
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

    A value of one member has it in its last bytes, or is damaged; others are unpacked for it. The
    number of a value larger than allowed has no meaning, since it is rejected.
    """
    lengths = np.where(validity_of(values), lengths_of(values), 0)
    sizes = np.zeros(len(values), np.int64)
    complete = np.flatnonzero(lengths >= _SIZE_BYTES)
    if len(complete):
        ends = bounds_of(values)[1:][complete]
        data = np.frombuffer(values.buffers()[2], np.uint8)
        last = data[ends[:, None] + np.arange(-_SIZE_BYTES, 0)]
        sizes[complete] = last.view("<u4")[:, 0]
    unpack = partial(gunzip, bytes_max=bytes_max)
    for index in np.flatnonzero(counts_of(values, _MEMBER) > 1).tolist():
        sizes[index] = len(or_none(unpack, values[index].as_py() or b"") or b"")
    return sizes


def count_in_uncompressed(values: pa.BinaryArray, what: bytes, bytes_max: int) -> Sizes:
    """Count how often some bytes occur in each value once it is unpacked."""
    unpack = partial(gunzip, bytes_max=bytes_max)
    plain = (or_none(unpack, each or b"") or b"" for each in values.to_pylist())
    return np.array([each.count(what) for each in plain], np.int64)


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
