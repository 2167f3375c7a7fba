"""Records are found by their form, and believed only when each leads to the next."""

from __future__ import annotations

import tracemalloc
from itertools import accumulate

import numpy as np
import pytest

from penstock.connectors.kafka.native import record_columns
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_columns import PAD, Records

NONE = b"\x01"


def varint(number: int) -> bytes:
    rest, out = number << 1, b""
    while rest > 127:
        out += bytes([rest & 127 | 128])
        rest >>= 7
    return out + bytes([rest])


def record(offset: int, value: bytes, key: bytes = NONE, time: int = 0, headers: bytes = b"\0"):
    body = b"\0" + varint(time) + varint(offset) + key + varint(len(value)) + value + headers
    return varint(len(body)) + body


def split(*parts: list[bytes]) -> Records:
    packed = [b"".join(part) for part in parts]
    data = np.frombuffer(b"".join([*packed, bytes(PAD)]), np.uint8)
    return Records(data, [*accumulate(map(len, packed))], [*map(len, parts)])


@pytest.fixture
def no_walk(monkeypatch) -> None:
    def refused(records: bytes, count: int) -> list[int]:
        raise AssertionError(f"{count} records in {len(records)} bytes were walked")

    for walk in ("_walk", "_walk_by_two_bytes"):
        monkeypatch.setattr(record_columns, walk, refused)


@pytest.mark.usefixtures("no_walk")
@pytest.mark.parametrize("size", [9, 20, 50, 300, 2000])
@pytest.mark.parametrize("key", [NONE, b"\x08abcd", b"\0"], ids=["no key", "key", "empty key"])
def test_plain_records_are_found_without_a_walk(size: int, key: bytes) -> None:
    values = [bytes([65 + at % 26]) * (size + at % 7) for at in range(300)]
    written = [record(at % 100, value, key, at // 50) for at, value in enumerate(values)]
    found = split(written[:100], written[100:200], written[200:])

    assert values == found.value().to_pylist()
    assert [*range(100)] * 3 == found.offset_delta.tolist()


@pytest.mark.usefixtures("no_walk")
def test_records_are_found_beyond_one_search_window(monkeypatch) -> None:
    values = [b"v" * (90 + at % 17) for at in range(200)]
    written = [record(at, value) for at, value in enumerate(values)]
    for scanned in (8, 64, 264):
        monkeypatch.setattr(record_columns, "SCANNED_BYTES", scanned)
        assert values == split(written).value().to_pylist()


@pytest.mark.usefixtures("no_walk")
def test_zeros_in_values_are_distinguished_from_records() -> None:
    values = [b"\0\xd0\x04\0 or \0\x20\0" + b"x" * at for at in range(80)]

    assert values == split([record(at, each) for at, each in enumerate(values)]).value().to_pylist()


def test_records_in_a_value_are_not_taken_for_those_that_the_first_byte_leads_to() -> None:
    """The first record is long, so that nothing leads from the first byte to the forged ones."""
    forged = [record(0, b"x"), record(0, b"forged"), record(1, b"forged")]
    long = b"v" * 8200 + b"\0" + b"".join(forged)[:-1]

    assert [b"real", long] == split([record(0, b"real"), record(1, long)]).value().to_pylist()


def test_a_value_full_of_bytes_that_resemble_records_takes_no_more_memory() -> None:
    values = [b"\0\x0c" * (1 << 23), *[b"v" * 20] * 2400]
    written = [record(at, value) for at, value in enumerate(values)]
    data_bytes = sum(map(len, written))
    tracemalloc.start()
    try:
        found = split(written).value()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert values == found.to_pylist()
    assert peak < 6 * data_bytes, f"{peak:,} bytes for {data_bytes:,}"


def test_a_value_that_holds_records_is_no_record() -> None:
    """Written into each other so that the inner ones lead to one another: the counts say."""
    inner = b"\0" + b"".join(record(at, b"forged" * 5) for at in range(10))
    written = [record(0, inner + b"." * 9), record(1, inner), record(2, b"last" * 9)]

    assert [inner + b"." * 9, inner, b"last" * 9] == split(written).value().to_pylist()


@pytest.mark.parametrize("size", [9, 99, 9000])
def test_records_with_headers_are_walked(size: int) -> None:
    written = [record(at, b"v" * size, headers=b"\x02\x02h\x02w") for at in range(50)]
    found = split(written[:20], written[20:])

    assert [[{"key": "h", "value": b"w"}]] * 50 == found.headers().to_pylist()


@pytest.mark.parametrize(("first", "second"), [(19, 21), (21, 19), (20, 19), (19, 20), (40, 1)])
def test_batches_hold_what_they_say(first: int, second: int) -> None:
    """As many in all is not enough: each batch has its own."""
    written = [record(at, b"v" * 99) for at in range(20)]
    packed = b"".join(written)
    data = np.frombuffer(packed + packed + bytes(PAD), np.uint8)
    with pytest.raises(FallbackError):
        Records(data, [len(packed), 2 * len(packed)], [first, second])
