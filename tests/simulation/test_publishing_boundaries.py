"""Sources that say where transactions end: what is taken back is never seen, and moves on.

KIP-618's TransactionContext, by its sentences (`transaction.boundary = connector`).
"""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.story.own_publishing import Feeds, OwnWorld
from tests.story.publishing import live

from penstock.app.assembly.own_sources import GuardedSource
from penstock.app.inspect.publication_audit import audit_publication
from penstock.connectors.memory.log import MemoryReader
from penstock.core.errors import InvalidError
from penstock.ports.own_sources import Batch, OwnSource, Place
from penstock.ports.sources import EpochLimit, Source
from penstock.publishing.own_rows import OwnReadings
from penstock.publishing.own_source import PlannedSource
from penstock.publishing.record import receipts_of, standing_record

ENDS = ("commit", "abort")
LARGEST = EpochLimit(1000, 1 << 20)


class Transactions(Feeds):
    """Feeds whose words `commit` and `abort` are boundaries, and no rows."""

    boundaries = True

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Yield a batch up to each word that ends a transaction, and some before."""
        self.readings += 1
        name = str(part["feed"])
        begun = int(at["row"] or 0) if at else 0
        stop, rows = int(until["row"] or 0) if until else len(self.feeds[name]), []
        for row, word in enumerate(self.feeds[name][begun:stop], begun):
            if self.chance and self.chance.random() < 0.03:
                raise ConnectionError("the feed does not answer")
            if word in ENDS:
                yield Batch(rows, {"row": row + 1}, boundary=word)
                rows = []
                continue
            rows.append({"feed": name, "v": f"{row}|0|{word}"})
            if len(rows) == (self.chance.randrange(1, 4) if self.chance else 3):
                yield Batch(rows, {"row": row + 1})
                rows = []
        if rows:
            yield Batch(rows, {"row": stop})


@dataclass(slots=True)
class BoundaryWorld(OwnWorld):
    """Its publication waits for the word of the source."""

    unit_max: EpochLimit | None = LARGEST

    def source(self) -> Source:
        """Open the feeds, as a process does."""
        guarded = GuardedSource(self.feeds, "feeds")
        self.readings = OwnReadings(guarded, "feeds", self.clock, self.unit_max)
        return PlannedSource(self.readings, self.clock.monotonic, fresh_seconds=1.0)

    def units(self) -> dict[str, list[list[tuple[int, str]]]]:
        """Return what each feed has ended: rows of what is to be seen, in order."""
        found: dict[str, list[list[tuple[int, str]]]] = {}
        for name, words in self.feeds.feeds.items():
            open_rows: list[tuple[int, str]] = []
            for row, word in enumerate(words):
                if word == "commit" and open_rows:
                    found.setdefault(name, []).append(open_rows)
                if word in ENDS:
                    open_rows = []
                elif word != "left out":
                    open_rows.append((row, word))
        return found

    def require_units(self) -> None:
        """Require that what is there are the first transactions of each feed, whole."""
        for name, rows in self.read_back().items():
            assert rows in [
                [row for unit in self.units()[name][:count] for row in unit]
                for count in range(len(self.units()[name]) + 1)
            ]

    def seen(self) -> dict[str, list[tuple[int, str]]]:
        """Return what a reader has to find of each feed in the end."""
        return {
            name: [row for unit in units for row in unit] for name, units in self.units().items()
        }


def world_of(**feeds: list[str]) -> BoundaryWorld:
    return BoundaryWorld(feeds=Transactions(feeds))


def published_by(world: BoundaryWorld) -> list[int]:
    """Return how many records each transaction has published."""
    publication = world.publisher().publication
    ledger = world.ports(publication).producers.ledger
    record = standing_record(publication.name, ledger)
    return [each.published for each in receipts_of(publication.name, record)]


def test_a_transaction_is_what_there_is_up_to_a_commit():
    world = world_of(a=[*"wwwww", "commit", *"ww", "commit", *"www"])
    world.rows_max = 1  # it cuts nothing
    world.run()

    assert published_by(world) == [5, 2]
    assert world.seen() == world.read_back()
    assert world.positions() == {"a": 9}

    world.feeds.feeds["a"].append("commit")
    world.run()
    assert published_by(world) == [5, 2, 3]
    assert world.seen() == world.read_back()


def test_what_is_aborted_is_dropped_and_its_position_moves():
    world = world_of(a=[*"ww", "commit", *"wwwww", "abort", "w", "commit"])
    last = world.run()

    assert last.error is None
    assert world.seen() == world.read_back() == {"a": [(0, "w"), (1, "w"), (9, "w")]}
    assert world.positions() == {"a": 11}
    publication = world.publisher().publication
    record = standing_record(publication.name, world.ports(publication).producers.ledger)
    assert record.ledger.totals.filtered == 5

    world.run()
    readers = world.readings, MemoryReader(world.cluster, world.clock)
    audit = audit_publication(publication, world.ports(publication), readers)
    assert (audit.rows, audit.breaks, audit.not_compared) == (8, (), ())


def test_at_the_boundary_of_nothing_nothing_is_done():
    world = world_of(a=["abort", "commit", "abort"])
    run = world.run()

    assert (run.error, run.rows, world.read_back()) == (None, 0, {})
    world.feeds.feeds["a"] += ["w", "commit"]
    world.run()
    assert world.read_back() == {"a": [(3, "w")]}


def test_a_boundary_may_come_behind_the_last_row_alone():
    world = BoundaryWorld()
    world.feeds = Given([Batch(ROW, {"n": 1}), Batch([], {"n": 1}, boundary="commit")])
    world.run()

    assert world.read_back() == {"a": [(1, "x")]}


def test_parts_take_turns():
    world = world_of(a=["w", "commit"] * 3, b=["w", "w", "commit"] * 2)
    world.run()

    assert published_by(world) == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("seed", range(20))
def test_any_history_publishes_each_transaction_of_the_source_once(seed):
    chance = random.Random(seed)
    world = world_of(a=[])
    world.feeds.chance = chance

    for _ in range(chance.randrange(1, 6)):
        for name in "ab"[: chance.randrange(1, 3)]:
            words = chance.choices(["w", "left out", *ENDS], [6, 1, 2, 1], k=chance.randrange(9))
            world.feeds.feeds.setdefault(name, []).extend(words)
        live(world, chance)
        world.require_units()
    world.feeds.chance = None
    assert world.run().error is None
    assert world.seen() == world.read_back()


class Given(OwnSource):
    """A source that gives what a test says, from its beginning."""

    boundaries = True

    def __init__(self, given: list[Batch]) -> None:
        self.given = given

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Yield it."""
        del part, until
        yield from () if at else self.given


ROW = [{"feed": "a", "v": "1|1|x"}]


@pytest.mark.parametrize(
    ("given", "unit_max", "code"),
    [
        ([Batch(ROW, {"n": 1}, boundary="abort")], None, "P293"),
        ([Batch(ROW * 5, {"n": 1}), Batch(ROW * 6, {"n": 2})], EpochLimit(10, 1 << 20), "P294"),
        ([Batch(ROW * 5, {"n": 1})], EpochLimit(10, 20), "P294"),
        ([Batch(ROW, {"n": 1}, boundary="end")], EpochLimit(10, 1 << 20), "P851"),
    ],
)
def test_what_a_source_does_wrong_is_told_and_nothing_is_sent(given, unit_max, code):
    world = BoundaryWorld(unit_max=unit_max)
    world.feeds = Given(given)
    error = world.run().error

    assert isinstance(error, InvalidError)
    assert code == error.code
    assert world.read_back() == {}
