"""Partitions by key: as another implementation computes them, and as Java's own tests have them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from penstock.connectors.kafka.native.partitioner import COLUMN_KEY_BYTES_MAX, partitions_of

MANY = 0x7FFFFFFF
KEYS = st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=250, max_size=270))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_are_those_of_the_tests_of_kafka_clients(key: bytes, expected: int) -> None:
    assert [(expected & MANY) % MANY] == partitions_of(pa.array([key]), MANY).to_pylist()


@given(KEYS, st.integers(1, 1000), st.integers(0, 3))
def test_each_key_has_the_partition_that_another_implementation_computes(
    keys: list[bytes | None], count: int, skipped: int
) -> None:
    column = pa.array(keys, pa.binary()).slice(skipped)

    expected = [None if key is None else (murmur2(key) & MANY) % count for key in keys[skipped:]]
    assert expected == partitions_of(column, count).to_pylist()


def test_keys_around_the_longest_that_is_hashed_in_columns() -> None:
    sizes = range(COLUMN_KEY_BYTES_MAX - 5, COLUMN_KEY_BYTES_MAX + 6)
    keys = [bytes((n * size) % 256 for n in range(size)) for size in sizes]

    expected = [(murmur2(key) & MANY) % 97 for key in keys]
    assert expected == partitions_of(pa.array(keys), 97).to_pylist()
