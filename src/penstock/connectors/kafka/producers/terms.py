"""Terms of the client library: protocol 1, which all brokers since 3.6 speak, or none at all.

Invariants:
- a term is that of one producer and ends with its transaction: nothing is renewed;
- what the term is, is asked of the coordinator: the library does not tell;
- one id is held at a time: to fence one is to take it, and let it go;
- brokers that do not verify transactions (before KIP-890) are refused.
"""

from __future__ import annotations

from confluent_kafka import KafkaException
from kafka.protocol.producer import AddPartitionsToTxnRequest

from penstock.connectors.kafka.native.brokers import Brokers
from penstock.connectors.kafka.native.connection import FallbackError
from penstock.connectors.kafka.producers.held import (
    BATCH_BYTES,
    FENCED,
    HeldProducer,
    held,
    hold,
    hold_without,
    keep,
    let_go,
    refusal,
)
from penstock.connectors.kafka.settings import KafkaSettings
from penstock.connectors.kafka.transactions.answers import (
    not_answered,
    require_version,
    unconnected,
)
from penstock.connectors.kafka.transactions.batch_limit import topic_limit
from penstock.connectors.kafka.transactions.terms import (
    END_SECONDS_MAX,
    TAKE_SECONDS_MAX,
    KafkaTerms,
)
from penstock.ports.producers import NO_TRANSACTIONS, PROTOCOL_1, Refused, Remembered, Term

VERIFYING = 4
"""Version of AddPartitionsToTxn that came with the verification of transactions, in Kafka 3.6."""
NOBODY = Term(0, 0)


class ProducerTerms:
    """Implements `ports.producers.Terms` with a producer of the library for each transaction."""

    def __init__(
        self, settings: KafkaSettings, *, compression: str, timeout_ms: int, protocol: int
    ) -> None:
        self.protocol = protocol
        self._settings, self._compression = settings, compression
        self._timeout_ms = timeout_ms
        self._coordinators = KafkaTerms(settings, timeout_ms=timeout_ms)
        self._brokers = Brokers(settings)
        self._taken: set[str] = set()

    def check(self) -> None:
        """Check that brokers verify transactions. Raises InvalidError (P282)."""
        try:
            wire = self._brokers.any()
        except FallbackError as error:
            raise unconnected(error, "the cluster", self._settings) from error
        if self.protocol == PROTOCOL_1:
            require_version(wire, AddPartitionsToTxnRequest, VERIFYING, self._settings)

    def remembered(self, transactional_id: str) -> Remembered | None:
        """Ask the coordinator what it knows of an id; without transactions there is none."""
        if self.protocol == NO_TRANSACTIONS:
            return None
        return self._coordinators.remembered(transactional_id)

    def take(self, transactional_id: str) -> Term:
        """Initialise a producer of its own."""
        for other in self._taken:
            let_go(self._settings, other)
        batch_bytes = self._batch_bytes()
        if self.protocol == NO_TRANSACTIONS:
            let_go(self._settings, transactional_id)
            client = hold_without(
                self._settings, compression=self._compression, batch_bytes=batch_bytes
            )
            term = NOBODY
        else:
            client = hold(
                self._settings,
                transactional_id,
                compression=self._compression,
                batch_bytes=batch_bytes,
                timeout_ms=self._timeout_ms,
                seconds_max=TAKE_SECONDS_MAX,
            )
            known = self._coordinators.remembered(transactional_id)
            if known is None:
                what = f"transactional id {transactional_id}"
                raise not_answered(what, "it was forgotten as soon as it was taken")
            term = known.term
        keep(
            transactional_id,
            HeldProducer(
                client, term, self._settings, is_transactional=self.protocol != NO_TRANSACTIONS
            ),
        )
        self._taken = {transactional_id}
        return term

    def renew(self, transactional_id: str, term: Term) -> Term | Refused:
        """Abort what is open; there is no next term: an id is taken again."""
        if not isinstance(held(self._settings, transactional_id, term), Refused):
            let_go(self._settings, transactional_id)
        return Refused(FENCED, "the client library renews no term")

    def end(self, transactional_id: str, term: Term) -> Term | Refused:
        """Commit what is open; the term is spent with it."""
        found = held(self._settings, transactional_id, term)
        if isinstance(found, Refused):
            return found
        if found.is_transactional:
            try:
                found.client.commit_transaction(END_SECONDS_MAX)
            except KafkaException as error:
                return refusal(error.args[0])
        found.is_open = False
        let_go(self._settings, transactional_id)
        return term

    def close(self) -> None:
        """Let go of producers and connections; what is open is aborted."""
        for transactional_id in self._taken:
            let_go(self._settings, transactional_id)
        self._coordinators.close()
        self._brokers.forget()

    def _batch_bytes(self) -> int:
        """Return how large batches may be for all topics that are written."""
        limits = [topic_limit(self._brokers, topic) for topic in self._settings.topics]
        return min([BATCH_BYTES, *(each * 15 // 16 for each in limits if each is not None)])
