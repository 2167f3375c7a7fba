"""The ledger of a publication: a compacted topic, in the format of Connect's offsets.

Invariants:
- it is compacted and nothing else: retention would delete positions (Connect's own rule);
- it is read up to the high watermark of all partitions, listed when the reading begins;
- a key is written to the partition of its hash, as Java's producers and Connect do it, and what
  another one has of it, from when there were fewer, is taken away with that: one copy is live;
- what is written, in whichever partition, is written by one sender under its rules.

Source: KIP-618; `org.apache.kafka.connect.storage.KafkaOffsetBackingStore`; docs/design/0274.
"""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock.connectors.kafka.log import GONE_SECONDS_MIN
from penstock.connectors.kafka.native.brokers import NO_ID, Brokers
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.native.record_batch_writer import KafkaPacker
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    UNKNOWN_TOPIC,
    not_answered,
    refused,
    unconnected,
)
from penstock.connectors.kafka.transactions.decided import Written, decide, read
from penstock.connectors.kafka.transactions.fetching import fetched_batches
from penstock.connectors.kafka.transactions.leaders import MOVED, PAUSE_SECONDS, Leaders
from penstock.connectors.kafka.transactions.list_offsets import (
    COMMITTED,
    EARLIEST,
    LATEST,
    UNCOMMITTED,
    offset_of,
)
from penstock.connectors.kafka.transactions.sender import KafkaSender
from penstock.connectors.kafka.transactions.topics import COMPACT, POLICY, KafkaTopics
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.ports.producers import Entry, Look, NewTopic, Packer, Refused, Sender, Term

SEGMENT_BYTES = str(16 << 20)
"""The newest segment is never compacted, and all of it is read at each look."""


def policy_refused(topic: str, policy: str) -> InvalidError:
    """Return the error of an offsets topic that is not compacted, or not only."""
    return InvalidError(
        f"the offsets topic {topic} has  {POLICY}={policy}:  retention would delete positions",
        code="P800",
        hint=f"kafka-configs --alter --entity-type topics --entity-name '{topic}'"
        f" --add-config {POLICY}={COMPACT}",
    )


class OffsetsTopic:
    """Implements `ports.producers.Ledger` over a topic of a real cluster."""

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        *,
        now_ms: Any,
        packer: Packer | None = None,
        sender: Sender | None = None,
    ) -> None:
        self._settings, self._topic, self._now_ms = settings, topic, now_ms
        self._brokers = Brokers(settings)
        self._leaders = Leaders(self._brokers, settings)
        self._packer = packer or KafkaPacker(codec="none")
        self._sender = sender or KafkaSender(settings)
        self._places: list[TopicPartition] = []
        self._former: dict[bytes, list[int]] = {}

    def prepare(self) -> None:
        """Create the topic if it is missing, and check its policy. Raises InvalidError (P800).

        A start looks at the topic of now: one that was created again is another ledger's.
        """
        self._places, self._former = [], {}
        new = NewTopic(1, {POLICY: COMPACT, "segment.bytes": SEGMENT_BYTES})
        topics = KafkaTopics(self._settings)
        topics.prepare(self._topic, new)
        self._require_compacted(topics)

    def check(self) -> None:
        """Check the policy of a topic that is there. Raises InvalidError (P800)."""
        if self.exists():
            self._require_compacted(KafkaTopics(self._settings))

    def _require_compacted(self, topics: KafkaTopics) -> None:
        policy = topics.policy(self._topic)
        if policy != COMPACT:
            raise policy_refused(self._topic, policy)

    def exists(self) -> bool:
        """Return whether the topic is there."""
        return bool(self._described().error_code != UNKNOWN_TOPIC)

    def look(self) -> Look:
        """Read all partitions up to the high watermarks of now."""
        at_home: dict[bytes, bytes] = {}
        elsewhere: dict[bytes, bytes] = {}  # from when there were fewer partitions
        self._former = {}
        undecided: frozenset[bytes] = frozenset()
        with contextlib.suppress(FallbackError):  # then it is looked up when it is needed
            self._brokers.look_up(self._topic)  # offsets are listed by its name, of whichever id
        places = self._grown()
        for at in places:
            try:
                # Before the high watermark is listed: what it says may be old.
                stable = offset_of(self._leaders, at, LATEST, COMMITTED)
                found = decide(self._read(at), stable)
            except FallbackError as error:
                raise not_answered(f"topic {self._topic}", str(error)) from error
            keys = [*found.entries]
            homes = self._packer.partitions_of(pa.array(keys, pa.binary()), len(places)).to_pylist()
            for key, home in zip(keys, homes, strict=True):
                (at_home if home == at.partition else elsewhere)[key] = found.entries[key]
                if home != at.partition:
                    self._former.setdefault(key, []).append(at.partition)
            undecided |= found.undecided
        return Look(elsewhere | at_home, undecided)

    def append(self, transactional_id: str, term: Term, entries: Sequence[Entry]) -> Refused | None:
        """Write entries, each where its key's hash says; those of a partition in their order.

        Copies of their keys that the last look found in other partitions go with that.
        """
        places = self._partitions()
        keys = pa.array([key for key, _ in entries], pa.binary())
        homes = self._packer.partitions_of(keys, len(places)).to_pylist()
        at = [(*entry, home) for entry, home in zip(entries, homes, strict=True)]
        at += [(key, None, former) for key, _ in entries for former in self._former.pop(key, ())]
        columns = [
            pa.array([self._now_ms()] * len(at), pa.timestamp("ms", tz="UTC")),
            pa.array([key for key, _, _ in at], pa.binary()),
            pa.array([value for _, value, _ in at], pa.binary()),
        ]
        rows = pa.record_batch(columns, ["timestamp", "key", "value"])
        packed = self._packer.pack(rows, pa.array([place for *_, place in at], pa.int32()))
        batches = {places[number]: own for number, own in packed.items()}
        sent = self._sender.send(transactional_id, term, batches)
        return None if isinstance(sent, Mapping) else Refused(sent.error, sent.reason)

    def close(self) -> None:
        """Let go of connections."""
        self._brokers.forget()
        self._sender.close()

    def _partitions(self) -> list[TopicPartition]:
        """Return the partitions of the last look, behind which nobody else has written."""
        if not self._places:
            until = time.monotonic() + GONE_SECONDS_MIN
            while (found := self._described()).error_code in MOVED and time.monotonic() <= until:
                time.sleep(PAUSE_SECONDS)
            if found.error_code:
                raise refused(found.error_code, f"topic {self._topic}", self._settings)
            self._places = self._places_of(found)
        return self._places

    def _grown(self) -> list[TopicPartition]:
        """Return the partitions, with those that were added since; another topic has none of it."""
        known = self._partitions()
        found = self._described()
        if not found.error_code:
            listed = self._places_of(found)
            if listed[0].topic_id == known[0].topic_id:
                self._places = listed
        return self._places

    def _described(self) -> Any:
        try:
            (found,) = self._brokers.listed([self._topic])
        except FallbackError as error:
            raise unconnected(error, f"topic {self._topic}", self._settings) from error
        return found

    def _places_of(self, found: Any) -> list[TopicPartition]:
        if found.topic_id in (None, NO_ID):
            identity = f"name:{self._topic}"
        else:
            identity = base64.urlsafe_b64encode(found.topic_id.bytes).decode().rstrip("=")
        numbers = sorted(each.partition_index for each in found.partitions)
        return [TopicPartition(identity, number, self._topic) for number in numbers]

    def _read(self, at: TopicPartition) -> Iterator[Written]:
        begin = offset_of(self._leaders, at, EARLIEST, UNCOMMITTED)
        stop = offset_of(self._leaders, at, LATEST, UNCOMMITTED)
        for batches, fetched in fetched_batches(self._leaders, at, begin, stop):
            yield from read(batches, fetched)
