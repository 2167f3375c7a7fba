# ruff: noqa: D102, SIM300 - test names are the sentences, and numbers are examples
"""The contract of `ports/producers.py` under protocol 1: a producer ends one transaction.

Each case is an answer that was measured on Kafka 4.3.1, with `transaction.version` 2 and 0
(docs/design/0297).
"""

from __future__ import annotations

from penstock.ports.producers import PROTOCOL_1, Ledger, Look, Refused, Term, Terms
from penstock.testing.contracts.transactions import TransactionsFixture, shown


class ProducerTransactionsContract(TransactionsFixture):
    """Of producers of a client library."""

    def test_protocol_1_is_there(self, terms: Terms) -> None:
        terms.check()
        assert PROTOCOL_1 == terms.protocol

    def test_an_id_that_nobody_used_is_not_remembered(self, terms: Terms, name: str) -> None:
        assert terms.remembered(name) is None

    def test_the_coordinator_keeps_the_term_of_the_last_transaction(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)
        assert (term, True, "Ongoing") == shown(terms, name)
        assert term == terms.end(name, term)
        self.until(lambda: (term, False, "CompleteCommit") == shown(terms, name))
        assert b"1" == self.landed(ledger, name)
        assert Term(term.producer_id, term.epoch + 1) == terms.take(name)

    def test_each_transaction_has_a_term_of_its_own(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        first = self.opened(terms, ledger, name, b"1")
        assert first == terms.end(name, first)
        second = self.opened(terms, ledger, name, b"2")
        assert isinstance(terms.end(name, first), Refused)
        assert second == terms.end(name, second)
        assert b"2" == self.landed(ledger, name)

    def test_a_fence_aborts_what_another_process_has_open(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)
        other = self.other_process()
        taken = other.take(name)

        assert taken.epoch > term.epoch
        assert ledger.look() == Look({}, frozenset())
        assert isinstance(terms.end(name, term), Refused)
        assert self.landed(ledger, name) is None
        other.close()

    def test_nothing_is_renewed_and_what_is_open_is_aborted(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)

        assert isinstance(terms.renew(name, term), Refused)
        self.until(lambda: ledger.look() == Look({}, frozenset()))
        assert isinstance(terms.end(name, term), Refused)

    def test_a_producer_that_was_too_slow_commits_nothing(
        self, hasty: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(hasty, ledger, name)
        self.expire(name)

        assert isinstance(hasty.end(name, term), Refused)
        assert self.landed(ledger, name) is None

    def other_process(self) -> Terms:
        """Return terms that know nothing of these."""
        raise NotImplementedError
