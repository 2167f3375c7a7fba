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
from penstock.landing.ownership.claim import Tenure
from penstock.landing.settings import Settings, World
from penstock.landing.tables import opening
from penstock.landing.tables.progress import Track, by_table
from penstock.landing.tables.table_set import Fleet
from penstock.spec.routing.names import no_table


@dataclass(frozen=True, slots=True)
class Hold:
    """A pipeline that is held: `fleet` tells where its tables stand."""

    settings: Settings
    world: World
    fleet: Fleet
    tenure: Tenure

    @property
    def two_phase(self) -> TwoPhase:
        """Return what settles prepared commits."""
        pipeline, store = self.settings.pipeline, self.world.store
        return TwoPhase(pipeline, store, self.tenure.conditions)

    def settled(self, name: str) -> Track:
        """Settle what is pending for a table, and give where it stands then.

        Raises what keeps the table from being opened, and what `commit.once.land` raises.
        """
        if name not in self.fleet.tracks and name not in self.fleet.aside:
            raise no_table(name, {*self.fleet.tracks, *self.fleet.aside}, self.fleet.topics)
        pipeline = self.settings.pipeline
        rows = by_table(pipeline, self.world.store.pending(pipeline)).get(name, [])
        batch = self.fleet.recovery(name, rows)
        if batch is not None:
            self.two_phase.recover(batch.work)
            self.fleet.recovered(name, self.tenure.conditions)
            self.fleet.list_topics(self.world.log.partitions())  # routes are told of their tables
        if name in self.fleet.aside:
            raise self.fleet.aside[name].error
        return self.fleet.tracks[name]


@contextmanager
def hold(settings: Settings, world: World, *, takeover: bool = False) -> Iterator[Hold]:
    """Hold a pipeline while it is changed.

    Raises UnavailableError (P510) while another owner is alive, unless `takeover`; what opening the
    quarantine table raises.
    """
    fleet = Fleet(settings, world, opening.open_quarantine(settings, world))
    fleet.list_topics(world.log.partitions())
    tenure = Tenure(settings, world)
    try:
        seen = [*fencing.claims(fleet), *fencing.claims_of_rolled_back(fleet)]
        tenure.take(seen, takeover=takeover)
        held = Hold(settings, world, fleet, tenure)
        if tenure.strange:
            fleet.take_over(held.tenure.conditions)
        yield held
    finally:
        tenure.close()
        with suppress(PenstockError):  # the pipeline may be another's by now; a claim is advisory
            tenure.release()
