"""What the sender writes is read back equal by librdkafka, by Java's client and by our own reader."""

from __future__ import annotations

import itertools
import random  # noqa: TID251  from a seed
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, Producer, TopicPartition
from kafka.protocol.admin import AlterClientQuotasRequest
from tests.processes.broker import Cluster
from tests.servers import java_consumer
from tests.servers.java_consumer import JavaConsumer

from penstock.connectors.kafka import connector
from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.native.compression import NUMBERS
from penstock.connectors.kafka.native.partitioner import partitions_of
from penstock.connectors.kafka.native.record_batch_writer import KafkaPacker, finished
from penstock.connectors.kafka.native.record_batches import headers_of
from penstock.connectors.kafka.settings import read_settings
from penstock.connectors.kafka.transactions import sender as sending
from penstock.connectors.kafka.transactions.sender import KafkaSender
from penstock.connectors.kafka.transactions.terms import KafkaTerms
from penstock.core import offsets
from penstock.core.errors import BugError, InvalidError
from penstock.core.offsets import OffsetRange
from penstock.dev.broker import Running
from penstock.ports.producers import PackedBatch, RecordsRefused, Refused, Term
from penstock.spec.secrets import ProcessSecrets
from penstock.testing.contracts.sending import Row, numbered, rows_in, rows_of

pytestmark = pytest.mark.broker
CODECS = list(NUMBERS)
ANY_TIME = {"message_timestamp_after_max_ms": str((1 << 63) - 1)}
BATCH_BYTES_MAX = 16 << 20
READ_SECONDS_MAX = 30.0
NUMBERED = itertools.count()
OUT_OF_ORDER, IMPOSSIBLE_TIME = 45, 32


@pytest.fixture(scope="module")
def java(broker: Running) -> Iterator[JavaConsumer]:
    with java_consumer.running(broker.bootstrap) as running:
        yield running


class Field:
    """A topic, a term, and a sender."""

    def __init__(self, broker: Running, partitions: int = 1, **config: str) -> None:
        self.brokers = broker.bootstrap
        self.name = f"sending-{next(NUMBERED)}"
        self.settings = read_settings({"brokers": self.brokers}, ProcessSecrets())
        self.cluster = Cluster(self.brokers)
        self.cluster.create(self.name, partitions, max_message_bytes=str(BATCH_BYTES_MAX), **config)
        given = {"brokers": self.brokers, "topics": [self.name]}
        self.log = connector.open_log(given, ProcessSecrets())
        self.reader = connector.open_reader(given, ProcessSecrets())
        self.places = self.log.partitions()
        self.terms = KafkaTerms(self.settings, timeout_ms=60_000)
        self.term = self.terms.take(self.name)
        self.sender = KafkaSender(self.settings, patience_seconds=5.0)

    def send(self, batches: Mapping[int, Iterable[PackedBatch]]) -> Any:
        """Send batches by the number of their partition."""
        given = {self.places[number]: own for number, own in batches.items()}
        return self.sender.send(self.name, self.term, given)

    def end(self) -> None:
        """Commit what was sent."""
        assert isinstance(self.terms.end(self.name, self.term), Term)

    def read(self, number: int) -> list[Row]:
        """Read a partition by our own reader."""
        at, until = self.places[number], time.monotonic() + READ_SECONDS_MAX
        while (bounds := self.log.bounds([at])[at]).stop < bounds.high:
            assert time.monotonic() < until
        covered = OffsetRange(bounds.start, bounds.stop)
        fetched = self.reader.read(at, covered, deadline=until, headers=True)
        return [row for each in fetched for row in rows_in(each.batch)]

    def read_by_librdkafka(self, number: int, count: int) -> list[Row]:
        """Read a partition by librdkafka, which checks the checksums."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.brokers,
                "group.id": "sending",
                "isolation.level": "read_committed",
                "check.crcs": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self.name, number, 0)])
        found: list[Row] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), READ_SECONDS_MAX)
            assert messages
            assert [] == [each.error() for each in messages if each.error()]
            found += map(_row, messages)
        consumer.close()
        return found


def _row(message: Any) -> Row:
    kind, time_ms = message.timestamp()
    written = None if kind == TIMESTAMP_NOT_AVAILABLE else time_ms
    return written, message.key(), message.value(), list(message.headers() or ())


def messy(seed: int, times: Sequence[int]) -> list[Row]:
    """Return records of many sizes, some without key or value, with headers of all kinds."""
    chance = random.Random(seed)
    small, sizes = [0, 1, 63, 64, 127, 128], [0, 1, 63, 64, 127, 128, 8_191, 8_192, 70_000]

    def text(sizes: list[int]) -> bytes | None:
        size = chance.choice(sizes)
        whole = chance.randbytes(size) if chance.random() < 0.5 else b"words " * (size // 6)
        return None if chance.random() < 0.15 else whole

    def headers() -> list[tuple[str, bytes | None]]:
        names = ["", "a", "a", "größe", "数", "n" * 100]
        return [
            (chance.choice(names), text(small)) for _ in range(chance.choice([0, 0, 0, 1, 3, 9]))
        ]

    rows = [(chance.choice(times), text(small), text(sizes), headers()) for _ in range(60)]
    large: list[Row] = [(times[0], b"large", chance.randbytes(1_500_000), [])]
    return [*rows[:40], *large, *rows[40:]]


TIMES = [1_700_000_000_000, 1_700_000_000_001, 1_600_000_000_000, 0, -7, -(1 << 45), 1 << 62]


@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_is_read_back_equal_by_all_readers(
    broker: Running, java: JavaConsumer, codec: str
) -> None:
    field, rows = Field(broker, **ANY_TIME), messy(CODECS.index(codec), TIMES)
    places = pa.array([0] * len(rows), pa.int32())
    batches = KafkaPacker(codec=codec, batch_bytes_max=100_000).pack(rows_of(rows), places)
    found = field.send(batches)
    field.end()

    assert isinstance(found, Mapping)
    assert (0, len(rows) - 1, len(rows)) == (
        found[field.places[0]].first,
        found[field.places[0]].last,
        found[field.places[0]].records,
    )
    assert rows == field.read(0)
    assert rows == java.read(field.name, 0, len(rows))
    assert rows == field.read_by_librdkafka(0, len(rows))


def test_keys_go_where_librdkafka_sends_them_and_keep_their_order(broker: Running) -> None:
    ours, theirs = Field(broker, 5), Field(broker, 5)
    rows: list[Row] = [
        (1_700_000_000_000 + n, b"k%d" % (n % 97), b"%d" % n, []) for n in range(900)
    ]
    columns = rows_of(rows)
    ours.send(KafkaPacker(codec="lz4").pack(columns, partitions_of(columns["key"], 5)))
    ours.end()
    settings = {"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random"}
    producer = Producer({**settings, "enable.idempotence": True})
    for time_ms, key, value, _ in rows:
        producer.produce(theirs.name, value, key, timestamp=time_ms)
    producer.flush()

    for number in range(5):
        assert theirs.read(number) == ours.read(number)


@pytest.mark.parametrize("codec", CODECS)
def test_our_reader_reads_what_librdkafka_writes(broker: Running, codec: str) -> None:
    field, rows = Field(broker, **ANY_TIME), messy(9, [each for each in TIMES if each > 0])
    limits = {"message.max.bytes": 32 << 20, "linger.ms": 5, "compression.type": codec}
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, **limits}
    )
    for time_ms, key, value, headers in rows:
        producer.produce(field.name, value, key, timestamp=time_ms, headers=headers)
    producer.flush()

    assert rows == field.read(0)


def one(rows: Sequence[Row]) -> dict[int, Sequence[PackedBatch]]:
    return dict(
        KafkaPacker(codec="none").pack(rows_of(rows), pa.array([0] * len(rows), pa.int32()))
    )


def test_checksums_are_those_that_stand_in_the_log(broker: Running) -> None:
    field = Field(broker)
    batches = KafkaPacker(codec="zstd", batch_bytes_max=500).pack(
        rows_of(numbered(0, 100)), pa.array([0] * 100, pa.int32())
    )
    books = field.send(batches)[field.places[0]]
    field.end()
    sequence, expected = 0, 0
    for each in batches[0]:
        batch, checksum = finished(each, field.term, sequence)
        assert [each.count] == [head.count for head in headers_of(batch)]
        assert int.from_bytes(batch[17:21], "big") == checksum
        sequence, expected = sequence + each.count, expected + checksum

    assert (100, len(batches[0]), expected) == (books.records, books.count, books.crc_sum)


def test_a_batch_that_is_found_damaged_is_sent_once_more_and_then_our_bug(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    field, produced = Field(broker), []
    ask = sending.ask

    def watched(wire: Any, name: str, batches: Any, settings: Any) -> Any:
        produced.append([*batches.values()])
        return ask(wire, name, batches, settings)

    def damaged(packed: PackedBatch, term: Term, sequence: int) -> tuple[bytes, int]:
        batch, checksum = finished(packed, term, sequence)
        return batch[:17] + bytes([batch[17] ^ 1]) + batch[18:], checksum

    monkeypatch.setattr(sending, "finished", damaged)
    monkeypatch.setattr(sending, "ask", watched)
    with pytest.raises(BugError, match="records 0 to 2 damaged") as bug:
        field.send(one(numbered(0, 3)))

    assert "P285" == bug.value.code
    assert 2 == len(produced)
    assert produced[0] == produced[1]


def test_a_sequence_that_is_not_the_next_is_refused(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = Field(broker)
    assert isinstance(field.send(one(numbered(0, 3))), Mapping)
    monkeypatch.setattr(
        sending, "finished", lambda packed, term, number: finished(packed, term, number + 5)
    )
    found = field.send(one(numbered(3, 3)))

    assert isinstance(found, Refused)
    assert OUT_OF_ORDER == found.error


def test_a_record_from_the_future_is_named_by_its_number(broker: Running) -> None:
    """Numbers count over the batches of a partition, and the term stays good."""
    field = Field(broker)
    rows = numbered(0, 30)
    rows[21] = (4_000_000_000_000, *rows[21][1:])
    small = KafkaPacker(codec="lz4", batch_bytes_max=200)
    found = field.send(small.pack(rows_of(rows), pa.array([0] * 30, pa.int32())))

    assert isinstance(found, RecordsRefused)
    assert (field.places[0], IMPOSSIBLE_TIME, (21,)) == (found.at, found.error, found.records)


def test_a_partition_that_no_topic_has_is_given_up_in_time(broker: Running) -> None:
    field = Field(broker)
    field.sender.patience_seconds = 0.2
    beyond = replace(field.places[0], partition=7)
    begun = time.monotonic()
    found = field.sender.send(field.name, field.term, {beyond: one(numbered(0, 1))[0]})

    assert isinstance(found, Refused)
    assert time.monotonic() - begun < 5
    nowhere = offsets.TopicPartition("A" * 22, 0, "no-such-topic")
    assert isinstance(
        field.sender.send(field.name, field.term, {nowhere: one(numbered(0, 1))[0]}), Refused
    )


def limit(field: Field, bytes_per_second: float | None) -> None:
    """Limit what our client may send; None takes the limit away."""
    entry = AlterClientQuotasRequest.EntryData
    entity = entry.EntityData(entity_type="client-id", entity_name="penstock")
    rate = bytes_per_second or 0.0
    op = entry.OpData(key="producer_byte_rate", value=rate, remove=bytes_per_second is None)
    request = AlterClientQuotasRequest(
        entries=[entry(entity=[entity], ops=[op])], validate_only=False
    )
    brokers = Brokers(field.settings)
    assert 0 == brokers.any().ask(request, 0).entries[0].error_code
    brokers.forget()


def test_the_time_that_a_broker_wants_not_to_be_asked_is_waited(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    field = Field(broker)
    slept: list[float] = []
    monkeypatch.setattr(sending.time, "sleep", slept.append)
    limit(field, 20_000.0)
    try:
        until = time.monotonic() + READ_SECONDS_MAX
        while max(slept, default=0) <= sending.PAUSE_SECONDS:  # brokers learn of it by and by
            assert time.monotonic() < until
            field.term = field.terms.take(field.name)
            found = field.send(one([(1_700_000_000_000, b"k", b"x" * 400_000, [])]))
            assert isinstance(found, Mapping)
    finally:
        limit(field, None)


def test_the_next_batch_is_made_while_the_broker_writes_and_sent_behind_its_answer(
    broker: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    field, seen = Field(broker), list[str]()
    ask, answered = sending.ask, sending.answered

    def batches() -> Iterator[PackedBatch]:
        for number in range(3):
            seen.append(f"made {number}")
            yield one(numbered(number, 1))[0][0]

    monkeypatch.setattr(sending, "ask", lambda *given: (seen.append("asked"), ask(*given))[1])
    monkeypatch.setattr(
        sending, "answered", lambda *a, **k: (seen.append("answered"), answered(*a, **k))[1]
    )
    field.send({0: batches()})
    field.end()

    turns = ["made 0", "asked", "made 1", "answered", "asked", "made 2", "answered", "asked"]
    assert [*turns, "answered"] == seen
    assert numbered(0, 3) == field.read(0)


def test_a_source_that_fails_while_an_answer_is_due_leaves_a_sender_that_works(
    broker: Running,
) -> None:
    field = Field(broker)

    def failing() -> Iterator[PackedBatch]:
        yield one(numbered(0, 1))[0][0]
        raise InvalidError("gone", code="P816", hint="none")

    with pytest.raises(InvalidError, match="gone"):
        field.send({0: failing()})
    renewed = field.terms.renew(field.name, field.term)
    assert isinstance(renewed, Term)
    field.term = renewed
    assert isinstance(field.send(one(numbered(1, 2))), Mapping)
    field.end()

    assert numbered(1, 2) == field.read(0)
