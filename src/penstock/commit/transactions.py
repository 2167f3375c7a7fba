"""The one place where transactions in Kafka end, and where an offsets topic is written.

Invariants:
- what the ledger says of a transaction is in that transaction, before its end is asked for;
- whatever is refused or unknown is `Refused`, and nothing more is asked here: the caller renews,
  looks, and goes on from what it finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core.crash_points import CrashPoint
from penstock.ports.producers import Entry, Ledger, Refused, Term, Terms
from penstock.ports.runtime import Observer


@dataclass(frozen=True, slots=True)
class TransactionContext:
    """What ending a transaction needs: terms, the ledger, and who listens."""

    terms: Terms
    ledger: Ledger
    observer: Observer


def end(
    transactional_id: str, term: Term, entries: Sequence[Entry], context: TransactionContext
) -> Term | Refused:
    """Write the ledger's entries into a term's transaction, commit it, and return the next term.

    Raises InvalidError for a permission that is missing (P204, P281).
    """
    context.observer.passed(CrashPoint.LEDGER_BEFORE)
    refused = context.ledger.append(transactional_id, term, entries)
    if refused is not None:
        return refused
    context.observer.passed(CrashPoint.LEDGER_AFTER)
    context.observer.passed(CrashPoint.END_BEFORE)
    following = context.terms.end(transactional_id, term)
    if isinstance(following, Term):
        context.observer.passed(CrashPoint.END_AFTER)
    return following
