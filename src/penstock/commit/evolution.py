"""Widens the schema of a table, before anything lands that needs it (protocol.md 5).

Invariants:
- the change is made on exactly the schema that was examined, by the owner of the pipeline;
- a schema that another writer changed meanwhile is never changed back: the request is dropped;
- it is a change of its own: a crash after it leaves a wider table, and the same records are read
  again.
"""

from __future__ import annotations

from penstock.commit.attempt import CommitContext, attempts, back_off
from penstock.commit.errors import require_rank
from penstock.core.commits import Chain
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import ConflictError, OutcomeUnknownError, UnavailableError
from penstock.core.schema import Schema
from penstock.ports.tables import Table, TableState


def evolve(
    table: Table, chain: Chain, examined: TableState, wide: Schema, context: CommitContext
) -> bool:
    """Make a wider schema the table's; false when it is no longer the one that was examined.

    Raises FencedError (a newer owner landed), InvalidError (the format cannot), UnavailableError.
    """
    for turn in attempts(context):
        state = table.state(chain)
        if state.schema == wide:
            return True
        if (state.uuid, state.schema_id) != (examined.uuid, examined.schema_id):
            return False
        require_rank(state, context.claim, context.supersedes)
        context.observer.passed(CrashPoint.EVOLVE_BEFORE)
        try:
            with context.pauses.passing(chain.table, context.clock.now_ms()):
                table.evolve(state, wide)
        except (ConflictError, OutcomeUnknownError):
            back_off(context, turn)  # the next turn shows whether it was made
        else:
            context.observer.passed(CrashPoint.EVOLVE_AFTER)
    raise UnavailableError(
        f"{chain.table}: the schema could not be changed",
        code="P469",
        hint="another writer commits all the time, or the catalog fails; the run tries again",
    )
