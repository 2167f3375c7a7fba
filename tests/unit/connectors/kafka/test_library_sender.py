"""What the sender of the client library waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from penstock.connectors.kafka.producers.held import HeldProducer, keep
from penstock.connectors.kafka.producers.sender import MessagePacker, ProducerSender
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.offsets import TopicPartition
from penstock.ports.producers import RecordsRefused, Term
from penstock.ports.sources import MESSAGES

ID, TERM, AT = "penstock-x-0", Term(7, 0), TopicPartition("id", 0, "x")
TOO_LARGE = 10
SETTINGS = KafkaSettings("k1:9092", ("x",), (), "topic_id", {})


class Library:
    """Refuses the first message, and holds the others back for ever."""

    def __init__(self) -> None:
        self.given: list[Callable[[KafkaError | None, Any], None]] = []
        self.waited_seconds = 0.0

    def begin_transaction(self) -> None:
        pass

    def produce(self, *_message: object, on_delivery: Any, **_more: object) -> None:
        self.given.append(on_delivery)

    def poll(self, _seconds: float) -> None:
        pass

    def flush(self, seconds: float) -> int:
        if not self.waited_seconds:
            self.given[0](KafkaError(TOO_LARGE), None)
        self.waited_seconds += seconds
        return len(self.given) - 1


def test_once_a_message_is_refused_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProducerSender, "_gone", lambda *_: None)
    library = Library()
    keep(ID, HeldProducer(library, TERM, SETTINGS, is_transactional=True))
    row = {"key": b"k", "value": b"v", "timestamp": 1, "headers": None}
    rows = pa.RecordBatch.from_pylist([row, row], MESSAGES)
    packed = MessagePacker().pack(rows, pa.array([0, 0], pa.int32()))
    found = ProducerSender(SETTINGS, patience_seconds=3600).send(ID, TERM, {AT: packed[0]})

    assert isinstance(found, RecordsRefused)
    assert (0,) == found.records
    assert library.waited_seconds < 1
