"""Open a pipeline to inspect it: what a run would find and do, without changing anything.

The workers' own code runs here, and its rows and rejects stay in memory: what `plan` and `peek`
show is what a run would do, down to the last record.

Invariants: no catalog, table, store or directory is created or written, not even a missing one;
where the quarantine table does not exist yet, an empty one in memory replaces it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.app.assembly import assembly
from penstock.app.assembly.process import SystemClock, commit_executor, jitter, this_owner, token
from penstock.app.assembly.worker import work_with, writer
from penstock.commit.creation import create
from penstock.connectors.memory.tables import MemoryTables
from penstock.connectors.memory.warehouse import Warehouse
from penstock.core.commits import DataFile, EpochNumber
from penstock.core.errors import UnavailableError
from penstock.core.events import WaitBegan
from penstock.core.offsets import OffsetRange, TopicPartition
from penstock.core.planning import Bounds, Epoch, Lane, Slice
from penstock.core.schema import Schema, Struct
from penstock.engines.inline import InlineEngine
from penstock.landing.epoch.poison_isolation import PoisonIsolation
from penstock.landing.epoch.runner import EpochRunner
from penstock.landing.settings import Consent, Environment, Settings
from penstock.landing.tables import opening
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.messages import TaskResult, WriteTarget
from penstock.landing.waiting import KAFKA
from penstock.observe.fanout import UNHEARD
from penstock.ports.log import Fetched, RangeReader
from penstock.ports.runtime import Engine, Observer
from penstock.ports.tables import TableDefinition
from penstock.ports.writers import AS_THEY_COME, FileWriter, Placing
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import no_table

if TYPE_CHECKING:
    from penstock.ports.writers import Places

QUARANTINE = "quarantine"
TRIAL_SECONDS = 20.0

Rows = list[Mapping[str, Any]]


@dataclass(slots=True)
class DryRun:
    """Implements `ports.log.RangeReader` over `batches` that were read before, with headers.

    `rows` are those that would have landed, by a job's target.
    """

    batches: Mapping[TopicPartition, pa.RecordBatch] = field(default_factory=dict)
    rows: dict[str, Rows] = field(default_factory=lambda: defaultdict(list))

    @property
    def engine(self) -> Engine:
        """Return what runs jobs on these records, in this process, one after the other."""
        return InlineEngine(lambda job: work_with(job, lambda _: self, lambda _: self._writer))

    def read(
        self,
        at: TopicPartition,
        covered: OffsetRange,
        *,
        deadline: float,
        headers: bool = False,
        leader_epoch: int | None = None,
    ) -> Iterator[Fetched]:
        """Yield the held records of a range."""
        del deadline, leader_epoch
        batch = self.batches[at]
        offsets = batch.column("offset")
        inside = pc.and_(pc.greater_equal(offsets, covered.start), pc.less(offsets, covered.stop))
        chosen = batch.filter(inside)
        names = [name for name in chosen.schema.names if headers or name != "headers"]
        yield Fetched(chosen.select(names), covered.stop)

    def close(self) -> None:
        """Let go of nothing."""

    def _writer(
        self,
        target: str,
        *,
        prefix: str,
        observer: Observer,
        places: bool = False,
        placing: Placing = AS_THEY_COME,
    ) -> FileWriter:
        del prefix, observer, places, placing
        return _ListWriter(self.rows[target])


@dataclass(slots=True)
class _ListWriter:
    """Implements `ports.tables.FileWriter` over a list."""

    into: Rows
    _rows: Rows = field(default_factory=list)
    _size_bytes: int = 0

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows; they are kept once this is closed."""
        self._rows += rows.to_pylist()
        self._size_bytes += rows.nbytes

    def close(self) -> Sequence[DataFile]:
        """Keep the rows, and describe them as if they were a file."""
        self.into += self._rows
        return (DataFile("kept in memory", len(self._rows), self._size_bytes, {}),)

    def places(self) -> Places:
        """Return the one file and the order of writing."""
        return np.zeros(len(self._rows), np.int32), np.arange(len(self._rows))

    def abandon(self) -> None:
        """Forget the rows; those of other writers stay."""
        self._rows.clear()


@dataclass(frozen=True, slots=True)
class ReadOnlyWorld:
    """A pipeline, read once: `table_set` holds the position of every table.

    `dry_run` is the world's engine, over records that `reader` has read. `quarantine_missing` says
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
        """Return a table's progress. Raises its error if it is parked, InvalidError (P185)."""
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
        self.dry_run.rows.clear()
        named = {  # writers are known by the name of their table
            name: replace(each, state=each.state and replace(each.state, target=name))
            for name, each in progress.items()
        }
        return self._runner.run(_epoch(lanes), named)

    @property
    def _runner(self) -> EpochRunner:
        quarantine = WriteTarget(self.settings.quarantine.connector, QUARANTINE)
        isolation = PoisonIsolation(self.environment)
        return EpochRunner(self.settings, self.environment, quarantine, isolation)


@contextmanager
def open_world(
    pipeline: Pipeline,
    *,
    accept: frozenset[Consent] = frozenset(),
    observer: Observer = UNHEARD,
) -> Iterator[ReadOnlyWorld]:
    """Read everything inside the block. `accept` is what a person consents to.

    Tables that cannot be read are parked with their errors. Raises UnavailableError when brokers or
    store are down, InvalidError for topics that are missing or may not be read, DecisionNeededError
    for a topic that was made again.
    """
    settings = assembly.settings_of(pipeline, accept=accept)
    with ExitStack() as stack:
        log = stack.enter_context(closing(assembly.open_log(pipeline)))
        observer(WaitBegan(KAFKA))
        cluster_id = log.cluster_id()
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        observer(WaitBegan("catalogs to answer"))
        for name in catalogs:
            with suppress(UnavailableError):
                catalogs[name]  # what is wrong with its settings ends a run
        store = stack.enter_context(closing(assembly.open_store(pipeline)))
        reader = stack.enter_context(closing(assembly.open_reader(pipeline)))
        dry_run = DryRun()
        environment = Environment(
            log=log,
            cluster_id=cluster_id,
            catalogs=catalogs,
            writers=writer,
            store=store,
            engine=dry_run.engine,
            observer=observer,
            clock=SystemClock(),
            owner=this_owner(),
            jitter=jitter,
            token=token,
            commit_executor=commit_executor,
        )
        yield read_world(settings, environment, dry_run, reader)


def read_world(
    settings: Settings, environment: Environment, dry_run: DryRun, reader: RangeReader
) -> ReadOnlyWorld:
    """Read everything with a dry run as the engine. Raises what `open_world` raises."""
    settings = replace(settings, timeout_seconds=TRIAL_SECONDS)
    place = settings.quarantine
    quarantine = environment.catalogs[place.catalog].load(place.name)
    missing = quarantine is None
    if quarantine is None:
        definition, stand_in = (
            TableDefinition(settings.quarantine_schema),
            MemoryTables(Warehouse()),
        )
        quarantine = create(stand_in, (place.table, place.name), definition, (), UNHEARD)
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
