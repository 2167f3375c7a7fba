"""What an entry says of chains that its commit begins beside its own: those of sibling shards.

Invariant: a chain that was rolled back, or of which nobody can tell, is left as it is: words on it
that are newer than what rolled it back would hide that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.entries import Words
from penstock.connectors.delta.log.judging import judged
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.core.commits import Chain, Committable, begun_beside

NewestIsLive = Callable[[LogView, Chain], bool | None]
"""Returns whether the newest file of a chain is live: the third witness."""


def words_beside(
    tail: LogTail, view: LogView, commit: Committable, newest_is_live: NewestIsLive
) -> Iterator[Words]:
    """Yield what the next entry says of each chain that a commit begins as well.

    Raises UnavailableError, InvalidError (P190, P438).
    """
    for name in commit.beside:
        chain = Chain(name, commit.chain.table)
        with reading(tail.name):
            witness = partial(_asked, newest_is_live, chain)
            finding, view = judged(tail, view, name, witness)
        if finding.verdict.is_sound:
            landed, sequence = begun_beside(commit, name, finding.landed), view.version + 1
            transactions = ledger.transactions_of(landed, finding.landed, sequence)
            yield transactions, ledger.mark_of_beginning(landed, sequence)


def _asked(newest_is_live: NewestIsLive, chain: Chain, view: LogView) -> bool | None:
    return newest_is_live(view, chain)
