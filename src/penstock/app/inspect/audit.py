"""`penstock audit`: prove the chains from metadata, and with `--count` row by row against Kafka.

Invariants:
- it writes nothing; what it cannot know it says, it never guesses;
- ledger, history and rows of a table are those of one state, so a run may go on meanwhile; what is
  read after that (quarantine, Kafka) only grows, and counts up to the ledger's positions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial

from penstock.app.assembly import assembly
from penstock.app.inspect.keyed_count.count import KeyedSubject, count_keyed
from penstock.app.inspect.row_count import RowCount, Subject, count
from penstock.commit.errors import require_same_keys
from penstock.core.audit import (
    Break,
    chain_breaks,
    doubled_commits,
    doubled_files,
    doubled_rows,
    newest_segment,
)
from penstock.core.commits import Chain, CommitKind
from penstock.core.errors import (
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
    gravest,
)
from penstock.core.offsets import OffsetRange, Positions, TopicPartition
from penstock.core.planning import waiting_beyond
from penstock.core.serialization import progress_from_json
from penstock.core.table_errors import FILE_MISSING
from penstock.landing.settings import Settings, TableLocation, TableTarget
from penstock.landing.tables import opening, route_tables
from penstock.landing.waiting import KAFKA
from penstock.observe.formatting import number_of
from penstock.ports.histories import History
from penstock.ports.log import Log, RangeReader
from penstock.ports.tables import Table, TableFormat, TableState
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import no_table

Progressed = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ChainAudit:
    """What was found of one chain. `commits` are those that metadata still shows."""

    table: str
    chain: str
    commits: int
    complete: bool
    files: int
    breaks: tuple[Break, ...]


@dataclass(frozen=True, slots=True)
class TableAudit:
    """What was found of one target table: its chains, and its rows when they were counted.

    `lag_records` counts the records of its topics that Kafka holds beyond what the table has read;
    None where that is not known.
    """

    table: str
    chains: tuple[ChainAudit, ...]
    row_count: RowCount | None = None
    lag_records: int | None = None
    problem: PenstockError | None = None

    @property
    def breaks(self) -> tuple[Break, ...]:
        """List all that is broken."""
        rows = () if self.row_count is None else self.row_count.breaks
        return (*(b for chain in self.chains for b in chain.breaks), *rows)


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome: exit code 0 when nothing is broken, 4 on a break, else the gravest problem's."""

    tables: tuple[TableAudit, ...] = ()

    @property
    def exit_code(self) -> int:
        """Return the exit code (interface.md 2)."""
        if any(table.breaks for table in self.tables):
            return DecisionNeededError.exit_code
        return gravest(each.problem.exit_code for each in self.tables if each.problem is not None)


def audit(
    pipeline: Pipeline,
    *,
    tables: Sequence[str] = (),
    rows: bool = False,
    progressed: Progressed = lambda _: None,
) -> Audit:
    """Audit all tables that topics are routed to now, or those named.

    Raises InvalidError for an unknown table name, UnavailableError when the brokers are down.
    """
    with ExitStack() as stack:
        log = stack.enter_context(closing(assembly.open_log(pipeline)))
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        settings = assembly.settings_of(pipeline)
        progressed(f"waiting for {KAFKA}")
        listing = log.partitions()
        targets, wanted, _ = opening.route_topics(settings, listing)
        targets, wanted = route_tables.expand_routes(settings, catalogs, targets, wanted)
        for unknown in sorted(set(tables) - set(targets)):
            raise no_table(unknown, targets, {at.topic for at in listing})
        chosen = {name: targets[name] for name in sorted(targets) if not tables or name in tables}
        open_reader = partial(assembly.open_reader, pipeline)
        auditor = Auditor(settings, log, catalogs, open_reader, progressed, wanted)
        return Audit(tuple(auditor.audit(target, rows=rows) for target in chosen.values()))


@dataclass(frozen=True, slots=True)
class Auditor:
    """Audits tables of one pipeline; `open_reader` opens a reader of Kafka, one for each count.

    `wanted` are the partitions that rules route to each table.
    """

    settings: Settings
    log: Log
    catalogs: Mapping[str, TableFormat]
    open_reader: Callable[[], RangeReader]
    progressed: Progressed
    wanted: Mapping[str, Sequence[TopicPartition]] = field(default_factory=dict)

    def audit(self, target: TableTarget, *, rows: bool) -> TableAudit:
        """Audit one table; with `rows` record by record. What it raises is its problem."""
        name = target.location.table
        self.progressed(f"auditing {name}")
        try:
            return self._audit(target, rows=rows)
        except PenstockError as error:
            return TableAudit(name, (), problem=error)

    def _audit(self, target: TableTarget, *, rows: bool) -> TableAudit:
        name, pipeline = target.location.table, self.settings.pipeline
        rejects = Chain(f"{pipeline}/{name}", self.settings.quarantine.table)
        table = self.catalogs[target.location.catalog].load(target.location.name)
        if table is None:
            lag = self._lag(name, {})
            problem = self._absent(name, rejects, lag)
            return TableAudit(name, (), lag_records=lag, problem=problem)
        state = table.state(Chain(pipeline, name))
        own, history = _chain(table, Chain(pipeline, name), state, target.location)
        chains = [own]
        quarantine, known = self._quarantine(), state.landed is not None
        if quarantine is not None:
            theirs = quarantine.state(rejects)
            known = known or theirs.landed is not None
            chains.append(_chain(quarantine, rejects, theirs, self.settings.quarantine)[0])
        missed = not state.verdict.is_sound
        if not known and own.complete and not own.commits and not missed:
            lag = self._lag(name, {})
            return TableAudit(name, (), lag_records=lag, problem=_not_landed(name, lag))
        row_count = None
        if rows and state.landed is not None:
            try:
                row_count = self._row_count(target, (table, state), quarantine, history)
            except UnavailableError as error:
                if error.code != FILE_MISSING:
                    raise
                found = Break("file", name, error.message)
                chains[0] = replace(own, breaks=(*own.breaks, found))
        landed = {} if state.landed is None else state.landed.offsets
        return TableAudit(name, tuple(chains), row_count, self._lag(name, landed))

    def _lag(self, name: str, landed: Positions) -> int | None:
        wanted = self.wanted.get(name, ())
        return waiting_beyond(landed, wanted, self.log.bounds(wanted))

    def _absent(self, name: str, rejects: Chain, lag: int | None) -> InvalidError:
        quarantine = self._quarantine()
        bounds = self.log.bounds(self.wanted.get(name, ())).values()
        empty = bool(bounds) and not any(each.high for each in bounds)
        if empty or quarantine is None or quarantine.state(rejects).landed is None:
            return _not_landed(f"{name}, which does not exist yet", lag)
        return InvalidError(
            f"table {name} is not there, and this pipeline has read for it: it was dropped, or no"
            f" record has brought a row yet; of its topics Kafka holds {number_of(lag, 'record')}",
            code="P461",
            hint="restore it if it was dropped; what a run would do without it:  penstock plan",
        )

    def _quarantine(self) -> Table | None:
        place = self.settings.quarantine
        return self.catalogs[place.catalog].load(place.name)

    def _row_count(
        self,
        target: TableTarget,
        seen: tuple[Table, TableState],
        quarantine: Table | None,
        history: History,
    ) -> RowCount:
        columns = target.options.source_columns
        needed = ("topic", "partition", "offset")
        if lacking := [name for name in needed if name not in columns]:
            raise InvalidError(
                f"{target.location.table}: rows cannot be identified without source columns "
                f"{', '.join(lacking)}",
                code="P186",
                hint="audit without --count, or land topic, partition and offset",
            )
        self.progressed(f"counting {target.location.table}")
        table, state = seen
        assert state.landed is not None, "only what has a ledger is counted"
        keys = target.options.keys
        require_same_keys(target.location.table, state.landed, keys, target.options.sequence)
        pipeline = self.settings.pipeline
        if keys:
            keyed = KeyedSubject(pipeline, target, table, state, state.landed, quarantine)
            with closing(self.open_reader()) as reader:
                return count_keyed(self.log, reader, keyed)
        subject = Subject(
            pipeline=pipeline,
            landed=state.landed,
            rows=table.row_coordinates({name: columns[name] for name in needed}, state),
            quarantine=quarantine,
            target=target,
            began=None if self.settings.start == "earliest" else history.began,
            rowless=_rowless(history),
        )
        with closing(self.open_reader()) as reader:
            return count(self.log, reader, subject)


def _not_landed(table: str, lag: int | None) -> InvalidError:
    held = number_of(lag, "record")
    return InvalidError(
        f"nothing has landed in {table}; {held} of its topics wait in Kafka",
        code="P461",
        hint="land it first:  penstock run --until-caught-up",
    )


def _chain(
    table: Table, chain: Chain, state: TableState, place: TableLocation
) -> tuple[ChainAudit, History]:
    """Check a chain by one state of its table; return also its history."""
    history = table.history(chain, state)
    breaks: list[Break] = []
    if not state.verdict.is_sound:
        breaks.append(Break("witnesses", place.table, state.evidence))
    if state.landed is None and not chain.is_quarantine:
        message = f"{place.table} has no ledger of pipeline {chain.name}"
        breaks.append(Break("ledger", place.table, message))
    if state.landed is not None:
        newest = newest_segment(history.commits)
        commits = [progress_from_json([*map(list, each.progress)]) for each in newest]
        breaks += chain_breaks(state.landed, commits)
    breaks += doubled_commits(commit.commit_id for commit in history.commits)
    breaks += [] if chain.is_quarantine else doubled_files(history.paths)
    breaks += doubled_rows(place.table, history.doubled)
    kept, files, whole = len(history.commits), len(history.paths), history.complete
    found = ChainAudit(place.table, chain.name, kept, whole, files, tuple(breaks))
    return found, history


def _rowless(history: History) -> dict[TopicPartition, list[OffsetRange]]:
    """Return the ranges of commits without files: filtered, or given up with `--accept gap`."""
    found: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
    for each in newest_segment(history.commits):
        if each.kind == CommitKind.ANCHOR:
            for at, covered in progress_from_json([*map(list, each.progress)]).items():
                found[at].append(covered)
    return found
