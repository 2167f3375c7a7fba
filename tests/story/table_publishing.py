"""One publication of a table, played: other writers change it, and what is published is compared.

The oracle is simple. Rows have ids, each is written once. Whenever a publication says that it has
caught up, what it has published since it began the table is exactly the live rows, each once;
where it went on behind removals (`skip`), no row is there twice, and none is missing but those that
a removal brought itself. Where it stops, something had happened that it may stop for.
"""

from __future__ import annotations

import random  # noqa: TID251  from the seed that a test names
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from tests.story.clock import ManualClock

from penstock.connectors.memory.increments import (
    MemoryFileRows,
    MemoryHistory,
    MemoryIncrements,
)
from penstock.core.errors import DecisionNeededError
from penstock.ports.increments import Effect
from penstock.ports.sources import EpochLimit, Stands, Stretch
from penstock.publishing.settings import Changes
from penstock.publishing.table_positions import Reading, table_position
from penstock.publishing.table_source import TableSource
from penstock.publishing.table_work import TableReader, TableWork

ACTS = ("append", "append", "append", "compact", "delete", "overwrite", "roll back", "expire")


@dataclass(slots=True)
class TableStory:
    """A table, its publication, and the oracle."""

    seed: int
    changes: Changes
    history: MemoryHistory = field(default_factory=MemoryHistory)
    published: list[int] = field(default_factory=list)
    left_out: set[int] = field(default_factory=set)
    acts: set[str] = field(default_factory=set)
    stops: Counter[str] = field(default_factory=Counter)
    clock: ManualClock = field(default_factory=ManualClock)
    _ids: count[int] = field(default_factory=count)
    _stands: Stands = field(default_factory=dict)

    def play(self, acts: int) -> None:
        """Play some acts, with publishing in between, and catch up at the end."""
        chance = random.Random(self.seed)
        word = chance.choice(["earliest", "latest"])
        for _ in range(chance.randrange(4)):
            self._change(chance)
        self._stands = self._source().starts(word)
        self.published = [] if word == "earliest" else list(self.history.rows)
        self.acts.clear()
        for _ in range(acts):
            self._change(chance)
            if chance.random() < 0.5:
                self._publish(chance, stretches=chance.randrange(1, 4))
        self._publish(chance, stretches=10_000)

    def _change(self, chance: random.Random) -> None:
        history, act = self.history, chance.choice(ACTS)
        if chance.random() < 0.02:
            act = "make again"
        match act:
            case "append":
                history.append(*(self._rows(chance) for _ in range(chance.randrange(1, 4))))
            case "compact" if history.files:
                paths = [each.path for each in history.files if chance.random() < 0.6]
                history.compact(paths, keeps_sequence=chance.random() < 0.5)
            case "delete" if history.files:
                kept = {each for each in history.rows if chance.random() < 0.7}
                history.delete(lambda row: row not in kept, by_position=chance.random() < 0.5)
            case "overwrite":
                rows = self._rows(chance)
                history.overwrite(rows)
                self.left_out.update(rows)
            case "roll back" if chance.random() < 0.3 and history.snapshots:
                history.roll_back(chance.choice([*history.snapshots]))
            case "expire":
                history.expire(chance.randrange(1, 4))
            case "make again":
                history.make_again()
            case _:
                return
        if act in {"delete", "overwrite"}:
            act = str(history.snapshots[history.head].effect)
        self.acts.add(act)

    def _rows(self, chance: random.Random) -> list[int]:
        return [next(self._ids) for _ in range(chance.randrange(1, 9))]

    def _source(self) -> TableSource:
        self.clock.advance(2)
        return TableSource(
            MemoryIncrements(self.history), "lake.t", self.changes, self.clock.monotonic
        )

    def _publish(self, chance: random.Random, stretches: int) -> None:
        ends = self._source().ends() if chance.random() < 0.3 else None
        for _ in range(stretches):
            source = self._source()
            limit = EpochLimit(chance.choice([1, 4, 1000]), chance.choice([2, 1000]))
            try:
                found = source.plan(self._stands, ends or source.ends(), limit)
                left = source.count(self._stands, ends or source.ends())
            except DecisionNeededError as error:
                self._stop(error)
                return
            if not found:
                assert left == 0
                if ends is None:
                    self.compare()
                return
            (stretch,) = found
            assert 0 <= stretch.rows <= max(limit.rows_max, 1)
            assert left >= stretch.rows
            self._read(stretch, chance)

    def _read(self, stretch: Stretch, chance: random.Random) -> None:
        """Read a stretch, perhaps not to its end, perhaps twice: only what is kept counts."""
        reader = TableReader(MemoryFileRows(), self.clock)
        [*reader.read(stretch, deadline=float("inf"))]
        deadline = 0.0 if chance.random() < 0.3 else float("inf")
        begins = [
            (at.reading, at.files, at.row) == (Reading.TABLE, 0, 0)
            for each in TableWork.from_json(stretch.work).parts
            if (at := table_position(each.begun).within)
        ]
        jumps_to_none = not begins and table_position(stretch.stop).moment.records == 0
        if any(begins) or (jumps_to_none and self.changes == "whole"):
            self.published.clear()
        for each in reader.read(stretch, deadline=deadline):
            self.published += each.rows.column("id").to_pylist() if each.rows.num_rows else []
            self._stands = {stretch.of: each.reached}
        assert deadline == 0.0 or self._stands[stretch.of] == stretch.stop

    def compare(self) -> None:
        """Compare what was published with the table, where all of it is said to be."""
        live = Counter(self.history.rows)
        found = Counter(self.published)
        if self.changes == "skip":
            assert max(found.values(), default=1) == 1, f"twice: {found - live}"
            assert not set(live) - set(found) - self.left_out, "rows are missing"
        else:
            assert found == live, f"twice or gone {found - live}, missing {live - found}"
        self.acts.clear()

    def _stop(self, error: DecisionNeededError) -> None:
        """A stop is right where it has a cause; then a person lets it begin anew."""
        removed = Effect.REMOVED in self.acts and (self.changes == "stop" or "expire" in self.acts)
        rewritten = {"compact", "expire"} <= self.acts
        caused = removed or rewritten or self.acts & {"roll back", "make again"}
        assert caused, f"stopped for nothing: {error.message}"
        self.stops[error.code] += 1
        self._stands = self._source().readable(self._stands)
        if error.code == "P827":
            self._stands = self._source().starts("earliest")
        self.published.clear()
        self.acts.clear()
