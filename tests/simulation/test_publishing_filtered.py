"""A topic filtered and changed on its way into another: each wanted record is there once, in order."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
import threading
from dataclasses import replace
from functools import partial

import pytest
from tests.story.publishing import (
    FROM,
    INTO,
    OFFSETS,
    PARTITIONS,
    PublishingWorld,
    by_library,
    live,
)
from tests.story.publishing_filtered import RECORDS, RULES, WORDS, FilteredWorld

from penstock.app.inspect.publication_audit import audit_publication
from penstock.app.inspect.publication_peek import peeked
from penstock.connectors.memory.cluster import Message, Partition
from penstock.connectors.memory.log import MemoryReader
from penstock.connectors.memory.sending import MemoryPacker
from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.publication_events import FieldsAbsent, RowsPublished
from penstock.core.schema import Field, Kind, Struct
from penstock.ports.producers import NewTopic
from penstock.ports.sources import EpochLimit
from penstock.publishing.pace import Rate
from penstock.publishing.topic_source import TopicReader


@pytest.fixture
def world() -> FilteredWorld:
    return FilteredWorld()


@pytest.mark.parametrize("seed", range(24))
def test_any_history_publishes_each_wanted_record_once_and_in_order(seed):
    chance = random.Random(seed)
    world = FilteredWorld(rows_max=chance.choice([1, 5, 1000]))
    world.chosen = chance.choice([dict, by_library, lambda: by_library(2)])
    world.reject()
    for _ in range(chance.randrange(1, 5)):
        for partition in range(PARTITIONS):
            world.fill(partition, *chance.choices(WORDS, k=chance.randrange(7)))
        live(world, chance)
        world.require_exact()
    last = world.run()

    assert last.error is None
    sizes = [len(world.cluster.partition(FROM, number).entries) for number in range(PARTITIONS)]
    assert {at: size for at, size in enumerate(sizes) if size} == {
        at: offset for at, offset in world.positions().items() if offset
    }
    world.require_exact()


def test_the_books_tell_what_became_of_records_and_an_audit_reads_them_again(world):
    world.reject()
    world.fill(0, "x", "left out", "", "bad", "closed", "y")
    run = world.run()
    assert (run.rows, run.rejected) == (4, 1)
    ports = world.ports(run.publication)
    readers = world.reader, MemoryReader(world.cluster, world.clock)
    found = audit_publication(run.publication, ports, readers)
    assert (found.rows, found.breaks, found.not_compared) == (6, (), ())

    entries = world.cluster.partition(INTO, 0).entries
    other = replace(entries[0].message, headers=(("h", b"other"),))
    entries[0] = replace(entries[0], message=other)
    found = audit_publication(run.publication, ports, readers)
    assert ["rows"] == [each.kind for each in found.breaks]


def test_a_peek_tells_what_a_run_would_do_with_each_record(world):
    world.reject()
    world.fill(1, "bad", "x", "left out", "")
    publication = world.publisher().publication
    readers = world.reader, MemoryReader(world.cluster, world.clock)
    found = peeked(publication, world.ports(publication), readers, MemoryPacker(), 10)

    assert [(each.outcome, each.partition) for each in found] == [
        ("rejected", None),
        ("published", 1),
        ("filtered", None),
        ("published", 1),
    ]
    assert [f"{FROM}[1]: offset {number}" for number in range(4)] == [each.place for each in found]
    assert None is found[3].value
    assert (("h", b"1"), ("h", None)) == found[1].headers


@pytest.mark.parametrize("kind", [FilteredWorld, PublishingWorld])
def test_of_a_partition_that_was_added_and_lost_its_first_records_nothing_is_told_as_broken(kind):
    """No receipt says where it began: its first transaction is not compared any more."""
    world = kind()
    world.run()
    for topic in (FROM, INTO):
        world.cluster.topic(topic).partitions.append(Partition())
    value = b'{"id": 1, "v": "x"}'
    sent = [Message(value, b"k", 1), Message(value, b"k", 2)]
    world.cluster.send(FROM, *sent, partition=PARTITIONS)
    publication, target = world.run().publication, MemoryReader(world.cluster, world.clock)
    reader = world.reader if kind is FilteredWorld else TopicReader(target)

    def audited() -> tuple[int | None, int, int]:
        found = audit_publication(publication, world.ports(publication), (reader, target))
        return found.rows, len(found.breaks), len(found.not_compared)

    assert (2, 0, 0) == audited()
    lost = world.cluster.partition(FROM, PARTITIONS)
    lost.start, lost.entries = 1, lost.entries[1:]
    assert (0, 0, 1) == audited()


def test_a_record_that_does_not_decode_stops_where_rejects_have_no_topic(world):
    world.fill(0, "x", "bad", "y")
    error = world.run().error

    assert isinstance(error, DecisionNeededError)
    assert ("P840", True) == (error.code, "offset 1" in error.message), error.message
    assert [] == world.read_back(0)


def test_a_record_that_decodes_and_makes_no_message_is_named_by_its_offset(world):
    world.rules = replace(RULES, computed={"w": "case when v = 'x' then 1 else cast(v as int) end"})
    world.fill(0, "left out", "x", "y", "bad", "x", "y")
    assert "offset 2: w: transform" in world.run().error.message

    world.reject()
    assert None is world.run().error
    assert [2, 3, 5] == sorted(each["offset"] for each in world.rejected())


def test_a_record_keeps_its_partition_or_goes_where_its_key_says(world):
    world.make("more", 3)
    world.fill(1, "x", "y", "x", "y")
    world.run()
    assert 4 == len(world.read_back(1))

    by_key = FilteredWorld(rules=replace(RULES, keeps_partition=False))
    by_key.fill(1, "x", "y", "x", "y")
    assert None is by_key.run().error
    found = [by_key.read_back(number) for number in range(PARTITIONS)]
    assert 4 == sum(map(len, found))
    keys = [{key for key, *_ in each} for each in found]
    assert not keys[0] & keys[1]


@pytest.mark.parametrize(
    ("words", "where", "offset", "said"),
    [
        (
            ("x", "bad", "y"),
            "strptime(v, '%d') is not null",
            0,
            "where cannot be computed for this row (P380: Invalid Input Error)",
        ),
        (("x", "bad", "y"), "v::int = 1 or v = 'x'", 0, "Could not convert string '…' to INT32"),
        (("x", "bad", "y"), "case when v = 'y' then v::int = 1 else true end", 1, "(P3"),
        (("x", "bad"), "true", 1, "_kafka_value: "),
    ],
)
def test_the_first_bad_record_is_named_with_its_cause_and_no_value(
    world, words, where, offset, said
):
    world.rules = replace(RULES, where=where)
    world.fill(0, *words)
    error = world.run().error

    assert isinstance(error, DecisionNeededError)
    assert f"offset {offset}: " in error.message
    assert said in error.message
    assert "'x'" not in error.message


def test_a_tombstone_without_a_key_has_a_way_out_of_its_own(world):
    world.cluster.send(FROM, Message(None, None, 1000, ()), partition=0)
    error = world.run().error

    assert "_kafka_key: a record without a value has no key to delete" in error.message
    assert "tombstones: skip" in error.hint
    assert "where" not in error.hint


def test_partitions_of_the_target_are_counted_without_those_of_rejects(world):
    world.reject()
    world.fill(0, "x", "bad")
    world.run()
    (told,) = [each for each in world.events if isinstance(each, RowsPublished)]

    assert (1, 1) == (told.partitions, sum(told.rejected.values()))


def test_a_target_with_too_few_partitions_is_refused_where_records_keep_theirs(world):
    world.cluster.create("few", 1)
    world.fill(1, "x")
    error = world.run(into="few").error

    assert isinstance(error, InvalidError)
    assert "P813" == error.code
    topic, offsets = {"topics": [FROM]}, OFFSETS + "2"
    made = world.run(into="new", offsets_topic=offsets, new_topic=NewTopic(), source=topic)
    assert None is made.error
    assert PARTITIONS == len(world.cluster.topic("new").partitions)


@pytest.mark.parametrize(("told", "made"), [(None, PARTITIONS), (1, 1)])
def test_a_new_target_whose_messages_have_a_key_has_as_many_partitions_as_the_source(told, made):
    world = FilteredWorld(rules=replace(RULES, keeps_partition=False))
    world.fill(1, "x", "y")
    run = world.run(into="new", new_topic=NewTopic(told), source={"topics": [FROM]})
    assert None is run.error
    assert made == len(world.cluster.topic("new").partitions)


def test_a_position_moves_over_records_that_are_all_left_out(world):
    world.fill(0, "left out", "left out")
    run = world.run()

    assert (0, 1) == (run.rows, run.transactions)
    assert {0: 2} == {at: offset for at, offset in world.positions().items() if offset}
    assert (0, 0) == (world.run().transactions, len(world.read_back(0)))


def test_records_far_larger_than_estimated_make_small_transactions_that_wait_for_nothing(world):
    """The planned twelve would be twelve whole values in memory: each partition gives three."""
    for partition in range(PARTITIONS):
        world.fill(partition, *["x" * 5_000] * 6)
    topic = {"topics": [FROM]}
    publisher = world.publisher("stopped", source=topic, limit=EpochLimit(1000, 6_000))
    begun, numbers = world.clock.monotonic(), []
    while publisher.step():
        numbers.append(publisher.rows)
    publisher.close()

    assert ([0, 6, 12], begun) == (numbers, world.clock.monotonic())
    world.require_exact()


def test_a_rate_is_of_what_is_sent_and_holds_up_no_record_that_is_left_out(world):
    world.fill(0, *["left out"] * 40, "x")
    publisher, begun = world.publisher("stopped", rate=Rate(rows=2)), world.clock.monotonic()
    while publisher.step():
        pass
    publisher.close()

    assert ({0: 40, 1: 0}, 4, begun) == (
        world.positions(),
        publisher.transactions,
        world.clock.monotonic(),
    )


@pytest.mark.parametrize(
    ("records", "told"), [(99, []), (240, [(200, "'zz' (did you mean 'z'?)")])]
)
def test_a_field_that_no_record_has_is_told_once_after_a_transaction_of_some_size(records, told):
    world = FilteredWorld(rows_max=200)
    fields = Struct((*RECORDS.fields.fields, Field("zz", Kind.LONG)))
    reader = replace(world.reader, rules=replace(RECORDS, fields=fields))
    look = partial(reader.absent_fields, deadline=world.clock.monotonic() + 60)
    world.fill(0, *["x"] * records)
    publisher = world.publisher()
    publisher.environment = replace(publisher.environment, absent_fields=look)
    publisher.run(threading.Event())
    found = [each for each in world.events if isinstance(each, FieldsAbsent)]
    assert (records, told) == (publisher.rows, [(each.records, each.fields) for each in found])


def test_a_record_whose_header_sql_cannot_read_is_rejected_by_its_offset(world):
    world.reject()
    world.rules = replace(
        RULES, where="v <> 'left out' and _kafka_headers['b'] is distinct from 'z'"
    )
    world.fill(0, "x", "left out")
    for value in (b"y", b"\xff"):
        message = Message(b'{"id": 1, "v": "x"}', b"k", 1, (("b", value),))
        world.cluster.send(FROM, message, partition=0)
    assert None is world.run().error
    (reject,) = world.rejected()
    assert (3, "P303", "where") == (reject["offset"], reject["code"], reject["column"])
    assert "the header 'b' is not UTF-8" == reject["message"]
    assert 2 == len(world.read_back(0))


def test_columns_are_known_before_a_record_is_read():
    names = ["id", "v", "_kafka_timestamp", "_kafka_key", "_kafka_headers", "_kafka_deleted"]
    assert names == RECORDS.columns.names
