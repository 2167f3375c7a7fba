"""Whatever messages are, they are read back as they were: by kafka-python, and by our own reader."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from penstock.connectors.kafka.native.batch_builder import GatheredBatches
from penstock.connectors.kafka.native.record_batch_writer import LZ4_BLOCK_BYTES, pack
from penstock.connectors.kafka.native.record_batches import headers_of
from penstock.core.offsets import span
from penstock.ports.sources import MESSAGES

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SIZES = st.sampled_from([0, 1, 63, 64, 65, 127, 128, 8191, 8192, 8193])
BYTES = st.none() | st.binary(max_size=20) | SIZES.map(lambda size: b"x" * size)
TIMES = st.sampled_from([-1, 0, 1, 1_700_000_000_000, 253_402_300_799_999])
NAMES = st.text(st.characters(codec="utf-8"), max_size=5) | st.just("n" * 200)
HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": NAMES, "value": BYTES}), max_size=3)
ROWS = st.lists(
    st.fixed_dictionaries({"key": BYTES, "value": BYTES, "timestamp": TIMES, "headers": HEADERS}),
    max_size=30,
)


def sent(rows, codec, bytes_max):
    """Return the batches of rows as a producer sends them, and their numbers of records."""
    messages = pa.RecordBatch.from_pylist([*rows[:1], *rows], MESSAGES).slice(len(rows[:1]))
    batches, sequence = [], 0
    for packed in pack(messages, codec=codec, bytes_max=bytes_max):
        batches.append(packed.headed(7, 3, sequence)[0])
        sequence += packed.count
    return batches


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, codec=st.sampled_from(["none", "gzip"]), bytes_max=st.integers(50, 40_000))
def test_kafka_python_reads_what_was_written(rows, codec, bytes_max):
    read = []
    for batch in sent(rows, codec, bytes_max):
        found = MemoryRecords(batch).next_batch()
        assert found.validate_crc()
        assert (7, 3, len(read)) == (found.producer_id, found.producer_epoch, found.base_sequence)
        assert found.is_transactional
        read += [[each.key, each.value, each.timestamp, [*each.headers]] for each in found]

    wanted = [
        [
            row["key"],
            row["value"],
            row["timestamp"],
            [(each["key"], each["value"]) for each in row["headers"] or ()],
        ]
        for row in rows
    ]
    assert wanted == read


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, codec=st.sampled_from(CODECS), bytes_max=st.integers(50, 40_000))
def test_our_own_reader_reads_what_was_written(rows, codec, bytes_max):
    read = []
    for batch in sent(rows, codec, bytes_max):
        gathered = GatheredBatches(headers=True)
        (found,) = headers_of(batch)
        assert gathered.add(found, batch)
        for each in gathered.taken(span(0, found.count), None, epoch=None):
            read += each.batch.select(["key", "value", "timestamp", "headers"]).to_pylist()

    wanted = [{**row, "headers": row["headers"] or []} for row in rows]
    times = [None if row["timestamp"] < 0 else row["timestamp"] for row in wanted]
    assert times == [
        row["timestamp"] and round(row["timestamp"].timestamp() * 1000) for row in read
    ]
    assert [{**row, "timestamp": 0} for row in wanted] == [{**row, "timestamp": 0} for row in read]


@pytest.mark.parametrize("codec", CODECS)
def test_a_message_above_the_limit_is_a_batch_of_its_own(codec):
    rows = [{"value": b"small"}, {"value": bytes(range(256)) * 20_000}, {"value": b"small"}]
    counts = [next(headers_of(each)).count for each in sent(rows, codec, 900_000)]

    assert LZ4_BLOCK_BYTES < len(rows[1]["value"])
    assert [1, 1, 1] == counts
