# ruff: noqa: D102 - the names of the tests are their sentences
"""The contract of `penstock.OwnSource`, as tests that any source of one's own must pass.

    from penstock.testing.contracts.own_sources import OwnSourceContract

    class TestWeather(OwnSourceContract):
        def open_source(self):
            return weather(station="ROM")

Subclass it in a test module, open the source over what does not change during a test and has some
batches, and run pytest. `add` lets more come; without it that one test is skipped. Nothing sleeps.
Of a source with boundaries, all are transactions that it has ended.
"""

from __future__ import annotations

import itertools
import random  # noqa: TID251  from the seed that a test names
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.core.positions import Position, SourcePartition
from penstock.ports.own_sources import OwnSource
from penstock.ports.sources import NO_LIMIT, EpochLimit, Rows, Stands, Stretch
from penstock.publishing.own_rows import BEGINNING, OPEN, OwnReadings, OwnWork
from penstock.publishing.own_source import PlannedSource

FOREVER = float("inf")
ROUNDS_MAX = 10_000
ODDS = 0.3
"""Of whatever goes wrong in a history."""
_ONE_BATCH = OwnWork(EpochLimit(1, 1), first=True).to_json()


class _Ticks:
    """A clock that goes on by an hour whenever it is asked, so that nothing is taken for fresh."""

    def __init__(self) -> None:
        self._hours = itertools.count()

    def now_ms(self) -> int:
        return next(self._hours) * 3_600_000

    def monotonic(self) -> float:
        return next(self._hours) * 3600.0

    def wait(self, seconds: float) -> None:
        del seconds


class OwnSourceBench:
    """The hooks a subclass gives."""

    def open_source(self) -> OwnSource:
        """Open the source afresh, as another process would: nothing is shared but what it reads."""
        raise NotImplementedError

    def add(self) -> None:
        """Let at least one more row come, behind all others of its part."""
        pytest.skip("the subclass has no  add")


class OwnSourceContract(OwnSourceBench):
    """The tests."""

    def opened(self) -> PlannedSource:
        """Open the source as a publication does."""
        clock = _Ticks()
        self.readings = self.readings_of(self.open_source(), clock)
        return PlannedSource(self.readings, clock.monotonic, 0.0)

    def readings_of(self, source: OwnSource, clock: _Ticks | None = None) -> OwnReadings:
        """Return what reads the source; where it says where transactions end, up to there."""
        unit_max = NO_LIMIT if source.boundaries else None
        return OwnReadings(source, "the source under test", clock or _Ticks(), unit_max)

    def batches(
        self, of: SourcePartition, at: Position = BEGINNING, until: Position = OPEN
    ) -> list[Rows]:
        """Read a part from a position on, in a process of its own."""
        readings = self.readings_of(self.open_source())
        found: list[Rows] = []
        while (unit := readings.waiting(of, at, until)) and len(found) < ROUNDS_MAX:
            stretch = Stretch(of, at, until, len(unit), _ONE_BATCH)
            found += in_units([*readings.read(stretch, deadline=FOREVER)], readings)
            at = found[-1].reached
        readings.close()
        return found

    def all_parts(self) -> dict[SourcePartition, list[Rows]]:
        """Read everything that is there."""
        found = {of: self.batches(of) for of in self.opened().ends()}
        behind = "up to a boundary" if self.open_source().boundaries else ""
        assert any(rows.count for each in found.values() for rows in each), f"no rows {behind}"
        return found

    def gives_ranges(self) -> bool:
        """Return whether the source says that it gives ranges again."""
        return self.open_source().replay == "range"

    def test_it_gives_rows_and_positions_of_plain_data(self) -> None:
        for batches in self.all_parts().values():
            reached = [each.reached for each in batches]
            assert len(set(reached)) == len(reached), "a position comes back"

    def test_it_goes_on_at_each_of_its_positions(self) -> None:
        for of, batches in self.all_parts().items():
            for number, each in enumerate(batches, 1):
                rest = self.batches(of, each.reached)
                if self.gives_ranges():
                    assert said(batches[number:]) == said(rest), f"behind {each.reached}"
                else:
                    assert each.reached not in [one.reached for one in rest]

    def test_nothing_is_behind_its_last_position(self) -> None:
        for of, batches in self.all_parts().items():
            if self.gives_ranges() and batches:
                assert not self.batches(of, batches[-1].reached)

    def test_a_range_has_the_same_rows_again(self) -> None:
        if not self.gives_ranges():
            pytest.skip("it gives no ranges")
        for of, batches in self.all_parts().items():
            places = [BEGINNING, *(each.reached for each in batches)]
            for first, last in itertools.combinations(range(len(places)), 2):
                again = self.batches(of, places[first], places[last])
                assert said(batches[first:last]) == said(again), f"{places[first]}: {places[last]}"

    def test_what_comes_is_behind_the_last_position(self) -> None:
        before = self.all_parts()
        self.add()
        after = self.all_parts()

        more = {
            of: self.batches(of, before[of][-1].reached if before.get(of) else BEGINNING)
            for of in after
        }
        assert any(rows.count for each in more.values() for rows in each)
        if self.gives_ranges():
            for of in after:
                assert said(after[of]) == said([*before.get(of, []), *more[of]])

    def test_its_end_has_nothing_behind_it(self) -> None:
        source = self.opened()
        if OPEN in source.ends().values():
            pytest.skip("it does not say where it ends")
        ends = source.starts("latest")
        assert not source.count(ends, source.ends())
        if self.gives_ranges():
            for of, end in ends.items():
                assert not self.batches(of, end)

    @pytest.mark.parametrize("seed", range(10))
    def test_any_history_reads_each_row_once(self, seed: int) -> None:
        """Processes read, and die: what was not published is read again, what was is not."""
        chance = random.Random(seed)  # noqa: S311  a history that can be played again
        expected = self.all_parts()
        source, stands = self.opened(), dict[SourcePartition, Position]()
        published: dict[SourcePartition, list[Rows]] = {of: [] for of in expected}
        for _ in range(ROUNDS_MAX):
            if chance.random() < ODDS:
                source = self.opened()
            limit = EpochLimit(chance.choice([1, 5, 1000]), chance.choice([1, 1 << 20]))
            read, died = self._epoch(source, stands, limit, chance)
            if not read:
                break
            if not died:
                for of, rows in read.items():
                    published[of] += rows
                    stands[of] = rows[-1].reached
        if self.gives_ranges():
            assert {of: said(rows) for of, rows in expected.items()} == {
                of: said(rows) for of, rows in published.items()
            }
        for rows in published.values():
            assert len({each.reached for each in rows}) == len(rows)

    def test_no_rows_are_lost_by_a_limit(self) -> None:
        source, read = self.opened(), 0
        stretches = source.plan({}, source.ends(), NO_LIMIT)
        for each in stretches:
            read += sum(rows.count for rows in self.readings.read(each, deadline=FOREVER))
        if self.gives_ranges() and not self.readings.ends_where_told:
            expected = self.all_parts().values()
            assert sum(rows.count for each in expected for rows in each) == read

    def _epoch(
        self, source: PlannedSource, stands: Stands, limit: EpochLimit, chance: random.Random
    ) -> tuple[dict[SourcePartition, list[Rows]], bool]:
        """Read as one transaction does; say whether the process died before it ended."""
        found: dict[SourcePartition, list[Rows]] = {}
        deadline = 0.0 if chance.random() < ODDS else FOREVER
        try:
            for stretch in source.plan(stands, source.ends(), limit):
                if rows := [*self.readings.read(stretch, deadline=deadline)]:
                    found[stretch.of] = in_units(rows, self.readings)
        except PenstockError as error:
            pytest.fail(f"{error.message} ({error.code})")
        return found, chance.random() < ODDS


def in_units(read: list[Rows], readings: OwnReadings) -> list[Rows]:
    """Return what was read of a part as what is published together, where the source says that."""
    if not readings.ends_where_told or len(read) == 1:
        return read
    rows = pa.Table.from_batches([each.rows for each in read if each.rows.num_columns])
    bad = [one for each in read for one in each.bad]
    return [Rows(rows.combine_chunks().to_batches()[0], read[-1].reached, bad)]


def said(rows: list[Rows]) -> list[Any]:
    """Return what rows say, whatever batches they came in."""
    return [
        each
        for batch in rows
        for each in (
            *batch.rows.to_pylist(),
            *(("bad", one.place, one.reason) for one in batch.bad),
            *((why, number) for why, of in batch.left_out.items() for number in range(of)),
        )
    ]
