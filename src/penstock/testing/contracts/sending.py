# ruff: noqa: D102, SIM300 - test names are the sentences, and numbers are examples
"""The contract of `ports/producers.py`, of packers and senders: what was sent is there, once.

Each answer was measured on Kafka 4.3.1 (docs/design/0281).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.core.receipts import Batches
from penstock.ports.log import Log, RangeReader
from penstock.ports.producers import (
    BatchTooLarge,
    NotSent,
    PackedBatch,
    Packer,
    RecordsRefused,
    Refused,
    Sender,
    Term,
    Terms,
)
from penstock.testing.contracts.transactions import LONG_MS, NOT_OPEN, error_of, fresh

OLD_EPOCH, OUT_OF_ORDER, TOO_LARGE, INVALID_RECORD = 47, 45, 10, 87
READ_SECONDS_MAX = 30.0
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS = pa.schema(
    [
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
Row = tuple[int | None, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class SendingFixture:
    """What both suites need: override all but `named` and what follows it."""

    def open_terms(self, *, timeout_ms: int) -> Terms:
        """Return terms on the cluster."""
        raise NotImplementedError

    def open_packer(self, *, batch_bytes_max: int) -> Packer:
        """Return a packer of batches of at most so many bytes."""
        raise NotImplementedError

    def open_sender(self) -> Sender:
        """Return a sender, which gives up soon."""
        raise NotImplementedError

    def open_log(self, topic: str) -> Log:
        """Return the log of a topic."""
        raise NotImplementedError

    def open_reader(self) -> RangeReader:
        """Return a reader of committed records."""
        raise NotImplementedError

    def create(self, topic: str, *, batch_bytes_max: int, is_compacted: bool) -> None:
        """Create a topic of two partitions."""
        raise NotImplementedError

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        raise NotImplementedError

    @pytest.fixture
    def name(self) -> str:
        """Return a transactional id, and topic, that nobody used."""
        return fresh("sent")

    @pytest.fixture
    def terms(self) -> Terms:
        """Return terms."""
        return self.open_terms(timeout_ms=LONG_MS)

    def made(
        self, name: str, *, batch_bytes_max: int = 1 << 20, is_compacted: bool = False
    ) -> Sequence[TopicPartition]:
        """Create a topic; return its two partitions."""
        self.create(name, batch_bytes_max=batch_bytes_max, is_compacted=is_compacted)
        return self.open_log(name).partitions()

    def packed(
        self,
        places: Sequence[TopicPartition],
        rows: Mapping[int, Sequence[Row]],
        *,
        batch_bytes_max: int = 1 << 19,
    ) -> dict[TopicPartition, Sequence[PackedBatch]]:
        """Pack rows for partitions by number."""
        each = [(number, row) for number, own in rows.items() for row in own]
        found = self.open_packer(batch_bytes_max=batch_bytes_max).pack(
            rows_of([row for _, row in each]), pa.array([number for number, _ in each], pa.int32())
        )
        return {places[number]: own for number, own in found.items()}

    def sent(
        self, name: str, term: Term, batches: Mapping[TopicPartition, Sequence[PackedBatch]]
    ) -> Mapping[TopicPartition, Batches] | NotSent:
        """Send by a sender of its own, as another process would."""
        sender = self.open_sender()
        try:
            return sender.send(name, term, batches)
        finally:
            sender.close()

    def ended(self, terms: Terms, name: str, term: Term) -> None:
        """Commit what is open."""
        assert isinstance(terms.end(name, term), Term)

    def read(self, at: TopicPartition, count: int) -> list[Row]:
        """Return the committed records of a partition, once so many may be read."""
        log, reader, deadline = self.open_log(at.topic), self.open_reader(), READ_SECONDS_MAX
        deadline += time.monotonic()
        found: list[Row] = []
        while len(found) < count and time.monotonic() < deadline:
            bounds = log.bounds([at])[at]
            covered = OffsetRange(bounds.start, bounds.stop)
            found = [
                row
                for fetched in reader.read(at, covered, deadline=deadline, headers=True)
                for row in rows_in(fetched.batch)
            ]
        return found


class SendingContract(SendingFixture):
    """Of any packer with its sender."""

    def test_a_key_has_one_partition_among_so_many(self) -> None:
        keys = pa.array([b"a", None, b"", b"a", *(b"%d" % n for n in range(50))], pa.binary())
        places = self.open_packer(batch_bytes_max=1000).partitions_of(keys, 3).to_pylist()

        assert places[1] is None
        assert places[0] == places[3]
        assert {0, 1, 2} == {each for each in places if each is not None}

    def test_records_are_there_in_order_when_their_transaction_ends(
        self, terms: Terms, name: str
    ) -> None:
        places, term = self.made(name), terms.take(name)
        rows = {0: numbered(0, 50), 1: numbered(50, 7)}
        found = self.sent(name, term, self.packed(places, rows))

        assert isinstance(found, Mapping)
        assert {
            places[0]: (0, 49, 50, 1),
            places[1]: (0, 6, 7, 1),
        } == {at: (b.first, b.last, b.records, b.count) for at, b in found.items()}
        assert all(each.crc_sum for each in found.values())
        self.ended(terms, name, term)
        assert rows[0] == self.read(places[0], 50)
        assert rows[1] == self.read(places[1], 7)

    def test_nulls_empty_texts_and_headers_are_what_they_were(
        self, terms: Terms, name: str
    ) -> None:
        places, term = self.made(name), terms.take(name)
        rows: list[Row] = [
            (1_700_000_000_000, None, None, []),
            (1_700_000_000_001, b"", b"", [("", b""), ("", None)]),
            (-5, b"k", None, [("é", b"\xff"), ("é", b"2")]),
            (None, None, b"v" * 70_000, []),
        ]
        assert isinstance(self.sent(name, term, self.packed(places, {1: rows})), Mapping)
        self.ended(terms, name, term)

        assert rows == self.read(places[1], 4)

    def test_batches_of_a_partition_follow_each_other_and_their_checksums_add_up(
        self, terms: Terms, name: str
    ) -> None:
        places, term = self.made(name), terms.take(name)
        rows = numbered(0, 300)
        batches = self.packed(places, {0: rows}, batch_bytes_max=2_000)
        found = self.sent(name, term, batches)

        assert isinstance(found, Mapping)
        assert len(batches[places[0]]) == found[places[0]].count
        assert (0, 299, 300) == (
            found[places[0]].first,
            found[places[0]].last,
            found[places[0]].records,
        )
        self.ended(terms, name, term)
        assert rows == self.read(places[0], 300)

    def test_a_record_larger_than_a_batch_has_one_of_its_own(self, terms: Terms, name: str) -> None:
        places, term = self.made(name), terms.take(name)
        rows = [*numbered(0, 3), (7, b"large", b"x" * 9_000, []), *numbered(3, 3)]
        batches = self.packed(places, {0: rows}, batch_bytes_max=2_000)
        assert [3, 1, 3] == [each.count for each in batches[places[0]]]
        assert isinstance(self.sent(name, term, batches), Mapping)
        self.ended(terms, name, term)

        assert rows == self.read(places[0], 7)

    def test_nothing_is_there_without_a_batch(self, terms: Terms, name: str) -> None:
        places, term = self.made(name), terms.take(name)

        assert {} == self.sent(name, term, {places[0]: [], places[1]: []})
        assert NOT_OPEN == error_of(terms.end(name, term))

    def test_under_a_former_term_nothing_is_sent(self, terms: Terms, name: str) -> None:
        places, term = self.made(name), terms.take(name)
        batches = self.packed(places, {0: numbered(0, 3)})
        newer = terms.take(name)

        assert OLD_EPOCH == why(self.sent(name, term, batches))
        assert isinstance(self.sent(name, newer, batches), Mapping)
        self.ended(terms, name, newer)
        assert numbered(0, 3) == self.read(places[0], 3)

    def test_a_second_attempt_is_taken_for_the_first_or_out_of_order(
        self, terms: Terms, name: str
    ) -> None:
        """Why a partition has one writer for a term: the broker compares sequences only."""
        places, term = self.made(name), terms.take(name)
        first = self.sent(name, term, self.packed(places, {0: numbered(0, 3)}))
        other = self.sent(name, term, self.packed(places, {0: numbered(5, 3)}))

        assert isinstance(first, Mapping)
        assert isinstance(other, Mapping)
        assert (0, 2) == (other[places[0]].first, other[places[0]].last)
        cut = self.packed(places, {0: numbered(0, 4)})
        assert OUT_OF_ORDER == why(self.sent(name, term, cut))
        self.ended(terms, name, term)
        assert numbered(0, 3) == self.read(places[0], 3)

    def test_the_limit_of_a_topic_is_learned(self, terms: Terms, name: str) -> None:
        places, term = self.made(name, batch_bytes_max=5_000), terms.take(name)
        batches = self.packed(places, {0: [noise(n, 3_000) for n in range(3)]})
        found = self.sent(name, term, batches)

        assert isinstance(found, BatchTooLarge)
        assert (places[0], TOO_LARGE, 5_000) == (found.at, found.error, found.bytes_max)

    def test_one_record_that_is_too_large_is_named(self, terms: Terms, name: str) -> None:
        places, term = self.made(name, batch_bytes_max=5_000), terms.take(name)
        rows = [*numbered(0, 3), noise(1, 9_000)]
        batches = self.packed(places, {1: rows}, batch_bytes_max=2_000)
        found = self.sent(name, term, batches)

        assert isinstance(found, RecordsRefused)
        assert (places[1], TOO_LARGE, (3,)) == (found.at, found.error, found.records)

    def test_records_that_a_topic_does_not_take_are_named_and_the_term_stays_good(
        self, terms: Terms, name: str
    ) -> None:
        places, term = self.made(name, is_compacted=True), terms.take(name)
        keyless: Row = (1_700_000_000_000, None, b"v", [])
        rows = [*numbered(0, 4), keyless, *numbered(4, 2), keyless]
        found = self.sent(name, term, self.packed(places, {0: rows}))

        assert isinstance(found, RecordsRefused)
        assert (places[0], INVALID_RECORD, (4, 7)) == (found.at, found.error, found.records)
        assert isinstance(self.sent(name, term, self.packed(places, {0: numbered(0, 3)})), Mapping)
        self.ended(terms, name, term)
        assert numbered(0, 3) == self.read(places[0], 3)

    def test_a_topic_that_was_created_again_is_not_written(self, terms: Terms, name: str) -> None:
        places, term = self.made(name), terms.take(name)
        sender, former = self.open_sender(), self.packed(places, {0: numbered(0, 3)})
        assert isinstance(sender.send(name, term, former), Mapping)
        self.delete(name)
        again = self.made(name)

        assert isinstance(
            sender.send(name, term, self.packed(places, {1: numbered(3, 3)})), Refused
        )
        newer = terms.take(name)
        assert isinstance(self.sent(name, newer, self.packed(again, {1: numbered(9, 3)})), Mapping)
        self.ended(terms, name, newer)
        assert numbered(9, 3) == self.read(again[1], 3)
        assert [] == self.read(again[0], 0)
        sender.close()


def numbered(first: int, count: int) -> list[Row]:
    """Return rows that differ."""
    return [
        (1_700_000_000_000 + n, b"k%d" % n, b"v%d" % n, [("n", b"%d" % n)] if n % 3 == 0 else [])
        for n in range(first, first + count)
    ]


def noise(number: int, size_bytes: int) -> Row:
    """Return a row that no codec makes smaller."""
    bits = bytes((n * n * 31 + number * 7 + (n >> 3) * 13) & 0xFF for n in range(size_bytes))
    return 1_700_000_000_000, b"k%d" % number, bits, []


def rows_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows in columns."""
    stamps = pa.array([time_ms for time_ms, *_ in rows], pa.int64()).cast(ROWS[0].type)
    data: list[Any] = [
        stamps,
        *(pa.array([row[n] for row in rows], pa.binary()) for n in (1, 2)),
        pa.array([[{"key": k, "value": v} for k, v in row[3]] for row in rows], HEADERS),
    ]
    return pa.RecordBatch.from_arrays(data, schema=ROWS)


def rows_in(batch: pa.RecordBatch) -> list[Row]:
    """Return the rows of columns."""
    times = batch["timestamp"].cast(pa.int64()).to_pylist()
    columns = (batch[name].to_pylist() for name in ("key", "value", "headers"))
    return [
        (time_ms, key, value, [(each["key"], each["value"]) for each in headers])
        for time_ms, key, value, headers in zip(times, *columns, strict=True)
    ]


def why(answer: Mapping[TopicPartition, Batches] | NotSent) -> int:
    """Return Kafka's number of a refusal, 0 when there was none."""
    return answer.error if isinstance(answer, Refused | RecordsRefused) else 0
