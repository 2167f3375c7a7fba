"""`penstock status`: what the tables say, together with what a running pipeline reports.

Invariants: the truth comes from the tables, and whether a process runs from the pending store that
hears its heartbeat; the status file of that process only adds what neither knows (rates, this run's
totals, why a table is parked). It writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.app.assembly import assembly
from penstock.app.assembly.state_folder import state_folder
from penstock.app.inspect.notebook_tables import NotebookTable, Rows
from penstock.app.inspect.open_transactions import stuck
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError, PenstockError, gravest
from penstock.core.events import WaitBegan
from penstock.core.maintenance import LOOKED_AT_MAX, TableHealth, groups_of, health_of
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds, waiting_beyond
from penstock.core.resolutions import records_only
from penstock.landing.settings import TableTarget
from penstock.landing.tables import opening, route_tables
from penstock.landing.tables.progress import by_table
from penstock.landing.waiting import KAFKA
from penstock.observe.fanout import UNHEARD
from penstock.observe.reducer import initial
from penstock.observe.snapshot import (
    Parked,
    PendingEpoch,
    Snapshot,
    Stall,
    State,
    TableStatus,
    stalled,
)
from penstock.observe.status import read_status, silent, status_path
from penstock.ports.runtime import Clock, Observer
from penstock.ports.tables import Table, TableFacts, TableFormat, TableState
from penstock.ports.transactions import OpenTransaction
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class Status(NotebookTable):
    """A snapshot, and whether a process holds the pipeline now, here or on another host.

    `unread` are the tables that could not be read now, with their errors. `stall` is by what the
    process that runs it reports itself, which the tables cannot know. `stuck` are transactions that
    hold up reading for long.
    """

    snapshot: Snapshot
    running: bool
    stall: Stall | None = None
    unread: Mapping[str, PenstockError] = field(default_factory=dict)
    stuck: tuple[OpenTransaction, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return 0, or the exit code of the gravest error that kept a table from being read."""
        return gravest(error.exit_code for error in self.unread.values())

    def rows(self) -> Rows:
        """Return a row for each table; times are epoch milliseconds."""
        return [
            {
                "table": name,
                "rows": each.table_rows,
                "lag_records": each.lag_records,
                "valid_through_ms": each.valid_through_ms,
                "pending": len(each.pending),
                "parked": "" if each.parked is None else f"{each.parked.code} {each.parked.reason}",
            }
            for name, each in self.snapshot.tables.items()
        ]


def status_file(pipeline: Pipeline) -> Path:
    """Return the place of the status file."""
    return status_path(state_folder(pipeline), pipeline.name)


def status(pipeline: Pipeline, clock: Clock, observer: Observer = UNHEARD) -> Status:
    """Read the status of a pipeline. Raises UnavailableError when brokers or store are down."""
    now_ms = clock.now_ms()
    reported = read_status(status_file(pipeline))
    with ExitStack() as stack:
        log = stack.enter_context(closing(assembly.open_log(pipeline)))
        store = stack.enter_context(closing(assembly.open_store(pipeline)))
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        observer(WaitBegan(KAFKA))
        listing = log.partitions()
        bounds = log.bounds(listing)
        observer(WaitBegan("catalogs to answer"))
        settings = assembly.settings_of(pipeline)
        targets, wanted, _ = opening.route_topics(settings, listing)
        routes = {name for name, target in targets.items() if target.is_route}
        targets, wanted = route_tables.expand_routes(settings, catalogs, targets, wanted)
        pending = by_table(pipeline.name, store.pending(pipeline.name))
        held = store.holding(pipeline.name)
        pauses = {each.table: each.until_ms for each in store.pauses(pipeline.name)}
        alive = held is not None and held.alive_until_ms > now_ms
        known = reported[0] if reported is not None else initial(pipeline.name, now_ms)
        tables: dict[str, TableStatus] = {}
        unread: dict[str, PenstockError] = {}
        for name, target in sorted(targets.items()):
            commits = pending.get(name, [])
            waiting = tuple(PendingEpoch(each.epoch, each.rows, now_ms) for each in commits)
            until_ms = pauses.get(name, 0)
            before = replace(
                known.tables.get(name, TableStatus()),
                pending=waiting,
                paused_until_ms=until_ms if until_ms > now_ms else None,
            )
            own = {at: bounds[at] for at in wanted[name] if at in bounds}
            try:
                tables[name] = _as_read(pipeline, catalogs, target, before, own)
            except PenstockError as error:
                unread[name] = error
                since_ms = before.parked.since_ms if before.parked else now_ms
                parked = Parked(error.code, error.message, since_ms, error.hint)
                tables[name] = replace(before, parked=parked, lag_records=None)
    stall, state = None, known.state if known.state.ended else State.STOPPED
    reports = reported is not None and not silent(*reported, now_ms) and not known.state.ended
    if alive and reports:
        stall = stalled(known, now_ms, int(pipeline.commit.every_seconds * 1000))
        state = known.state
    elif alive:  # of a process that reports nothing here is known only that it runs
        state = State.RUNNING
    lag: dict[str, int] = {}
    for name, table in tables.items():
        if table.lag_records is not None:
            topics = {at.topic for at in wanted[name]}
            lag |= {topic: max(lag.get(topic, 0), table.lag_records) for topic in topics}
    updated_ms = known.updated_ms if reported is not None else now_ms if alive else 0
    tables |= {  # routes that rejected records, with counts, without their tables' own
        name: replace(each, valid_through_ms=None, lag_records=None, pending=())
        for name, each in known.tables.items()
        if name in routes and each.quarantined
    }
    snapshot = replace(known, tables=tables, state=state, updated_ms=updated_ms, lag=lag)
    return Status(snapshot, alive, stall, unread, stuck(pipeline, bounds.values(), now_ms))


def _as_read(
    pipeline: Pipeline,
    catalogs: Mapping[str, TableFormat],
    target: TableTarget,
    before: TableStatus,
    bounds: Mapping[TopicPartition, Bounds],
) -> TableStatus:
    """Lay what a table says over what the last run reported. Raises what reading it raises."""
    place, landed, facts, health = target.location, None, None, None
    table = catalogs[place.catalog].load(place.name)
    if table is not None:
        state, facts = table.state(Chain(pipeline.name, place.table)), table.describe()
        landed, health = state.landed, _health(table, state, facts, before.health)
    offsets = {} if landed is None else records_only(landed.offsets)
    return replace(
        before,
        lag_records=waiting_beyond(offsets, bounds),
        valid_through_ms=before.valid_through_ms if landed is None else landed.valid_through_ms,
        table_rows=None if facts is None else facts.rows,
        table_files=None if facts is None else facts.files,
        health=health,
        offsets={f"{at.topic}:{at.partition}": int(next_) for at, next_ in sorted(offsets.items())},
        purged_through_ms=None if landed is None else landed.purged_through_ms,
    )


def _health(
    table: Table, state: TableState, facts: TableFacts, known: TableHealth | None
) -> TableHealth | None:
    """Look at the files of a table, where they are not very many and metadata tell of their rows;
    else return what the run knew, with as many files as there are. Raises UnavailableError.
    """
    if facts.files is not None and facts.files > LOOKED_AT_MAX:
        return known and known.with_files(facts.files)
    if facts.rows is None or facts.files is None:
        return known
    try:
        layout = table.layout(state)
    except InvalidError:  # equality deletes: which rows are live would have to be searched for
        return None
    return health_of(layout, groups_of(layout))
