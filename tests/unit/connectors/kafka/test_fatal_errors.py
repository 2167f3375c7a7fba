"""What the client library makes of a fatal error that comes between two of its callbacks."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.connectors.kafka.producers.held import FENCED, fatal_errors, refusal


def test_a_fence_that_is_heard_between_two_callbacks_is_a_fence() -> None:
    fence = KafkaException(KafkaError(KafkaError._FENCED))
    first, second = SystemError("with an exception set"), SystemError("and the next callback")
    first.__cause__, second.__cause__ = fence, first
    with pytest.raises(KafkaException) as caught, fatal_errors():
        raise second

    assert FENCED == refusal(caught.value.args[0]).error


def test_another_error_stays_what_it_is() -> None:
    with pytest.raises(SystemError, match="ours"), fatal_errors():
        raise SystemError("ours")
