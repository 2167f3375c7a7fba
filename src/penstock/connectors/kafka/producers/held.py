"""Producers of the client library, which hold transactional ids in this process.

Invariants:
- an id has one producer in a process: whoever takes it again closes the one before;
- a producer ends one transaction at most (R5): the next one begins under a producer of its own, so
  that no late request of a former transaction reaches a later one;
- without a transactional id a producer sends at least once, and nothing is open.

Source: KIP-98, KIP-618; docs/design/0297.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.connectors.kafka.errors import BrokerLog, translated
from penstock.connectors.kafka.errors import refused as unmade
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    ID_REFUSED,
    TIMEOUT_REFUSED,
    WRITE_REFUSED,
    named,
    refused,
)
from penstock.core.errors import PenstockError, UnavailableError
from penstock.ports.producers import NO_ANSWER, Refused, Term

OLD_EPOCH, FENCED = 47, 90
MESSAGE_BYTES_MAX = 1_000_000_000
"""The library's own limit is out of the way: the topic's is the brokers' to say."""
BATCH_BYTES = 1_000_000
TIMEOUT_MS_MIN = 1_000
"""The library takes no shorter one."""
CLIENT: dict[str, str | int | bool] = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "message.max.bytes": MESSAGE_BYTES_MAX,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 256 << 10,
}
FENCES = frozenset({"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"})


@dataclass(slots=True)
class HeldProducer:
    """A producer that holds an id since it was taken, by its term; without one: `off`."""

    client: Producer
    term: Term
    settings: KafkaSettings
    is_transactional: bool
    is_open: bool = False

    def begin(self) -> None:
        """Begin the transaction with what is written first."""
        if self.is_transactional and not self.is_open:
            self.client.begin_transaction()
        self.is_open = True


_HELD: dict[tuple[str, str], HeldProducer] = {}


def hold(
    settings: KafkaSettings,
    transactional_id: str,
    *,
    compression: str,
    batch_bytes: int,
    timeout_ms: int,
    seconds_max: float,
) -> Producer:
    """Take an id, and fence whoever had it. Raises as `Terms.take`."""
    let_go(settings, transactional_id)
    heard = BrokerLog()
    own = {
        "transactional.id": transactional_id,
        "transaction.timeout.ms": max(timeout_ms, TIMEOUT_MS_MIN),
        "error_cb": heard,
    }
    client = _made(settings, compression, batch_bytes, own)
    try:
        client.init_transactions(seconds_max)
    except KafkaException as error:
        _close(client)
        raise _untaken(error.args[0], transactional_id, settings, heard) from error
    return client


def hold_without(settings: KafkaSettings, *, compression: str, batch_bytes: int) -> Producer:
    """Return a producer without an id: what it sends is there at least once."""
    return _made(settings, compression, batch_bytes)


def _made(
    settings: KafkaSettings,
    compression: str,
    batch_bytes: int,
    own: Mapping[str, Any] = MappingProxyType({}),
) -> Producer:
    given = {"compression.type": compression, "batch.size": batch_bytes, **own}
    try:
        return Producer({**settings.properties(), **CLIENT, **given})
    except KafkaException as error:
        raise unmade(error.args[0], settings) from error


def keep(transactional_id: str, producer: HeldProducer) -> None:
    """Keep a producer for the sender of this process."""
    _HELD[producer.settings.brokers, transactional_id] = producer


def held(settings: KafkaSettings, transactional_id: str, term: Term) -> HeldProducer | Refused:
    """Return the producer that holds an id by this term, or that another one has it."""
    found = _HELD.get((settings.brokers, transactional_id))
    if found is None or found.term != term:
        return Refused(OLD_EPOCH, f"the term {term} is over: {named(OLD_EPOCH)}")
    return found


def let_go(settings: KafkaSettings, transactional_id: str) -> None:
    """Close the producer of an id; what it has open is aborted, unless another fenced it."""
    found = _HELD.pop((settings.brokers, transactional_id), None)
    if found is not None:
        found.client.purge()
        _close(found.client)


def _close(client: Producer) -> None:
    with suppress(KafkaException), fatal_errors():  # one that was fenced has nothing to abort
        client.close()


@contextmanager
def fatal_errors() -> Iterator[None]:
    """Raise the KafkaException of a fatal error inside a `with` block.

    The library sets it between two callbacks; the one that follows makes a SystemError of it.
    """
    try:
        yield
    except SystemError as error:
        cause = error.__cause__
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if not isinstance(cause, KafkaException):
            raise
        raise cause from None


def refusal(error: KafkaError) -> Refused:
    """Return why something was not done, or nobody knows whether it was."""
    code = error.code()
    if error.name() in FENCES:
        return Refused(FENCED, error.str())
    return Refused(code if code > 0 else NO_ANSWER, error.str())


def _untaken(
    error: KafkaError, transactional_id: str, settings: KafkaSettings, heard: BrokerLog
) -> PenstockError:
    code, what = error.code(), f"transactional id {transactional_id}"
    if code in WRITE_REFUSED | {ID_REFUSED, TIMEOUT_REFUSED}:
        return refused(code, what, settings)
    found = translated(error, what, settings, heard)
    if not isinstance(found, UnavailableError) or found.code == "P201":
        return found
    return refused(code, what, settings) if code > 0 else _unanswered(error, what)


def _unanswered(error: KafkaError, what: str) -> UnavailableError:
    return UnavailableError(
        f"Kafka did not answer for {what}: {error.str()}",
        code="P280",
        hint="wait and run again; if it persists, see the brokers' logs",
    )
