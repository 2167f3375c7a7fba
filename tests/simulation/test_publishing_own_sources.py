"""Sources of one's own, published: whatever goes wrong, each row is one message, in its order."""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
from collections.abc import Iterator
from typing import Any

import pytest
from tests.story.own_publishing import RULES, Feeds, OwnWorld
from tests.story.publishing import by_library, live

from penstock.app.inspect.publication_audit import audit_publication
from penstock.app.inspect.publications import view_of
from penstock.app.repair.publication_seek import moves_of
from penstock.connectors.memory.log import MemoryReader
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.positions import partition_of, position_of
from penstock.core.publication_events import PublicationStopped, TransactionGivenUp
from penstock.ports.own_sources import Batch, OwnSource, Place, PositionGoneError
from penstock.publishing.own_rows import BEGINNING
from penstock.publishing.publisher import AGAIN_SECONDS
from penstock.publishing.record import standing_record
from penstock.sources.text_files import unreadable

A, B = (partition_of({"feed": name}, "feeds") for name in "ab")
WORDS = ["x", "y", "left out", "bad"]


@pytest.fixture
def world() -> OwnWorld:
    return OwnWorld(feeds=Feeds({"a": ["x"] * 7, "b": ["y"]}))


@pytest.mark.parametrize("seed", range(20))
def test_any_history_publishes_each_row_once_and_in_order(seed):
    chance = random.Random(seed)
    feeds = Feeds({"a": []}, chance.choice(["range", "resume"]), chance)
    world = OwnWorld(feeds=feeds, rows_max=chance.choice([1, 5, 1000]))
    world.reject()

    for _ in range(chance.randrange(1, 6)):
        for name in "abc"[: chance.randrange(1, 4)]:
            feeds.feeds.setdefault(name, []).extend(chance.choices(WORDS, k=chance.randrange(7)))
        live(world, chance)
        world.require_exact()
    feeds.chance = None
    last = world.run()

    assert last.error is None
    assert {name: len(rows) for name, rows in feeds.feeds.items() if rows} == world.positions()
    world.require_exact()


def test_an_audit_reads_ranges_again_and_says_of_others_that_it_cannot(world):
    world.reject()
    world.feeds.feeds["a"][2:4] = ["left out", "bad"]
    publisher = world.publisher()
    world.run()
    ports = world.ports(publisher.publication)
    readers = world.readings, MemoryReader(world.cluster, world.clock)
    found = audit_publication(publisher.publication, ports, readers)
    assert (found.rows, found.breaks, found.not_compared) == (8, (), ())

    world.feeds.feeds["a"][0] = "y"
    found = audit_publication(publisher.publication, ports, readers)
    assert [each.kind for each in found.breaks] == ["rows"]

    world.readings.source.replay = "resume"
    found = audit_publication(publisher.publication, ports, readers)
    assert (found.rows, found.breaks) == (0, ())
    assert "can no longer be told" in found.not_compared[0]


def test_a_plan_says_that_it_counts_the_next_batch_alone(world):
    publisher = world.publisher()
    view = view_of(publisher.publication, world.ports(publisher.publication))

    assert (view.begins, view.backlog, view.is_least) == (True, 3, True)
    assert [each.words for each in view.moves] == [
        "a: the beginning → row 7",
        "b: the beginning → row 1",
    ]
    world.run()
    view = view_of(publisher.publication, world.ports(publisher.publication))
    assert (view.backlog, view.moves) == (0, ())
    assert view.stands == "at row 7 of a, at row 1 of b"


def test_a_batch_that_is_looked_at_is_not_read_twice(world):
    world.feeds.feeds = {"a": ["x"] * 9}
    world.rows_max = 3
    run = world.run()

    assert run.transactions == 3
    assert world.feeds.readings == 1
    world.require_exact()


def test_a_source_begins_at_its_latest_where_it_says_it(world):
    world.run(start="latest")
    assert world.read_back() == {}

    world.feeds.feeds["a"].append("x")
    world.run(start="latest")
    assert world.read_back() == {"a": [(7, "x")]}

    again = OwnWorld(feeds=Feeds({"a": ["x"]}, "resume"))
    error = again.run(start="latest").error
    assert isinstance(error, InvalidError)
    assert error.code == "P817"


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["earliest"], {A: BEGINNING, B: BEGINNING}),
        (["latest"], {A: position_of({"row": 7}, ""), B: position_of({"row": 1}, "")}),
        (['{"feed": "a"}={"row": 2}'], {A: position_of({"row": 2}, "")}),
        (['{"feed": "b"}=earliest'], {B: BEGINNING}),
        (['{"feed": "b"}=latest'], {B: position_of({"row": 1}, "")}),
    ],
)
def test_a_person_names_places(world, words, places):
    assert places == world.source().places(words)


@pytest.mark.parametrize("word", ["x", "7", '{"feed":"z"}=latest', '{"row": 1}', '{"feed":"a"}=1'])
def test_what_is_no_place_is_refused(world, word):
    with pytest.raises(InvalidError) as raised:
        world.source().places([word])
    assert raised.value.code == "P817"


def test_the_position_of_the_only_part_needs_no_name(world):
    world.feeds.feeds = {"a": ["x"]}
    assert world.source().places(['{"row": 1}']) == {A: position_of({"row": 1}, "")}


def test_a_seek_publishes_again_from_a_place(world):
    world.run()
    publication = world.publisher().publication
    ports = world.ports(publication)
    record = standing_record(publication.name, ports.producers.ledger)
    moves = moves_of(publication, ports.source, record, ['{"feed": "a"}={"row": 5}'])
    world.run(places={each.of: each.stop for each in moves})

    assert world.read_back()["a"] == [*((row, "x") for row in range(7)), (5, "x"), (6, "x")]


def test_parts_that_are_gone_are_no_fault_and_may_be_forgotten(world):
    world.run()
    del world.feeds.feeds["b"]
    world.feeds.feeds["a"].append("x")

    assert world.run().error is None
    assert world.positions() == {"a": 8, "b": 1}
    assert world.run(accept_gap=True).error is None
    assert world.positions() == {"a": 8}


class Wrong(OwnSource):
    """A source that gives what a test says."""

    def __init__(self, *given: Any) -> None:
        self.given = given

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Yield it, or raise it."""
        del part, until
        for each in self.given if at is None else ():
            if isinstance(each, Exception):
                raise each
            yield each


ROW = [{"feed": "a", "v": "1|1|x"}]


@pytest.mark.parametrize(
    ("given", "code", "kind", "words"),
    [
        ([7], "P851", InvalidError, "it gave a int, and no penstock.Batch"),
        ([Batch(ROW, 7)], "P851", InvalidError, "the position of a batch is a int"),
        ([Batch(ROW, {})], "P851", InvalidError, "empty"),
        ([Batch(ROW, {"n": 1.5})], "P290", InvalidError, "a float"),
        ([Batch(ROW, {"n": [1]})], "P290", InvalidError, "a list"),
        (
            [Batch(ROW, {"n": 1}), Batch(ROW, {"n": 1})],
            "P852",
            InvalidError,
            'behind {"n":1}: its position goes back to {"n":1}',
        ),
        (
            [Batch(ROW, {"n": 1}), Batch(ROW, {"n": 2}), Batch([], {"n": 1})],
            "P852",
            InvalidError,
            "goes back",
        ),
        ([Batch("text", {"n": 1})], "P853", InvalidError, "a str"),
        ([Batch(object(), {"n": 1})], "P853", InvalidError, "a object"),
        ([Batch([*ROW, 7], {"n": 1})], "P853", InvalidError, "row 2 is a int"),
        ([Batch([{"v": 1}, {"v": "x"}], {"n": 1})], "P853", InvalidError, "no rows"),
        ([OSError("no route")], "P854", UnavailableError, "it raised OSError: no route ("),
        ([PositionGoneError("a week ago")], "P855", DecisionNeededError, "a week ago"),
    ],
)
def test_what_a_source_does_wrong_is_told_with_its_place(given, code, kind, words):
    world = OwnWorld()
    world.feeds = Wrong(*given)
    error = world.run().error

    assert isinstance(error, kind)
    assert code == error.code
    assert words in error.message
    assert world.read_back() == {}


def test_a_hint_names_the_publication():
    world = OwnWorld()
    world.feeds = Wrong(PositionGoneError("a week ago"))

    assert "penstock seek orders latest" in world.run().error.hint
    world.feeds = Wrong(unreadable("a.jsonl", "it ends early"))
    assert "penstock seek orders '{" in world.run().error.hint


def test_a_source_that_fails_for_a_while_is_tried_again():
    world = OwnWorld()
    world.feeds = Wrong(Batch(ROW, {"n": 1}), OSError("no route"))
    publisher = world.publisher("stopped")
    publisher.step()
    publisher.step()
    world.feeds.given = [Batch(ROW, {"n": 1})]
    for _ in range(30):
        world.clock.advance(10)
        publisher.step()

    assert world.read_back() == {"a": [(1, "x")]}
    assert RULES == publisher.publication.messages


class Failing(Feeds):
    """Fails at one row for a while."""

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Yield the batches before it."""
        for batch in Feeds.read(self, part, at, until):
            if self.fails_behind is not None and int(batch.next["row"] or 0) > self.fails_behind:
                raise ConnectionError("503")
            yield batch

    fails_behind: int | None = 9


@pytest.mark.parametrize("chosen", [dict, by_library])
@pytest.mark.parametrize("replay", ["range", "resume"])
def test_what_a_source_gave_before_it_failed_is_published_and_it_is_asked_again_later(
    chosen, replay
):
    feeds = Failing({"a": ["x"] * 20}, replay)
    world = OwnWorld(feeds=feeds, chosen=chosen)
    publisher = world.publisher("stopped")
    for _ in range(9):
        publisher.step()

    assert world.positions() == {"a": 9}
    assert ("P854", "") == (publisher.error.code, publisher.reason)
    given_up = [each for each in world.events if isinstance(each, TransactionGivenUp)]
    stopped = [each for each in world.events if isinstance(each, PublicationStopped)]
    assert ([], 1) == (given_up, len(stopped)), "the next attempt is due in ten seconds"

    feeds.fails_behind = None
    for _ in range(9):
        world.clock.advance(AGAIN_SECONDS)
        publisher.step()
    assert world.positions() == {"a": 20}
    world.require_exact()


def test_a_run_with_an_end_says_what_the_source_raised_behind_good_batches():
    world = OwnWorld(feeds=Failing({"a": ["x"] * 20}))
    error = world.run().error

    assert (error.code, error.exit_code) == ("P854", 75)
    assert 'behind {"row": 9}: it raised ConnectionError: 503' in error.message
    assert len(world.read_back()["a"]) == 9
