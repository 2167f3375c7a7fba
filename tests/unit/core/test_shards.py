"""Shards: whose a partition is, and what their names say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.offsets import TopicPartition
from penstock.core.shards import Shard, family_of, shard_name

IDS = st.text(min_size=1, max_size=22)


@given(IDS, st.integers(0, 500), st.integers(1, 64))
def test_each_partition_is_one_shards(topic_id: str, partition: int, count: int) -> None:
    at = TopicPartition(topic_id, partition, "orders")
    every = [Shard.named(shard_name("shop", number), count) for number in range(count)]

    assert 1 == sum(each.takes(at) for each in every if count > 1) or count == 1
    assert Shard.named("shop", 1).takes(at)


def test_partitions_of_a_topic_are_spread_evenly() -> None:
    at = [TopicPartition("AAAAAAAAAAAAAAAAAAAAAg", number, "orders") for number in range(12)]
    found = [sum(map(Shard("shop", number, 4).takes, at)) for number in range(4)]

    assert [3, 3, 3, 3] == found


def test_names_say_which_shard_and_of_which_pipeline() -> None:
    shard = Shard.named("shop+2", 3)

    assert ("shop", 2, 3) == (shard.pipeline, shard.number, shard.count)
    assert ("shop+0", "shop+1", "shop+2") == shard.siblings_of("shop+2")
    assert ("shop+0/lake.a", "shop+1/lake.a", "shop+2/lake.a") == shard.siblings_of("shop+2/lake.a")
    assert ("shop/lake.a",) == Shard("shop").siblings_of("shop/lake.a")
    assert ["shop", "shop", "shop"] == [*map(family_of, ("shop", "shop+1", "shop+1/lake.a"))]


def test_the_chains_of_a_table_tell_by_how_many_shards_it_was_begun() -> None:
    shard = Shard("shop", 1, 3)
    three = {"shop+0": 2, "shop+1": 0, "shop+2": 0, "shop+7/lake.a": 1, "shop-eu": 1, "other+5": 1}

    assert shard.other_count("shop+1", three) is None
    assert shard.other_count("shop+1", {}) is None
    assert 4 == shard.other_count("shop+1", {**three, "shop+3": 0})
    assert 8 == shard.other_count("shop+1/lake.a", three)
    assert 1 == shard.other_count("shop+1", {"shop": 1, "shop+2": 0})
    assert 3 == Shard("shop").other_count("shop", three)
    assert Shard("shop").other_count("shop", {"shop": 1, "shop-eu": 1, "other+5": 1}) is None


def test_a_chain_that_holds_a_claim_alone_has_not_begun() -> None:
    assert Shard("shop", 0, 3).other_count("shop+0", {"shop+1": 0}) is None
