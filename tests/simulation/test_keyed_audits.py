"""An audit of rows agrees with the truth after every life of random histories; it finds what others
change at random.
"""

from __future__ import annotations

from random import Random  # noqa: TID251  seeded

import pytest
from tests.simulation.histories import history_of
from tests.simulation.keyed_histories import KeyedPlay, MovingPlay, SequencedPlay
from tests.story.backend import MemoryGround, catalog_name
from tests.story.keyed import KeyedWorld, small_slices
from tests.story.world import ORDERS, SOURCE
from tests.unit.app.inspect.test_audit import audited

from penstock.app.inspect.keyed_count import compare, fold
from penstock.landing import coordinator

NAME = catalog_name(ORDERS)
BLOCK = 15
KEYS, PARTITIONS = 8, 2
KINDS = ("lost", "stale", "resurrected", "doubled", "foreign")


class AuditedPlay(KeyedPlay):
    """A history whose tables are audited whenever a life has ended."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.wrong: list[str] = []
        self.compared = 0

    def live(self, **given: object):
        """Live, then audit."""
        life = super().live(**given)
        self.audit()
        return life

    def end(self) -> list[str]:
        """Say what is wrong in the end, and what an audit said before."""
        found = super().end()
        self.audit()
        return [*found, *self.wrong]

    def audit(self) -> None:
        """Note what is broken by an audit's word."""
        for name in self.world.tables:
            if name in self.rolled or self.world.ground.warehouse.find(catalog_name(name)) is None:
                continue
            found = audited(self.world, name)
            if found.row_count is None:
                continue
            self.compared += found.row_count.keys or 0
            self.wrong += [f"after {self.reported}: {each}" for each in found.breaks]


class AuditedSequences(AuditedPlay, SequencedPlay):
    """The same of changes that come in any order."""


class AuditedMoves(AuditedPlay, MovingPlay):
    """The same of topics whose keys move to new partitions."""


def played(seeds: range, audited_play: type[AuditedPlay] = AuditedPlay) -> tuple[list[str], int]:
    """Play histories; return what was wrong, and how many keys were compared."""
    wrong, compared = [], 0
    with small_slices():
        for seed in seeds:
            play = audited_play(seed)
            wrong += [f"{seed}: {each}" for each in play.run(history_of(seed, audited_play.acts))]
            compared += play.compared
    return wrong, compared


@pytest.mark.parametrize("block", range(2))
def test_an_audit_agrees_with_the_truth_after_every_life(block: int) -> None:
    wrong, compared = played(range(BLOCK * block, BLOCK * block + BLOCK))

    assert [] == wrong
    assert compared > 150


def test_an_audit_folds_by_sequence() -> None:
    wrong, compared = played(range(15), AuditedSequences)

    assert [] == wrong
    assert compared > 150


def test_an_audit_knows_the_order_of_keys_that_moved() -> None:
    wrong, compared = played(range(15), AuditedMoves)

    assert [] == wrong
    assert compared > 150


def test_histories_of_keys_that_move_go_wrong_where_partitions_do_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coordinator, "up_to_growths", lambda positions, *_: (positions, {}))

    assert len(played(range(15), AuditedMoves)[0]) > 2


class Story:
    """Changes of keys that are bound to their partitions, landed a few at a time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = KeyedWorld(MemoryGround(), partitions=PARTITIONS)
        self.puts: dict[int, list[int]] = {key: [] for key in range(KEYS)}
        self.live: dict[int, int] = {}
        self.sent = [0] * PARTITIONS

    def change(self) -> None:
        key = self.random.randrange(KEYS)
        partition = key % PARTITIONS
        op = "gone" if self.random.random() < 0.3 else "put"
        offset = self.sent[partition]
        self.sent[partition] += 1
        self.world.change("orders", partition, key, op)
        self.live.pop(key, None)
        if op == "put":
            self.live[key] = offset
            self.puts[key].append(offset)

    def land(self) -> None:
        for _ in range(self.random.randrange(1, 20)):
            self.change()
        if self.random.random() < 0.3:
            self.world.crash_at("commit.after")
        self.world.run()
        if self.random.random() < 0.3:
            self.world.ground.warehouse.foreign_compaction(NAME)

    def corrupt(self, kind: str) -> bool:
        """Change the table as another writer, if there is a key for it."""
        former = {
            "lost": [*self.live],
            "doubled": [*self.live],
            "stale": [key for key in self.live if len(self.puts[key]) > 1],
            "resurrected": [k for k, puts in self.puts.items() if puts and k not in self.live],
            "foreign": [k for k in self.live if self.sent[k % PARTITIONS] > len(self.puts[k])],
        }[kind]
        if not former:
            return False
        key = self.random.choice(former)
        warehouse = self.world.ground.warehouse
        if kind in {"lost", "stale"}:
            warehouse.foreign_delete(NAME, lambda row: row["n"] == key)
        if kind == "lost":
            return True
        offset = self.live.get(key, self.puts[key][-1] if self.puts[key] else 0)
        if kind == "stale":
            offset = self.random.choice(self.puts[key][:-1])
        if kind == "foreign":
            every = set(range(self.sent[key % PARTITIONS])) - set(self.puts[key])
            key, offset = KEYS + key, self.random.choice(sorted(every))
        row = {
            **dict.fromkeys(warehouse.rows(NAME)[0]),
            "n": key,
            SOURCE["topic"]: "orders",
            SOURCE["partition"]: key % PARTITIONS,
            SOURCE["offset"]: offset,
        }
        warehouse.foreign_append(NAME, [row])
        return True


def found_kinds(seed: int, kind: str) -> list[str] | None:
    """Corrupt a table; return what an audit finds, or None where nothing could be corrupted."""
    with small_slices():
        story = Story(seed)
        for _ in range(story.random.randrange(1, 4)):
            story.land()
        assert () == audited(story.world).breaks
        if not story.live or not story.corrupt(kind):
            return None
        return [each.kind for each in audited(story.world).breaks]


@pytest.mark.parametrize("kind", KINDS)
def test_a_random_corruption_is_found(kind: str) -> None:
    found = [each for seed in range(15) if (each := found_kinds(seed, kind)) is not None]

    assert len(found) > 5
    assert [[kind]] * len(found) == found


def test_histories_go_wrong_for_an_audit_that_does_not_know_later_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first(given, *columns):
        turned = fold.Changes(
            given.rows, given.upsert, given.counts, given.lane, -given.offset, given.sub
        )
        kept = net(turned, *columns)
        kept.changes.offset[:] *= -1
        return kept

    net = fold.net_by_lane
    monkeypatch.setattr(fold, "net_by_lane", first)

    assert len(played(range(5))[0]) > 2


def test_a_corruption_is_missed_by_an_audit_that_forgives_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgiving = compare._Comparison._describe_keys

    def describe(self) -> None:
        forgiving(self)
        self.moved[:] = True

    monkeypatch.setattr(compare._Comparison, "_describe_keys", describe)

    assert [] == next(each for seed in range(9) if (each := found_kinds(seed, "lost")) is not None)
