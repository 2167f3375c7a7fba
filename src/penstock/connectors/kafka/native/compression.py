"""Records are compressed as brokers and both clients read it, by the codec's own library.

Invariants:
- a codec gives the same bytes for the same records;
- blocks of LZ4 are independent: brokers refuse linked ones, which pyarrow's own frames have.

Source: Kafka documentation, "Record Batch" (attributes); LZ4 Frame Format 1.6.1.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from penstock.connectors.kafka.native.record_batches import CODECS, PLAIN

NUMBERS = {"none": PLAIN, **{name: number for number, name in CODECS.items()}}
"""Kafka's number of each codec."""
BLOCK_BYTES = 256 << 10
_BLOCK_LENGTH = struct.Struct("<I")
_FRAME = bytes.fromhex("04224d18 60 50 fb")
"""The magic number; version 1 with independent blocks, no checksums; blocks of at most 256 KiB;
and the second byte of the xxHash32 of these two."""
_PLAIN = 1 << 31
_END = bytes(4)


def compressed(records: memoryview, codec: str) -> bytes:
    """Return records as a batch of a codec holds them."""
    if codec == "none":
        return bytes(records)
    if codec == "lz4":
        return _lz4(records)
    packed: bytes = pa.compress(records, codec, asbytes=True)
    return packed


def _lz4(records: memoryview) -> bytes:
    parts: list[bytes | memoryview] = [_FRAME]
    for begin in range(0, len(records), BLOCK_BYTES):
        block = records[begin : begin + BLOCK_BYTES]
        packed = pa.compress(block, "lz4_raw", asbytes=True)
        if len(packed) < len(block):
            parts += [_BLOCK_LENGTH.pack(len(packed)), packed]
        else:
            parts += [_BLOCK_LENGTH.pack(len(block) | _PLAIN), block]
    return b"".join([*parts, _END])
