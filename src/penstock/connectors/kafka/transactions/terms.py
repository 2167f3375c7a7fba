"""Terms from the coordinators of a real cluster, under transaction protocol 2.

Invariants:
- requests have the versions that protocol 2 is, no other: an older broker is refused before it is
  asked for anything;
- a renewal and an end are repeated with the same bytes only; after that nothing is decided here.

Source: KIP-890 (transaction.version 2); what brokers answer was measured, and
`testing/contracts/transactions.py` holds it.
"""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeTransactionsRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest

from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    ID_REFUSED,
    NOT_FOUND,
    TRANSACTION_LEVEL,
    TRANSACTION_VERSION,
    named,
    refused,
    too_old,
    unconnected,
)
from penstock.connectors.kafka.transactions.coordinators import Coordinators
from penstock.core.errors import UnavailableError
from penstock.ports.producers import (
    NO_ANSWER,
    PROTOCOL_2,
    Refused,
    Remembered,
    Term,
    of_the_same_id,
)

INIT_VERSION = 5
END_VERSION = 5
DESCRIBE_VERSION = 0
TAKE_SECONDS_MAX = 60.0
END_SECONDS_MAX = 10.0
NO_TERM = Term(-1, -1)
OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class KafkaTerms:
    """Implements `ports.producers.Terms`: what nobody ends for `timeout_ms` is aborted."""

    protocol = PROTOCOL_2

    def __init__(self, settings: KafkaSettings, *, timeout_ms: int) -> None:
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._brokers = Brokers(settings)
        self._coordinators = Coordinators(self._brokers, settings)

    def check(self) -> None:
        """Check that the cluster has finalized protocol 2. Raises InvalidError (P282)."""
        try:
            level = self._brokers.any().features.get(TRANSACTION_VERSION, 0)
        except FallbackError as error:
            raise unconnected(error, "the cluster", self._settings) from error
        if level < TRANSACTION_LEVEL:
            raise too_old(
                self._settings,
                f"{TRANSACTION_VERSION} is {level}, not 2, which the own sender rests on",
            )

    def remembered(self, transactional_id: str) -> Remembered | None:
        """Ask the coordinator what it knows of an id."""
        answer = self._coordinators.ask(
            transactional_id,
            lambda: DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            DESCRIBE_VERSION,
            patience_seconds=TAKE_SECONDS_MAX,
            error_of=lambda each: int(each.transaction_states[0].error_code),
        ).transaction_states[0]
        if answer.error_code == NOT_FOUND:
            return None
        if answer.error_code:
            raise self._refused(answer.error_code, transactional_id)
        term = Term(answer.producer_id, answer.producer_epoch)
        state = answer.transaction_state
        return Remembered(term, state in OPEN_STATES, state)

    def take(self, transactional_id: str) -> Term:
        """Initialise the id without a term."""
        found = self._initialised(transactional_id, NO_TERM)
        if isinstance(found, Refused):
            raise self._refused(found.error, transactional_id)
        return found

    def renew(self, transactional_id: str, term: Term) -> Term | Refused:
        """Initialise the id with our term."""
        found = self._initialised(transactional_id, term)
        if isinstance(found, Term):
            return of_the_same_id(term, found)
        if found.error == ID_REFUSED:
            raise self._refused(ID_REFUSED, transactional_id)
        return found

    def end(self, transactional_id: str, term: Term) -> Term | Refused:
        """Commit what is open, asking again for at most END_SECONDS_MAX."""
        try:
            answer = self._coordinators.ask(
                transactional_id,
                lambda: EndTxnRequest(
                    transactional_id=transactional_id,
                    producer_id=term.producer_id,
                    producer_epoch=term.epoch,
                    committed=True,
                ),
                END_VERSION,
                patience_seconds=END_SECONDS_MAX,
            )
        except UnavailableError as error:
            return Refused(NO_ANSWER, error.message)
        if answer.error_code == ID_REFUSED:
            raise self._refused(ID_REFUSED, transactional_id)
        return _term_of(answer)

    def close(self) -> None:
        """Let go of connections."""
        self._brokers.forget()

    def _initialised(self, transactional_id: str, term: Term) -> Term | Refused:
        answer = self._coordinators.ask(
            transactional_id,
            lambda: InitProducerIdRequest(
                transactional_id=transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=term.producer_id,
                producer_epoch=term.epoch,
            ),
            INIT_VERSION,
            patience_seconds=TAKE_SECONDS_MAX,
        )
        return _term_of(answer)

    def _refused(self, error: int, transactional_id: str) -> Exception:
        return refused(error, f"transactional id {transactional_id}", self._settings)


def _term_of(answer: Any) -> Term | Refused:
    if answer.error_code:
        return Refused(answer.error_code, named(answer.error_code))
    return Term(answer.producer_id, answer.producer_epoch)
