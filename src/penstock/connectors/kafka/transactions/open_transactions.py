"""Open transactions of a real cluster: partitions first, then what coordinators know of them.

Invariants:
- what no coordinator ends hangs: its partition is asked before and after the coordinators, so that
  one that ends meanwhile is not taken for it;
- that no coordinator shows an id means nothing to a user who may not see all ids: that one is asked
  for an id of no name first;
- a request that writes is sent for one transaction, which was listed before.

Source: KIP-664; `org.apache.kafka.tools.TransactionsCommand`; docs/design/0276.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.producer import InitProducerIdRequest, WriteTxnMarkersRequest

from penstock.connectors.kafka.log import KafkaLog
from penstock.connectors.kafka.native.brokers import Brokers, Leader
from penstock.connectors.kafka.native.connection import FallbackError, Wire
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    ID_REFUSED,
    UNKNOWN_TOPIC,
    not_answered,
    refused,
    require_version,
    unconnected,
)
from penstock.connectors.kafka.transactions.coordinators import Coordinators
from penstock.connectors.kafka.transactions.leaders import PAUSE_SECONDS, Asked, Leaders
from penstock.connectors.kafka.transactions.list_offsets import LATEST, UNCOMMITTED, offset_of
from penstock.core.offsets import TopicPartition
from penstock.ports.transactions import (
    HeldPartition,
    OpenTransaction,
    Scope,
    TransactionState,
)

PATIENCE_SECONDS = 15.0
PRODUCERS_VERSION, LIST_VERSION, DESCRIBE_VERSION, INIT_VERSION, MARKERS_VERSION = 0, 0, 0, 4, 1
PARTITIONS_MAX = 1_000
"""Of one request for the producers of partitions."""
ONGOING = "Ongoing"
FENCE_TIMEOUT_MS = 60_000
OWN_TOPICS = "__"
COORDINATORS_TOPIC = "__transaction_state"
"""A partition of it without a leader hides the ids that it holds."""


@dataclass(frozen=True, slots=True)
class _Producer:
    """A producer with something open in a partition."""

    at: TopicPartition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class _Known:
    """What a coordinator says of an id."""

    name: str
    state: str
    began_ms: int
    timeout_ms: int
    places: frozenset[tuple[str, int]]


class KafkaTransactions:
    """Implements `ports.transactions.Transactions`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._brokers = Brokers(settings)
        self._leaders = Leaders(self._brokers, settings, PATIENCE_SECONDS)
        self._coordinators = Coordinators(self._brokers, settings)

    def listed(self, scope: Scope) -> Sequence[OpenTransaction]:
        """List what is open, in three steps: partitions, coordinators, partitions again."""
        try:
            producers = self._producers(self._partitions(scope))
            if not producers:
                return []
            known, complete = self._coordinated(producers)
            suspects = {each for each in producers if not _will_end(each, known)}
            still: set[_Producer] = set()
            if suspects:  # a coordinator may have moved from a broker not yet asked to one that was
                again, complete_again = self._coordinated(suspects)
                known, complete = {**known, **again}, complete and complete_again
                suspects = {each for each in suspects if not _will_end(each, known)}
                still = set(self._producers([each.at for each in suspects]))
        except FallbackError as error:
            raise unconnected(error, "the cluster", self._settings) from error
        left = [each for each in producers if each not in suspects or each in still]
        grouped: dict[tuple[int, int, TransactionState], list[_Producer]] = {}
        for each in left:
            state = _state(each, known, hangs=each in suspects, complete=complete)
            grouped.setdefault((each.producer_id, each.epoch, state), []).append(each)
        found = [
            self._transaction(state, own, known.get(number))
            for (number, _, state), own in grouped.items()
        ]
        return sorted(found, key=lambda each: (each.began_ms or 0, each.producer_id))

    def abort(self, found: OpenTransaction) -> None:
        """Fence the producer of an open transaction; write markers where one hangs."""
        places = {(each.topic, each.partition) for each in found.partitions}
        try:
            listed = self._of({each.topic for each in found.partitions})
            at = [each for each in listed if (each.topic, each.partition) in places]
            if found.state is TransactionState.OPEN:
                self._fence(found.transactional_id)
            else:
                for each in self._of_transaction(found, at):
                    self._mark(each)
            until = time.monotonic() + PATIENCE_SECONDS
            while self._of_transaction(found, at):
                if time.monotonic() > until:
                    raise not_answered(f"transaction {found.name}", "it is still open")
                time.sleep(PAUSE_SECONDS)
        except FallbackError as error:
            raise unconnected(error, "the cluster", self._settings) from error

    def close(self) -> None:
        """Let go of connections."""
        self._brokers.forget()

    def _partitions(self, scope: Scope) -> list[TopicPartition]:
        if scope is Scope.CLUSTER:
            return self._of(None)
        with closing(KafkaLog(self._settings)) as log:
            topics = log.wanted()
        return self._of(topics) if topics else []

    def _of(self, topics: Iterable[str] | None) -> list[TopicPartition]:
        """List partitions that have a leader; of all topics, without those of Kafka itself."""
        listed = self._brokers.listed(None if topics is None else sorted(topics))
        found = []
        for topic in listed:
            if topics is None and (topic.error_code or topic.name.startswith(OWN_TOPICS)):
                continue
            if topic.error_code == UNKNOWN_TOPIC:  # in what is not there yet nothing is open
                continue
            if topic.error_code:
                raise refused(topic.error_code, f"topic {topic.name}", self._settings)
            for each in topic.partitions:
                if not each.error_code and each.leader_id >= 0:
                    place = (f"name:{topic.name}", each.partition_index, topic.name)
                    found.append(TopicPartition(*place))
        return found

    def _producers(self, partitions: Sequence[TopicPartition]) -> list[_Producer]:
        """Ask leaders for producers with something open; what moves is asked again one by one."""
        by_node: dict[int, list[TopicPartition]] = {}
        for at in partitions:
            by_node.setdefault(self._brokers.leader(at).node, []).append(at)
        found: list[_Producer] = []
        for node, led in sorted(by_node.items()):
            for first in range(0, len(led), PARTITIONS_MAX):
                found += self._of_leader(node, led[first : first + PARTITIONS_MAX])
        return found

    def _of_leader(self, node: int, led: Sequence[TopicPartition]) -> Iterator[_Producer]:
        wire, request = self._brokers.wire(node), _of_producers(led)
        version = require_version(wire, request, PRODUCERS_VERSION, self._settings)
        answers = {
            (topic.name, each.partition_index): each
            for topic in wire.ask(request, version).topics
            for each in topic.partitions
        }
        for at in led:
            part = answers.get((at.topic, at.partition))
            if part is None or part.error_code:
                part = self._leaders.ask(at, self._asked_of(at), _only_partition)
            if part.error_code:
                raise refused(part.error_code, f"topic {at.topic}", self._settings)
            yield from _open_in(at, part)

    def _asked_of(self, at: TopicPartition) -> Any:
        def make(_: Leader, wire: Wire) -> Asked:
            request = _of_producers([at])
            return request, require_version(wire, request, PRODUCERS_VERSION, self._settings)

        return make

    def _of_transaction(
        self, found: OpenTransaction, partitions: Sequence[TopicPartition]
    ) -> list[_Producer]:
        """Return where this very transaction is still open."""
        firsts = {(each.topic, each.partition): each.first_offset for each in found.partitions}
        return [
            each
            for each in self._producers(partitions)
            if each.producer_id == found.producer_id
            and each.first_offset == firsts[each.at.topic, each.at.partition]
        ]

    def _coordinated(
        self, producers: Iterable[_Producer]
    ) -> tuple[Mapping[int, _Known | None], bool]:
        """Return what coordinators know of producers, and whether all of it was seen."""
        names, complete = self._names({each.producer_id for each in producers})
        known = {number: self._known(name) for number, name in names.items()}
        return known, complete and self._sees_all_ids() and self._sees_all_coordinators()

    def _names(self, producer_ids: set[int]) -> tuple[Mapping[int, str], bool]:
        """Ask all brokers for the ids of producers; return also whether all answered."""
        found: dict[int, str] = {}
        complete = True
        for node in self._brokers.nodes():
            until = time.monotonic() + PATIENCE_SECONDS
            while True:
                try:
                    wire = self._brokers.wire(node)
                    request = ListTransactionsRequest(producer_id_filters=sorted(producer_ids))
                    version = require_version(wire, request, LIST_VERSION, self._settings)
                    answer = wire.ask(request, version)
                except FallbackError:
                    complete = False
                    break
                if not answer.error_code:
                    states = answer.transaction_states
                    found |= {each.producer_id: each.transactional_id for each in states}
                    break
                if time.monotonic() > until:
                    complete = False
                    break
                time.sleep(PAUSE_SECONDS)
        return found, complete

    def _sees_all_ids(self) -> bool:
        """Ask for an id that nobody has: to whom it is not forbidden, ids are not hidden."""
        error, _ = self._brokers.coordinator(secrets.token_hex())
        return error != ID_REFUSED

    def _sees_all_coordinators(self) -> bool:
        """Return whether each coordinator's share of ids has a broker, as far as we may see."""
        (shares,) = self._brokers.listed([COORDINATORS_TOPIC])
        led = (not each.error_code and each.leader_id >= 0 for each in shares.partitions)
        return not shares.error_code and all(led)

    def _known(self, name: str) -> _Known | None:
        answer = self._described(name)
        if answer.error_code:
            return None
        places = {(topic.topic, number) for topic in answer.topics for number in topic.partitions}
        return _Known(
            name,
            answer.transaction_state,
            answer.transaction_start_time_ms,
            answer.transaction_timeout_ms,
            frozenset(places),
        )

    def _described(self, name: str) -> Any:
        return self._coordinators.ask(
            name,
            lambda: DescribeTransactionsRequest(transactional_ids=[name]),
            DESCRIBE_VERSION,
            patience_seconds=PATIENCE_SECONDS,
            error_of=lambda answer: int(answer.transaction_states[0].error_code),
        ).transaction_states[0]

    def _transaction(
        self, state: TransactionState, own: Sequence[_Producer], known: _Known | None
    ) -> OpenTransaction:
        partitions = []
        for each in own:
            high = offset_of(self._leaders, each.at, LATEST, UNCOMMITTED)
            held = max(high - each.first_offset, 0)
            place = (each.at.topic, each.at.partition)
            partitions.append(HeldPartition(*place, each.first_offset, held))
        ends = known if state in {TransactionState.OPEN, TransactionState.ENDING} else None
        return OpenTransaction(
            known.name if known else "",
            state,
            own[0].producer_id,
            own[0].epoch,
            ends.began_ms if ends else None,
            ends.timeout_ms if ends else None,
            tuple(sorted(partitions)),
        )

    def _fence(self, name: str) -> None:
        answer = self._coordinators.ask(
            name,
            lambda: InitProducerIdRequest(
                transactional_id=name,
                transaction_timeout_ms=FENCE_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            ),
            INIT_VERSION,
            patience_seconds=PATIENCE_SECONDS,
        )
        if answer.error_code:
            raise refused(answer.error_code, f"transactional id {name}", self._settings)

    def _mark(self, hanging: _Producer) -> None:
        def make(_: Leader, wire: Wire) -> Asked:
            marker = WriteTxnMarkersRequest.WritableTxnMarker
            topic = marker.WritableTxnMarkerTopic(
                name=hanging.at.topic, partition_indexes=[hanging.at.partition]
            )
            one = marker(
                producer_id=hanging.producer_id,
                producer_epoch=hanging.epoch,
                transaction_result=False,
                topics=[topic],
                coordinator_epoch=max(hanging.coordinator_epoch, 0),
            )
            request = WriteTxnMarkersRequest(markers=[one])
            return request, require_version(wire, request, MARKERS_VERSION, self._settings)

        part = self._leaders.ask(
            hanging.at, make, lambda answer, _: answer.markers[0].topics[0].partitions[0]
        )
        if part.error_code:
            raise refused(part.error_code, f"topic {hanging.at.topic}", self._settings)


def _of_producers(led: Sequence[TopicPartition]) -> Any:
    by_topic: dict[str, list[int]] = {}
    for at in led:
        by_topic.setdefault(at.topic, []).append(at.partition)
    topic = DescribeProducersRequest.TopicRequest
    wanted = [topic(name=name, partition_indexes=each) for name, each in by_topic.items()]
    return DescribeProducersRequest(topics=wanted)


def _only_partition(answer: Any, _: Leader) -> Any:
    return answer.topics[0].partitions[0]


def _open_in(at: TopicPartition, part: Any) -> Iterator[_Producer]:
    for each in part.active_producers:
        if each.current_txn_start_offset >= 0:
            yield _Producer(
                at,
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.current_txn_start_offset,
            )


def _will_end(producer: _Producer, known: Mapping[int, _Known | None]) -> bool:
    """Return whether a coordinator has the partition in a transaction; of one that ended it has
    none.
    """
    found = known.get(producer.producer_id)
    return found is not None and (producer.at.topic, producer.at.partition) in found.places


def _state(
    producer: _Producer, known: Mapping[int, _Known | None], *, hangs: bool, complete: bool
) -> TransactionState:
    found = known.get(producer.producer_id)
    if not hangs:
        ongoing = found is not None and found.state == ONGOING
        return TransactionState.OPEN if ongoing else TransactionState.ENDING
    sure = complete or found is not None
    return TransactionState.HANGING if sure else TransactionState.UNKNOWN
