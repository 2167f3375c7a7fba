from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import Message

from penstock.connectors.kafka.columns import BATCH_BYTES, BATCH_RECORDS
from penstock.connectors.kafka.librdkafka.reader import Gathered
from penstock.core.offsets import Offset


def message(offset: int, **given: object) -> Message:
    return Message(**{"topic": "t", "partition": 0, "offset": offset, "value": b"v", **given})


def gathered(*messages: Message) -> Gathered:
    batch = Gathered()
    batch.add(messages)
    return batch


def test_times_are_exact_and_missing_ones_null() -> None:
    batch = gathered(
        message(0, timestamp=(1, -1)), message(1, timestamp=(1, 1_700_000_000_123))
    ).batch(headers=False)

    assert [None, 1_700_000_000_123] == batch["timestamp"].cast(pa.int64()).to_pylist()


def test_a_batch_without_messages_has_the_columns() -> None:
    assert ["offset", "timestamp", "key", "value"] == Gathered().batch(headers=False).schema.names
    assert 0 == len(Gathered().batch(headers=True))


def test_a_batch_is_full_by_count_or_by_size() -> None:
    assert not gathered(message(0)).full()
    assert gathered(message(0, value=b"x" * BATCH_BYTES)).full()
    assert gathered(*[message(0)] * BATCH_RECORDS).full()


@pytest.mark.parametrize(
    ("reached", "epoch"), [(6, 3), (7, None), (9, None)], ids=["after it", "a marker", "markers"]
)
def test_the_epoch_before_a_position_is_known_where_a_record_lies_there(
    reached: int, epoch: int | None
) -> None:
    class Led(Message):
        def leader_epoch(self) -> int:
            return 3

    messages = gathered(message(4), Led(topic="t", partition=0, offset=5, value=b"v"))

    assert epoch == messages.leader_epoch(Offset(reached))
    assert Gathered().leader_epoch(Offset(reached)) is None


def test_headers_that_cannot_be_read_are_null() -> None:
    class Broken(Message):
        def headers(self) -> object:
            raise SystemError

    given = Broken(topic="t", partition=0, offset=1, value=b"v")
    batch = gathered(message(0, headers=[("a", b"1")]), given).batch(headers=True)

    assert [[{"key": "a", "value": b"1"}], None] == batch["headers"].to_pylist()
