"""Batches of the wire become batches of the port, bounded whatever a producer sent."""

from __future__ import annotations

import gzip
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from penstock.connectors.kafka.columns import BATCH_RECORDS, PLAIN
from penstock.connectors.kafka.native.batch_builder import GatheredBatches
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_batches import HEADER, RecordBatch
from penstock.core.offsets import Offset, span
from penstock.ports.log import Fetched


def varint(number: int) -> bytes:
    rest, out = (number << 1) ^ (number >> 63), b""
    while rest > 127:
        out += bytes([rest & 127 | 128])
        rest >>= 7
    return out + bytes([rest])


def records(*deltas: int) -> bytes:
    out = b""
    for delta in deltas:
        record = b"\0\0" + varint(delta) + b"\x01" + b"\x02v" + b"\0"
        out += varint(len(record)) + record
    return out


def batch(base: int, last: int, count: int, epoch: int = 1) -> RecordBatch:
    return RecordBatch(base, last, epoch, 0, 5, 5, -1, count, 0, 0)


def add(gathered: GatheredBatches, header: RecordBatch, packed: bytes) -> None:
    fetched = bytes(HEADER.size) + packed
    assert gathered.add(replace(header, stop=len(fetched)), fetched)


def packed(base: int, last: int, plain: bytes, count: int) -> tuple[RecordBatch, bytes]:
    """Return a batch that is packed by gzip, with the bytes of an answer that holds it."""
    fetched = bytes(HEADER.size) + gzip.compress(plain)
    header = replace(batch(base, last, count), attributes=1, stop=len(fetched))
    return header, fetched


def test_a_huge_batch_is_given_out_in_bounded_ones() -> None:
    gathered, count = GatheredBatches(), 2 * BATCH_RECORDS + 7
    add(gathered, batch(100, 99 + count, count), records(*range(count)))
    add(gathered, batch(100 + count, 100 + count, 0, epoch=2), b"")
    covered = span(103, 100 + count)
    given = list(gathered.taken(covered, covered.stop, epoch=9))

    assert [BATCH_RECORDS, BATCH_RECORDS, 4] == [len(each.batch) for each in given]
    assert [103 + BATCH_RECORDS, 103 + 2 * BATCH_RECORDS, 100 + count] == [e.reached for e in given]
    assert list(range(103, 100 + count)) == [
        offset for each in given for offset in each.batch["offset"].to_pylist()
    ]


def test_the_position_moves_without_records() -> None:
    gathered = GatheredBatches()
    add(gathered, batch(5, 9, 0), b"")
    (given,) = gathered.taken(span(5, 20), Offset(10), epoch=9)

    assert (0, 10, 9) == (len(given.batch), given.reached, given.leader_epoch)
    assert PLAIN == given.batch.schema


def test_records_outside_of_the_range_are_left_out() -> None:
    gathered = GatheredBatches()
    add(gathered, batch(0, 9, 3, epoch=1), records(0, 4, 9))
    add(gathered, batch(10, 12, 2, epoch=2), records(0, 2))
    (given,) = gathered.taken(span(4, 10), Offset(10), epoch=9)

    assert [4, 9] == given.batch["offset"].to_pylist()


def test_a_batch_that_says_it_is_empty_and_is_not_is_refused() -> None:
    with pytest.raises(FallbackError, match="fill"):
        add(GatheredBatches(), batch(0, 9, 0), records(0))


def test_epochs_are_those_of_the_log_before_the_position() -> None:
    gathered, half = GatheredBatches(), BATCH_RECORDS // 2
    add(gathered, batch(0, half - 1, half, epoch=1), records(*range(half)))
    add(gathered, batch(half, 3 * half - 1, 2 * half, epoch=4), records(*range(2 * half)))
    covered = span(0, 3 * half)
    given = list(gathered.taken(covered, covered.stop, epoch=9))

    assert [(2 * half, 4), (3 * half, 9)] == [(each.reached, each.leader_epoch) for each in given]


def test_a_batch_ends_after_its_last_record_not_before_the_next() -> None:
    gathered = GatheredBatches()
    add(
        gathered,
        batch(0, BATCH_RECORDS - 1, BATCH_RECORDS, epoch=1),
        records(*range(BATCH_RECORDS)),
    )
    add(gathered, batch(BATCH_RECORDS + 5, BATCH_RECORDS + 5, 1, epoch=4), records(0))
    covered = span(0, BATCH_RECORDS + 6)
    given = list(gathered.taken(covered, covered.stop, epoch=4))

    reached = [(each.reached, each.leader_epoch) for each in given]
    assert [(BATCH_RECORDS, 1), (BATCH_RECORDS + 6, 4)] == reached


@pytest.mark.parametrize("deltas", [(3, 3), (4, 2), (0, 6), (-1, 2)])
def test_offsets_that_do_not_ascend_within_their_batch_are_refused(deltas: tuple[int, int]) -> None:
    gathered = GatheredBatches()
    add(gathered, batch(0, 5, 2), records(*deltas))
    with pytest.raises(FallbackError, match="ascend"):
        list(gathered.taken(span(0, 10), Offset(6), epoch=9))


HELD = 50
"""So many bytes are six or seven of the records here."""


def test_a_batch_that_unpacks_to_more_than_is_held_is_given_in_pieces() -> None:
    gathered = GatheredBatches(HELD)
    add(gathered, batch(0, 9, 2), records(3, 9))
    long, fetched = packed(10, 49, records(*range(40)), 40)
    assert not gathered.add(long, fetched)

    given = list(gathered.unrolled(long, fetched, span(9, 45), 7))

    assert [9, *range(10, 45)] == [o for each in given for o in each.batch["offset"].to_pylist()]
    assert [(10, 7), 1, 45] == [
        (given[0].reached, given[0].leader_epoch),
        given[1].leader_epoch,
        given[-1].reached,
    ]
    assert max(len(each.batch) for each in given) <= 7


def test_a_record_longer_than_a_piece_is_given_whole() -> None:
    value = b"v" * 300
    record = b"\0\0\0\x01" + varint(300) + value + b"\0"
    long, fetched = packed(5, 5, varint(len(record)) + record, 1)
    gathered = GatheredBatches(HELD)
    assert not gathered.add(long, fetched)

    (given,) = gathered.unrolled(long, fetched, span(0, 9), None)

    assert ([value], 6) == (given.batch["value"].to_pylist(), given.reached)


@pytest.mark.parametrize(
    ("plain", "count"),
    [
        (records(*range(40))[:-3], 40),
        (records(*range(40)), 39),
        (records(*range(40)), 41),
        (records(*range(20), *range(20)), 40),
        (records(*range(40)) + b"\x0c" * 80, 40),
    ],
    ids=["cut off", "too few", "too many", "not ascending", "more after"],
)
def test_a_long_batch_with_a_wrong_header_gives_only_whole_records(
    plain: bytes, count: int
) -> None:
    long, fetched = packed(0, 39, plain, count)
    gathered = GatheredBatches(HELD)
    assert not gathered.add(long, fetched)
    given: list[Fetched] = []
    with pytest.raises(FallbackError):  # librdkafka goes on after what was given
        given.extend(gathered.unrolled(long, fetched, span(0, 99), None))

    offsets = [offset for each in given for offset in each.batch["offset"].to_pylist()]
    assert [*range(len(offsets))] == offsets


@drawn(st.lists(st.integers(0, 90), min_size=1, max_size=12), st.integers(0, 60))
def test_pieces_hold_what_the_whole_batch_holds(gaps: list[int], held: int) -> None:
    deltas = [sum(gaps[: n + 1]) + n for n in range(len(gaps))]
    long, fetched = packed(0, deltas[-1], records(*deltas), len(deltas))
    pieces = list(long.pieces(fetched, held))

    assert records(*deltas) == b"".join(plain for _, plain in pieces)
    assert len(deltas) == sum(piece.count for piece, _ in pieces)
    assert all(len(first) and len(second) for (_, first), (_, second) in pairwise(pieces))
