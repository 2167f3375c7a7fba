"""Rows become record batches: cut by bytes, in order, and equal to what a client library writes."""

import itertools
import random  # noqa: TID251  from a seed

import numpy as np
import pyarrow as pa
import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

from penstock.connectors.kafka.columns import HEADERS, WITH_HEADERS
from penstock.connectors.kafka.native import compression, record_batch_writer
from penstock.connectors.kafka.native.compression import NUMBERS, compressed
from penstock.connectors.kafka.native.partitioner import partitions_of
from penstock.connectors.kafka.native.record_batch_writer import KafkaPacker, finished
from penstock.connectors.kafka.native.record_batches import headers_of
from penstock.ports.producers import Term

TERM = Term(70_000_000_000, 17)
START_MS = 1_700_000_000_000


def rows_of(rows):
    """Return rows of time, key, value and headers in columns."""
    stamps = pa.array([row[0] for row in rows], pa.int64()).cast(WITH_HEADERS.field(1).type)
    keys, values = (pa.array([row[n] for row in rows], pa.binary()) for n in (1, 2))
    headers = [[{"key": name, "value": value} for name, value in row[3]] for row in rows]
    columns = [stamps, keys, values, pa.array(headers, HEADERS)]
    return pa.RecordBatch.from_arrays(columns, schema=WITH_HEADERS.remove(0))


def packed(rows, places=None, *, codec="none", batch_bytes_max=1_000_000):
    places = pa.array(places or [0] * len(rows), pa.int32())
    return KafkaPacker(codec=codec, batch_bytes_max=batch_bytes_max).pack(rows_of(rows), places)


def by_a_client(rows, sequence):
    """Return the batch that kafka-python writes, record by record; brokers set the epoch."""
    builder = MemoryRecordsBuilder(2, 0, 1 << 30)
    builder.set_producer_state(TERM.producer_id, TERM.epoch, sequence, True)
    for time_ms, key, value, headers in rows:
        assert builder.append(time_ms, key, value, headers) is not None
    builder.close()
    written = bytes(builder.buffer())
    return written[:12] + b"\xff" * 4 + written[16:]


def random_rows(seed, count):
    chance = random.Random(seed)
    sizes = [0, 1, 62, 63, 64, 127, 128, 300, 8_190, 8_192, 20_000]

    def text():
        size = chance.choice(sizes)
        return None if chance.random() < 0.2 else chance.randbytes(size)

    return [
        (
            START_MS + chance.choice([0, n, -n, 100_000 * n]),
            text(),
            text(),
            [("é" * chance.randrange(3), text()) for _ in range(chance.choice([0, 0, 0, 1, 2]))],
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_is_byte_for_byte_what_a_client_library_writes(seed):
    rows = random_rows(seed, 200)
    (batch,) = packed(rows, batch_bytes_max=1 << 30)[0]

    assert by_a_client(rows, 5) == finished(batch, TERM, 5)[0]


def test_lengths_and_offsets_of_every_width_are_those_of_a_client_library():
    rows = [(START_MS + (n << 40), b"k" * (n % 70), b"v", []) for n in range(8_200)]
    (batch,) = packed(rows, batch_bytes_max=1 << 30)[0]

    assert by_a_client(rows, 0) == finished(batch, TERM, 0)[0]


def test_a_column_of_nulls_has_no_bytes():
    rows = [(START_MS, None, None, [])] * 3
    (batch,) = packed(rows)[0]

    assert by_a_client(rows, 0) == finished(batch, TERM, 0)[0]


def test_columns_may_be_slices_and_headers_may_be_missing():
    rows = rows_of([(START_MS + n, b"%d" % n, b"v%d" % n, [("h", b"x")]) for n in range(9)])
    places = pa.array([0] * 9, pa.int32())
    packer = KafkaPacker(codec="none")
    middle = packer.pack(rows.slice(3, 4), places.slice(3, 4))
    bare = packer.pack(rows.slice(3, 4).drop_columns("headers"), places.slice(3, 4))
    expected = [(START_MS + n, b"%d" % n, b"v%d" % n, [("h", b"x")]) for n in range(3, 7)]

    assert by_a_client(expected, 0) == finished(middle[0][0], TERM, 0)[0]
    expected = [(*row[:3], []) for row in expected]
    assert by_a_client(expected, 0) == finished(bare[0][0], TERM, 0)[0]


def test_rows_of_a_partition_keep_their_order_and_batches_their_bounds():
    rows = [(START_MS + n, b"k%d" % (n % 7), b"x" * (n % 50), []) for n in range(1_000)]
    keys = pa.array([row[1] for row in rows], pa.binary())
    places = partitions_of(keys, 3).to_pylist()
    found = packed(rows, places, batch_bytes_max=700)

    assert set(places) == set(found)
    for number, batches in found.items():
        own = [row for row, at in zip(rows, places, strict=True) if at == number]
        cuts = [0, *itertools.accumulate(each.count for each in batches)]
        assert len(own) == cuts[-1]
        for (begin, stop), batch in zip(itertools.pairwise(cuts), batches, strict=True):
            assert by_a_client(own[begin:stop], begin) == finished(batch, TERM, begin)[0]
            assert len(batch.records) <= 700
            assert (own[begin][0], own[stop - 1][0]) == (batch.first_ms, batch.last_ms)
        assert 600 < len(batches[0].records)


def test_a_record_above_the_limit_is_alone():
    rows = [(START_MS, b"", b"x" * size, []) for size in (10, 10, 5_000, 4_000, 10)]

    assert [2, 1, 1, 1] == [each.count for each in packed(rows, batch_bytes_max=1_000)[0]]


def test_rows_of_many_bytes_are_packed_in_pieces(monkeypatch):
    rows = [(START_MS + n, None, b"v%d" % n, []) for n in range(100)]
    monkeypatch.setattr(record_batch_writer, "PACKED_AT_ONCE_BYTES", 900)
    batches = packed(rows)[0]

    assert 1 < len(batches)
    begin = 0
    for each in batches:
        own = rows[begin : begin + each.count]
        assert by_a_client(own, begin) == finished(each, TERM, begin)[0]
        begin += each.count
    assert 100 == begin


def test_no_rows_make_no_batch():
    assert {} == packed([])


def test_the_whole_range_of_times_is_written():
    rows = [(each, b"k", b"v", []) for each in (0, (1 << 62) - 1, -(1 << 62), 1 << 40)]
    (batch,) = packed(rows)[0]

    assert (0, (1 << 62) - 1) == (batch.first_ms, batch.last_ms)
    assert by_a_client(rows, 0) == finished(batch, TERM, 0)[0]


@pytest.mark.parametrize("codec", NUMBERS)
@pytest.mark.parametrize("size", [0, 10, 300_000, 700_000])
def test_what_is_compressed_is_read_again(codec, size):
    noise = np.random.default_rng(1).integers(0, 256, size, np.uint8).tobytes()
    rows = [(START_MS, b"k", b"text " * (size // 5), []), (START_MS, b"k", noise, [])]
    (batch,) = packed(rows, codec=codec, batch_bytes_max=1 << 30)[0]
    written, _ = finished(batch, TERM, 0)
    (header,) = headers_of(written)
    (plain,) = packed(rows, batch_bytes_max=1 << 30)[0]

    assert plain.records == header.unpacked(written)
    assert len(batch.records) <= len(plain.records) + 100


def test_blocks_of_lz4_are_independent():
    """Each is read by itself, as brokers read them; a frame of pyarrow's is not."""
    text = b"the same words again and again " * 40_000
    frame = compressed(memoryview(text), "lz4")
    at, blocks = 7, []
    while size := int.from_bytes(frame[at : at + 4], "little"):
        blocks.append(frame[at + 4 : at + 4 + size])
        at += 4 + size
    sizes = [compression.BLOCK_BYTES] * (len(blocks) - 1)
    sizes.append(len(text) - sum(sizes))
    lz4 = pa.Codec("lz4_raw")

    assert 1 < len(blocks)
    assert text == b"".join(
        lz4.decompress(block, size, asbytes=True) for block, size in zip(blocks, sizes, strict=True)
    )
    assert text == pa.decompress(frame, len(text), "lz4", asbytes=True)
