"""The plan of `penstock maintain`: how the files of tables lie, and which would be written again.

Invariants: nothing is written, and no data file is opened; a table whose witnesses do not agree is
left alone, for its files are somebody's evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from penstock.app.assembly import assembly
from penstock.app.assembly.table_names import tables_named
from penstock.commit.rearranging import require_maintainable
from penstock.core.commits import Chain
from penstock.core.errors import DecisionNeededError, InvalidError, PenstockError, gravest
from penstock.core.events import WaitBegan
from penstock.core.maintenance import FileGroup, TableHealth, groups_of, health_of
from penstock.landing.settings import TableLocation
from penstock.observe.fanout import UNHEARD
from penstock.ports.runtime import Observer
from penstock.ports.tables import TableFormat
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class TableMaintenance:
    """What maintenance would do to one table: the worst group first.

    Without `health` it is not there yet, or could not be read (`error`). `left_alone` is why
    nothing would be done, whatever its groups.
    """

    table: str
    health: TableHealth | None = None
    groups: tuple[FileGroup, ...] = ()
    left_alone: PenstockError | None = None
    error: PenstockError | None = None

    @property
    def waits(self) -> bool:
        """Return whether there is something to do."""
        return bool(self.groups) and self.left_alone is None


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
    pipeline: Pipeline, names: Sequence[str] = (), observer: Observer = UNHEARD
) -> MaintenancePlan:
    """Plan the maintenance of some tables, or of all. Writes nothing.

    One that cannot be read does not hide the others. Raises InvalidError (P185 no such table),
    UnavailableError where rules compute names and Kafka does not answer.
    """
    tables = tables_named(pipeline, names)
    with ExitStack() as stack:
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        observer(WaitBegan("the files of tables to be listed"))
        found = []
        for place in (assembly.place_of(pipeline, each) for each in tables):
            try:
                found.append(_looked_at(pipeline, catalogs[place.catalog], place))
            except PenstockError as error:
                found.append(TableMaintenance(place.table, error=error))
    return MaintenancePlan(pipeline.name, tuple(found))


def _looked_at(pipeline: Pipeline, catalog: TableFormat, place: TableLocation) -> TableMaintenance:
    table = catalog.load(place.name)
    if table is None:
        return TableMaintenance(place.table)
    chain = Chain(pipeline.name, place.table)
    state = table.state(chain)
    layout = table.layout(state)
    groups = groups_of(layout)
    alone = None
    try:
        require_maintainable(chain, table, state)
    except (DecisionNeededError, InvalidError) as error:
        alone = error
    return TableMaintenance(place.table, health_of(layout, groups), groups, alone)
