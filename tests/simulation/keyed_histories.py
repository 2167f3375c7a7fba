"""Random histories of keyed tables: whatever happens, the rows are the fold of the log in the end.

    python -m tests.simulation.keyed_histories 1000    that many, on this core
    python -m tests.simulation.keyed_histories 1 --seed 4711

The acts are those of histories.py, and others compact tables. Records are changes of few keys, and
each key is bound to its partition. Slices are of few records, so that the changes of a key meet in
several of them, and their results come back in any order.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tests.simulation.histories import ACTS, Play, reported
from tests.story.backend import MemoryGround
from tests.story.keyed import KEYED, SEQUENCED, SOFT, KeyedWorld, small_slices
from tests.story.world import World

from penstock.ports.row_deletes import RowDeleteMode
from penstock.rows.options import KeyedOptions

KEYS = 3
"""How many keys a partition has."""


class KeyedPlay(Play):
    """A history of keyed tables."""

    acts: ClassVar[Sequence[str]] = [*ACTS, *["compaction"] * 3]
    keyed: ClassVar[KeyedOptions] = KEYED
    mode: ClassVar[RowDeleteMode] = RowDeleteMode.AUTO

    def made(self, routes: Mapping[str, Sequence[str]]) -> World:
        """Make the world."""
        return KeyedWorld(
            MemoryGround(), keyed=self.keyed, mode=self.mode, routes=routes, partitions=2
        )

    def begin(self, **given: object):
        """Begin a life; its epochs may be longer than those of appends, for keys to meet."""
        return super().begin(**{"records_max": self.random.choice([5, 20, 1000]), **given})

    def send(self) -> None:
        """Send changes of keys of one partition."""
        topic, partition = self.topic()
        place = sorted(self.partitions).index(topic) + len(self.partitions) * partition
        world = self.world
        assert isinstance(world, KeyedWorld)
        for _ in range(self.random.randrange(1, 15)):
            key = place * KEYS + self.random.randrange(KEYS)
            extra = self.random.random()
            fields = {"surprise": 1} if extra < 0.1 else {"later": "x"} if extra < 0.2 else {}
            if self.keyed.sequence:
                fields["s"] = self.random.randrange(12)
            op = "gone" if self.random.random() < 0.3 else "put"
            world.change(topic, partition, key, op, **fields)

    def transact(self) -> None:
        """Send changes: what others would read of transactions is not about keys."""
        self.send()

    def compaction(self) -> None:
        """Let another writer compact, now and while a life commits."""
        self.some()
        name = self.random.choice(self.existing() or [""])
        if not name:
            return

        def compact() -> None:
            self.world.ground.warehouse.foreign_compaction(name)

        if self.random.random() < 0.5:
            compact()
        self.world.faults.before_commit(name, compact)
        self.live()

    def rules(self) -> None:
        """Change a rule; the tables stay keyed."""
        number = len(self.world.rulebook) + 1
        columns = self.random.choice(["drop_value", "quarantine"])
        self.world.change_rules(f"rules-{number}", columns=columns, keyed=self.keyed)


class SoftPlay(KeyedPlay):
    """A history of keyed tables whose deletes leave a row."""

    keyed: ClassVar[KeyedOptions] = SOFT


class SequencedPlay(KeyedPlay):
    """A history of changes that come in any order."""

    keyed: ClassVar[KeyedOptions] = SEQUENCED


class RewritingPlay(KeyedPlay):
    """A history of keyed tables whose files are written again where rows go; rows come late."""

    keyed: ClassVar[KeyedOptions] = SEQUENCED
    mode: ClassVar[RowDeleteMode] = RowDeleteMode.REWRITE


def broken(
    seeds: range, hit: Counter[str] | None = None, play: type[KeyedPlay] = KeyedPlay
) -> list[str]:
    """Play histories; return those that are wrong in the end."""
    with small_slices():
        return [text for seed in seeds if (text := reported(seed, hit, play))]


def main() -> None:
    """Play histories and print what fails, and what was played."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("count", type=int)
    words.add_argument("--seed", type=int, default=0)
    given = words.parse_args()
    hit = Counter[str]()
    found = broken(range(given.seed, given.seed + given.count), hit)
    print(*found, sep="\n\n")
    print(*(f"{what:<28}{count:>12,}" for what, count in sorted(hit.items())), sep="\n")
    print(f"{given.count:,} histories, {len(found)} failed")


if __name__ == "__main__":
    main()
