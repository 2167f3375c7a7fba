# ruff: noqa: D102, PLR2004, SIM300 - the names of the tests are their sentences, and offsets are examples
"""The contract of `ports/log.py`, as tests that any source log must pass.

Subclass `LogContract` in a test module, give the hooks of `LogBench`, and run pytest. Tests name
topics of their own, so all may share one cluster; nothing sleeps.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Protocol

import pyarrow as pa
import pytest

from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.offsets import Offset, OffsetRange, TopicPartition, span
from penstock.core.planning import Bounds
from penstock.ports.log import Fetched, Log, RangeReader
from penstock.testing.sent import Sent

READ_SECONDS_MAX = 30.0
COLUMNS = {
    "offset": pa.int64(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
    "key": pa.binary(),
    "value": pa.binary(),
}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
NUMBERS = itertools.count()


class OpenTransaction(Protocol):
    """Records that were sent and are not yet decided upon; each end writes one marker."""

    def commit(self) -> None:
        """Make the records visible."""

    def abort(self) -> None:
        """Make the records never to be seen."""


class LogBench:
    """The hooks a subclass gives, and the acts built on them."""

    # Hooks, to be given by the subclass.

    def open_log(self, settings: Mapping[str, Any]) -> Log:
        """Open the log with `topics` (and `identity`) as the spec has them."""
        raise NotImplementedError

    def open_reader(self) -> RangeReader:
        """Open a reader of the same cluster."""
        raise NotImplementedError

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic; return when it can be used."""
        raise NotImplementedError

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions up to a number; return when they can be used."""
        raise NotImplementedError

    def delete(self, topic: str) -> None:
        """Delete a topic; return when it is no longer listed."""
        raise NotImplementedError

    def send(self, topic: str, partition: int, records: Sequence[Sent]) -> None:
        """Send records; return when they can be read."""
        raise NotImplementedError

    def begin(self, topic: str, partition: int, records: Sequence[Sent]) -> OpenTransaction:
        """Send records in a transaction and leave it open; return when they are in the log."""
        raise NotImplementedError

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the records before an offset, as retention would."""
        raise NotImplementedError

    # What the tests are given.

    @pytest.fixture
    def topic(self) -> str:
        """Name a topic that no other test uses."""
        return f"contract-{next(NUMBERS)}"

    @pytest.fixture
    def reader(self) -> Iterator[RangeReader]:
        """Open a reader."""
        opened = self.open_reader()
        yield opened
        opened.close()

    # Acts.

    def partitions(self, *topics: str | Mapping[str, str]) -> Sequence[TopicPartition]:
        """List the partitions of topics, with a log opened for that."""
        with closing(self.open_log({"topics": list(topics)})) as log:
            return log.partitions()

    def bounds(self, topic: str, partition: int = 0) -> Bounds:
        """Return the bounds of one partition."""
        with closing(self.open_log({"topics": [topic]})) as log:
            listed = log.partitions()
            return log.bounds(listed)[listed[partition]]

    def created(self, topic: str, *, partitions: int = 1, records: int = 0) -> TopicPartition:
        """Create a topic, with numbers as records, and return its first partition."""
        self.create(topic, partitions)
        if records:
            self.send(topic, 0, self.numbered(0, records))
        return self.partitions(topic)[0]

    def numbered(self, first: int, count: int) -> list[Sent]:
        """Make records with numbers as values."""
        return [Sent(str(number).encode()) for number in range(first, first + count)]

    def fetched(
        self,
        reader: RangeReader,
        at: TopicPartition,
        covered: OffsetRange,
        *,
        seconds: float = READ_SECONDS_MAX,
        headers: bool = False,
    ) -> list[Fetched]:
        """Read a range to its end, or to the deadline."""
        deadline = time.monotonic() + seconds
        return list(reader.read(at, covered, deadline=deadline, headers=headers))

    def read(
        self, reader: RangeReader, at: TopicPartition, start: int, stop: int
    ) -> tuple[list[tuple[int, bytes]], int]:
        """Read a range; give `(offset, value)` of each record, and the position reached."""
        batches = self.fetched(reader, at, span(start, stop))
        rows = [
            (offset, value)
            for each in batches
            for offset, value in zip(
                each.batch["offset"].to_pylist(), each.batch["value"].to_pylist(), strict=True
            )
        ]
        return rows, batches[-1].reached if batches else start


class ListingTests(LogBench):
    """What the driver asks a log."""

    def test_the_cluster_has_one_id(self, topic: str) -> None:
        first, second = self.open_log({"topics": [topic]}), self.open_log({"topics": [topic]})

        assert first.cluster_id()
        assert first.cluster_id() == second.cluster_id()

    def test_partitions_are_listed_in_order(self, topic: str) -> None:
        self.create(topic, 3)
        listed = self.partitions(topic)

        assert [(topic, 0), (topic, 1), (topic, 2)] == [(e.topic, e.partition) for e in listed]
        assert sorted(listed) == list(listed)
        assert 1 == len({each.topic_id for each in listed})

    def test_a_pattern_matches_whole_names(self, topic: str) -> None:
        for name in (f"{topic}.a", f"{topic}.b", f"{topic}.b.c", f"x{topic}.a"):
            self.create(name, 1)
        listed = self.partitions({"pattern": rf"{topic}\.(?P<name>\w)"})

        assert {f"{topic}.a", f"{topic}.b"} == {each.topic for each in listed}

    def test_a_topic_that_is_named_and_matched_is_listed_once(self, topic: str) -> None:
        self.create(topic, 1)

        assert 1 == len(self.partitions(topic, {"pattern": f"{topic}.*"}))

    def test_a_pattern_that_matches_nothing_yet_lists_nothing(self, topic: str) -> None:
        assert [] == list(self.partitions({"pattern": f"{topic}.*"}))

    def test_a_named_topic_that_does_not_exist_is_an_error(self, topic: str) -> None:
        with pytest.raises(InvalidError, match=topic):
            self.partitions(topic)

    def test_a_recreated_topic_is_another_topic(self, topic: str) -> None:
        """K7."""
        before = self.created(topic)
        self.delete(topic)
        after = self.created(topic)

        assert before != after
        assert (before.topic, before.partition) == (after.topic, after.partition)

    def test_a_name_is_an_identity_where_the_spec_says_so(self, topic: str) -> None:
        self.create(topic, 1)
        log = self.open_log({"topics": [topic], "identity": "name"})

        assert [f"name:{topic}"] == [each.topic_id for each in log.partitions()]

    def test_partitions_that_were_added_start_at_zero(self, topic: str) -> None:
        """K13."""
        self.create(topic, 3)
        log = self.open_log({"topics": [topic]})
        before = log.partitions()
        self.grow(topic, 6)
        self.send(topic, 5, self.numbered(0, 1))
        after = log.partitions()
        bounds = log.bounds(after)

        assert list(before) == list(after[:3])
        assert [0, 1, 2, 3, 4, 5] == [each.partition for each in after]
        assert Bounds(Offset(0), Offset(1), Offset(1)) == bounds[after[5]]

    def test_an_empty_partition_has_no_records(self, topic: str) -> None:
        self.create(topic, 1)

        assert Bounds(Offset(0), Offset(0), Offset(0)) == self.bounds(topic)

    def test_an_open_transaction_holds_back_the_stop_and_not_the_high(self, topic: str) -> None:
        self.created(topic, records=2)
        transaction = self.begin(topic, 0, self.numbered(2, 3))
        before = self.bounds(topic)
        transaction.commit()
        assert Bounds(Offset(0), Offset(2), Offset(5)) == before
        assert Bounds(Offset(0), Offset(6), Offset(6)) == self.bounds(topic)

    def test_the_start_follows_retention(self, topic: str) -> None:
        self.created(topic, records=5)
        self.delete_before(topic, 0, 3)

        assert Bounds(Offset(3), Offset(5), Offset(5)) == self.bounds(topic)

    def test_positions_are_found_by_time(self, topic: str) -> None:
        at = self.created(topic)
        self.send(topic, 0, [Sent(timestamp_ms=1_000_000 + 1_000 * n) for n in range(4)])
        log = self.open_log({"topics": [topic]})

        assert {at: 2} == log.positions_at([at], 1_001_001)
        assert {at: 0} == log.positions_at([at], 0)

    def test_a_time_after_all_records_is_the_end(self, topic: str) -> None:
        at = self.created(topic, records=3)
        log = self.open_log({"topics": [topic]})

        assert {at: 3} == log.positions_at([at], 4_000_000_000_000)

    def test_no_partitions_get_no_answer(self, topic: str) -> None:
        log = self.open_log({"topics": [{"pattern": topic}]})

        assert ({}, {}) == (log.bounds([]), log.positions_at([], 0))


class ReadingTests(LogBench):
    """What the worker reads."""

    def test_a_batch_has_the_columns_of_the_port(self, topic: str, reader: RangeReader) -> None:
        at = self.created(topic)
        self.send(topic, 0, [Sent(b"v", b"k", 1_700_000_000_123, (("h", b"1"), ("h", None)))])
        (plain,) = self.fetched(reader, at, span(0, 1))
        (full,) = self.fetched(reader, at, span(0, 1), headers=True)

        assert pa.schema(list(COLUMNS.items())) == plain.batch.schema
        assert pa.schema([*COLUMNS.items(), ("headers", HEADERS)]) == full.batch.schema
        (row,) = full.batch.to_pylist()
        assert (0, b"k", b"v") == (row["offset"], row["key"], row["value"])
        assert 1_700_000_000_123 == full.batch["timestamp"].cast(pa.int64())[0].as_py()
        assert [("h", b"1"), ("h", None)] == [tuple(each.values()) for each in row["headers"]]

    def test_an_empty_value_is_not_a_missing_one(self, topic: str, reader: RangeReader) -> None:
        at = self.created(topic)
        self.send(topic, 0, [Sent(b"", b""), Sent(None, b"k"), Sent(b"v", None)])
        (one,) = self.fetched(reader, at, span(0, 3), headers=True)

        assert [b"", None, b"v"] == one.batch["value"].to_pylist()
        assert [b"", b"k", None] == one.batch["key"].to_pylist()
        assert [[], [], []] == one.batch["headers"].to_pylist()

    def test_a_range_is_half_open(self, topic: str, reader: RangeReader) -> None:
        at = self.created(topic, records=10)

        assert ([(3, b"3"), (4, b"4")], 5) == self.read(reader, at, 3, 5)

    def test_an_empty_range_is_reached_without_records(
        self, topic: str, reader: RangeReader
    ) -> None:
        at = self.created(topic, records=3)

        assert ([], 2) == self.read(reader, at, 2, 2)

    def test_one_reader_reads_many_ranges_in_any_order(
        self, topic: str, reader: RangeReader
    ) -> None:
        at = self.created(topic, partitions=2, records=6)
        other = TopicPartition(at.topic_id, 1, topic)
        self.send(topic, 1, self.numbered(10, 2))

        assert ([(4, b"4"), (5, b"5")], 6) == self.read(reader, at, 4, 6)
        assert ([(0, b"10"), (1, b"11")], 2) == self.read(reader, other, 0, 2)
        assert ([(0, b"0"), (1, b"1")], 2) == self.read(reader, at, 0, 2)

    def test_a_reading_that_was_given_up_leaves_no_remains(
        self, topic: str, reader: RangeReader
    ) -> None:
        at = self.created(topic, records=6)
        begun = reader.read(at, span(0, 6), deadline=time.monotonic() + READ_SECONDS_MAX)
        next(begun)

        assert ([(1, b"1")], 2) == self.read(reader, at, 1, 2)

    @pytest.mark.parametrize("place", ["head", "middle", "tail"])
    def test_aborted_records_are_left_out(
        self, topic: str, reader: RangeReader, place: str
    ) -> None:
        """K10: offsets 0 to 3 hold the aborted records and the marker at the head, and so on."""
        at = self.created(topic)
        before, after = {"head": (0, 4), "middle": (2, 2), "tail": (4, 0)}[place]
        self.send(topic, 0, self.numbered(0, before))
        self.begin(topic, 0, self.numbered(90, 3)).abort()
        self.send(topic, 0, self.numbered(before, after))
        rows, reached = self.read(reader, at, 0, 8)

        assert [b"0", b"1", b"2", b"3"] == [value for _, value in rows]
        assert list(range(before)) == [offset for offset, _ in rows][:before]
        assert 8 == reached == self.bounds(topic).stop

    def test_a_tail_of_markers_moves_the_position(self, topic: str, reader: RangeReader) -> None:
        """K10: an idle partition that ends in markers is read to its end."""
        at = self.created(topic)
        for number in range(3):
            self.begin(topic, 0, self.numbered(number, 1)).commit()
        rows, reached = self.read(reader, at, 0, 6)

        assert ([(0, b"0"), (2, b"1"), (4, b"2")], 6) == (rows, reached)
        assert ([], 6) == self.read(reader, at, 5, 6)

    def test_a_range_may_end_within_a_transaction(self, topic: str, reader: RangeReader) -> None:
        at = self.created(topic)
        self.begin(topic, 0, self.numbered(0, 4)).commit()

        assert ([(1, b"1"), (2, b"2")], 3) == self.read(reader, at, 1, 3)

    def test_records_of_an_open_transaction_are_not_read(
        self, topic: str, reader: RangeReader
    ) -> None:
        at = self.created(topic, records=2)
        transaction = self.begin(topic, 0, self.numbered(2, 2))
        early = self.fetched(reader, at, span(0, 4), seconds=2.0)
        transaction.commit()

        assert 2 == early[-1].reached
        assert [b"0", b"1"] == [v for each in early for v in each.batch["value"].to_pylist()]
        assert ([(2, b"2"), (3, b"3")], 4) == self.read(reader, at, 2, 4)

    def test_a_deadline_ends_a_range_early(self, topic: str, reader: RangeReader) -> None:
        at = self.created(topic, records=3)
        batches = self.fetched(reader, at, span(0, 3), seconds=0.0)
        reached = batches[-1].reached if batches else 0

        assert reached == sum(len(each.batch) for each in batches)
        assert ([(n, str(n).encode()) for n in range(reached, 3)], 3) == self.read(
            reader, at, reached, 3
        )

    def test_a_range_that_retention_overtook_names_what_is_missing(
        self, topic: str, reader: RangeReader
    ) -> None:
        """K8."""
        at = self.created(topic, records=10)
        self.delete_before(topic, 0, 7)
        with pytest.raises(DecisionNeededError, match=r"\[2, 7\)") as raised:
            self.read(reader, at, 2, 10)
        assert "P210" == raised.value.code
        assert ([(7, b"7"), (8, b"8"), (9, b"9")], 10) == self.read(reader, at, 7, 10)

    def test_a_topic_that_is_gone_is_an_error(self, topic: str, reader: RangeReader) -> None:
        at = self.created(topic, records=3)
        self.read(reader, at, 0, 3)
        self.delete(topic)
        with pytest.raises(InvalidError, match=topic):
            self.read(reader, at, 0, 3)


class LogContract(ListingTests, ReadingTests):
    """Check one source log against the promises of its port."""
