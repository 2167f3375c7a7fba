"""Kafka as a source log: listed through confluent-kafka, read in columns or through it."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.ports.checks import CheckResult
from penstock.ports.connectors import PORTS_VERSION, LogConnector, Settings
from penstock.ports.log import Log, RangeReader
from penstock.ports.runtime import Clock, Secrets


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
    """Look at brokers, permissions and clocks. Raises InvalidError for settings it cannot read."""
    from penstock.connectors.kafka.health import examine as look
    from penstock.connectors.kafka.settings import read_settings

    return look(read_settings(settings, secrets), clock)


connector = LogConnector(PORTS_VERSION, open_log, open_reader, examine)
