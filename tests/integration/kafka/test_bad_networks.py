"""What crosses the network: few requests; where it loses or cuts them, what is read is exact."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from tests.integration.kafka.conftest import RECORDS
from tests.processes.broker import Cluster, wait_until
from tests.servers.kafka_proxy import FrameFault, Kind

from penstock.connectors.kafka import connector
from penstock.connectors.kafka.librdkafka.reader import KafkaReader
from penstock.connectors.kafka.settings import read_settings
from penstock.core.errors import UnavailableError
from penstock.core.offsets import span
from penstock.core.planning import Bounds

pytestmark = pytest.mark.broker
ANSWER_SECONDS_MAX = 60.0


class Plain:
    """Secrets that are none."""

    def resolve(self, text: str) -> str:
        return text


@pytest.mark.parametrize("fault", FrameFault)
def test_a_range_is_read_exactly_whatever_happens_to_fetches(proxy, fault) -> None:
    address = {"brokers": f"127.0.0.1:{proxy.port}"}
    log = connector.open_log({**address, "topics": ["far"]}, Plain())
    [at] = log.partitions()
    reader = KafkaReader(read_settings(address, Plain()))
    proxy.queue(Kind.FETCH, fault, fault)
    try:
        deadline = time.monotonic() + 30
        batches = list(reader.read(at, span(0, RECORDS), deadline=deadline))
    finally:
        reader.close()
        log.close()
    rows = pa.Table.from_batches([each.batch for each in batches])

    assert list(range(RECORDS)) == rows["offset"].to_pylist()
    assert RECORDS == batches[-1].reached
    assert (Kind.FETCH, fault) in proxy.played


@pytest.mark.parametrize("fault", FrameFault)
def test_ends_are_listed_exactly_whatever_happens_to_the_listing(proxy, fault) -> None:
    log = connector.open_log({"brokers": f"127.0.0.1:{proxy.port}", "topics": ["far"]}, Plain())
    partitions = log.partitions()
    proxy.queue(Kind.LIST_OFFSETS, fault)
    try:
        bounds = _listed(lambda: log.bounds(partitions))
    finally:
        log.close()

    assert [(0, RECORDS)] == [(each.start, each.stop) for each in bounds.values()]
    assert (Kind.LIST_OFFSETS, fault) in proxy.played


@pytest.mark.parametrize("fault", FrameFault)
def test_positions_at_a_time_are_exact_whatever_happens_to_the_listing(proxy, fault) -> None:
    """An answer that was lost once meant the end of the log, and all before it was left out."""
    log = connector.open_log({"brokers": f"127.0.0.1:{proxy.port}", "topics": ["far"]}, Plain())
    partitions = log.partitions()
    proxy.queue(Kind.LIST_OFFSETS, fault)
    try:
        positions = _listed(lambda: log.positions_at(partitions, 0))
    finally:
        log.close()

    assert [0] == list(positions.values())


def test_a_thousand_quiet_partitions_are_listed_by_a_handful_of_requests(proxy) -> None:
    """A broker is asked for all of its partitions at once."""
    cluster = Cluster(f"127.0.0.1:{proxy.port}")
    cluster.create("quiet", 1_000)
    log = connector.open_log({"brokers": cluster.bootstrap, "topics": ["quiet"]}, Plain())
    try:
        wait_until(lambda: len(log.bounds(log.partitions())) == 1_000, "all have leaders")
        former = proxy.asked.copy()
        partitions = log.partitions()
        bounds = log.bounds(partitions)
        requests = proxy.asked - former
    finally:
        log.close()
        cluster.delete("quiet")

    assert list(range(1_000)) == [each.partition for each in partitions]
    assert [Bounds(0, 0, 0)] * 1_000 == [bounds[each] for each in partitions]
    assert 1 <= requests[Kind.LIST_OFFSETS] <= 3  # the start, the end, the last that is settled
    assert requests.total() <= 10


def _listed(ask):
    """Ask until there is an answer: the pipeline does, once a second."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            return ask()
        except UnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
