"""What acts of maintenance on one table share: they claim nothing, and yield to whoever lands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from penstock.commit.attempt import Attempt, CommitContext, attempts, tried
from penstock.commit.errors import rolled_back
from penstock.core.commits import Chain
from penstock.core.errors import UnavailableError
from penstock.ports.store import Pause
from penstock.ports.tables import Table, TableState

TURNS_MAX = 5
"""How many times a request looks at the table: to land, after a conflict, to see that it did."""


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The maintenance of one table, in the name of a chain; `attempt` names it in events.

    `pauses` asks which tables are paused now.
    """

    chain: Chain
    table: Table
    context: CommitContext
    attempt: str
    pauses: Callable[[], Iterable[Pause]] = field(repr=False)

    @property
    def pipeline(self) -> str:
        """Return the pipeline of the chain."""
        return self.chain.name.partition("/")[0]

    def examined(self) -> TableState:
        """Read the table. Raises DecisionNeededError (P455) where it was rolled back."""
        state = self.table.state(self.chain)
        require_sound(self.chain, state)
        return state

    def require_not_paused(self) -> None:
        """Raise UnavailableError (P445) while the table is paused: nothing is written in vain."""
        self.context.pauses.know(self.pauses())
        self.context.pauses.require_none(self.chain.table, self.context.clock.now_ms())

    def turns(self) -> Iterator[Attempt]:
        """Yield the turns of one request, each as it begins."""
        return attempts(replace(self.context, turns_max=TURNS_MAX))

    def tried(self, act: Callable[[], str], turn: Attempt) -> str:
        """Make one request, as `attempt.tried`. Raises UnavailableError (P445 it is paused)."""
        self.context.pauses.know(self.pauses())
        names = (self.chain.table, self.chain.name, self.attempt)
        return tried(act, names, self.context, turn)

    def given_up(self, what: str) -> UnavailableError:
        """Build the error for a request that lost all its turns."""
        return UnavailableError(
            f"{self.chain.table}: others committed before it in {TURNS_MAX} turns; {what}",
            code="P866",
            hint="try again when less is committed; what was done stays done",
        )


def require_sound(chain: Chain, state: TableState) -> None:
    """Raise DecisionNeededError (P455) where the chain was rolled back, or nobody can tell."""
    if not state.verdict.is_sound:
        raise rolled_back(chain.table, state.evidence)
