"""The contract of `ports/log.py` against the log in memory, and what only it can play."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

import pytest
from tests.story.clock import ManualClock
from tests.story.foreign_acts import PlayedCluster

from penstock.connectors.memory.cluster import Message
from penstock.connectors.memory.log import MemoryLog, MemoryReader
from penstock.core.errors import DecisionNeededError, UnavailableError
from penstock.core.offsets import span
from penstock.ports.log import Log, RangeReader
from penstock.testing.contracts.log import LogContract, OpenTransaction
from penstock.testing.sent import Sent

DEADLINE = 1e9


class TestMemoryLog(LogContract):
    def setup_method(self):
        self.cluster = PlayedCluster()
        self.clock = ManualClock()

    def open_log(self, settings: Mapping[str, Any]) -> Log:
        return MemoryLog(self.cluster, settings)

    def open_reader(self) -> RangeReader:
        return MemoryReader(self.cluster, self.clock, batch_records=3)

    def create(self, topic: str, partitions: int) -> None:
        self.cluster.create(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        self.cluster.grow(topic, partitions)

    def delete(self, topic: str) -> None:
        self.cluster.delete(topic)

    def send(self, topic: str, partition: int, records: Sequence[Sent]) -> None:
        self.cluster.send(topic, *messages(records), partition=partition)

    def begin(self, topic: str, partition: int, records: Sequence[Sent]) -> OpenTransaction:
        transaction = self.cluster.begin()
        transaction.send(topic, *messages(records), partition=partition)
        return transaction

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        self.cluster.delete_before(topic, partition, offset)

    def test_a_partition_without_a_leader_is_not_listed_and_ends_early(self, topic, reader):
        at = self.created(topic)
        self.send(topic, 0, self.numbered(0, 3))
        self.cluster.lose_leader(topic, 0)
        log = self.open_log({"topics": [topic]})

        assert ({}, {}) == (log.bounds([at]), log.positions_at([at], 0))
        assert ([], 0) == self.read(reader, at, 0, 3)
        self.cluster.elect_leader(topic, 0)
        assert 3 == self.read(reader, at, 0, 3)[1]

    def test_compacted_offsets_are_passed_over(self, topic, reader):
        at = self.created(topic)
        self.send(topic, 0, self.numbered(0, 5))
        self.cluster.compact(topic, 0, [0, 2, 4])

        assert ([(1, b"1"), (3, b"3")], 5) == self.read(reader, at, 0, 5)

    def test_an_unclean_election_is_reported_also_when_the_log_has_grown_past_us(
        self, topic, reader
    ):
        at = self.created(topic)
        self.send(topic, 0, self.numbered(0, 5))
        (*_, last) = reader.read(at, span(0, 5), deadline=DEADLINE)
        self.cluster.elect_leader(topic, 0, truncate_to=3)
        with pytest.raises(DecisionNeededError, match="no longer holds"):
            list(reader.read(at, span(5, 6), deadline=DEADLINE))
        self.send(topic, 0, self.numbered(10, 5))
        with pytest.raises(DecisionNeededError, match="no longer holds"):
            list(reader.read(at, span(5, 8), deadline=DEADLINE, leader_epoch=last.leader_epoch))

    def test_a_clean_election_changes_nothing(self, topic, reader):
        at = self.created(topic)
        self.send(topic, 0, self.numbered(0, 2))
        (*_, last) = reader.read(at, span(0, 2), deadline=DEADLINE)
        self.cluster.elect_leader(topic, 0)
        self.send(topic, 0, self.numbered(2, 1))
        (one,) = reader.read(at, span(2, 3), deadline=DEADLINE, leader_epoch=last.leader_epoch)

        assert (3, 1) == (one.reached, one.leader_epoch)

    def test_a_cluster_that_is_down_answers_nothing(self, topic, reader):
        at = self.created(topic)
        log = self.open_log({"topics": [topic]})
        self.cluster.go_down()
        for act in (
            log.cluster_id,
            log.partitions,
            lambda: log.bounds([at]),
            lambda: list(reader.read(at, span(0, 1), deadline=DEADLINE)),
        ):
            with pytest.raises(UnavailableError):
                act()


def messages(records: Sequence[Sent]) -> list[Message]:
    return [Message(*astuple(record)) for record in records]
