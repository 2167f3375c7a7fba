"""A peek says of the next rows what a run makes of them, and sends nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.story.own_publishing import Feeds, OwnWorld
from tests.story.publishing import INTO, PublishingWorld
from tests.story.publishing_rows import NO_MESSAGE, REJECTS, RowsWorld

from penstock.app.inspect.publication_peek import PeekedMessage, peek_publication, peeked
from penstock.connectors.memory.log import MemoryReader
from penstock.connectors.memory.sending import MemoryPacker
from penstock.core.errors import InvalidError
from penstock.publishing.topic_source import TopicReader
from penstock.spec.load import load_publications


def peek(world: PublishingWorld, count: int = 10) -> tuple[PeekedMessage, ...]:
    publication = world.publisher().publication
    ports = world.ports(publication)
    target, packer = MemoryReader(world.cluster, world.clock), MemoryPacker()
    match world:
        case OwnWorld():
            reader = world.readings
        case RowsWorld():
            reader = world.table
        case _:
            reader = TopicReader(target)
    return peeked(publication, ports, (reader, target), packer, count)


def test_rows_have_the_outcome_that_a_run_gives_them() -> None:
    world = RowsWorld()
    world.table.rows = [("a", "1"), ("b", "left out"), ("a", "gone"), NO_MESSAGE, (None, "2")]
    world.reject()
    found = peek(world)

    assert [
        ("published", b"a", b"1"),
        ("filtered", None, None),
        ("published", b"a", None),
        ("rejected", None, None),
        ("published", None, b"2"),
    ] == [(each.outcome, each.key, each.value) for each in found]
    assert [None, REJECTS] == [found[4].partition, found[3].topic]
    assert {"k": "b", "v": "left out"} == found[1].row
    assert ("P373", "where") == (found[3].code, found[1].detail)
    assert world.found() == {}
    with pytest.raises(InvalidError, match="does not exist"):
        world.offsets()

    world.run()
    expected = {}
    for each in found:
        if each.outcome == "published":
            expected.setdefault(each.key, []).append(each.value)
    assert expected == world.found()
    placed = {each.key: each.partition for each in found if each.key and each.topic == INTO}
    assert all(
        placed.get(entry.message.key, number) == number
        for number in range(2)
        for entry in world.cluster.partition(INTO, number).entries
        if entry.readable
    )
    assert peek(world) == ()


def test_it_shows_what_is_behind_the_positions_and_no_more_than_was_asked_for() -> None:
    world = RowsWorld()
    world.table.rows = [("a", str(number)) for number in range(9)]
    world.run()
    world.table.rows += [("b", str(number)) for number in range(9)]

    assert [(b"b", b"0"), (b"b", b"1")] == [(each.key, each.value) for each in peek(world, 2)]


def test_of_a_source_of_ones_own_it_shows_what_is_no_row() -> None:
    world = OwnWorld(feeds=Feeds({"a": ["x", "bad", "left out"]}))
    found = peek(world)

    assert ["published", "filtered", "rejected"] == [each.outcome for each in found]
    assert "row 3 of the 3 before" in found[2].place
    assert "row 1: it is bad" == found[2].detail


def test_records_of_a_topic_are_shown_as_they_are() -> None:
    world = PublishingWorld()
    world.send(0, "a", "b")
    world.send(1, "c")
    found = peek(world)

    assert [0, 0, 1] == [each.partition for each in found]
    world.run()
    read = [
        (number, entry.message.key, entry.message.value)
        for number in range(2)
        for entry in world.cluster.partition(INTO, number).entries
        if entry.readable
    ]
    assert read == [(each.partition, each.key, each.value) for each in found]


def test_rows_of_a_program_are_not_here(tmp_path: Path) -> None:
    spec = tmp_path / "publish.yaml"
    spec.write_text(
        "{name: shop, kafka: {brokers: 'localhost:9092'},"
        " publish: [{name: scores, from: {dataframe: runs}, into: crm.scores}]}"
    )
    with pytest.raises(InvalidError) as raised:
        peek_publication(load_publications(spec), "scores", 5)
    assert raised.value.code == "P295"
