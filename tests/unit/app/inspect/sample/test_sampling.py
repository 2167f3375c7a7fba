"""What a sample of a backlog holds, and what is estimated from it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from tests.story.clock import ManualClock
from tests.story.foreign_acts import PlayedCluster

from penstock.app.inspect.sample import sampling
from penstock.app.inspect.sample.backlog import Backlog, Piece, would_trip
from penstock.app.inspect.sample.sampling import Sample, sampled
from penstock.connectors.memory.cluster import Message
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.core.accounting import Tally
from penstock.core.offsets import Offset, TopicPartition, span
from penstock.testing.prepared import part

TABLE = "lake.bronze.orders"


def sample_of(cluster: PlayedCluster, *topics: str) -> Sample:
    """Sample topics from their beginning, for a table of each one's name; one epoch holds all."""
    log, clock = MemoryLog(cluster, {"topics": topics}), ManualClock()
    listing = log.partitions()
    ends = {at: found.stop for at, found in log.bounds(listing).items()}
    positions: dict[str, dict[TopicPartition, Offset]] = {}
    for at in listing:
        positions.setdefault(at.topic, {})[at] = Offset(0)
    return sampled(Backlog(positions, ends), {}, MemoryReader(cluster, clock), clock)


def filled(records: int, partitions: int = 1, size: int = 1) -> PlayedCluster:
    cluster = PlayedCluster()
    cluster.create("orders", partitions)
    messages = [Message(b"x" * size)] * records
    for partition in range(partitions):
        cluster.send("orders", *messages, partition=partition)
    return cluster


def offsets(sample: Sample) -> list[int]:
    (batch,) = sample.batches.values()
    found: list[int] = batch.column("offset").to_pylist()
    return found


def test_a_short_backlog_is_read_whole() -> None:
    sample = sample_of(filled(999), "orders")

    assert [*range(999)] == offsets(sample)
    assert [span(0, 999)] == [piece.stands_for for piece in sample.pieces]


def test_a_long_one_is_read_at_both_ends_and_between() -> None:
    sample = sample_of(filled(20_000), "orders")
    found = offsets(sample)

    assert (0, 19_999, 1000) == (found[0], found[-1], len(found))
    assert found == sorted(set(found))
    starts = [piece.covered.start for piece in sample.pieces]
    assert sampling.WINDOWS_MAX == len(starts)
    gaps = [second - first for first, second in pairwise(starts)]
    assert max(gaps) - min(gaps) < 200
    assert 20_000 == sum(piece.stands_for.count for piece in sample.pieces)


def test_a_compacted_topic_gives_records_however_large_its_gaps_are() -> None:
    cluster = filled(20_000)
    cluster.compact("orders", 0, (n for n in range(20_000) if n % 100))
    sample = sample_of(cluster, "orders")

    assert {0} == {offset % 100 for offset in offsets(sample)}
    assert 200 == len(offsets(sample))


def test_the_newest_is_found_after_a_stretch_that_compaction_left_empty() -> None:
    cluster = filled(20_000)
    cluster.compact("orders", 0, range(10_000, 20_000))

    assert 9_999 == offsets(sample_of(cluster, "orders"))[-1]


def test_large_records_are_sampled_up_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "BYTES_MAX", 100_000)
    (batch,) = sample_of(filled(5000, size=1000), "orders").batches.values()

    assert batch.num_rows < 1000


def test_every_topic_has_its_turn_before_one_has_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LANES_MAX", 3)
    cluster = filled(10, partitions=5)
    for name in ("clicks", "items"):
        cluster.create(name, 2)
        cluster.send(name, Message(b"1"))
        cluster.send(name, Message(b"1"), partition=1)
    sample = sample_of(cluster, "orders", "clicks", "items")

    assert ["clicks", "items", "orders"] == sorted(at.topic for at in sample.batches)


def test_a_partition_that_gives_nothing_is_reported() -> None:
    class Mute(MemoryReader):
        def read(self, *_: object, **__: object):  # type: ignore[no-untyped-def]
            yield from ()

    cluster = filled(3)
    log = MemoryLog(cluster, {"topics": ["orders"]})
    (at,) = log.partitions()
    whole = Backlog({TABLE: {at: Offset(0)}}, {at: Offset(3)})
    clock = ManualClock()
    sample = sampled(whole, {}, Mute(cluster, clock), clock)

    assert ({at: (TABLE,)}, []) == (sample.silent, sample.pieces)


AT = part(0)


def piece(covered: tuple[int, int], stands_for: tuple[int, int]) -> Piece:
    return Piece(AT, span(*covered), span(*stands_for), (TABLE,))


def trips(books: Mapping[Piece, Tally], *, first: int, end: int, epoch: int = 10**6) -> bool:
    whole = Backlog(
        {TABLE: {AT: Offset(0)}}, {AT: Offset(end)}, {TABLE: {AT: span(0, first)}}, epoch
    )
    return would_trip(TABLE, books, whole, 0.05)


GOOD, BAD = Tally(100, 100), Tally(100, 0, {}, {"P302": 100})


@pytest.mark.parametrize(
    ("rejects", "tripped"), [(99, False), (100, True)], ids=["a handful", "a flood"]
)
def test_where_the_sample_is_the_backlog_the_rule_is_that_of_the_run(
    rejects: int, tripped: bool
) -> None:
    books = {piece((0, 156), (0, 156)): Tally(156, 156 - rejects, {}, {"P366": rejects})}

    assert tripped == trips(books, first=156, end=156)


def test_a_few_sampled_rejects_stand_for_the_many_of_an_epoch() -> None:
    books = {piece((0, 50), (0, 5000)): Tally(50, 40, {}, {"P302": 10})}

    assert trips(books, first=5000, end=5000)


def test_a_stretch_that_is_well_covers_only_what_is_nearest_to_it() -> None:
    pieces = {piece((0, 100), (0, 500)): GOOD, piece((900, 1000), (500, 520)): BAD}

    assert not trips(pieces, first=520, end=520)


def test_a_flood_among_the_newest_trips_a_later_epoch() -> None:
    books = {piece((0, 100), (0, 5000)): GOOD, piece((9900, 10_000), (5000, 10_000)): BAD}

    assert trips(books, first=1000, end=10_000)
    assert not trips({**books, piece((9900, 10_000), (5000, 10_000)): GOOD}, first=1000, end=10_000)


def test_an_epoch_of_few_records_never_trips() -> None:
    books = {piece((0, 50), (0, 50)): Tally(50, 0, {}, {"P302": 50})}

    assert not trips({**books, piece((60, 100), (50, 5000)): BAD}, first=50, end=5000, epoch=90)
