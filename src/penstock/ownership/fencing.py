"""Other owners that landed in a pipeline's tables: the claims in their ledgers (docs/design/0225).

Invariant: nothing is read for a table while a claim in its ledgers outranks ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import ChainPosition, last_claim_of
from penstock.commit.creation import begin
from penstock.commit.errors import fenced
from penstock.commit.fence import fence_rollback
from penstock.core.claims import Claim
from penstock.core.commits import Chain
from penstock.core.decide import outranks
from penstock.core.errors import InvalidError, UnavailableError
from penstock.ports.tables import Table, Verdict

Chains = Iterable[tuple[Chain, Table]]


def read_claims(chains: Chains) -> list[Claim]:
    """Read the claims that landed last in chains. Raises UnavailableError, InvalidError."""
    return [last_claim_of(table.state(chain).landed) for chain, table in chains]


def readable_claims(chains: Chains) -> list[Claim]:
    """Read the claims that landed last in those of some chains that can be read."""
    found: list[Claim] = []
    for each in chains:
        with suppress(UnavailableError, InvalidError):
            found += read_claims([each])
    return found


def check_rank(positions: Iterable[ChainPosition], context: CommitContext) -> None:
    """Raise FencedError when a newer owner had landed before a table was opened."""
    for each in positions:
        if outranks(each.last_claim, context.claim, context.supersedes):
            raise fenced(each.last_claim, context.claim)


def fence_rollbacks(chains: Chains, context: CommitContext) -> None:
    """Fence those of some chains with a table that was rolled back (protocol.md 3).

    One that is paused is fenced by what next commits to it: until then nothing does.

    Raises what `fence_rollback` raises.
    """
    for chain, table in chains:
        state = table.state(chain)
        is_paused = context.pauses.until_ms(chain.table, context.clock.now_ms()) is not None
        if state.verdict is Verdict.ROLLED_BACK and not is_paused:
            fence_rollback(chain, state, table, context)


def write_claim(
    table: Table, chain: Chain, cluster_id: str, rules_hash: str, context: CommitContext
) -> None:
    """Write our claim into a chain: it moves nothing, and what others prepared can no longer land.

    Raises what `land` raises.
    """
    begin(table, chain, {}, cluster_id=cluster_id, rules_hash=rules_hash, context=context)


def take_over_chains(
    positions: Iterable[ChainPosition], cluster_id: str, rules_hash: str, context: CommitContext
) -> bool:
    """Write our claim into the chains that have not seen it; return whether one had not.

    What others prepared for them can land no more. It moves nothing, and keeps the rules.
    """
    foreign = [each for each in positions if each.last_claim != context.claim]
    for each in foreign:  # the quarantine's first: what the table's own chain says is of both
        write_claim(each.table, each.chain, cluster_id, rules_hash, context)
    return bool(foreign)
