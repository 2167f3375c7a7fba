"""Open a pipeline to look at it: what a run would find, without changing anything.

Invariants: no catalog, table, store or directory is created or written, not even a missing one;
where the quarantine table does not exist yet, an empty one in memory stands for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock, jitter, this_owner, token
from penstock.app.inspect.dry_run import DryRun
from penstock.commit.creation import create
from penstock.connectors.memory.tables import MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.commits import EpochNumber
from penstock.core.events import WaitBegan
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds, Epoch, Lane, Slice
from penstock.core.schema import Schema, Struct
from penstock.landing.epoch.poison_isolation import PoisonIsolation
from penstock.landing.epoch.runner import EpochRunner
from penstock.landing.settings import Consent, Environment, Settings, TableLocation
from penstock.landing.tables import opening
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.messages import TaskResult, WriteTarget
from penstock.landing.waiting import KAFKA
from penstock.observe.fanout import UNHEARD
from penstock.ports.log import RangeReader
from penstock.ports.runtime import Observer
from penstock.ports.tables import Table, TableDefinition, TableFormat
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import no_table

QUARANTINE = "quarantine"
TRIAL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ReadOnlyWorld:
    """A pipeline, looked at once: `table_set` holds where every table stands.

    `dry_run` is the world's engine, over records that `reader` has read. `quarantine_missing` tells
    that a run would create the quarantine table.
    """

    settings: Settings
    environment: Environment
    table_set: TableSet
    dry_run: DryRun
    reader: RangeReader
    listing: opening.Listing
    bounds: Mapping[TopicPartition, Bounds]
    quarantine_missing: bool

    def progress_of(self, table: str) -> TableProgress:
        """Return where a table stands. Raises its error if it is parked, InvalidError (P185)."""
        parked, tables = self.table_set.parked, self.table_set.progress
        if table in parked:
            raise parked[table].error
        if table not in tables:
            raise no_table(table, {*tables, *parked}, self.table_set.topics)
        return tables[table]

    def survey(
        self, lanes: Sequence[Lane], progress: Mapping[str, TableProgress]
    ) -> dict[str, Schema]:
        """Return what columns the records of lanes show, by table, for tables there are or not."""
        absent = {name: replace(each, position=None) for name, each in progress.items()}
        # A failure is reported by `attempt`, which reads the same.
        return self._runner.infer_schemas(_epoch(lanes), absent)[0]

    def attempt(
        self, lanes: Sequence[Lane], progress: Mapping[str, TableProgress]
    ) -> list[TaskResult]:
        """Do the work of lanes as a run would, a result for each; rows are in `dry_run.rows`."""
        named = {name: _named(each) for name, each in progress.items()}
        return self._runner.run(_epoch(lanes), named)

    @property
    def _runner(self) -> EpochRunner:
        quarantine = WriteTarget(self.settings.quarantine.connector, QUARANTINE)
        isolation = PoisonIsolation(self.environment)
        return EpochRunner(self.settings, self.environment, quarantine, isolation)


def open_view(
    pipeline: Pipeline,
    stack: ExitStack,
    *,
    accept: frozenset[Consent] = frozenset(),
    observer: Observer = UNHEARD,
) -> ReadOnlyWorld:
    """Look at everything; `stack` closes it again. `accept` is what a human consents to.

    Tables that cannot be read are parked with their errors. Raises UnavailableError when brokers or
    store are gone, InvalidError for topics that are missing or may not be read, DecisionNeededError
    for a topic that was made again.
    """
    settings = assembly.settings_of(pipeline, accept=accept)
    log = assembly.open_log(pipeline)
    stack.callback(log.close)
    observer(WaitBegan(KAFKA))
    cluster_id = log.cluster_id()
    catalogs = assembly.open_catalogs(pipeline, UNHEARD, stack, read_only=True)
    observer(WaitBegan("catalogs to answer"))
    catalogs.open()  # what is wrong with their settings ends a run
    store = assembly.open_store(pipeline)
    stack.callback(store.close)
    dry_run, reader = DryRun(), assembly.open_reader(pipeline)
    stack.callback(reader.close)
    environment = Environment(
        log=log,
        cluster_id=cluster_id,
        catalogs=catalogs,
        store=store,
        engine=dry_run.engine,
        observer=observer,
        clock=SystemClock(),
        owner=this_owner(),
        jitter=jitter,
        token=token,
    )
    return look(settings, environment, dry_run, reader)


def look(
    settings: Settings, environment: Environment, dry_run: DryRun, reader: RangeReader
) -> ReadOnlyWorld:
    """Look at everything where the engine is a dry run. Raises what `open_view` raises."""
    settings = replace(settings, timeout_seconds=TRIAL_SECONDS)
    quarantine, missing = _quarantine_of(settings, environment.catalogs)
    table_set = TableSet(settings, environment, quarantine)
    listing = environment.log.partitions()
    table_set.list_topics(listing)
    bounds = environment.log.bounds(listing)
    return ReadOnlyWorld(
        settings, environment, table_set, dry_run, reader, listing, bounds, missing
    )


def new_columns(shown: Schema, schema: Schema, prefix: str = "") -> list[tuple[str, str]]:
    """List the fields that records show and a table does not have, by dotted path with types."""
    found = []
    for each in shown.fields:
        path = f"{prefix}{each.name}"
        known = schema.field(each.name)
        if known is None:
            found.append((path, str(each.type)))
        elif isinstance(each.type, Struct) and isinstance(known.type, Struct):
            found += new_columns(each.type, known.type, f"{path}.")
    return found


def _epoch(lanes: Sequence[Lane]) -> Epoch:
    return Epoch(EpochNumber(0), tuple(Slice(n, (lane,)) for n, lane in enumerate(lanes)))


def _named(progress: TableProgress) -> TableProgress:
    """Let a table's writers be told apart by the table's name."""
    if progress.state is None:
        return progress
    return replace(progress, state=replace(progress.state, target=progress.name))


def _quarantine_of(settings: Settings, catalogs: Mapping[str, TableFormat]) -> tuple[Table, bool]:
    place: TableLocation = settings.quarantine
    found = catalogs[place.catalog].load(place.name)
    if found is not None:
        return found, False
    stand_in = MemoryTables(Warehouse())
    definition = TableDefinition(settings.quarantine_schema)
    return create(stand_in, (place.table, place.name), definition, (), UNHEARD), True
