"""Through where all tables of a run have landed: never through what is only read."""

from __future__ import annotations

from types import SimpleNamespace

from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.landing.epoch.landed_offsets import LandedOffsets

ONE, TWO, GONE = (TopicPartition("id", number, "orders") for number in range(3))


class Tables:
    """The tables of a run, as far as who follows is concerned."""

    def __init__(self) -> None:
        self.progress, self.parked = {}, {}

    @property
    def active(self):
        return {name: each for name, each in self.progress.items() if name not in self.parked}

    def is_at(self, name, examined, in_flight=0):
        self.progress[name] = SimpleNamespace(
            examined=examined, wanted=tuple(examined), commits_in_flight=in_flight
        )


class Follower:
    def __init__(self) -> None:
        self.offered, self.is_due = [], True

    def offer(self, landed) -> None:
        self.offered.append(landed)


def landed(*ranges):
    """Return the work of a batch whose commits cover ranges."""
    return [(SimpleNamespace(progress=each), None) for each in ranges]


def test_a_partition_is_through_where_the_last_of_its_tables_is() -> None:
    tables, follower = Tables(), Follower()
    tables.is_at("a", {ONE: 9, TWO: 4})
    tables.is_at("b", {ONE: 5})
    LandedOffsets(tables, follower).tell()

    assert [{ONE: 5, TWO: 4}] == follower.offered


def test_what_is_read_counts_once_it_is_committed() -> None:
    tables, follower = Tables(), Follower()
    offsets = LandedOffsets(tables, follower)
    tables.is_at("a", {ONE: 5, TWO: 2})
    offsets.tell()
    tables.is_at("a", {ONE: 9, TWO: 7}, in_flight=2)
    offsets.tell()
    offsets.note("a", landed({ONE: OffsetRange(5, 7)}, {ONE: OffsetRange(5, 6)}))
    offsets.tell()
    tables.is_at("a", {ONE: 9, TWO: 7})
    offsets.tell()

    assert follower.offered == [
        {ONE: 5, TWO: 2},
        {ONE: 5, TWO: 2},
        {ONE: 7, TWO: 2},
        {ONE: 9, TWO: 7},
    ]


def test_a_parked_table_holds_its_partitions_and_an_unknown_one_all() -> None:
    tables, follower = Tables(), Follower()
    offsets = LandedOffsets(tables, follower)
    tables.is_at("a", {ONE: 5})
    tables.parked["b"] = "it could not be opened"
    offsets.tell()
    assert [] == follower.offered

    del tables.parked["b"]
    tables.is_at("b", {ONE: 5})
    offsets.tell()
    tables.parked["b"] = "its commits fail"
    tables.is_at("a", {ONE: 8})
    tables.is_at("b", {ONE: 8})
    offsets.tell()

    assert [{ONE: 5}, {ONE: 5}] == follower.offered


def test_partitions_that_nobody_wants_any_more_are_left_out() -> None:
    tables, follower = Tables(), Follower()
    offsets = LandedOffsets(tables, follower)
    tables.is_at("a", {ONE: 5, GONE: 3})
    offsets.tell()
    tables.is_at("a", {ONE: 6}, in_flight=1)
    offsets.tell()

    assert [{ONE: 5, GONE: 3}, {ONE: 5}] == follower.offered


def test_nobody_is_told_before_it_is_time_but_at_the_end() -> None:
    tables, follower = Tables(), Follower()
    tables.is_at("a", {ONE: 5})
    follower.is_due = False
    offsets = LandedOffsets(tables, follower)
    offsets.tell()
    assert [] == follower.offered
    offsets.tell(at_once=True)
    assert [{ONE: 5}] == follower.offered
    LandedOffsets(tables, None).tell(at_once=True)
