"""`penstock transactions --abort`: an end to what hangs, or to what is open for too long.

Invariants: nothing is written before consent; what is aborted was found again by its name after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from penstock.app.inspect.open_transactions import listed, transactions_of
from penstock.app.repair.confirmed_change import Change, Step
from penstock.core.errors import InvalidError, UnavailableError
from penstock.observe.formatting import age_text
from penstock.ports.runtime import Clock
from penstock.ports.transactions import NAMED_MAX, OpenTransaction, Scope, TransactionState
from penstock.spec.model import Pipeline
from penstock.spec.publications import Publications

ABORTABLE = frozenset({TransactionState.OPEN, TransactionState.HANGING})


def abort_plan(spec: Pipeline | Publications, scope: Scope, name: str, clock: Clock) -> Change:
    """Return what aborting a transaction would do. Raises as `abort`."""
    now_ms = clock.now_ms()
    found = _chosen(listed(spec, scope), name)
    return Change(spec.name, tuple(_step(each, now_ms) for each in found))


def abort(spec: Pipeline | Publications, scope: Scope, name: str) -> Sequence[OpenTransaction]:
    """Abort a transaction, by its transactional id or producer id; return what was aborted.

    Raises InvalidError: none of that name is open (P801), a permission is missing (P281);
    UnavailableError: it is ending, or we may not see whether it hangs (P802), and as `listed`.
    """
    with closing(transactions_of(spec)) as transactions:
        found = _chosen(transactions.listed(scope), name)
        for each in found:
            transactions.abort(each)
    return found


def _chosen(there: Sequence[OpenTransaction], name: str) -> Sequence[OpenTransaction]:
    found = [each for each in there if name in {each.transactional_id, str(each.producer_id)}]
    if not found:
        names = ", ".join(sorted({each.name for each in there})[:NAMED_MAX]) or "none"
        raise InvalidError(
            f"no transaction {name[:80]} is open; open are: {names}",
            code="P801",
            hint="to look through all topics:  penstock transactions --cluster",
        )
    left = [each for each in found if each.state not in ABORTABLE]
    if left:
        raise UnavailableError(
            f"transaction {name} is {left[0].state}: {_why(left[0].state)}",
            code="P802",
            hint="wait and look again:  penstock transactions",
        )
    return found


def _why(state: TransactionState) -> str:
    if state is TransactionState.ENDING:
        return "its coordinator ends it now"
    return "brokers do not say whose it is: one is down, or a permission to describe ids is missing"


def _step(found: OpenTransaction, now_ms: int) -> Step:
    what = found.held
    if found.state is TransactionState.HANGING:
        text = f"abort the hanging transaction of producer {found.producer_id}: it holds up {what}"
        return Step(text, destructive=True)
    age = age_text(now_ms - found.began_ms) if found.began_ms else "a while"
    return Step(
        f"abort transaction {found.transactional_id}, open for {age}: its producer is fenced and"
        f" what it has written is never seen; it holds up {what}",
        destructive=True,
    )
