"""Who else has landed in the tables of a run: the claims in their ledgers (docs/design/0225).

Invariant: nothing is read for a table while a claim in its ledgers outranks ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from penstock.commit.land import Conditions, fence_rollback, fenced
from penstock.core.claims import Claim
from penstock.core.commits import Chain
from penstock.core.decide import outranks
from penstock.core.errors import InvalidError, UnavailableError
from penstock.landing.tables import opening
from penstock.landing.tables.table_set import Fleet
from penstock.ports.tables import Table, TableState, Verdict


def claims(fleet: Fleet) -> list[Claim]:
    """Return the claims that had landed last when tables were opened."""
    return [each.seen for track in fleet.tracks.values() for each in track.standings]


def claims_now(fleet: Fleet) -> list[Claim]:
    """Read afresh the claims that landed last in tables that can be read."""
    found = []
    with suppress(UnavailableError, InvalidError):
        found += claims_of_rolled_back(fleet)
    for each in (each for track in fleet.active.values() for each in track.standings):
        with suppress(UnavailableError, InvalidError):
            found.append(opening.claim_in(each.table.state(each.chain).landed))
    return found


def claims_of_rolled_back(fleet: Fleet) -> list[Claim]:
    """Read those of tables that were found rolled back. Raises UnavailableError."""
    return [opening.claim_in(state.landed) for _, _, state in _of_rolled_back(fleet)]


def require_rank(fleet: Fleet, conditions: Conditions) -> None:
    """Raise FencedError when a newer owner had landed before a table was opened."""
    for each in (each for track in fleet.active.values() for each in track.standings):
        if outranks(each.seen, conditions.claim, conditions.over):
            raise fenced(each.seen, conditions.claim)


def fence_rollbacks(fleet: Fleet, conditions: Conditions) -> None:
    """Fence the tables that were found rolled back when they were opened (protocol.md 3).

    Raises what `fence_rollback` raises.
    """
    for chain, table, state in _of_rolled_back(fleet):
        if state.verdict is Verdict.ROLLED_BACK:
            fence_rollback(chain, state, table, conditions)


def _of_rolled_back(fleet: Fleet) -> Iterator[tuple[Chain, Table, TableState]]:
    for target in fleet.rolled_back:
        chains = opening.chains(fleet.settings, fleet.world, target, fleet.quarantine)
        for chain, table in chains:
            yield chain, table, table.state(chain)
