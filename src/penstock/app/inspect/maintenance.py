"""The plan of `penstock maintain`: files that would be written again, snapshots that would expire,
files that nothing names.

Invariants: nothing is written, and no data file is opened; a table whose witnesses do not agree is
left alone, for its files are somebody's evidence; what one act may not do keeps no other from
being planned.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock, jitter, token
from penstock.app.assembly.table_names import tables_named
from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import last_claim_of
from penstock.commit.expiring import planned_expiry
from penstock.commit.maintaining import Maintenance
from penstock.commit.rearranging import require_maintainable
from penstock.commit.sweeping import Sweeping
from penstock.core.commits import Chain
from penstock.core.errors import DecisionNeededError, InvalidError, PenstockError, gravest
from penstock.core.events import WaitBegan
from penstock.core.expiry import Expiry
from penstock.core.maintenance import FileGroup, MaintenanceAct, TableHealth, groups_of, health_of
from penstock.core.sweeps import HORIZON_MS, Sweep
from penstock.observe.fanout import UNHEARD
from penstock.ports.runtime import Observer
from penstock.ports.store import PendingStore
from penstock.ports.tables import Table
from penstock.spec.model import Pipeline

Found = TypeVar("Found")
EPOCHS_YOUNG = 3
"""For how many times that a slice may be read a file counts as young at least."""


@dataclass(frozen=True, slots=True)
class TableMaintenance:
    """What maintenance would do to one table: of its groups the worst first.

    One that `is_missing` is not there yet, and one with an `error` could not be read. What was not
    asked for is None, `health` where a sweep is all: its files are not listed for that.
    `left_alone` is why acts are not done.
    """

    table: str
    is_missing: bool = False
    health: TableHealth | None = None
    groups: tuple[FileGroup, ...] = ()
    expiry: Expiry | None = None
    sweep: Sweep | None = None
    left_alone: Mapping[MaintenanceAct, PenstockError] = field(default_factory=dict)
    error: PenstockError | None = None

    @property
    def acts(self) -> tuple[MaintenanceAct, ...]:
        """Return the acts that would do something, and may."""
        found = {
            MaintenanceAct.REARRANGE: bool(self.groups),
            MaintenanceAct.EXPIRE: self.expiry is not None and bool(self.expiry.expired),
            MaintenanceAct.SWEEP: self.sweep is not None and bool(self.sweep.due or self.sweep.new),
        }
        return tuple(act for act, does in found.items() if does and act not in self.left_alone)


@dataclass(frozen=True, slots=True)
class MaintenancePlan:
    """What maintenance would do to the tables of a pipeline."""

    pipeline: str
    tables: tuple[TableMaintenance, ...]

    @property
    def exit_code(self) -> int:
        """Return 0, or the exit code of the gravest error that kept a table from being read."""
        return gravest(each.error.exit_code for each in self.tables if each.error is not None)


def plan_maintenance(
    pipeline: Pipeline,
    names: Sequence[str] = (),
    observer: Observer = UNHEARD,
    acts: Collection[MaintenanceAct] = frozenset(MaintenanceAct),
) -> MaintenancePlan:
    """Plan acts on some tables, or on all. Writes nothing.

    One that cannot be read does not hide the others. Raises InvalidError (P185 no such table),
    UnavailableError where rules compute names and Kafka does not answer, or the pending store.
    """
    tables = tables_named(pipeline, names)
    with ExitStack() as stack:
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        store = stack.enter_context(closing(assembly.open_store(pipeline)))
        observer(WaitBegan("the files of tables to be listed"))
        found = []
        for place in (assembly.place_of(pipeline, each) for each in tables):
            try:
                table = catalogs[place.catalog].load(place.name)
                if table is None:
                    found.append(TableMaintenance(place.table, is_missing=True))
                    continue
                work = maintenance_of(pipeline, place.table, table, store, observer)
                found.append(_looked_at(work, sweeping_of(pipeline, work, store), acts))
            except PenstockError as error:
                found.append(TableMaintenance(place.table, error=error))
    return MaintenancePlan(pipeline.name, tuple(found))


def maintenance_of(
    pipeline: Pipeline, name: str, table: Table, store: PendingStore, observer: Observer
) -> Maintenance:
    """Return what maintains a table, under no claim."""
    return Maintenance(
        Chain(pipeline.name, name),
        table,
        CommitContext(last_claim_of(None), observer, SystemClock(), jitter, pipeline.commit.retain),
        token(),
        lambda: store.pauses(pipeline.name),
    )


def sweeping_of(pipeline: Pipeline, work: Maintenance, store: PendingStore) -> Sweeping:
    """Return what sweeps a table: no file that an epoch may still be writing."""
    epoch_ms = int(pipeline.commit.timeout_seconds * 1000)
    return Sweeping(work, store, max(HORIZON_MS, EPOCHS_YOUNG * epoch_ms))


def _looked_at(
    work: Maintenance, sweeping: Sweeping, acts: Collection[MaintenanceAct]
) -> TableMaintenance:
    alone: dict[MaintenanceAct, PenstockError] = {}

    def unless_alone(act: MaintenanceAct, look: Callable[[], Found]) -> Found | None:
        try:
            return look() if act in acts else None
        except (DecisionNeededError, InvalidError) as error:
            alone[act] = error
            return None

    found = TableMaintenance(work.chain.table, left_alone=alone)
    if any(each is not MaintenanceAct.SWEEP for each in acts):
        state = work.table.state(work.chain)
        layout = work.table.layout(state)
        groups = groups_of(layout)
        shown = groups if MaintenanceAct.REARRANGE in acts else ()
        found = replace(found, health=health_of(layout, groups), groups=shown)
        unless_alone(
            MaintenanceAct.REARRANGE, lambda: require_maintainable(work.chain, work.table, state)
        )
    return replace(
        found,
        expiry=unless_alone(MaintenanceAct.EXPIRE, lambda: planned_expiry(work)),
        sweep=unless_alone(MaintenanceAct.SWEEP, sweeping.plan),
    )
