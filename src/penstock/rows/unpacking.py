"""Compressed values become plain ones, within the limit of a record's size.

Source: RFC 1952 (gzip); members may follow each other.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pyarrow as pa

from penstock.rows.block import BLOCK_BYTES_MAX
from penstock.rows.codes import Code, MisfitError

_GZIP = 31
_MEMBERS_MAX = 1000


def gunzipped(
    values: pa.BinaryArray, bytes_max: int, block_bytes: int = BLOCK_BYTES_MAX
) -> Iterator[tuple[pa.BinaryArray, dict[int, MisfitError]]]:
    """Unpack non-null values, block by block in their order, each when it is asked for.

    A block has less than `block_bytes` before its last value. A misfit, known by its position in
    the block, has an empty value in its place.
    """
    plain: list[bytes] = []
    misfits: dict[int, MisfitError] = {}
    unpacked = 0
    for value in values:
        try:
            plain.append(gunzip(value.as_py(), bytes_max))
        except MisfitError as misfit:
            misfits[len(plain)] = misfit
            plain.append(b"")
        unpacked += len(plain[-1])
        if unpacked >= block_bytes:
            yield pa.array(plain, pa.binary()), misfits
            plain, misfits, unpacked = [], {}, 0
    if plain:
        yield pa.array(plain, pa.binary()), misfits


def gunzip(value: bytes, bytes_max: int) -> bytes:
    """Unpack one value of at most `bytes_max` bytes. Raises MisfitError."""
    plain = b""
    for _ in range(_MEMBERS_MAX):
        unpacker = zlib.decompressobj(_GZIP)
        try:
            plain += unpacker.decompress(value, bytes_max + 1 - len(plain))
        except zlib.error as error:
            raise MisfitError(Code.NOT_UNPACKED, "it is not gzip, or damaged") from error
        if len(plain) > bytes_max:
            reason = f"unpacked, the value has more than {bytes_max} bytes"
            raise MisfitError(Code.TOO_LARGE, reason)
        if not unpacker.eof:
            raise MisfitError(Code.NOT_UNPACKED, "the gzip stream is cut off")
        if not unpacker.unused_data:
            return plain
        value = unpacker.unused_data
    raise MisfitError(Code.NOT_UNPACKED, f"more than {_MEMBERS_MAX} gzip members")
