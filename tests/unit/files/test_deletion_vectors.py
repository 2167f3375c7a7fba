"""Positions of deleted rows as bytes: compared with sets, and with vectors written by hand."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from penstock.files.deletion_vectors import decoded, encoded

BLOCK = 1 << 16
HEADER = struct.Struct("<iq")


def drawn(seed, below, count):
    return np.random.default_rng(seed).choice(below, count, replace=False).tolist()


arrays = st.sets(st.integers(0, BLOCK - 1), max_size=60)
bitsets = st.integers(0, 99).map(lambda seed: {*drawn(seed, BLOCK, 30_000)})
runs = st.tuples(st.integers(0, BLOCK - 1), st.integers(1, BLOCK)).map(
    lambda run: {*range(run[0], min(sum(run), BLOCK))}
)
containers = st.one_of(arrays, bitsets, runs)
places = st.sampled_from([0, 1, 7, 65_535, 65_536, 65_537, 3 << 16, (5 << 16) + 3])


def rows(positions):
    return np.array(sorted(positions), np.int64)


@given(st.dictionaries(places, containers, max_size=4))
def test_positions_come_back_from_every_kind_of_container(blocks):
    held = {(block << 16) + low for block, lows in blocks.items() for low in lows}
    data = encoded(rows(held))

    assert held == set(decoded(data).tolist())
    assert sorted(held) == decoded(data).tolist()
    assert held == set(BitMap64.deserialize(data[4:]))


@given(st.sets(st.integers(0, (1 << 63) - 1), max_size=12))
def test_positions_of_all_64_bits_come_back(positions):
    assert sorted(positions) == decoded(encoded(rows(positions))).tolist()


@pytest.mark.parametrize(
    ("positions", "runs_before"),
    [([3, 9, 70_000], 0), (range(0, 60_000, 2), 0), (range(5, 65_000), 1), ([], 0)],
)
def test_a_vector_is_magic_count_and_portable_bitmaps(positions, runs_before):
    data = encoded(rows(positions))
    bitmap = BitMap(positions)
    bitmap.run_optimize()
    count = 1 if positions else 0
    expected = HEADER.pack(1681511377, count)
    if positions:
        expected += struct.pack("<I", 0) + bitmap.serialize()

    assert expected == data
    assert runs_before == (BitMap.get_statistics(bitmap)["n_run_containers"])


def test_bitmaps_without_run_containers_are_read_as_well():
    plain = HEADER.pack(1681511377, 2)
    plain += struct.pack("<I", 0) + BitMap(range(100_000)).serialize()
    plain += struct.pack("<I", 2) + BitMap([1]).serialize()

    assert [*range(100_000), (2 << 32) + 1] == decoded(plain).tolist()


def test_what_is_no_vector_is_refused():
    whole = encoded(rows([1, 5, 1 << 40, *range(100_000, 300_000)]))
    twice = HEADER.pack(1681511377, 2) + 2 * (struct.pack("<I", 0) + BitMap([1]).serialize())
    native = struct.pack("<i", 1681511376) + whole[4:]
    for damaged in (whole + b"\0", native, twice, b"", whole[:7]):
        with pytest.raises(ValueError, match=r"vector"):
            decoded(damaged)
    for length in range(len(whole) - 1, 12, -7):
        with pytest.raises(ValueError):  # noqa: PT011 - what is said depends on where it was cut
            decoded(whole[:length])


@given(st.integers(0, 1 << 30), st.integers(0, 3_000), st.binary(min_size=1, max_size=4))
def test_damage_is_refused_or_gives_positions_in_order(seed, at, damage):
    whole = encoded(rows(drawn(seed, 1 << 20, 500)))
    data = bytearray(whole)
    place = at % len(whole)
    data[place : place + len(damage)] = damage
    try:
        found = decoded(bytes(data))
    except ValueError:
        return
    assert (np.diff(found) > 0).all()
    assert found.size == 0 or found[0] >= 0
