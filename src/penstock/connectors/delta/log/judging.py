"""Gathers what the witnesses of a chain say at one version of its table, and judges it."""

from __future__ import annotations

from collections.abc import Callable

from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.connectors.delta.log.witnesses import Facts, Finding, check_witnesses
from penstock.ports.tables import Verdict


def judged(
    tail: LogTail, view: LogView, chain: str, file_is_live: Callable[[LogView], bool | None]
) -> tuple[Finding, LogView]:
    """Judge a chain at a view; return the view as well, with as much of the past as was read.

    `file_is_live` is the third witness. Raises UnavailableError, InvalidError (P190, P438).
    """
    kinds = (ledger.GENERATION, ledger.SEQUENCE, ledger.ROLLED_BACK)
    generation, sequence, rolled_back = (
        view.transactions.get(ledger.app_id(chain, each)) for each in kinds
    )
    if sequence is None:
        return Finding(Verdict.ABSENT, f"no transaction of {chain}", None), view
    view = tail.reaching(view, sequence)
    if generation is None:
        return Finding(Verdict.ABSENT, f"no transaction of {chain}", None), view
    facts = Facts(
        chain=chain,
        generation=generation,
        sequence=sequence,
        rolled_back=rolled_back,
        past=view.past,
        transactions=lambda: view.transactions,
        file_is_live=lambda: file_is_live(view),
    )
    return check_witnesses(facts), view
