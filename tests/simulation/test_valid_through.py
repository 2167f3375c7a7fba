"""Valid-through: through what time all of a table's records have been read (protocol.md 2)."""

import pytest
from tests.story.backend import MemoryGround
from tests.story.clock import START_MS
from tests.story.world import ORDERS, PIPELINE, World

from penstock.core.commits import Chain
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Bounds
from penstock.landing.tables.progress import TableProgress, advance, update_valid_through
from penstock.landing.task.results import TableResult
from penstock.testing.sent import Sent

AT = TopicPartition("topic-1", 0, "orders")


@pytest.fixture
def world():
    world = World(MemoryGround(), partitions=2)
    world.sleep(1000)
    return world


def through(world: World) -> int:
    return world.landed().valid_through_ms


def tracked() -> TableProgress:
    """Return a track that begins at the beginning; it is in no table."""
    chain = Chain(PIPELINE, ORDERS)
    return TableProgress(None, chain, None, wanted=(AT,), examined={AT: Offset(0)})


def reach(track, offset, bounds, listed_at_ms, *, newest_ms=0):
    """Let an epoch read up to an offset, in the present of a listing."""
    found = TableResult({AT: Offset(offset)}, (), (), {}, {AT: newest_ms}, {})
    return advance(update_valid_through(track, found, bounds, listed_at_ms), [], found)


def test_it_is_the_time_of_listing_when_all_was_read_with_an_idle_partition(world):
    world.send("orders", 3)
    before = world.clock.now_ms()
    world.run()

    assert before < through(world) <= world.clock.now_ms()


def test_it_is_not_known_before_all_that_was_listed_is_read(world):
    world.send("orders", 4)
    world.send("orders", 4, partition=1)
    world.life(records_max=4).run("once")

    assert None is through(world)


def test_records_whose_timestamps_do_not_ascend_carry_it_nowhere():
    world = World(MemoryGround())
    world.send("orders", 2)
    world.run()
    before = through(world)
    world.sleep(1000)
    now_ms = world.clock.now_ms()
    stamps = [now_ms - 1, *(now_ms - 600 + n for n in range(1, 100))]
    records = [Sent(b'{"n":%d}' % n, timestamp_ms=ms) for n, ms in enumerate(stamps)]
    world.ground.send(world.ground.topic("orders"), 0, records)
    world.life(records_max=10).run("once")

    assert {0: 12} == world.offsets()
    assert before == through(world)
    world.run()
    assert now_ms < through(world)


def test_it_moves_on_in_a_table_that_never_comes_to_the_end():
    track = tracked()
    for minute in range(10):  # each brings 100 records, and an epoch reads 100 of them
        bounds = {AT: Bounds(Offset(0), Offset(250 + minute * 100), Offset(250 + minute * 100))}
        track = reach(track, 100 * (minute + 1), bounds, minute * 60_000)

    assert 6 * 60_000 == track.valid_through.at_ms


def test_a_listing_in_which_a_transaction_was_open_counts_with_the_newest_record():
    track = tracked()
    track = reach(track, 5, {AT: Bounds(Offset(0), Offset(5), Offset(9))}, 9000, newest_ms=7000)
    assert 7000 == track.valid_through.at_ms

    track = reach(track, 8, {AT: Bounds(Offset(0), Offset(9), Offset(9))}, 10_000, newest_ms=9500)
    assert 7000 == track.valid_through.at_ms

    track = reach(track, 9, {AT: Bounds(Offset(0), Offset(20), Offset(20))}, 11_000, newest_ms=9600)
    assert 10_000 == track.valid_through.at_ms


def test_an_open_transaction_keeps_it_back(world):
    world.send("orders", 2)
    world.begin("orders", 1)
    world.send("orders", 1, partition=1)
    world.run()

    assert START_MS + 2 == through(world)


def test_it_never_moves_backwards(world):
    world.send("orders", 2)
    world.run()
    first = through(world)
    world.begin("orders", 1)
    world.send("orders", 1, partition=1)  # stamped long before
    world.run()
    assert first <= through(world)

    world.clock.set_wall_clock(START_MS)
    world.send("orders", 1, partition=1)
    world.run()
    assert first <= through(world)


def test_records_stamped_in_the_future_do_not_carry_it_there(world):
    world.clock.set_wall_clock(START_MS - 50_000)
    world.send("orders", 2)
    world.begin("orders", 1)
    world.run()

    assert through(world) <= world.clock.now_ms()
