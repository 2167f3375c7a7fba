"""Random histories of a chain: whatever expires and dies, each offset is told once."""

from __future__ import annotations

import json
import random  # noqa: TID251  from the seed that a test names
from dataclasses import dataclass, field, replace

import pytest

from penstock.core.commits import Chain, CommitKind
from penstock.core.offsets import Offset, TopicPartition
from penstock.ports.histories import CommitRecord, CommitsBehind
from penstock.sources.news_events import (
    CREATED,
    LANDED,
    MOVED,
    SKIPPED,
    Event,
    Facts,
    Told,
    events_of,
    told_of,
)
from penstock.testing.prepared import ORDERS, origin

CHAIN = Chain("shop", "lake.bronze.orders")
ACTS = ("land", "land", "land", "forget", "tell", "tell", "stand behind a foreign snapshot")
PARTITIONS = [TopicPartition("id", number, "orders") for number in range(3)]


@dataclass
class Table:
    """A chain of commits of some partitions, of which the oldest are forgotten."""

    commits: list[CommitRecord] = field(default_factory=list)
    offsets: dict[TopicPartition, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    forgotten: int = 0
    segment: int = 0

    def land(self, chance: random.Random) -> None:
        """Land a commit, perhaps of a partition that is new."""
        if chance.random() < 0.1:
            self.offsets[TopicPartition("id", len(self.offsets), "orders")] = 0
        chosen = chance.sample(sorted(self.offsets), chance.randrange(1, 3))
        rows = []
        for at in sorted(chosen):
            stop = self.offsets[at] + chance.randrange(1, 5)
            rows.append(["id", at.partition, "orders", self.offsets[at], stop])
            self.offsets[at] = stop
        number = f"{len(self.commits)}"
        self.commits.append(CommitRecord(f"c{number}", number, 1, "append", rows, 1, 1))

    def note(self, kind: str) -> None:
        """Land a commit that covers nothing."""
        number = f"{len(self.commits)}"
        self.commits.append(CommitRecord(f"c{number}", number, 1, kind, [], 0, 0))

    def seek(self, chance: random.Random) -> None:
        """Put some positions elsewhere."""
        moved = chance.sample(sorted(self.offsets), 2)
        self.offsets |= {at: chance.randrange(self.offsets[at] + 3) for at in moved}
        self.segment += 1
        self.note(CommitKind.SEEK)

    def facts(self, told: Told | None) -> Facts:
        """Return what metadata say behind what was told."""
        listed = self.commits[self.forgotten :]
        places = [each.snapshot for each in listed]
        behind = "" if told is None else told.snapshot
        begun = places.index(behind) + 1 if behind in places else 0
        landed = replace(
            origin(CHAIN, {}),
            offsets={at: Offset(each) for at, each in self.offsets.items()},
            segment=self.segment,
            recent=tuple((each.commit_id, "") for each in self.commits[-1:]),
        )
        found = CommitsBehind(listed[begun:], follows=not behind or begun > 0)
        return Facts("u", 0, ORDERS, "s", landed, is_rolled_back=False, behind=found)


def after(event: Event) -> Told:
    """Return the position behind an event as it is read back."""
    read = told_of(json.loads(json.dumps(event.told.place())))
    assert read == event.told
    return read


@pytest.mark.parametrize("seed", range(200))
def test_each_offset_is_told_once_in_order(seed: int) -> None:
    chance, table = random.Random(seed), Table()
    told: Told | None = None
    reached: dict[int, int] = {}
    commits: list[str] = []
    for _ in range(chance.randrange(5, 40)):
        act = chance.choice(ACTS)
        if act == "land":
            table.land(chance)
        elif act == "forget":
            table.forgotten = chance.randint(table.forgotten, len(table.commits))
        elif act == "stand behind a foreign snapshot":  # as those do who begin at the latest
            told = told and replace(told, snapshot="foreign")
        else:
            for event in [*events_of(told, table.facts(told))]:
                if chance.random() < 0.2:
                    break
                if told is None:
                    reached = {at.partition: each for at, each in event.told.offsets.items()}
                told = after(event)
                assert event.type != MOVED
                for own in event.data.get("ranges", ()):
                    assert own["start"] == reached.get(own["partition"], 0), event
                    reached[own["partition"]] = own["stop"]
                assert event.type not in {LANDED, SKIPPED} or event.data["ranges"]
                commits += [event.id] if event.type == LANDED else []
    for event in events_of(told, table.facts(told)):
        if told is None:
            reached = {at.partition: each for at, each in event.told.offsets.items()}
        told = event.told
        for own in event.data.get("ranges", ()):
            assert own["start"] == reached.get(own["partition"], 0), event
            reached[own["partition"]] = own["stop"]
        commits += [event.id] if event.type == LANDED else []

    landed = {at.partition: each for at, each in table.offsets.items() if each}
    assert landed == {partition: each for partition, each in reached.items() if each}
    assert len({*commits}) == len(commits)
    assert commits == sorted(commits, key=lambda each: int(each[1:]))


def ranges_of(event: Event) -> dict[int, tuple[int, int]]:
    return {own["partition"]: (own["start"], own["stop"]) for own in event.data.get("ranges", ())}


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_what_a_seek_moved_is_told_from_there_whatever_is_not_listed(first: int) -> None:
    for seed in range(first, first + 100):
        tell_of_seeks(random.Random(seed))


def tell_of_seeks(chance: random.Random) -> None:
    """Tell of commits and seeks, some of which expire; positions of one but the last are not known."""
    table, ids = Table(), list[str]()
    told: Told | None = None
    reached: dict[int, int] | None = {}
    acts = [*ACTS[:5], "tell", "foreign", "seek", "note"] * chance.randrange(1, 5) + [
        "tell to the end"
    ]
    chance.shuffle(acts)
    for act in [*acts, "tell to the end"]:
        match act:
            case "land":
                table.land(chance)
            case "seek":
                table.seek(chance)
            case "note":
                table.note(chance.choice([CommitKind.REPLACE, CommitKind.FENCE]))
            case "forget":
                table.forgotten = chance.randint(table.forgotten, len(table.commits))
            case "foreign":
                told = told and replace(told, snapshot="foreign")
            case _:
                for event in [*events_of(told, table.facts(told))]:
                    if act == "tell" and chance.random() < 0.2:
                        break
                    told = after(event)
                    ids += [event.id] if event.id else []
                    if event.type in {CREATED, MOVED}:
                        known = event.type == CREATED or told.segment == table.segment
                        reached = (
                            {a.partition: o for a, o in told.offsets.items()} if known else None
                        )
                    for partition, (start, stop) in ranges_of(event).items():
                        assert reached is None or start == reached.get(partition, 0)
                        reached = None if reached is None else {**reached, partition: stop}
    assert told is not None
    assert len(ids) == len({*ids})
    assert ids == sorted(ids, key=lambda each: int(each[1:]))
    assert table.segment == told.segment
    assert {at for at in table.offsets.items() if at[1]} == {
        e for e in told.offsets.items() if e[1]
    }
