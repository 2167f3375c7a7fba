"""Kafka as a source log: listed through confluent-kafka, read in columns or through it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.ports.checks import CheckResult
from penstock.ports.connectors import PORTS_VERSION, LogConnector, Settings
from penstock.ports.groups import GroupOffsets
from penstock.ports.log import Log, RangeReader
from penstock.ports.producers import Packer, ProducerNeeds, Producers, Sender, Terms
from penstock.ports.runtime import Clock, Secrets
from penstock.ports.transactions import Transactions


def open_log(settings: Settings, secrets: Secrets) -> Log:
    """Open the listing side. Connects when first asked. Raises InvalidError."""
    from penstock.connectors.kafka.log import KafkaLog
    from penstock.connectors.kafka.settings import read_settings

    return KafkaLog(read_settings(settings, secrets))


def open_reader(settings: Settings, secrets: Secrets) -> RangeReader:
    """Open the reading side. Connects when first asked. Raises InvalidError."""
    from penstock.connectors.kafka.librdkafka.reader import KafkaReader
    from penstock.connectors.kafka.settings import LIBRDKAFKA, read_settings

    read = read_settings(settings, secrets)
    if read.reader == LIBRDKAFKA:
        return KafkaReader(read)
    from penstock.connectors.kafka.native.reader import ColumnarReader

    return ColumnarReader(read)


def examine(settings: Settings, secrets: Secrets, clock: Clock) -> Sequence[CheckResult]:
    """Check brokers, permissions and clocks. Raises InvalidError for settings it cannot read."""
    from penstock.connectors.kafka import health
    from penstock.connectors.kafka.settings import read_settings

    return health.examine(read_settings(settings, secrets), clock)


def open_transactions(settings: Settings, secrets: Secrets) -> Transactions:
    """Open the list of open transactions. Connects when first asked. Raises InvalidError."""
    from penstock.connectors.kafka.settings import read_settings
    from penstock.connectors.kafka.transactions.open_transactions import KafkaTransactions

    return KafkaTransactions(read_settings(settings, secrets))


def open_producers(settings: Settings, secrets: Secrets, topic: str, timeout_ms: int) -> Producers:
    """Open terms, the offsets topic, and the look behind receipts. Connects when first asked.

    `client` is `own`, or `librdkafka` with its `protocol`, 0 for no transactions. Raises
    InvalidError.
    """
    from penstock.connectors.kafka.native.brokers import Brokers
    from penstock.connectors.kafka.settings import read_settings
    from penstock.connectors.kafka.transactions.heads import KafkaHeads
    from penstock.connectors.kafka.transactions.leaders import Leaders
    from penstock.connectors.kafka.transactions.offsets_topic import OffsetsTopic
    from penstock.connectors.kafka.transactions.terms import KafkaTerms
    from penstock.connectors.kafka.transactions.topics import KafkaTopics

    read = read_settings(settings, secrets)
    now_ms = lambda: time.time_ns() // 1_000_000  # noqa: E731
    terms: Terms
    if _is_of_library(settings):
        from penstock.connectors.kafka.producers.sender import (
            MessagePacker,
            ProducerSender,
        )
        from penstock.connectors.kafka.producers.terms import ProducerTerms

        terms = ProducerTerms(
            read,
            compression=settings.get("compression", "none"),
            timeout_ms=timeout_ms,
            protocol=settings["protocol"],
        )
        ledger = OffsetsTopic(
            read, topic, now_ms=now_ms, packer=MessagePacker(), sender=ProducerSender(read)
        )
    else:
        terms = KafkaTerms(read, timeout_ms=timeout_ms)
        ledger = OffsetsTopic(read, topic, now_ms=now_ms)
    return Producers(terms, ledger, KafkaHeads(Leaders(Brokers(read), read)), KafkaTopics(read))


def open_packer(settings: Settings) -> Packer:
    """Open the encoding side of a worker.

    `compression` is the codec, `batch_bytes_max` the largest batch that the topic takes, if known.
    """
    if _is_of_library(settings):
        from penstock.connectors.kafka.producers.sender import MessagePacker

        return MessagePacker()
    from penstock.connectors.kafka.native.record_batch_writer import KafkaPacker, records_bytes_max

    limit = records_bytes_max(settings.get("batch_bytes_max"))
    return KafkaPacker(codec=settings.get("compression", "none"), batch_bytes_max=limit)


def open_sender(settings: Settings, secrets: Secrets) -> Sender:
    """Open the sending side of a worker. Connects when first asked. Raises InvalidError."""
    from penstock.connectors.kafka.settings import read_settings

    read = read_settings(settings, secrets)
    if _is_of_library(settings):
        from penstock.connectors.kafka.producers.sender import ProducerSender

        return ProducerSender(read)
    from penstock.connectors.kafka.transactions.sender import KafkaSender

    return KafkaSender(read)


def examine_writing(
    settings: Settings, secrets: Secrets, needs: ProducerNeeds
) -> Sequence[CheckResult]:
    """Check what a publication needs of a cluster. Raises InvalidError for unreadable settings."""
    from penstock.connectors.kafka.settings import read_settings
    from penstock.connectors.kafka.transactions import writing_health

    return [*writing_health.examine_writing(read_settings(settings, secrets), needs)]


def open_group(settings: Settings, secrets: Secrets, name: str) -> GroupOffsets:
    """Open a group to write its offsets. Connects when first asked. Raises InvalidError."""
    from penstock.connectors.kafka.groups import KafkaGroup
    from penstock.connectors.kafka.settings import read_settings

    return KafkaGroup(read_settings(settings, secrets), name)


def _is_of_library(settings: Settings) -> bool:
    return bool(settings.get("client") == "librdkafka")


connector = LogConnector(
    PORTS_VERSION,
    open_log,
    open_reader,
    examine,
    open_transactions,
    open_producers,
    open_packer,
    open_sender,
    examine_writing,
    open_group,
)
