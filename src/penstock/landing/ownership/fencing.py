"""Who else has landed in the tables of a run: the claims in their ledgers (docs/design/0225).

Invariant: nothing is read for a table while a claim in its ledgers outranks ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from penstock.commit.land import CommitContext, fence_rollback, fenced
from penstock.core.claims import Claim
from penstock.core.commits import Chain
from penstock.core.decide import outranks
from penstock.core.errors import InvalidError, UnavailableError
from penstock.landing.tables import opening
from penstock.landing.tables.table_set import TableSet
from penstock.ports.tables import Table, TableState, Verdict


def last_claims(fleet: TableSet) -> list[Claim]:
    """Return the claims that had landed last when tables were opened."""
    return [each.last_claim for track in fleet.tracks.values() for each in track.positions]


def read_claims(fleet: TableSet) -> list[Claim]:
    """Read afresh the claims that landed last in tables that can be read."""
    found = []
    with suppress(UnavailableError, InvalidError):
        found += claims_of_rolled_back(fleet)
    for each in (each for track in fleet.active.values() for each in track.positions):
        with suppress(UnavailableError, InvalidError):
            found.append(opening.claim_in(each.table.state(each.chain).landed))
    return found


def claims_of_rolled_back(fleet: TableSet) -> list[Claim]:
    """Read those of tables that were found rolled back. Raises UnavailableError."""
    return [opening.claim_in(state.landed) for _, _, state in _of_rolled_back(fleet)]


def check_rank(fleet: TableSet, conditions: CommitContext) -> None:
    """Raise FencedError when a newer owner had landed before a table was opened."""
    for each in (each for track in fleet.active.values() for each in track.positions):
        if outranks(each.last_claim, conditions.claim, conditions.supersedes):
            raise fenced(each.last_claim, conditions.claim)


def fence_rollbacks(fleet: TableSet, conditions: CommitContext) -> None:
    """Fence the tables that were found rolled back when they were opened (protocol.md 3).

    Raises what `fence_rollback` raises.
    """
    for chain, table, state in _of_rolled_back(fleet):
        if state.verdict is Verdict.ROLLED_BACK:
            fence_rollback(chain, state, table, conditions)


def _of_rolled_back(fleet: TableSet) -> Iterator[tuple[Chain, Table, TableState]]:
    for target in fleet.rolled_back:
        chains = opening.chains(fleet.settings, fleet.environment, target, fleet.quarantine)
        for chain, table in chains:
            yield chain, table, table.state(chain)
