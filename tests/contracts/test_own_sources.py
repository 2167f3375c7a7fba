"""The contract of sources of one's own, against sources that keep it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

import pyarrow as pa
import pytest

from penstock.core.errors import PenstockError
from penstock.ports.own_sources import Batch, Boundary, FunctionSource, OwnSource, Place, source
from penstock.ports.sources import BadRow
from penstock.testing.contracts.own_sources import OwnSourceContract


class Feeds(OwnSource):
    """Feeds of numbers, from the beginning to the end, a few at a time; every fifth is no row."""

    replay = "range"

    def __init__(self, *, feeds: dict[str, list[int]], size: int = 3) -> None:
        self.feeds, self.size = feeds, size

    def parts(self) -> Iterable[Place]:
        return [{"feed": name} for name in self.feeds]

    def end(self, part: Place) -> Place | None:
        count = len(self.feeds[str(part["feed"])])
        return {"count": count} if count else None

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        numbers = self.feeds[str(part["feed"])]
        begun = int(at["count"] or 0) if at else 0
        stop = int(until["count"] or 0) if until else len(numbers)
        for start in range(begun, stop, self.size):
            own = numbers[start : min(start + self.size, stop)]
            bad = [BadRow(f"number {each}", "it is a fifth one") for each in own if each % 5 == 4]
            rows = [{"n": each} for each in own if each % 5 != 4]
            yield Batch(rows, {"count": start + len(own)}, bad)


class TestFeeds(OwnSourceContract):
    """A class with several parts, and rows that are none."""

    @pytest.fixture(autouse=True)
    def _made(self) -> None:
        self.feeds = {"a": list(range(10)), "b": [20], "empty": []}

    def open_source(self) -> OwnSource:
        return Feeds(feeds=self.feeds)

    def add(self) -> None:
        self.feeds["b"].append(21)
        self.feeds["new"] = [30]


COUNTED = count()
COLUMNS = pa.schema([("n", pa.int32()), ("text", pa.string())])


@source(replay="range", columns=COLUMNS)
def numbers(at: Place | None, until: Place | None, *, held: list[int]) -> Iterator[Batch]:
    begun, stop = (int(each["count"] or 0) if each else None for each in (at, until))
    for number in islice(held, begun, stop):
        yield Batch([{"n": number}], {"count": number + 1})


class TestFunction(OwnSourceContract):
    """A function, in ranges."""

    @pytest.fixture(autouse=True)
    def _made(self) -> None:
        self.held = [0, 1, 2, 3]

    def open_source(self) -> OwnSource:
        return numbers(held=self.held)

    def add(self) -> None:
        self.held.append(4)


@source()
def readings_of_a_device(at: Place | None) -> Iterator[Batch]:
    """Give other rows whenever it is read."""
    begun = int(at["page"] or 0) if at else 0
    for page in range(begun, 6):
        rows = pa.table({"reading": [next(COUNTED) for _ in range(page)]})
        yield Batch(rows, {"page": page + 1})


class TestDevice(OwnSourceContract):
    """A function that gives no rows again."""

    def open_source(self) -> OwnSource:
        opened = readings_of_a_device()
        assert isinstance(opened, FunctionSource)
        return opened


BOUNDARIES: dict[int, Boundary] = {6: "commit", 0: "abort"}


class Transfers(Feeds):
    """Of three batches the last one ends a transaction, and every other one is taken back."""

    boundaries = True

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        for each in super().read(part, at, until):
            number = int(each.next["count"] or 0)
            yield Batch(each.rows, each.next, each.bad, BOUNDARIES.get(number % 12))


class TestTransfers(OwnSourceContract):
    """A source that says where transactions end; behind the last boundary is nothing yet."""

    @pytest.fixture(autouse=True)
    def _made(self) -> None:
        self.feeds = {"a": list(range(22)), "b": [20, 21]}

    def open_source(self) -> OwnSource:
        return Transfers(feeds=self.feeds, size=2)

    def add(self) -> None:
        self.feeds["a"] += [22, 23]

    def test_its_end_has_nothing_behind_it(self) -> None:
        pytest.skip("its end is no boundary")


class NeverEnds(Feeds):
    boundaries = True


class LeavesOutAfterResuming(Feeds):
    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        found = super().read(part, at, until)
        return islice(found, 1 if at else 0, None)


class PositionIsEarly(Feeds):
    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        for each in super().read(part, at, until):
            yield Batch(each.rows, {"count": int(each.next["count"] or 0) - 1}, each.bad)


class PositionIsLate(Feeds):
    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        for each in super().read(part, at, until):
            yield Batch(each.rows, {"count": int(each.next["count"] or 0) + 1}, each.bad)


class KeepsItsPlace(Feeds):
    """It does not go on at the position that it is given, but where it stands."""

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        del at
        return super().read(part, None, until)


class PassesItsEnd(Feeds):
    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        del until
        return super().read(part, at, None)


class GivesOthers(Feeds):
    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        for each in super().read(part, at, until):
            yield Batch([{"n": next(COUNTED)} for _ in each.rows], each.next, each.bad)


class EndIsEarly(Feeds):
    def end(self, part: Place) -> Place | None:
        found = super().end(part)
        return found and {"count": int(found["count"] or 0) - 1}


class GoesBack(Feeds):
    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        for each in super().read(part, at, until):
            yield Batch(each.rows, {"count": 1}, each.bad)


GOES_ON = "test_it_goes_on_at_each_of_its_positions"
RANGE = "test_a_range_has_the_same_rows_again"
HISTORY = "test_any_history_reads_each_row_once"


@pytest.mark.parametrize(
    ("fault", "tests"),
    [
        (LeavesOutAfterResuming, {GOES_ON, RANGE, HISTORY}),
        (PositionIsEarly, {GOES_ON, RANGE, HISTORY}),
        (PositionIsLate, {GOES_ON, HISTORY}),
        (KeepsItsPlace, {GOES_ON, "test_nothing_is_behind_its_last_position"}),
        (PassesItsEnd, {RANGE}),
        (GivesOthers, {GOES_ON, RANGE, HISTORY}),
        (EndIsEarly, {"test_its_end_has_nothing_behind_it"}),
        (GoesBack, {"test_it_gives_rows_and_positions_of_plain_data"}),
        (NeverEnds, {GOES_ON, HISTORY}),
    ],
)
def test_the_contract_finds_a_planted_fault(fault: type[Feeds], tests: set[str]) -> None:
    class Planted(OwnSourceContract):
        def open_source(self) -> OwnSource:
            return fault(feeds={"a": list(range(10)), "b": [20, 21]})

    for name in tests:
        seeds = range(5) if name == HISTORY else [None]
        failed = 0
        for seed in seeds:
            try:
                getattr(Planted(), name)(*(() if seed is None else (seed,)))
            except (AssertionError, PenstockError, pytest.fail.Exception):
                failed += 1
        assert failed, f"{name} does not find {fault.__name__}"
