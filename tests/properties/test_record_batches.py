"""Records of the wire, split by columns and read one by one: the same; and never outside them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.connectors.kafka.columns import times_of
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_columns import PAD, Records

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
DELTAS = st.one_of(st.integers(-200, 200), st.integers(0, 1 << 22), INT64)
SIZES = st.one_of(st.integers(0, 20), st.sampled_from([62, 63, 64, 127, 128, 8190, 8200, 70_000]))
TEXTS = st.one_of(st.none(), st.binary(max_size=12), SIZES.map(lambda size: b"\xff\x80" * size))
NAMES = st.one_of(st.text(max_size=5).map(str.encode), st.binary(max_size=3))


@dataclass(frozen=True)
class Written:
    """A record as its bytes say it."""

    time_delta: int
    offset_delta: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]

    def wire(self) -> bytes:
        parts = [
            b"\0",
            varint(self.time_delta),
            varint(self.offset_delta),
            sized(self.key),
            sized(self.value),
            varint(len(self.headers)),
            *[sized(each) for pair in self.headers for each in pair],
        ]
        record = b"".join(parts)
        return varint(len(record)) + record


RECORDS = st.builds(
    Written,
    DELTAS,
    st.integers(0, 1 << 20),
    TEXTS,
    TEXTS,
    st.lists(st.tuples(NAMES, TEXTS), max_size=3).map(tuple),
)


def varint(number: int) -> bytes:
    rest = (number << 1 ^ number >> 63) & (1 << 64) - 1
    out = b""
    while rest > 127:
        out += bytes([rest & 127 | 128])
        rest >>= 7
    return out + bytes([rest])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def split(*parts: list[Written]) -> Records:
    return records([b"".join(each.wire() for each in part) for part in parts], [*map(len, parts)])


def records(parts: list[bytes], counts: list[int]) -> Records:
    data = np.frombuffer(b"".join([*parts, bytes(PAD)]), np.uint8)
    return Records(data, [*accumulate(map(len, parts))], counts)


def readable(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


@settings(max_examples=150)
@given(st.lists(st.lists(RECORDS, min_size=1, max_size=8), min_size=1, max_size=4))
def test_columns_hold_what_was_written(parts: list[list[Written]]) -> None:
    found, written = split(*parts), [each for part in parts for each in part]

    assert [each.time_delta for each in written] == found.time_delta.tolist()
    assert [each.offset_delta for each in written] == found.offset_delta.tolist()
    assert [each.key for each in written] == found.key().to_pylist()
    assert [each.value for each in written] == found.value().to_pylist()
    headers = found.headers()
    headers.validate(full=True)
    expected = [
        [{"key": name.decode(), "value": value} for name, value in each.headers]
        if all(readable(name) for name, _ in each.headers)
        else None
        for each in written
    ]
    assert expected == headers.to_pylist()
    for column in (found.key(), found.value()):
        column.validate(full=True)


@settings(max_examples=150)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.data())
def test_bytes_that_were_changed_are_refused_or_read_within_their_records(
    written: list[Written], data: st.DataObject
) -> None:
    """Whatever bytes say: a FallbackError, or columns made of these bytes and nothing else."""
    changed = bytearray(b"".join(each.wire() for each in written))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.integers(0, 255))
    read_or_refused(bytes(changed), len(written) + data.draw(st.integers(-1, 1)))


@settings(max_examples=100)
@given(st.binary(max_size=60), st.integers(1, 4))
def test_any_bytes_are_refused_or_read(data: bytes, count: int) -> None:
    read_or_refused(data, count)


def read_or_refused(data: bytes, count: int) -> None:
    assume(count > 0)
    try:
        found = records([data], [count])
        columns = [found.key(), found.value(), found.headers()]
    except FallbackError:
        return
    for column in columns:
        column.validate(full=True)
        assert count == len(column)
    for value in columns[1].drop_null().to_pylist():
        assert value in data


@given(st.lists(st.tuples(INT64, DELTAS), min_size=1, max_size=20))
def test_times_are_sums_and_minus_one_is_none(pairs: list[tuple[int, int]]) -> None:
    firsts, deltas = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
    sums = [struct.unpack("q", struct.pack("Q", (a + b) & (1 << 64) - 1))[0] for a, b in pairs]

    assert [None if each == -1 else each for each in sums] == (
        times_of(firsts + deltas).cast(pa.int64()).to_pylist()
    )
