"""Kafka as a source log, through confluent-kafka."""

from __future__ import annotations

from penstock.ports.connectors import PORTS_VERSION, LogConnector, Settings
from penstock.ports.log import Log, RangeReader
from penstock.ports.running import Secrets


def open_log(settings: Settings, secrets: Secrets) -> Log:
    """Open the listing side. Connects when first asked. Raises InvalidError."""
    from penstock.connectors.kafka.log import KafkaLog
    from penstock.connectors.kafka.settings import read_settings

    return KafkaLog(read_settings(settings, secrets))


def open_reader(settings: Settings, secrets: Secrets) -> RangeReader:
    """Open the reading side. Connects when first asked. Raises InvalidError."""
    from penstock.connectors.kafka.reader import KafkaReader
    from penstock.connectors.kafka.settings import read_settings

    return KafkaReader(read_settings(settings, secrets))


connector = LogConnector(PORTS_VERSION, open_log, open_reader)
