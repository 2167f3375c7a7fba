"""The columnar reader against a real broker: byte by byte what librdkafka reads, or left to it."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.processes.broker import Cluster, Transaction, wait_until

from penstock.connectors.kafka.librdkafka.reader import KafkaReader
from penstock.connectors.kafka.native import reader as columnar_reader
from penstock.connectors.kafka.native.batch_builder import HELD_BYTES_MAX, GatheredBatches
from penstock.connectors.kafka.native.reader import ColumnarReader
from penstock.connectors.kafka.settings import read_settings
from penstock.core.errors import DecisionNeededError, InvalidError
from penstock.core.offsets import TopicPartition, span
from penstock.dev.broker import Running
from penstock.ports.log import RangeReader
from penstock.testing.sent import Sent

pytestmark = pytest.mark.broker
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOON = 1_700_000_000_000
NUMBERS = itertools.count()


class Plain:
    """Secrets that are none."""

    def resolve(self, text: str) -> str:
        return text


@dataclass(frozen=True, slots=True)
class Sending:
    """Some records in one way: plainly, or in a transaction that is ended now or at the end."""

    codec: str
    way: str
    records: list[Sent]


BYTES = st.one_of(st.none(), st.binary(max_size=40), st.sampled_from([b"ab" * 500, b"x" * 64]))
RECORDS = st.builds(
    Sent,
    BYTES,
    BYTES,
    st.one_of(st.integers(NOON - 5_000, NOON + 5_000), st.sampled_from([-1, 0, 1, NOON >> 9])),
    st.lists(st.tuples(st.text("aé\U0001f600", max_size=4), BYTES), max_size=3).map(tuple),
)
SENDINGS = st.builds(
    Sending,
    st.sampled_from(CODECS),
    st.sampled_from(["plain", "commit", "abort", "commit later", "abort later"]),
    st.lists(RECORDS, min_size=1, max_size=6),
)


@pytest.fixture(scope="module")
def clusters(broker: Running) -> dict[str, Cluster]:
    return {codec: Cluster(broker.bootstrap, {"compression.type": codec}) for codec in CODECS}


@pytest.fixture
def columnar(broker: Running) -> Iterator[ColumnarReader]:
    opened = ColumnarReader(read_settings({"brokers": broker.bootstrap}, Plain()))
    yield opened
    opened.close()


@pytest.fixture
def other(broker: Running) -> Iterator[KafkaReader]:
    opened = KafkaReader(read_settings({"brokers": broker.bootstrap}, Plain()))
    yield opened
    opened.close()


@cache
def place(topic: str) -> TopicPartition:
    return TopicPartition(f"name:{topic}", 0, topic)


def read(
    reader: RangeReader, at: TopicPartition, start: int, stop: int, epoch: int | None = None
) -> tuple[pa.Table, int, int | None]:
    """Return the rows of a range, the position reached, and the epoch before it."""
    deadline = time.monotonic() + 30
    covered = span(start, stop)
    fetches = list(reader.read(at, covered, deadline=deadline, headers=True, leader_epoch=epoch))
    table = pa.Table.from_batches([each.batch for each in fetches])
    return table.combine_chunks(), fetches[-1].reached, fetches[-1].leader_epoch


def send(clusters: dict[str, Cluster], topic: str, sendings: list[Sending]) -> int:
    """Send all, end what is open in turn; give the log's end."""
    later: list[tuple[Transaction, bool]] = []
    for each in sendings:
        cluster = clusters[each.codec]
        if each.way == "plain":
            cluster.send(topic, 0, each.records)
            continue
        opened, kept = cluster.begin(topic, 0, each.records), each.way.startswith("commit")
        if each.way.endswith("later"):
            later.append((opened, kept))
        else:
            (opened.commit if kept else opened.abort)()
    for opened, kept in later:
        (opened.commit if kept else opened.abort)()
    return clusters["none"]._end(topic, 0)


@pytest.fixture(params=[HELD_BYTES_MAX, 60], ids=["whole", "in pieces"])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return what a batch of the log may unpack to before it is read in pieces."""
    monkeypatch.setattr(columnar_reader, "GatheredBatches", partial(GatheredBatches, request.param))
    return int(request.param)


@pytest.mark.parametrize("stamped", ["CreateTime", "LogAppendTime"])
def test_both_readers_read_the_same_bytes(
    clusters: dict[str, Cluster],
    columnar: ColumnarReader,
    other: KafkaReader,
    stamped: str,
    held: int,
) -> None:
    """All codecs, headers, nulls, transactions that were committed, aborted and interleaved."""
    topic = f"same-{stamped}-{held}"
    clusters["none"].create(topic, message_timestamp_type=stamped)
    ends = [0]

    @settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.lists(SENDINGS, min_size=1, max_size=4), st.floats(0, 1))
    def same(sendings: list[Sending], share: float) -> None:
        begin, stop = ends[-1], send(clusters, topic, sendings)
        ends.append(stop)
        cut = begin + int(share * (stop - begin))
        for first, last in ((begin, stop), (begin, cut), (cut, stop)):
            if first < last:
                ours, theirs = (read(r, place(topic), first, last) for r in (columnar, other))
                ours[0].validate(full=True)
                assert theirs[1] == ours[1]
                assert theirs[2] in (None, ours[2]), "librdkafka shows no markers"
                assert theirs[0].equals(ours[0])

    same()
    whole, theirs = (read(r, place(topic), 0, ends[-1]) for r in (columnar, other))
    assert theirs[0].equals(whole[0])
    assert theirs[1] == whole[1]
    assert [] == list(columnar.left)


def test_a_connection_that_was_closed_meanwhile_is_opened_again(
    clusters: dict[str, Cluster], columnar: ColumnarReader
) -> None:
    clusters["lz4"].create("idle")
    clusters["lz4"].send("idle", 0, [Sent(b"1"), Sent(b"2")])
    epoch = read(columnar, place("idle"), 0, 2)[2]
    for known in (None, epoch):
        for wire in columnar._brokers._wires.values():
            wire._socket.shutdown(socket.SHUT_RDWR)
        assert [b"2"] == read(columnar, place("idle"), 1, 2, known)[0]["value"].to_pylist()
    assert epoch is not None
    assert [] == list(columnar.left)


def test_a_damaged_batch_is_never_given_out(
    clusters: dict[str, Cluster],
    columnar: ColumnarReader,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A byte on the broker's disk changes: what lies before is read, the rest an error."""
    clusters["lz4"].create("damaged")
    clusters["lz4"].send("damaged", 0, [Sent(b"whole")])
    clusters["lz4"].send("damaged", 0, [Sent(b"broken" * 100)])
    found = tmp_path_factory.getbasetemp().glob("broker*/data/damaged-0/*.log")
    (segment,) = {each.resolve() for each in found}
    held = bytearray(segment.read_bytes())
    held[-20] ^= 0x40
    segment.write_bytes(held)

    assert [b"whole"] == read(columnar, place("damaged"), 0, 1)[0]["value"].to_pylist()
    fetches = columnar.read(place("damaged"), span(0, 2), deadline=time.monotonic() + 30)
    given_out: list[bytes] = []
    with pytest.raises(DecisionNeededError) as caught:
        given_out.extend(v for each in fetches for v in each.batch["value"].to_pylist())
    assert "P212" == caught.value.code
    assert given_out in ([], [b"whole"])
    assert "checksum" in columnar.left[-1]


def test_a_recreated_topic_is_not_the_one_that_was_planned(
    clusters: dict[str, Cluster], columnar: ColumnarReader
) -> None:
    """The id is compared where records are read, not only where they are planned."""
    cluster = clusters["none"]
    cluster.create("again")
    cluster.send("again", 0, [Sent(b"old")])
    planned = TopicPartition(topic_id(cluster, "again"), 0, "again")
    assert [b"old"] == read(columnar, planned, 0, 1)[0]["value"].to_pylist()
    cluster.delete("again")
    cluster.create("again")
    wait_until(lambda: topic_id(cluster, "again") != planned.topic_id, "it is another one")
    cluster.send("again", 0, [Sent(b"new")])

    late = time.monotonic() + 0.2
    assert [] == [len(each.batch) for each in columnar.read(planned, span(0, 1), deadline=late)]
    with pytest.raises(InvalidError, match="deleted and created again") as caught:
        list(columnar.read(planned, span(0, 1), deadline=time.monotonic() + 30))
    assert "P205" == caught.value.code


def topic_id(cluster: Cluster, topic: str) -> str:
    from confluent_kafka import TopicCollection

    asked = cluster.admin.describe_topics(TopicCollection([topic]))[topic]
    return str(asked.result().topic_id).translate(str.maketrans("+/", "-_"))
