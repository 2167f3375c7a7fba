"""What is open in Kafka, and holds up who reads committed records. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing, suppress

from penstock.app.assembly import assembly, publishing
from penstock.core.errors import PenstockError
from penstock.core.planning import Bounds
from penstock.ports.transactions import OpenTransaction, Scope, Transactions
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications


def transactions_of(spec: Pipeline | Publications) -> Transactions:
    """Open the list of transactions that are open in the topics of a spec."""
    if isinstance(spec, Publications):
        return assembly.open_transactions(publishing.watched_settings(spec))
    return assembly.open_transactions(assembly.log_settings(spec))


def listed(spec: Pipeline | Publications, scope: Scope) -> Sequence[OpenTransaction]:
    """List open transactions, the longest first.

    Raises InvalidError: a permission is missing (P204, P281), the brokers are too old (P282);
    UnavailableError when they do not answer (P201, P280).
    """
    with closing(transactions_of(spec)) as transactions:
        return transactions.listed(scope)


def stuck(pipeline: Pipeline, bounds: Iterable[Bounds], now_ms: int) -> tuple[OpenTransaction, ...]:
    """Return the transactions that hold up a pipeline for long, as far as we may know of them.

    Kafka is asked only where `bounds` show that something is held up.
    """
    if all(each.stop == each.high for each in bounds):
        return ()
    with suppress(PenstockError):
        return tuple(each for each in listed(pipeline, Scope.SPEC) if each.is_stuck(now_ms))
    return ()
