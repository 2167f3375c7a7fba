# ruff: noqa: D102, SIM300 - test names are the sentences, and numbers are examples
"""The contract of `ports/producers.py`: what a term is worth, and when an entry counts.

Each case is an answer that was measured on Kafka 4.3.1 (docs/design/0274). A producer that dies,
sleeps or loses an answer is played by its term: whoever holds it may ask at any moment.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable

import pytest

from penstock.core.errors import InvalidError
from penstock.ports.producers import Ledger, Look, Refused, Term, Terms

OUT_OF_ORDER, OLD_EPOCH, NOT_OPEN, FORGOTTEN, FENCED = 45, 47, 48, 49, 90
WAIT_SECONDS_MAX = 30.0
NUMBERS = itertools.count()
LONG_MS, SHORT_MS = 60_000, 300


class TransactionsFixture:
    """What both suites need: override `open_terms`, `open_ledger` and `expire`."""

    def open_terms(self, *, timeout_ms: int) -> Terms:
        """Return terms on the cluster; what is open for longer is aborted."""
        raise NotImplementedError

    def open_ledger(self, topic: str) -> Ledger:
        """Return the ledger of a topic."""
        raise NotImplementedError

    def expire(self, transactional_id: str) -> None:
        """Return once the time of what is open under an id was over."""
        raise NotImplementedError

    @pytest.fixture
    def name(self) -> str:
        """Return a transactional id that nobody used."""
        return fresh("id")

    @pytest.fixture
    def terms(self) -> Terms:
        """Return terms, with protocol 2 or not."""
        return self.open_terms(timeout_ms=LONG_MS)

    @pytest.fixture
    def hasty(self) -> Terms:
        """Return terms whose transactions are soon over: `expire` makes them so."""
        return self.open_terms(timeout_ms=SHORT_MS)

    @pytest.fixture
    def ledger(self) -> Ledger:
        """Return an offsets topic of its own."""
        found = self.open_ledger(fresh("offsets"))
        found.prepare()
        return found

    def opened(self, terms: Terms, ledger: Ledger, name: str, value: bytes = b"1") -> Term:
        """Take an id and begin a transaction under it, with one entry."""
        term = terms.take(name)
        self.written(ledger, name, term, value)
        return term

    def written(self, ledger: Ledger, name: str, term: Term, value: bytes) -> None:
        """Write one entry, under the id's name as the key."""
        assert ledger.append(name, term, [(name.encode(), value)]) is None

    def landed(self, ledger: Ledger, name: str) -> bytes | None:
        """Return the entry of an id that counts, once nothing is undecided."""
        self.until(lambda: name.encode() not in ledger.look().undecided)
        return ledger.look().entries.get(name.encode())

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raises TimeoutError."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.01)


class TransactionsContract(TransactionsFixture):
    """Under transaction protocol 2."""

    def test_protocol_2_is_there(self, terms: Terms) -> None:
        terms.check()

    def test_an_id_that_nobody_used_is_not_remembered(self, terms: Terms, name: str) -> None:
        assert terms.remembered(name) is None

    def test_what_is_remembered_follows_the_term(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = terms.take(name)
        assert (term, False, "Empty") == shown(terms, name)
        self.written(ledger, name, term, b"1")
        assert (term, True, "Ongoing") == shown(terms, name)
        following = terms.end(name, term)
        self.until(lambda: (following, False, "CompleteCommit") == shown(terms, name))
        taken = terms.take(name)
        assert (taken, False, "Empty") == shown(terms, name)

    def test_terms_of_an_id_rise(self, terms: Terms, name: str) -> None:
        first, second = terms.take(name), terms.take(name)

        assert first.producer_id == second.producer_id
        assert first.epoch < second.epoch

    def test_each_end_gives_the_next_term(self, terms: Terms, ledger: Ledger, name: str) -> None:
        term = terms.take(name)
        for value in (b"1", b"2", b"3"):
            self.written(ledger, name, term, value)
            following = terms.end(name, term)
            assert isinstance(following, Term)
            assert (term.producer_id, term.epoch) < (following.producer_id, following.epoch)
            assert value == self.landed(ledger, name)
            term = following

    def test_what_is_aborted_does_not_count(self, terms: Terms, ledger: Ledger, name: str) -> None:
        term = self.opened(terms, ledger, name)
        following = terms.end(name, term)
        assert isinstance(following, Term)
        self.written(ledger, name, following, b"2")
        assert isinstance(terms.renew(name, following), Term)

        assert b"1" == self.landed(ledger, name)

    def test_an_end_may_be_asked_for_again(self, terms: Terms, ledger: Ledger, name: str) -> None:
        term = self.opened(terms, ledger, name)
        following = terms.end(name, term)

        assert following == terms.end(name, term)

    def test_an_end_under_a_former_term_is_refused_while_the_next_is_open(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)
        following = terms.end(name, term)
        assert isinstance(following, Term)
        self.written(ledger, name, following, b"2")

        assert FENCED == error_of(terms.end(name, term))
        assert isinstance(terms.end(name, following), Term)
        assert b"2" == self.landed(ledger, name)

    def test_nothing_can_be_committed_where_nothing_is_open(self, terms: Terms, name: str) -> None:
        term = terms.take(name)

        assert NOT_OPEN == error_of(terms.end(name, term))

    def test_a_producer_that_was_too_slow_renews(
        self, hasty: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(hasty, ledger, name)
        self.expire(name)

        assert NOT_OPEN == error_of(hasty.end(name, term))
        assert OLD_EPOCH == error_of(ledger.append(name, term, [(b"late", b"1")]))
        renewed = hasty.renew(name, term)
        assert isinstance(renewed, Term)
        self.written(ledger, name, renewed, b"2")
        assert isinstance(hasty.end(name, renewed), Term)
        assert b"2" == self.landed(ledger, name)

    def test_a_renewal_after_a_lost_end_gives_the_term_that_the_end_gave(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)
        following = terms.end(name, term)

        assert following == terms.renew(name, term)
        assert following == terms.renew(name, term)
        assert b"1" == self.landed(ledger, name)
        assert FENCED == error_of(terms.end(name, term))

    def test_a_renewal_aborts_what_is_open_and_lets_nothing_late_in(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)
        renewed = terms.renew(name, term)

        assert isinstance(renewed, Term)
        assert ledger.look() == Look({}, frozenset())
        assert FENCED == error_of(terms.end(name, term))
        assert OLD_EPOCH == error_of(ledger.append(name, term, [(b"late", b"1")]))
        self.written(ledger, name, renewed, b"2")
        assert OLD_EPOCH == error_of(ledger.append(name, term, [(b"late", b"1")]))
        assert isinstance(terms.end(name, renewed), Term)
        assert b"2" == self.landed(ledger, name)

    def test_an_idle_term_is_renewed(self, terms: Terms, name: str) -> None:
        term = terms.take(name)
        renewed = terms.renew(name, term)

        assert isinstance(renewed, Term)
        assert term.epoch < renewed.epoch
        assert renewed == terms.renew(name, term)

    @pytest.mark.parametrize("ours", ["idle", "open", "ended"])
    @pytest.mark.parametrize("theirs", ["idle", "open", "ended"])
    def test_whoever_lost_the_id_can_neither_renew_nor_end(
        self, terms: Terms, ledger: Ledger, name: str, ours: str, theirs: str
    ) -> None:
        term = self.opened(terms, ledger, name) if ours != "idle" else terms.take(name)
        if ours == "ended":
            assert isinstance(terms.end(name, term), Term)
        taken = terms.take(name)
        if theirs != "idle":
            self.written(ledger, name, taken, b"2")
        if theirs == "ended":
            assert isinstance(terms.end(name, taken), Term)

        assert FENCED == error_of(terms.end(name, term))
        assert FENCED == error_of(terms.renew(name, term))

    def test_a_refused_renewal_ends_what_the_successor_has_open_and_it_renews(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = terms.take(name)
        taken = terms.take(name)
        self.written(ledger, name, taken, b"2")

        assert FENCED == error_of(terms.renew(name, term))
        assert NOT_OPEN == error_of(terms.end(name, taken))
        renewed = terms.renew(name, taken)
        assert isinstance(renewed, Term)
        self.written(ledger, name, renewed, b"3")
        assert isinstance(terms.end(name, renewed), Term)
        assert b"3" == self.landed(ledger, name)

    def test_a_fence_aborts_what_is_open(self, terms: Terms, ledger: Ledger, name: str) -> None:
        term = self.opened(terms, ledger, name)
        terms.take(name)

        assert ledger.look() == Look({}, frozenset())
        assert OLD_EPOCH == error_of(ledger.append(name, term, [(b"late", b"1")]))

    def test_a_fence_lets_what_has_ended_be_seen(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)
        assert isinstance(terms.end(name, term), Term)
        terms.take(name)

        assert ledger.look() == Look({name.encode(): b"1"}, frozenset())

    def test_the_same_batch_again_is_taken_for_the_first_whatever_is_in_it(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        """Why a partition has one writer for a term: the broker compares sequences only."""
        term = self.opened(terms, ledger, name)
        self.written(ledger, name, term, b"another")
        another_cut = [(b"a", b"1"), (b"b", b"1")]
        assert OUT_OF_ORDER == error_of(ledger.append(name, term, another_cut))
        assert isinstance(terms.end(name, term), Term)

        assert b"1" == self.landed(ledger, name)

    def test_an_id_that_the_coordinator_has_forgotten_is_not_renewed(
        self, terms: Terms, name: str
    ) -> None:
        """It would answer 0, with another producer id: then nobody is compared with us."""
        term = terms.take(f"{name}-other")

        assert FORGOTTEN == error_of(terms.renew(name, term))
        assert FENCED == error_of(terms.renew(name, term))

    def test_the_transactions_of_others_hold_up_no_look(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        stranger = f"{name}-stranger"
        self.opened(terms, ledger, stranger)
        term = self.opened(terms, ledger, name)
        assert isinstance(terms.end(name, term), Term)

        assert b"1" == self.landed(ledger, name)
        assert ledger.look().undecided == {stranger.encode()}

    def test_the_last_entry_of_a_key_counts_and_none_after_a_tombstone(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = terms.take(name)
        assert ledger.append(name, term, [(b"a", b"1"), (b"b", b"1"), (b"a", b"2")]) is None
        following = terms.end(name, term)
        assert isinstance(following, Term)
        assert ledger.append(name, following, [(b"b", None), (name.encode(), b"1")]) is None
        assert isinstance(terms.end(name, following), Term)

        assert b"1" == self.landed(ledger, name)
        assert {b"a": b"2", name.encode(): b"1"} == ledger.look().entries

    def test_a_ledger_is_prepared_more_than_once(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)
        assert isinstance(terms.end(name, term), Term)
        ledger.prepare()

        assert b"1" == self.landed(ledger, name)


class FormerTransactionsContract(TransactionsFixture):
    """Under the protocol before (`transaction.version` 0): a renewal is worth nothing there."""

    def test_it_is_refused_with_what_to_do(self, terms: Terms) -> None:
        with pytest.raises(InvalidError) as refused:
            terms.check()

        assert "P282" == refused.value.code

    def test_an_open_transaction_is_aborted_by_our_own_renewal_which_is_refused(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(terms, ledger, name)

        assert FENCED == error_of(terms.renew(name, term))
        assert ledger.look() == Look({}, frozenset())

    def test_a_producer_that_was_too_slow_cannot_renew(
        self, hasty: Terms, ledger: Ledger, name: str
    ) -> None:
        term = self.opened(hasty, ledger, name)
        self.expire(name)

        assert FENCED == error_of(hasty.renew(name, term))

    def test_a_refused_renewal_takes_the_id_from_the_successor(
        self, terms: Terms, ledger: Ledger, name: str
    ) -> None:
        term = terms.take(name)
        taken = terms.take(name)
        self.written(ledger, name, taken, b"2")

        assert FENCED == error_of(terms.renew(name, term))
        assert isinstance(terms.end(name, taken), Refused)
        assert FENCED == error_of(terms.renew(name, taken))
        assert self.landed(ledger, name) is None

    def test_a_fence_aborts_what_is_open(self, terms: Terms, ledger: Ledger, name: str) -> None:
        self.opened(terms, ledger, name)
        terms.take(name)

        assert ledger.look() == Look({}, frozenset())


def fresh(kind: str) -> str:
    """Return a name that no other test of any process uses."""
    return f"{kind}-{os.getpid()}-{next(NUMBERS)}"


def error_of(answer: Term | Refused | None) -> int:
    """Return Kafka's number of a refusal, 0 when there was none."""
    return answer.error if isinstance(answer, Refused) else 0


def shown(terms: Terms, name: str) -> tuple[Term, bool, str] | None:
    """Return what is remembered of an id."""
    found = terms.remembered(name)
    return None if found is None else (found.term, found.is_open, found.state)
