"""`penstock status`: what the tables say, with what a running pipeline tells beside it.

Invariants: the truth comes from the tables, and whether a process runs from the pending store that
hears its heartbeat; the status file of that process only adds what neither knows (rates, this run's
totals, why a table is parked). It writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from penstock.app.assembly import assembly
from penstock.app.inspect.notebook_tables import NotebookTable, Rows
from penstock.core.commits import Chain, Committable, Landed
from penstock.core.errors import PenstockError, gravest
from penstock.core.events import WaitBegan
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
from penstock.ports.store import PendingStore
from penstock.ports.tables import TableFormat
from penstock.spec.model import Pipeline
from penstock.spec.secrets import ProcessSecrets

_SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Status(NotebookTable):
    """A snapshot, and whether a process holds the pipeline now, here or on another host.

    `unread` are the tables that could not be read now, with their errors.
    """

    snapshot: Snapshot
    running: bool
    unread: Mapping[str, PenstockError] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Return 0, or the exit code of the gravest error that kept a table from being read."""
        return gravest(error.exit_code for error in self.unread.values())

    def rows(self) -> Rows:
        """Return a row for each table; times are epoch milliseconds."""
        return [
            {
                "table": name,
                "rows": each.holds,
                "lag_records": each.lag_records,
                "valid_through_ms": each.valid_through_ms,
                "pending": len(each.pending),
                "parked": "" if each.parked is None else f"{each.parked.code} {each.parked.reason}",
            }
            for name, each in self.snapshot.tables.items()
        ]


def status_file(pipeline: Pipeline) -> Path:
    """Return the place of the status file: beside a pending store that is a file, else `state/`.

    That folder is in the working folder: a service's own, and the one `kubectl exec` begins in.
    """
    address = pipeline.pending.store.replace("{name}", pipeline.name)
    if not address.startswith(_SQLITE):
        return status_path(Path("state"), pipeline.name)
    file = Path(ProcessSecrets().resolve(address).removeprefix(_SQLITE))
    return status_path(file.parent, pipeline.name)


def status(pipeline: Pipeline, clock: Clock, observer: Observer = UNHEARD) -> Status:
    """Read how a pipeline stands. Raises UnavailableError when brokers or store are gone."""
    now_ms = clock.now_ms()
    reported = read_status(status_file(pipeline))
    with ExitStack() as stack:
        log = assembly.open_log(pipeline)
        stack.callback(log.close)
        store = assembly.open_store(pipeline)
        stack.callback(store.close)
        catalogs = assembly.open_catalogs(pipeline, UNHEARD, stack, read_only=True)
        observer(WaitBegan(KAFKA))
        listing = log.partitions()
        bounds = log.bounds(listing)
        observer(WaitBegan("catalogs to answer"))
        settings = assembly.settings_of(pipeline)
        targets, wanted, _ = opening.route_topics(settings, listing)
        routes = {name for name, target in targets.items() if target.is_route}
        targets, wanted = route_tables.expand_routes(settings, catalogs, targets, wanted)
        pending = by_table(pipeline.name, store.pending(pipeline.name))
        alive = _alive(store, pipeline.name, now_ms)
        known = reported[0] if reported is not None else initial(pipeline.name, now_ms)
        found = {name: _read(pipeline, catalogs, each) for name, each in sorted(targets.items())}
        tables = {
            name: _table(
                known.tables.get(name, TableStatus()),
                read,
                {at: each for at, each in bounds.items() if at in set(wanted[name])},
                pending.get(name, []),
                now_ms,
            )
            for name, read in found.items()
        }
    state = _state(reported, now_ms, alive=alive)
    lag: dict[str, int] = {}
    for name, table in tables.items():
        if table.lag_records is not None:
            topics = {at.topic for at in wanted[name]}
            lag |= {topic: max(lag.get(topic, 0), table.lag_records) for topic in topics}
    updated_ms = known.updated_ms if reported is not None else now_ms if alive else 0
    tables |= _refusing(known, routes)
    snapshot = replace(known, tables=tables, state=state, updated_ms=updated_ms, lag=lag)
    unread = {name: each for name, each in found.items() if isinstance(each, PenstockError)}
    return Status(snapshot, alive, unread)


def stall_of(pipeline: Pipeline, found: Status, clock: Clock) -> Stall | None:
    """Return whether the process that runs a pipeline consumes records and does not commit them.

    Judged by what that process told itself, which the tables cannot know.
    """
    reported, now_ms = read_status(status_file(pipeline)) if found.running else None, clock.now_ms()
    if reported is None or not _is_of_now(*reported, now_ms):
        return None
    return stalled(reported[0], now_ms, int(pipeline.commit.every_seconds * 1000))


def _state(reported: tuple[Snapshot, int] | None, now_ms: int, *, alive: bool) -> State:
    """Return what the pipeline does; of a process that reports nothing here, only that it runs."""
    if alive:
        return (
            reported[0].state
            if reported is not None and _is_of_now(*reported, now_ms)
            else State.RUNNING
        )
    return reported[0].state if reported is not None and reported[0].state.ended else State.STOPPED


def _is_of_now(snapshot: Snapshot, written_ms: int, now_ms: int) -> bool:
    """Return whether a status file is kept by a process that runs, and not left by one before."""
    return not snapshot.state.ended and not silent(snapshot, written_ms, now_ms)


def _alive(store: PendingStore, pipeline: str, now_ms: int) -> bool:
    held = store.holding(pipeline)
    return held is not None and held.alive_until_ms > now_ms


@dataclass(frozen=True, slots=True)
class _Read:
    """What a table said: what has landed in it, if anything, and the rows that it holds."""

    landed: Landed | None = None
    rows: int | None = None


def _read(
    pipeline: Pipeline, catalogs: Mapping[str, TableFormat], target: TableTarget
) -> _Read | PenstockError:
    place = target.location
    try:
        table = catalogs[place.catalog].load(place.name)
        if table is None:
            return _Read()
        return _Read(table.state(Chain(pipeline.name, place.table)).landed, table.describe().rows)
    except PenstockError as error:
        return error


def _refusing(known: Snapshot, routes: AbstractSet[str]) -> dict[str, TableStatus]:
    """Return the routes that rejected records, with counts, without their tables' own."""
    return {
        name: replace(each, valid_through_ms=None, lag_records=None, pending=())
        for name, each in known.tables.items()
        if name in routes and each.quarantined
    }


def _table(
    known: TableStatus,
    read: _Read | PenstockError,
    bounds: Mapping[TopicPartition, Bounds],
    pending: list[Committable],
    now_ms: int,
) -> TableStatus:
    """Lay what the table says over what the last run reported."""
    waiting = tuple(PendingEpoch(commit.epoch, commit.rows, now_ms) for commit in pending)
    if isinstance(read, PenstockError):
        since_ms = known.parked.since_ms if known.parked else now_ms
        parked = Parked(read.code, read.message, since_ms, read.hint)
        return replace(known, parked=parked, pending=waiting, lag_records=None)
    landed = read.landed
    offsets = {} if landed is None else records_only(landed.offsets)
    through = known.valid_through_ms if landed is None else landed.valid_through_ms
    return replace(
        known,
        lag_records=waiting_beyond(offsets, bounds),
        valid_through_ms=through,
        pending=waiting,
        holds=read.rows,
        offsets={f"{at.topic}:{at.partition}": int(next_) for at, next_ in sorted(offsets.items())},
    )
