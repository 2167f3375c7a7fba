"""Hold a pipeline to change it by hand: as a run does, so that no run lands beside it.

Invariants:
- the claim is above all that any ledger has seen, and it is refused while another owner is alive;
- a table is changed only when what was pending for it is settled, and it was opened afresh;
- whatever ends the change, the pipeline is let go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from penstock.commit.two_phase import TwoPhase
from penstock.core.errors import PenstockError
from penstock.landing.ownership import fencing
from penstock.landing.ownership.claim import PipelineClaim
from penstock.landing.settings import Environment, Settings
from penstock.landing.tables import opening
from penstock.landing.tables.progress import TableProgress, by_table
from penstock.landing.tables.table_set import TableSet
from penstock.spec.routing.names import no_table


@dataclass(frozen=True, slots=True)
class ExclusiveAccess:
    """A pipeline that is held: `fleet` tells where its tables stand."""

    settings: Settings
    environment: Environment
    tables: TableSet
    claim: PipelineClaim

    @property
    def two_phase(self) -> TwoPhase:
        """Return what settles prepared commits."""
        pipeline, store = self.settings.pipeline, self.environment.store
        return TwoPhase(pipeline, store, self.claim.conditions)

    def settle_pending(self, name: str) -> TableProgress:
        """Settle what is pending for a table, and give where it stands then.

        Raises what keeps the table from being opened, and what `commit.once.land` raises.
        """
        if name not in self.tables.tracks and name not in self.tables.parked:
            raise no_table(name, {*self.tables.tracks, *self.tables.parked}, self.tables.topics)
        pipeline = self.settings.pipeline
        rows = by_table(pipeline, self.environment.store.pending(pipeline)).get(name, [])
        batch = self.tables.recovery_work(name, rows)
        if batch is not None:
            self.two_phase.recover(batch.work)
            self.tables.recovered(name, self.claim.conditions)
            self.tables.list_topics(
                self.environment.log.partitions()
            )  # routes are told of their tables
        if name in self.tables.parked:
            raise self.tables.parked[name].error
        return self.tables.tracks[name]


@contextmanager
def exclusive_access(
    settings: Settings, world: Environment, *, takeover: bool = False
) -> Iterator[ExclusiveAccess]:
    """Hold a pipeline while it is changed.

    Raises UnavailableError (P510) while another owner is alive, unless `takeover`; what opening the
    quarantine table raises.
    """
    fleet = TableSet(settings, world, opening.open_quarantine(settings, world))
    fleet.list_topics(world.log.partitions())
    tenure = PipelineClaim(settings, world)
    try:
        seen = [*fencing.last_claims(fleet), *fencing.claims_of_rolled_back(fleet)]
        tenure.acquire(seen, takeover=takeover)
        held = ExclusiveAccess(settings, world, fleet, tenure)
        if tenure.foreign:
            fleet.take_over(held.claim.conditions)
        yield held
    finally:
        tenure.close()
        with suppress(PenstockError):  # the pipeline may be another's by now; a claim is advisory
            tenure.release()
