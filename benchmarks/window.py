"""What a rearrangement costs between the look at a table and the answer, next to an append.

Whoever lands in between takes it away, so the shorter the better. Both are timed in one process, by
turns, on a table of many files whose names are links (benchmarks/commits.py): an append of ten
files, and one file in the place of a hundred, in one manifest or in as many as there are. Manifests
are staged before, as `penstock maintain` does it, and two appends land meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from statistics import median

from benchmarks import commits, making, specs
from benchmarks.children import FailedError
from benchmarks.commits import CommitFixture
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format
from penstock.ports.rearrangements import Rearrangement

GONE = 100
WARM = 12


@dataclass(frozen=True, slots=True)
class Options:
    """So many commits of so many files each, then both acts so many times."""

    format: Format = "iceberg"
    commits: int = 100
    files: int = 100
    rounds: int = 7


def measure(options: Options, place: Scratch) -> Measured:
    """Land the commits; time both acts by turns; give medians, and those of the ratios."""
    folder = place.subfolder("w")
    spec = specs.write(
        folder, commits.NOWHERE, making.TOPIC, table_format=options.format, partition_by=["qty"]
    )
    size = commits.Options(format=options.format, files=options.files)
    raw: dict[str, list[float]] = {}
    values: dict[str, float] = {}
    with commits.table_of(spec, size) as fixture:
        for number in range(options.commits):
            commits.settled(fixture.commit(number), fixture.made, fixture.two_phase)
        few = replace(fixture, options=commits.Options(format=options.format))
        acts = _Acts(few, count(options.commits))
        for _ in range(WARM):
            acts.append()
        for name, scattered in (("together", False), ("scattered", True)):
            appends, moves = [], []
            for number in range(options.rounds):
                before, moved = acts.append(), acts.rearrange(number, scattered=scattered)
                appends.append((before + acts.append()) / 2)
                moves.append(moved)
            raw |= {f"{name}_append": appends, name: moves}
            ratios = [move / append for move, append in zip(moves, appends, strict=True)]
            values |= {f"{name}_ms": median(moves), f"{name}_ratio": median(ratios)}
    appended = median([*raw["together_append"], *raw["scattered_append"]])
    return Measured({"append_ms": appended, **values}, raw)


@dataclass(slots=True)
class _Acts:
    """Both acts on one table, timed in CPU milliseconds of this process."""

    fixture: CommitFixture
    numbers: count[int]

    def append(self) -> float:
        made, commit = self.fixture.made, self.fixture.commit(next(self.numbers))

        def land() -> None:
            made.table.commit(made.table.state(made.chain), commit, retain=25)

        return _cpu_ms(land)

    def rearrange(self, number: int, *, scattered: bool) -> float:
        """Put one file in the place of others; all of it is timed that whoever lands may upset."""
        table, chain = self.fixture.made.table, self.fixture.made.chain
        state = table.state(chain)
        live = sorted(each.path for each in table.live_files(state))
        step = len(live) // GONE if scattered else 1
        going = live[number * (1 if scattered else GONE) :: step][:GONE]
        [file] = self.fixture.commit(1_000_000 + 2 * number + scattered).files[:1]
        moved = Rearrangement(table.delete_states(state, going), (file,))
        table.upkeep(state).stage([moved])
        self.append()
        self.append()

        def land() -> None:
            state = table.state(chain)
            table.require_rearrangeable(state)
            found = table.delete_states(state, [*moved.replaced, file.path])
            if found != moved.replaced:
                raise FailedError("files are no longer as they were")
            table.upkeep(state).era()
            table.rearrange(state, [moved])

        return _cpu_ms(land)


def _cpu_ms(act: Callable[[], None]) -> float:
    began = time.process_time()
    act()
    return round((time.process_time() - began) * 1e3, 2)
