"""Publishing, played: whatever goes wrong, each record is published once, and in order."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
from contextlib import suppress

import pytest
from tests.story.observer import Crash
from tests.story.publishing import FROM, PARTITIONS, PublishingWorld

from penstock.core.errors import FencedError, PenstockError


@pytest.fixture
def world() -> PublishingWorld:
    return PublishingWorld()


def test_records_are_mirrored_with_keys_headers_and_times(world):
    world.send(0, "a", "", "c")
    world.send(1, "d")
    world.run()

    assert world.sent(0) == world.published(0) == [b"a", None, b"c"]
    assert world.sent(1) == world.published(1)
    first = world.cluster.partition("orders", 0).entries[0].message
    assert world.cluster.partition(FROM, 0).entries[0].message == first


def test_a_second_run_publishes_what_came_since(world):
    world.send(0, "a")
    world.run()
    world.send(0, "b")
    world.run()

    assert [b"a", b"b"] == world.published(0)


def require_exact(world: PublishingWorld, *, whole: bool) -> None:
    for partition in range(PARTITIONS):
        sent, published = world.sent(partition), world.published(partition)
        assert sent[: len(published)] == published
        assert not whole or sent == published


@pytest.mark.parametrize("seed", range(400))
def test_any_history_publishes_each_record_once_and_in_order(seed):
    chance, world = random.Random(seed), PublishingWorld()
    world.rows_max = chance.choice([1, 3, 7, 1000])
    depth = 0

    def act(step: str) -> str:
        nonlocal depth
        drawn = chance.random()
        if drawn < 0.04:
            raise Crash(step)
        if drawn < 0.07 and depth < 2:
            depth += 1
            try:
                live()
            finally:
                depth -= 1
        if drawn < 0.09 and "penstock-orders-0" in world.coordinator._ids:
            world.coordinator.expire("penstock-orders-0")
        return chance.choice(["", "", "lost", "lost request", "twice"]) if drawn < 0.25 else ""

    def live() -> None:
        with suppress(Crash, PenstockError):
            world.run(chance.choice(["once", "caught-up"]), act=act)

    for _ in range(chance.randrange(1, 6)):
        for partition in range(PARTITIONS):
            world.send(partition, *(f"{chance.random()}" for _ in range(chance.randrange(4))))
        live()
        require_exact(world, whole=False)
    world.run()

    require_exact(world, whole=True)


def test_a_run_that_another_replaced_is_fenced(world):
    world.send(0, "a", "b")

    def act(step: str) -> str:
        if step == "send.before" and not world.published(0):
            world.run()
        return ""

    with pytest.raises(FencedError) as fenced:
        world.run(act=act)

    assert "P804" == fenced.value.code
    assert [b"a", b"b"] == world.published(0)
