from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError
from tests.story.clock import ManualClock

from penstock.connectors.kafka.errors import (
    DOWN_SECONDS_MAX,
    HEARD_MAX,
    REFUSAL_SECONDS_MAX,
    BrokerLog,
    overtaken,
    refused,
    translated,
)
from penstock.connectors.kafka.log import NO_ID, KafkaLog
from penstock.connectors.kafka.native.reader import ColumnarReader
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.core.errors import (
    BugError,
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.offsets import TopicPartition, span

SETTINGS = KafkaSettings(
    "k1:9092,k2:9092",
    (),
    (),
    "topic_id",
    {"sasl.username": "shop", "sasl.password": "hush"},
)


def error(code: int, text: str = "why") -> KafkaError:
    return KafkaError(code, text)


@pytest.mark.parametrize(
    ("code", "kind", "ours"),
    [
        (KafkaError._TRANSPORT, UnavailableError, "P201"),
        (KafkaError._TIMED_OUT, UnavailableError, "P201"),
        (KafkaError._ALL_BROKERS_DOWN, UnavailableError, "P201"),
        (KafkaError._AUTHENTICATION, InvalidError, "P202"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, InvalidError, "P202"),
        (KafkaError._SSL, InvalidError, "P203"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, InvalidError, "P204"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, InvalidError, "P205"),
        (KafkaError._UNKNOWN_PARTITION, InvalidError, "P205"),
        (KafkaError._BAD_MSG, DecisionNeededError, "P212"),
        (KafkaError.UNKNOWN, UnavailableError, "P220"),
        (KafkaError.NOT_ENOUGH_REPLICAS, UnavailableError, "P220"),
    ],
)
def test_each_error_says_what_to_do(code: int, kind: type[PenstockError], ours: str) -> None:
    reported = translated(error(code), "topic orders", SETTINGS, BrokerLog())

    assert (kind, ours) == (type(reported), ours)
    assert reported.hint
    assert "hush" not in reported.message + reported.hint


def test_records_that_retention_took_are_a_person_s_matter() -> None:
    reported = overtaken(TopicPartition("id", 0, "orders"), span(2, 7))

    assert (DecisionNeededError, "P210") == (type(reported), reported.code)


def test_brokers_that_give_topics_no_ids_are_refused_unless_names_will_do() -> None:
    with pytest.raises(InvalidError) as raised:
        KafkaLog(SETTINGS)._identity("orders", NO_ID)

    assert "P206" == raised.value.code
    by_name = KafkaLog(replace(SETTINGS, identity="name"))
    assert "name:orders" == by_name._identity("orders", NO_ID)


def test_a_reader_that_was_carried_over_a_fork_is_a_bug() -> None:
    reader = ColumnarReader(SETTINGS)
    reader._process = os.getpid() + 1

    with pytest.raises(BugError) as raised:
        next(iter(reader.read(TopicPartition("id", 0, "orders"), span(0, 1), deadline=0.0)))
    assert "P720" == raised.value.code


def test_silence_is_blamed_on_what_was_heard_meanwhile() -> None:
    heard = BrokerLog()
    heard(error(KafkaError._TRANSPORT, "k2: Connection refused"))
    down = translated(error(KafkaError._TIMED_OUT, "timed out"), "the cluster", SETTINGS, heard)
    heard(error(KafkaError._AUTHENTICATION, "k1: wrong password"))
    unwelcome = translated(error(KafkaError._TIMED_OUT), "the cluster", SETTINGS, heard)

    assert ("P201", True) == (down.code, "k2: Connection refused" in down.message)
    assert ("P202", True) == (unwelcome.code, "k1: wrong password" in unwelcome.message)


def test_waiting_ends_sooner_when_it_is_useless() -> None:
    heard = BrokerLog()
    heard(error(KafkaError._ALL_BROKERS_DOWN))
    assert heard.reason(DOWN_SECONDS_MAX - 1) is None
    assert heard.reason(DOWN_SECONDS_MAX + 1) is not None

    heard(error(KafkaError._SSL))
    assert heard.reason(REFUSAL_SECONDS_MAX - 1) is None
    assert "_SSL" == heard.reason(REFUSAL_SECONDS_MAX + 1).name()


def test_hundreds_of_refused_connections_do_not_hide_that_all_brokers_are_down() -> None:
    heard = BrokerLog()
    heard(error(KafkaError._ALL_BROKERS_DOWN))
    for number in range(4 * HEARD_MAX):
        heard(error(KafkaError._TRANSPORT, f"k1: Connection refused (after {number}ms)"))

    assert "_ALL_BROKERS_DOWN" == heard.reason(DOWN_SECONDS_MAX + 1).name()
    assert HEARD_MAX == len(heard.errors["_TRANSPORT"])


class NoAnswer:
    """A client that hears nothing."""

    def poll(self, _timeout: float) -> int:
        return 0


def test_a_process_that_was_suspended_past_its_timeout_reports_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock()

    class Stopped(Future[str]):
        """A request during which the process is stopped, as by SIGSTOP."""

        def result(self, timeout: float | None = None) -> str:
            clock.advance(3_600)
            return super().result(timeout and 0)

    monkeypatch.setattr("penstock.connectors.kafka.log.time", clock)
    log = KafkaLog(SETTINGS)
    log._client = NoAnswer
    asked = Stopped()

    with pytest.raises(UnavailableError) as raised:
        log.answer(asked, "the cluster")
    assert "P201" == raised.value.code
    asked.set_result("here it was")
    assert "here it was" == log.answer(asked, "the cluster")


def test_what_was_heard_of_another_partition_is_not_ours() -> None:
    heard = BrokerLog()
    heard(error(KafkaError.UNKNOWN_TOPIC_OR_PART, "orders [10]: topic does not exist"))

    assert heard.first({"UNKNOWN_TOPIC_OR_PART"}, about="orders [1]:") is None
    assert heard.first({"UNKNOWN_TOPIC_OR_PART"}, about="orders [10]:") is not None


def test_the_missing_range_is_exact() -> None:
    reported = overtaken(TopicPartition("id", 3, "orders"), span(5, 12))

    assert "orders[3]: offsets [5, 12) are no longer in Kafka: 7 positions" in reported.message


def test_a_refused_property_shows_no_secret() -> None:
    reported = refused(
        error(KafkaError._INVALID_ARG, 'bad value "hush" for sasl.password'), SETTINGS
    )

    assert ("P207", False) == (reported.code, "hush" in reported.message)


def test_the_connector_is_light_to_import() -> None:
    program = (
        "import sys, penstock.connectors.kafka as k; assert k.connector; "
        "print([m for m in ('confluent_kafka', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert b"[]" == done.stdout.strip()
