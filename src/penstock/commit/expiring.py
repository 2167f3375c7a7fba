"""Let snapshots of a table expire, in a request of their own, beside whoever lands (0308).

Invariants:
- nothing expires where witnesses do not agree, and no ref may have moved since it was seen;
- what expired is found out by looking again: a lost answer is no failure.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.commit.maintaining import Maintenance
from penstock.core.expiry import Expiry, Snapshot
from penstock.ports.tables import TableState


def expire(work: Maintenance) -> tuple[Snapshot, ...]:
    """Let snapshots expire; return those that did.

    Raises UnavailableError (P866 others commit all the time, P445 the table is paused),
    DecisionNeededError (P455 rolled back, P846), and what reading and committing raise.
    """
    asked: tuple[Snapshot, ...] = ()
    for turn in work.turns():
        state, found = _looked_at(work)
        if not found.expired:
            return _gone(asked, found)

        def act(state: TableState = state, found: Expiry = found) -> str:
            work.table.upkeep(state).expire(found)
            return state.head

        asked = (*asked, *(each for each in found.expired if each not in asked))
        work.tried(act, turn)
    _, found = _looked_at(work)
    if gone := _gone(asked, found):
        return gone
    raise work.given_up("no snapshot expired")


def planned_expiry(work: Maintenance) -> Expiry:
    """Plan what would expire. Raises DecisionNeededError (P455, P846), and what reading raises."""
    return _looked_at(work)[1]


def _looked_at(work: Maintenance) -> tuple[TableState, Expiry]:
    state = work.examined()
    return state, work.table.upkeep(state).expiry(work.context.clock.now_ms())


def _gone(asked: Iterable[Snapshot], found: Expiry) -> tuple[Snapshot, ...]:
    """Return those of some snapshots that the metadata has no longer."""
    there = {*(each.id for each in found.kept), *(each.id for each in found.expired)}
    return tuple(each for each in asked if each.id not in there)
