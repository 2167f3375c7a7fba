"""What only a real broker does to a reader: compaction, large records, truncation, silence."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from tests.processes.broker import Cluster, wait_until

from penstock.connectors.kafka import connector
from penstock.connectors.kafka.columns import BATCH_RECORDS
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.offsets import TopicPartition, span
from penstock.core.planning import Bounds
from penstock.dev.broker import Running, down, up
from penstock.ports.log import Fetched, RangeReader
from penstock.testing.sent import Sent

pytestmark = pytest.mark.broker
SECOND, HOUR = 1_000, 3_600_000
NOON = 1_700_000_000_000
NUMBERS = itertools.count()


class Plain:
    """Secrets that are none."""

    def resolve(self, text: str) -> str:
        return text


@pytest.fixture
def cluster(broker: Running) -> Cluster:
    return Cluster(broker.bootstrap)


@pytest.fixture(params=["columnar", "librdkafka"])
def reader(broker: Running, request: pytest.FixtureRequest) -> Iterator[RangeReader]:
    opened = opened_at(broker.bootstrap, request.param)
    yield opened
    opened.close()


@pytest.fixture
def topic() -> str:
    return f"reading-{next(NUMBERS)}"


def opened_at(brokers: str, reader: str = "columnar") -> RangeReader:
    return connector.open_reader({"brokers": brokers, "reader": reader}, Plain())


def place(cluster: Cluster, topic: str, partition: int = 0) -> TopicPartition:
    return listed(cluster, topic)[0][partition]


def listed(cluster: Cluster, topic: str):
    log = connector.open_log({"brokers": cluster.bootstrap, "topics": [topic]}, Plain())
    partitions = log.partitions()
    return partitions, log.bounds(partitions)


def read_once(reader: RangeReader, at: TopicPartition, start: int, stop: int) -> list[Fetched]:
    """Return all that a reader fetches of a range, and let go of it."""
    fetched = list(reader.read(at, span(start, stop), deadline=time.monotonic() + 30))
    reader.close()
    return fetched


def end(cluster: Cluster, topic: str) -> Bounds:
    partitions, bounds = listed(cluster, topic)
    return bounds[partitions[0]]


def read(reader: RangeReader, at: TopicPartition, start: int, stop: int, **given):
    """Return the rows of a range as one table, and the position reached."""
    deadline = time.monotonic() + given.pop("seconds", 30)
    batches = list(reader.read(at, span(start, stop), deadline=deadline, **given))
    return pa.Table.from_batches([each.batch for each in batches]), batches[-1].reached


def values(table: pa.Table) -> list[bytes]:
    return table["value"].to_pylist()


def numbered(first: int, count: int) -> list[Sent]:
    return [Sent(str(number).encode()) for number in range(first, first + count)]


def test_a_compacted_range_is_read_to_its_end(
    cluster: Cluster, reader: RangeReader, topic: str
) -> None:
    """K10: what was compacted away leaves holes, and the position passes over them."""
    cluster.create(
        topic, cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.001"
    )
    at = place(cluster, topic)
    for number in range(5):  # a segment rolls when the time of its records has moved on
        sent = [Sent(b"%d" % number, b"k%d" % (n % 3), NOON + number * HOUR) for n in range(20)]
        cluster.send(topic, 0, sent)
    stop = end(cluster, topic).stop
    assert 100 == stop

    wait_until(lambda: len(read(reader, at, 0, stop)[0]) < 40, "compacted")
    table, reached = read(reader, at, 0, stop)
    hole = max(offset for offset in range(79) if offset not in table["offset"].to_pylist())

    assert stop == reached
    assert [b"4"] * 20 == values(table)[-20:]
    assert 10 == read(reader, at, 5, 10)[1]
    assert hole + 1 == read(reader, at, hole, hole + 1)[1]


def test_committed_and_aborted_transactions_in_any_order_are_distinguished(
    cluster: Cluster, reader: RangeReader, topic: str
) -> None:
    """Two open transactions at a time, each committed or aborted, in both orders."""
    cluster.create(topic)
    at = place(cluster, topic)
    seen: list[tuple[int, bytes]] = []
    stop = 0
    for first_kept, second_kept, first_ends_first in product((True, False), repeat=3):
        first = cluster.begin(topic, 0, numbered(stop, 2))
        second = cluster.begin(topic, 0, numbered(stop + 2, 2))
        ends = [
            first.commit if first_kept else first.abort,
            second.commit if second_kept else second.abort,
        ]
        for finish in ends if first_ends_first else reversed(ends):
            finish()
        kept = [stop, stop + 1] * first_kept + [stop + 2, stop + 3] * second_kept
        seen += [(offset, b"%d" % offset) for offset in kept]
        stop += 6  # four records and two markers

    table, reached = read(reader, at, 0, stop)
    assert seen == list(zip(table["offset"].to_pylist(), values(table), strict=True))
    assert stop == reached == end(cluster, topic).stop
    for start, count in product(range(0, stop - 7, 5), (1, 3, 7)):
        table, reached = read(reader, at, start, start + count)
        assert [value for at_, value in seen if start <= at_ < start + count] == values(table)
        assert start + count == reached


def test_a_record_of_eight_megabytes_is_delivered(
    cluster: Cluster, reader: RangeReader, topic: str
) -> None:
    cluster.create(topic, max_message_bytes=str(16 << 20))
    large = os.urandom(8 << 20)
    cluster.send(topic, 0, [Sent(b"before"), Sent(large), Sent(b"after")])

    table, reached = read(reader, place(cluster, topic), 0, 3)
    assert [b"before", large, b"after"] == values(table)
    assert 3 == reached


def test_batches_are_bounded_and_a_deadline_loses_nothing(
    cluster: Cluster, reader: RangeReader, topic: str
) -> None:
    cluster.create(topic)
    count = 3 * BATCH_RECORDS
    cluster.send(topic, 0, [Sent(b"%d" % number) for number in range(count)])
    at = place(cluster, topic)

    whole = list(reader.read(at, span(0, count), deadline=time.monotonic() + 30))
    assert count == whole[-1].reached
    assert max(len(each.batch) for each in whole) < 2 * BATCH_RECORDS

    found, position = [], 0
    while position < count:
        for each in reader.read(at, span(position, count), deadline=time.monotonic() + 0.05):
            assert position == each.batch["offset"][0].as_py()
            found += each.batch["value"].to_pylist()
            position = each.reached
    assert [b"%d" % number for number in range(count)] == found


def test_a_record_without_a_time_has_none(
    cluster: Cluster, reader: RangeReader, topic: str
) -> None:
    cluster.create(topic)
    cluster.send(topic, 0, [Sent(timestamp_ms=-1), Sent(timestamp_ms=NOON)])

    table, _ = read(reader, place(cluster, topic), 0, 2)
    assert [None, NOON] == table["timestamp"].cast(pa.int64()).to_pylist()


def test_a_topic_that_never_was_is_an_error_and_not_a_wait(reader: RangeReader) -> None:
    begun = time.monotonic()
    with pytest.raises(InvalidError, match="topic nowhere does not exist") as caught:
        read(reader, TopicPartition("id", 0, "nowhere"), 0, 5)

    assert "P205" == caught.value.code
    assert time.monotonic() - begun < 20


def test_a_topic_that_is_mistyped_comes_with_the_one_that_was_meant(
    cluster: Cluster, topic: str
) -> None:
    topic = f"{topic}-of-orders"
    cluster.create(topic)
    asked = {"brokers": cluster.bootstrap, "topics": [topic[:-1]]}
    with pytest.raises(InvalidError, match="does not exist") as caught:
        connector.open_log(asked, Plain()).partitions()

    assert f"create it, or correct its name in the spec; did you mean {topic}?" == caught.value.hint


def test_a_start_after_the_end_is_reported_as_truncation(
    cluster: Cluster, reader: RangeReader, topic: str
) -> None:
    """K11, the plain case: the log now ends below our position."""
    cluster.create(topic)
    cluster.send(topic, 0, numbered(0, 5))
    with pytest.raises(DecisionNeededError, match="read up to 9") as caught:
        read(reader, place(cluster, topic), 9, 12)

    assert "P211" == caught.value.code


def test_brokers_that_cannot_be_reached_are_named_before_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.connectors.kafka.errors.DOWN_SECONDS_MAX", 1)
    nowhere = {"brokers": "127.0.0.1:1,127.0.0.1:2", "topics": ["t"]}
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1,127\.0\.0\.1:2.*refused") as caught:
        connector.open_log(nowhere, Plain()).partitions()
    with pytest.raises(UnavailableError, match=re.escape("127.0.0.1:1")):
        read(opened_at(nowhere["brokers"]), TopicPartition("id", 0, "t"), 0, 5, seconds=240)

    assert "P201" == caught.value.code


@pytest.mark.parametrize("named", [True, False])
def test_a_topic_that_is_recreated_while_it_is_listed_is_waited_for(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Between the two nobody has it; that is not yet the end of a pipeline that reads it."""
    monkeypatch.setattr("penstock.connectors.kafka.log.GONE_SECONDS_MIN", 60)
    cluster.create(topic)
    asked = {"topics": [topic]} if named else {"topics": [{"pattern": re.escape(topic)}]}
    log = connector.open_log({"brokers": cluster.bootstrap, **asked}, Plain())
    (before,) = log.partitions()
    cluster.delete(topic)
    again = threading.Timer(0.5, cluster.create, [topic, 2])
    again.start()
    after = log.partitions()
    again.join()

    assert {before.topic_id} != {each.topic_id for each in after}
    assert [0, 1] == [each.partition for each in after]


class TestABrokerOfItsOwn:
    """Stories in which the broker itself goes down."""

    @pytest.fixture
    def home(self, tmp_path: Path) -> Iterator[Path]:
        yield tmp_path / "broker"
        down(tmp_path / "broker")

    def test_a_log_that_was_replaced_under_us_is_reported_by_its_epoch(self, home: Path) -> None:
        """K11 (KIP-320): the log lost what was read and has grown past our position again."""
        running = up(home, 0)
        cluster = Cluster(running.bootstrap)
        cluster.create("orders")
        cluster.send("orders", 0, numbered(0, 10))
        at = place(cluster, "orders")
        first = opened_at(running.bootstrap)
        (fetched,) = first.read(at, span(0, 10), deadline=time.monotonic() + 30)
        epoch = fetched.leader_epoch
        first.close()
        down(home)
        (segments,) = (home / "data").glob("orders-0")
        shutil.rmtree(segments)
        (home / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)

        running = up(home, 0)
        cluster = Cluster(running.bootstrap)
        wait_until(lambda: cluster.partition_count("orders") == 1, "a leader")
        cluster.send("orders", 0, numbered(100, 20))
        again = opened_at(running.bootstrap)
        assert place(cluster, "orders") == at
        assert epoch is not None
        with pytest.raises(DecisionNeededError, match="read up to 10") as caught:
            read(again, at, 10, 20, leader_epoch=epoch)
        assert "P211" == caught.value.code

        (fresh,) = again.read(at, span(0, 20), deadline=time.monotonic() + 30)
        assert epoch < fresh.leader_epoch
        assert 20 == read(again, at, 12, 20, leader_epoch=fresh.leader_epoch)[1]
        again.close()

    def test_a_marker_that_a_later_leader_wrote_is_not_taken_for_a_cut(self, home: Path) -> None:
        """The client of the librdkafka reader does not show it: what is before it is not known."""
        running = up(home, 0)
        cluster = Cluster(running.bootstrap)
        cluster.create("orders")
        opened = cluster.begin("orders", 0, numbered(0, 10))
        at = place(cluster, "orders")
        down(home)
        up(home, int(running.bootstrap.rpartition(":")[2]))
        wait_until(lambda: cluster.partition_count("orders") == 1, "a leader")
        opened.commit()
        assert 11 == end(cluster, "orders").stop
        for first, second in product(("columnar", "librdkafka"), repeat=2):
            (fetched,) = read_once(opened_at(running.bootstrap, first), at, 0, 11)
            (after,) = read_once(opened_at(running.bootstrap, first), at, 0, 10)
            cluster.send("orders", 0, numbered(100, 1))
            stop = end(cluster, "orders").stop
            again = opened_at(running.bootstrap, second)
            if first == "librdkafka":
                assert fetched.leader_epoch is None
            assert after.leader_epoch is not None
            for begin, known in ((11, fetched.leader_epoch), (10, after.leader_epoch)):
                assert stop == read(again, at, begin, stop, leader_epoch=known)[1]
            again.close()

    def test_a_broker_that_goes_away_while_reading_is_unavailable(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("penstock.connectors.kafka.errors.DOWN_SECONDS_MAX", 1)
        running = up(home, 0)
        cluster = Cluster(running.bootstrap)
        cluster.create("orders")
        cluster.send("orders", 0, numbered(0, 10))
        at = place(cluster, "orders")
        reader = opened_at(running.bootstrap)
        assert 10 == read(reader, at, 0, 10)[1]
        down(home)
        with pytest.raises(UnavailableError, match=re.escape(running.bootstrap)) as caught:
            read(reader, at, 0, 10, seconds=240)

        assert "P201" == caught.value.code
        reader.close()


def test_k9_no_consumer_group_holds_a_position(
    cluster: Cluster, reader: RangeReader, topic: str
) -> None:
    """There is no group to lose: what was read is known by the tables alone."""
    cluster.create(topic)
    cluster.send(topic, 0, [Sent(b"1"), Sent(b"2")])
    rows, _ = read(reader, place(cluster, topic), 0, 2)
    groups = cluster.admin.list_consumer_groups().result().valid

    assert 2 == rows.num_rows
    assert set() == {each.group_id for each in groups if "penstock" in each.group_id}
