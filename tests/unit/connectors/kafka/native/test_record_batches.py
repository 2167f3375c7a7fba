"""Batches of the wire: found, checked, unpacked, and sorted by their transactions."""

from __future__ import annotations

import gzip
import struct
from dataclasses import replace

import pyarrow as pa
import pytest
from crc32c import crc32c

from penstock.connectors.kafka.native import record_batches
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_batches import (
    HEADER,
    RecordBatch,
    committed,
    headers_of,
)

RECORDS = b"the records of a batch, as they are; " * 40
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = 0, 1


def batch(
    base: int = 0,
    *,
    count: int = 1,
    packed: bytes = RECORDS,
    attributes: int = 0,
    producer: int = -1,
) -> bytes:
    fields = struct.pack(">hiqqqhii", attributes, max(count - 1, 0), 1, 2, producer, 0, 0, count)
    body = fields + packed
    return struct.pack(">qiibI", base, len(body) + 9, 7, 2, crc32c(body)) + body


def marker(base: int, producer: int, kind: int) -> bytes:
    key = struct.pack(">hh", 0, kind)
    record = b"\0\0\0" + b"\x08" + key + b"\x0c" + bytes(6) + b"\0"
    packed = bytes([len(record) << 1]) + record
    return batch(base, packed=packed, attributes=TRANSACTIONAL | CONTROL, producer=producer)


def only(fetched: bytes) -> RecordBatch:
    (found,) = headers_of(fetched)
    return found


def test_a_header_is_read_field_by_field() -> None:
    found = only(batch(70, count=3, attributes=TRANSACTIONAL, producer=9))

    assert (70, 72, 7, 9, 3) == (found.base, found.last, found.epoch, found.producer, found.count)
    assert (1, 2, TRANSACTIONAL) == (found.first_ms, found.last_ms, found.attributes)


def test_a_batch_that_was_cut_off_is_left_out() -> None:
    whole, cut = batch(0), batch(1)

    for missing in (1, 100, len(cut) - 1):
        assert [0] == [each.base for each in headers_of(whole + cut[:-missing])]


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_another_message_format_is_refused_by_name(magic: int) -> None:
    fetched = bytearray(batch())
    fetched[16] = magic
    with pytest.raises(FallbackError, match=f"message format v{magic}"):
        only(bytes(fetched))


def framed(data: bytes) -> bytes:
    """As Java's snappy library writes it, in two blocks."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for block in (data[:700], data[700:]):
        packed = pa.Codec("snappy").compress(block, asbytes=True)
        out += struct.pack(">i", len(packed)) + packed
    return out


def streamed(codec: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (0, RECORDS),
        (1, gzip.compress(RECORDS)),
        (2, pa.Codec("snappy").compress(RECORDS, asbytes=True)),
        (2, framed(RECORDS)),
        (3, streamed("lz4", RECORDS)),
        (4, streamed("zstd", RECORDS)),
    ],
    ids=["none", "gzip", "snappy", "snappy of Java", "lz4", "zstd"],
)
def test_every_codec_is_unpacked_and_what_is_damaged_refused(codec: int, packed: bytes) -> None:
    fetched = batch(packed=packed, attributes=codec)
    assert RECORDS == only(fetched).unpacked(fetched)

    for at in (HEADER.size, len(fetched) // 2, len(fetched) - 1):
        damaged = bytearray(fetched)
        damaged[at] ^= 1
        with pytest.raises(FallbackError, match="checksum"):
            only(bytes(damaged))
    if codec:
        cut = batch(packed=packed[:-30], attributes=codec)
        with pytest.raises(FallbackError):
            only(cut).unpacked(cut)


def test_nothing_of_a_batch_is_believed_before_its_checksum() -> None:
    """A bit that makes a batch a marker, or moves its last offset, is no reason to pass it."""
    first, middle = batch(0, count=2), bytearray(batch(2, count=2))
    for at, bit in ((22, CONTROL), (22, TRANSACTIONAL), (23, 0x80), (26, 4), (50, 1)):
        damaged = middle.copy()
        damaged[at] ^= bit
        with pytest.raises(FallbackError, match="checksum"):
            list(headers_of(first + bytes(damaged) + batch(4)))


def test_batches_lie_after_each_other() -> None:
    with pytest.raises(FallbackError, match="does not follow"):
        list(headers_of(batch(0, count=10) + batch(5, count=10)))


def test_what_unpacks_beyond_the_bound_is_left_to_librdkafka(monkeypatch) -> None:
    monkeypatch.setattr(record_batches, "UNPACKED_BYTES_MAX", 1 << 20)
    for codec, packed in ((4, streamed("zstd", bytes(32 << 20))), (2, framed(bytes(2 << 20)))):
        fetched = batch(packed=packed, attributes=codec)
        with pytest.raises(FallbackError, match=r"more than|snappy block"):
            only(fetched).unpacked(fetched)


def test_an_unknown_codec_is_refused() -> None:
    fetched = batch(attributes=5)
    with pytest.raises(FallbackError, match="unknown codec 5"):
        only(fetched).unpacked(fetched)


def bases(fetched: bytes, *aborted: tuple[int, int]) -> list[int]:
    return [each.base for each in committed(fetched, list(headers_of(fetched)), aborted)]


def test_aborted_records_end_with_their_marker() -> None:
    own = {"attributes": TRANSACTIONAL, "producer": 5}
    other = {"attributes": TRANSACTIONAL, "producer": 6}
    fetched = b"".join(
        [
            batch(0),
            batch(1, **own),
            batch(2, **other),
            batch(3, producer=5),
            marker(4, 5, ABORT),
            batch(5, **own),
            marker(6, 5, COMMIT),
            batch(7, **own),
            marker(8, 5, ABORT),
            marker(9, 6, COMMIT),
        ]
    )

    assert [0, 2, 3, 5] == bases(fetched, (5, 7), (5, 1))
    assert [0, 1, 2, 3, 5, 7] == bases(fetched)


def test_a_marker_of_another_producer_or_a_commit_ends_no_abort() -> None:
    own = {"attributes": TRANSACTIONAL, "producer": 5}
    fetched = b"".join(
        [batch(1, **own), marker(2, 6, ABORT), marker(3, 5, COMMIT), batch(4, **own)]
    )

    assert [] == bases(fetched, (5, 0))


def test_a_marker_that_compaction_emptied_ends_nothing() -> None:
    own = {"attributes": TRANSACTIONAL, "producer": 5}
    empty = batch(2, count=0, packed=b"", attributes=TRANSACTIONAL | CONTROL, producer=5)
    fetched = batch(1, **own) + empty + batch(3, **own)

    assert [] == bases(fetched, (5, 1))
    assert 2 == replace(list(headers_of(fetched))[1], count=0).base
