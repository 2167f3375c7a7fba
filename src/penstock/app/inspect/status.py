"""`penstock status`: what the tables say, together with what a running pipeline reports.

Invariants: the truth comes from the tables, and whether a process runs from the pending store that
hears its heartbeat; the status file of that process only adds what neither knows (rates, this run's
totals, why a table is parked). It writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

from penstock.app.assembly import assembly
from penstock.app.inspect.notebook_tables import NotebookTable, Rows
from penstock.app.inspect.open_transactions import stuck
from penstock.app.inspect.reported import Reported, newest_of, newest_report
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError, PenstockError, gravest
from penstock.core.events import WaitBegan
from penstock.core.maintenance import LOOKED_AT_MAX, TableHealth, groups_of, health_of
from penstock.core.offsets import Positions
from penstock.core.planning import waiting_beyond
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
from penstock.observe.why import NOTHING_KNOWN, Why, why
from penstock.ports.reports import Reports
from penstock.ports.runtime import Clock, Observer
from penstock.ports.store import PendingStore
from penstock.ports.tables import Table, TableFacts, TableFormat, TableState
from penstock.ports.transactions import OpenTransaction
from penstock.spec.model import Pipeline


@dataclass(frozen=True, slots=True)
class Status(NotebookTable):
    """A snapshot, and whether a process holds the pipeline now, here or on another host.

    `why` says in a sentence why nothing moves, or that everything flows. `now_ms` is the time by
    the clock of the process that runs it, where that `tells` of itself. `unread` are the tables
    that could not be read now, with their errors. `stall` is by what the process that runs it
    reports itself, which the tables cannot know. `stuck` are transactions that hold up reading for
    long.
    """

    snapshot: Snapshot
    running: bool
    now_ms: int = 0
    tells: bool = False
    stall: Stall | None = None
    unread: Mapping[str, PenstockError] = field(default_factory=dict)
    stuck: tuple[OpenTransaction, ...] = ()
    why: Why = NOTHING_KNOWN

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


def status(pipeline: Pipeline, clock: Clock, observer: Observer = UNHEARD) -> Status:
    """Read the status of a pipeline. Raises UnavailableError when brokers or store are down."""
    now_ms = clock.now_ms()
    reported = newest_report(pipeline, now_ms)
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
        known = reported.snapshot if reported is not None else initial(pipeline.name, now_ms)
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
            try:
                landed, found = _as_read(pipeline, catalogs, target, before)
                lag_records = waiting_beyond(landed, wanted[name], bounds)
                through_ms = found.valid_through_ms if wanted[name] else now_ms  # as it was listed
                found = replace(found, lag_records=lag_records, valid_through_ms=through_ms)
                tables[name] = found
            except PenstockError as error:
                unread[name] = error
                since_ms = before.parked.since_ms if before.parked else now_ms
                parked = Parked(error.code, error.message, since_ms, error.hint)
                tables[name] = replace(before, parked=parked, lag_records=None)
    lag: dict[str, int] = {}
    for name, table in tables.items():
        if table.lag_records is not None:
            topics = {at.topic for at in wanted[name]}
            lag |= {topic: max(lag.get(topic, 0), table.lag_records) for topic in topics}
    tables |= {  # routes that rejected records, with counts, without their tables' own
        name: replace(each, valid_through_ms=None, lag_records=None, pending=())
        for name, each in known.tables.items()
        if name in routes and each.quarantined
    }
    together = _together(
        pipeline, replace(known, tables=tables, lag=lag), reported, alive=alive, now_ms=now_ms
    )
    held_up = stuck(pipeline, bounds.values(), now_ms)
    return _explained(replace(together, unread=unread, stuck=held_up))


def heard(
    pipeline: Pipeline,
    clock: Clock,
    store: PendingStore,
    reports: Reports | None,
    read: Status | None,
) -> Status:
    """Return the status as far as the store knows it, over what was `read` before of tables.

    Asks neither brokers nor catalogs. Raises UnavailableError when the store is down.
    """
    now_ms = clock.now_ms()
    kept = None if reports is None else reports.newest(pipeline.name)
    reported = newest_of(pipeline, kept, now_ms)
    held = store.holding(pipeline.name)
    alive = held is not None and held.alive_until_ms > now_ms
    known = reported.snapshot if reported is not None else initial(pipeline.name, now_ms)
    if read is None:
        return _explained(_together(pipeline, known, reported, alive=alive, now_ms=now_ms))
    tables = {
        name: _with_facts(known.tables.get(name, TableStatus()), each, unread=name in read.unread)
        for name, each in read.snapshot.tables.items()
    }
    lag = known.lag or read.snapshot.lag
    laid = replace(known, tables={**known.tables, **tables}, lag=lag)
    found = _together(pipeline, laid, reported, alive=alive, now_ms=now_ms)
    return _explained(replace(found, unread=read.unread, stuck=read.stuck))


def _with_facts(known: TableStatus, read: TableStatus, *, unread: bool) -> TableStatus:
    """Lay what was read of a table under what its run has said since."""
    through = [at for at in (known.valid_through_ms, read.valid_through_ms) if at is not None]
    return replace(
        known,
        parked=read.parked if unread else known.parked,
        lag_records=read.lag_records if known.lag_records is None else known.lag_records,
        valid_through_ms=max(through, default=None),
        table_rows=read.table_rows,
        table_files=read.table_files,
        offsets=read.offsets,
        health=known.health or read.health,
        paused_until_ms=read.paused_until_ms,
        purged_through_ms=read.purged_through_ms,
    )


def _together(
    pipeline: Pipeline, read: Snapshot, reported: Reported | None, *, alive: bool, now_ms: int
) -> Status:
    """Lay what a run reports beside what was read: its state, and a stall that it knows of."""
    tells = reported is not None and not reported.is_silent and not read.state.ended
    updated_ms = read.updated_ms if reported is not None else now_ms if alive else 0
    there_ms = now_ms if reported is None else reported.now_ms
    stall, state = None, read.state if read.state.ended else State.STOPPED
    if alive and tells and reported is not None:
        stall = stalled(reported.snapshot, there_ms, int(pipeline.commit.every_seconds * 1000))
        state = read.state
    elif alive:  # of a process that reports nothing here is known only that it runs
        state = State.RUNNING
    snapshot = replace(read, state=state, updated_ms=updated_ms)
    return Status(snapshot, alive, there_ms, tells, stall)


def _explained(found: Status) -> Status:
    """Add the sentence that says why nothing moves, or that everything flows."""
    holdups = [f"{each.state} transaction {each.name} holds up {each.held}" for each in found.stuck]
    reason = why(
        found.snapshot,
        found.now_ms,
        running=found.running,
        tells=found.tells,
        stall=found.stall,
        holdups=holdups,
    )
    return replace(found, why=reason)


def _as_read(
    pipeline: Pipeline,
    catalogs: Mapping[str, TableFormat],
    target: TableTarget,
    before: TableStatus,
) -> tuple[Positions, TableStatus]:
    """Lay what a table says over what the last run reported; give its positions as well. Raises
    what reading it raises.
    """
    place, landed, facts, health = target.location, None, None, None
    table = catalogs[place.catalog].load(place.name)
    if table is not None:
        state, facts = table.state(Chain(pipeline.name, place.table)), table.describe()
        landed, health = state.landed, _health(table, state, facts, before.health)
    offsets = {} if landed is None else records_only(landed.offsets)
    return offsets, replace(
        before,
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
