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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from tests.simulation.histories import ACTS, Play, Step, reported
from tests.story.backend import MemoryGround, catalog_name
from tests.story.faulty_catalog import Fault
from tests.story.keyed import KEYED, SEQUENCED, SOFT, KeyedWorld, small_slices
from tests.story.world import World

from penstock.core.crash_points import CrashPoint
from penstock.landing.repair.retry import RetryResult
from penstock.landing.repair.selection import Selection
from penstock.ports.row_deletes import RowDeleteMode
from penstock.rows.keyed.touched import Retry
from penstock.rows.options import KeyedOptions

KEYS = 3
"""How many keys a partition has."""
PARTITIONS = 2
MOVING = 8
"""How many keys a topic has whose keys move, and partitions at most."""

_RETRY_POINTS = (
    CrashPoint.PREPARE_AFTER,
    CrashPoint.QUARANTINE_AFTER,
    CrashPoint.RESOLVE_AFTER,
    CrashPoint.COMMIT_BEFORE,
    CrashPoint.COMMIT_AFTER,
    CrashPoint.SETTLE_BEFORE,
)


class KeyedPlay(Play):
    """A history of keyed tables."""

    acts: ClassVar[Sequence[str]] = [*ACTS, *["compaction"] * 3]
    keyed: ClassVar[KeyedOptions] = KEYED
    mode: ClassVar[RowDeleteMode] = RowDeleteMode.AUTO
    keys: ClassVar[int] = KEYS
    changes_max: ClassVar[int] = 15
    surprising: ClassVar[float] = 0.1
    """Which share of the changes has a field that the table has no column for."""

    def made(self, routes: Mapping[str, Sequence[str]]) -> World:
        """Make the world."""
        return KeyedWorld(
            MemoryGround(), keyed=self.keyed, mode=self.mode, routes=routes, partitions=PARTITIONS
        )

    def begin(self, **given: object):
        """Begin a life; its epochs may be longer than those of appends, for keys to meet."""
        return super().begin(**{"records_max": self.random.choice([5, 20, 1000]), **given})

    def send(self) -> None:
        """Send changes of keys of one partition."""
        topic, partition = self.topic()
        place = self.place(topic, partition)
        world = self.world
        assert isinstance(world, KeyedWorld)
        for _ in range(self.random.randrange(1, self.changes_max)):
            key = place * self.keys + self.random.randrange(self.keys)
            extra = self.random.random() - self.surprising
            fields = {"surprise": 1} if extra < 0 else {"later": "x"} if extra < 0.1 else {}
            if self.keyed.sequence:
                fields["s"] = self.random.randrange(12)
            op = "gone" if self.random.random() < 0.3 else "put"
            world.change(topic, partition, key, op, **fields)

    def place(self, topic: str, partition: int) -> int:
        """Number the partitions of all topics."""
        return sorted(self.partitions).index(topic) + len(self.partitions) * partition

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


class MovingPlay(KeyedPlay):
    """A history of topics whose partitions are doubled once they are known, so that keys move to the
    new ones.
    """

    acts: ClassVar[Sequence[str]] = [
        *["grow"] * 8,
        *["plain", "crash", "other_host", "two_at_once", "compaction"],
        *["fault", "away", "back", "lose_store", "restore_store", "remove_file"],
    ]

    def run(self, steps: Iterable[Step]) -> list[str]:
        """Begin with a life that finds the topics."""
        self.live()
        return super().run(steps)

    def send(self) -> None:
        """Send changes of keys, each to the partition that it has by now."""
        topic = self.random.choice(sorted(self.partitions))
        for _ in range(self.random.randrange(1, 5)):
            self.change(topic)

    def change(self, topic: str) -> None:
        """Send one change of a topic."""
        key = self.random.randrange(MOVING)
        partition = key % self.partitions[topic]
        op = "gone" if self.random.random() < 0.3 else "put"
        world = self.world
        assert isinstance(world, KeyedWorld)
        world.change(topic, partition, sorted(self.partitions).index(topic) * MOVING + key, op)

    def grow(self) -> None:
        """Double the partitions of a topic that has a backlog; producers go on before a life sees.

        Those of two growths at once would be in no order.
        """
        topic = self.random.choice(sorted(self.partitions))
        for _ in range(self.random.randrange(30)):
            self.change(topic)
        if self.partitions[topic] < MOVING and self.is_known(topic):
            self.partitions[topic] *= 2
            self.world.ground.grow(topic, self.partitions[topic])
        for _ in range(self.random.randrange(5)):
            self.change(topic)
        if self.random.random() < 0.5:
            self.live()

    def is_known(self, topic: str) -> bool:
        """Return whether the table of a topic has begun with all of its partitions."""
        [table] = self.world.routes[topic]
        if self.world.catalog().load(catalog_name(table)) is None:
            return self.partitions[topic] == PARTITIONS
        known = [at for at in self.world.landed(table).offsets if at.topic == topic]
        return len(known) == self.partitions[topic]


class PurgedPlay(SoftPlay):
    """A history in which rows of deleted keys are purged, beside lives and between them."""

    acts: ClassVar[Sequence[str]] = [*KeyedPlay.acts, *["purge"] * 8]

    def purge(self) -> None:
        """Purge a table now, while a life lands, or just before a commit of a life."""
        self.plain()
        self.some()
        chosen = self.random.choice(self.existing() or [""])
        if not chosen or f"lake.{chosen}" in self.rolled:
            return
        name = f"lake.{chosen}"
        when = self.random.choice(["alone", "while a life lands", "before a commit"])
        if when == "before a commit":
            self.world.faults.before_commit(chosen, lambda: self.purged(name))
            self.live()
        else:
            self.purged(name, self.live if when == "while a life lands" else lambda: None)

    def purged(self, name: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Purge a table; none of the rows that were there is left, and no position has moved."""
        assert isinstance(self.world, KeyedWorld)
        before = self.world.landed(name)
        if before.keyed is None:
            return
        done = self.world.purge(name, meanwhile)
        self.played["purge: rows went"] += bool(done.rows)
        self.reported.append(f"  purged {done.rows} rows of {name}")
        assert [] == self.world.flagged(name), "a row of a deleted key is left"


class SequencedPlay(KeyedPlay):
    """A history of changes that come in any order."""

    keyed: ClassVar[KeyedOptions] = SEQUENCED


class RetriedPlay(KeyedPlay):
    """A history in which rejected changes are retried, and what was retried is finished in the end."""

    acts: ClassVar[Sequence[str]] = [
        *["retry"] * 8,
        *["plain", "crash", "fault", "two_at_once", "other_host", "compaction"],
        *["lose_store", "restore_store", "remove_file", "other_writer"],
    ]
    keys: ClassVar[int] = 6
    changes_max: ClassVar[int] = 5
    surprising: ClassVar[float] = 0.4
    retries: ClassVar[Retry] = Retry.REPLACES

    def run(self, steps: Iterable[Step]) -> list[str]:
        """Begin with a row of each key: what a table is created from is not rejected."""
        world = self.world
        assert isinstance(world, KeyedWorld)
        for topic, count in self.partitions.items():
            for partition in range(count):
                for key in range(self.keys):
                    number = self.place(topic, partition) * self.keys + key
                    world.change(topic, partition, number, "put", **_first(self.keyed))
        self.live()
        return super().run(steps)

    def retry(self) -> None:
        """Let changes be rejected and retry them for a table; the life that does so may die."""
        for columns in ("quarantine", "drop_value"):
            self.some()
            self.live(accept=["rules", "topic"])
            number = len(self.world.rulebook) + 1
            self.world.change_rules(f"rules-{number}", columns=columns, keyed=self.keyed)
        name = self.random.choice(sorted(self.world.tables))
        point = self.random.choice(["", "", *(f"{each}:1" for each in _RETRY_POINTS)])
        fault = self.random.choice([None, None, Fault.LOSE_ANSWER, Fault.CRASH_DELAYED])
        if fault:
            self.world.faults.queue(catalog_name(name), fault)
        self.retried(name, crash=point)
        self.world.faults.clear()
        if self.random.random() < 0.5:
            self.world.faults.release()

    def retried(self, name: str, **given: object) -> None:
        """Retry all that is rejected for a table, and count what came of it."""
        life = self.begin(accept=["rules", "topic"], **given)
        life.close(lambda resolver: resolver.retry(Selection(), self.retries), name)
        self.reported.append(f"  retry {name}: {life.changed or life.error!r}")
        if isinstance(life.changed, RetryResult):
            self.played["retried: won"] += sum(life.changed.landed.values())
            self.played["retried: withheld"] += sum(life.changed.withheld.values())

    def end(self) -> list[str]:
        """Finish what was resolved before all is compared."""
        super().end()
        for name in sorted(self.world.tables):
            if name not in self.rolled:
                self.retried(name)
        return super().end()


def _first(keyed: KeyedOptions) -> dict[str, int]:
    return dict.fromkeys(keyed.sequence, 0)


class RetriedSequencedPlay(RetriedPlay):
    """The same with changes that come in any order; rows of deleted keys say that they are."""

    keyed: ClassVar[KeyedOptions] = SEQUENCED
    retries: ClassVar[Retry] = Retry.INSERTS


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
