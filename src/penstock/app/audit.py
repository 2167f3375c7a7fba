"""`penstock audit`: prove the chains from metadata, and with `--count` row by row against Kafka.

Invariants: it writes nothing; what it cannot know it says, it never guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from penstock.app import assembly
from penstock.app.census import Census, Subject, count
from penstock.core.audit import (
    Break,
    chain_breaks,
    doubled_commits,
    doubled_files,
    newest_segment,
)
from penstock.core.commits import Chain, Landed
from penstock.core.errors import (
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
    gravest,
)
from penstock.core.wire import progress_from_json
from penstock.landing import members, opening
from penstock.landing.settings import Place, Settings, Target
from penstock.observe.fanout import Observers
from penstock.ports.log import Log
from penstock.ports.tables import FILE_GONE, Table, TableFormat, Verdict
from penstock.spec.model import Pipeline

Progressed = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ChainAudit:
    """What was found of one chain. `commits` are those that metadata still tells."""

    table: str
    chain: str
    commits: int
    from_the_beginning: bool
    files: int
    breaks: tuple[Break, ...]


@dataclass(frozen=True, slots=True)
class TableAudit:
    """What was found of one target table: its chains, and its rows when they were counted."""

    table: str
    chains: tuple[ChainAudit, ...]
    census: Census | None = None
    problem: PenstockError | None = None

    @property
    def breaks(self) -> tuple[Break, ...]:
        """List all that is broken."""
        rows = () if self.census is None else self.census.breaks
        return (*(b for chain in self.chains for b in chain.breaks), *rows)


@dataclass(frozen=True, slots=True)
class Audit:
    """The outcome: exit code 0 when nothing is broken, 4 on a break, else the gravest problem's."""

    tables: tuple[TableAudit, ...] = field(default_factory=tuple)

    @property
    def exit_code(self) -> int:
        """Give the exit code (interface.md 2)."""
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

    Raises InvalidError for an unknown table name, UnavailableError when the brokers are gone.
    """
    with ExitStack() as stack:
        log = assembly.open_log(pipeline)
        stack.callback(log.close)
        catalogs = assembly.open_catalogs(pipeline, Observers(), read_only=True)
        for catalog in catalogs.values():
            stack.callback(catalog.close)
        settings = assembly.settings_of(pipeline)
        targets, wanted, _ = opening.routed(settings, log.partitions())
        targets, _ = members.spread(settings, catalogs, targets, wanted)
        unknown = sorted(set(tables) - set(targets))
        if unknown:
            raise InvalidError(
                f"no topic is routed to {', '.join(unknown)}",
                code="P185",
                hint=f"tables of this spec are {', '.join(sorted(targets))}",
            )
        chosen = {name: targets[name] for name in sorted(targets) if not tables or name in tables}
        auditor = _Auditor(pipeline, settings, log, catalogs, progressed)
        return Audit(tuple(auditor.audit(target, rows=rows) for target in chosen.values()))


@dataclass(frozen=True, slots=True)
class _Auditor:
    pipeline: Pipeline
    settings: Settings
    log: Log
    catalogs: Mapping[str, TableFormat]
    progressed: Progressed

    def audit(self, target: Target, *, rows: bool) -> TableAudit:
        name = target.place.table
        self.progressed(f"auditing {name}")
        try:
            return self._audit(target, rows=rows)
        except PenstockError as error:
            return TableAudit(name, (), problem=error)

    def _audit(self, target: Target, *, rows: bool) -> TableAudit:
        name, pipeline = target.place.table, self.pipeline.name
        table = self._table(target.place)
        own, landed = self._chain(table, Chain(pipeline, name), target.place)
        chains = [own]
        quarantine = self._quarantine()
        if quarantine is not None:
            chain = Chain(f"{pipeline}/{name}", self.settings.quarantine.table)
            rejects, _ = self._chain(quarantine, chain, self.settings.quarantine, required=False)
            chains.append(rejects)
        census = None
        if rows and landed is not None:
            try:
                census = self._census(target, table, quarantine, landed)
            except UnavailableError as error:
                if error.code != FILE_GONE:
                    raise
                gone = Break("file", name, error.message)
                chains[0] = replace(own, breaks=(*own.breaks, gone))
        return TableAudit(name, tuple(chains), census)

    def _table(self, place: Place) -> Table:
        table = self.catalogs[place.catalog].load(place.name)
        if table is None:
            raise InvalidError(
                f"table {place.table} does not exist",
                code="P461",
                hint="nothing has landed in it yet, or it was dropped; see  penstock status",
            )
        return table

    def _quarantine(self) -> Table | None:
        place = self.settings.quarantine
        return self.catalogs[place.catalog].load(place.name)

    def _chain(
        self, table: Table, chain: Chain, place: Place, *, required: bool = True
    ) -> tuple[ChainAudit, Landed | None]:
        state, history = table.state(chain), table.history(chain)
        breaks: list[Break] = []
        if state.verdict in (Verdict.ROLLED_BACK, Verdict.UNCERTAIN):
            breaks.append(Break("witnesses", place.table, state.evidence))
        if state.landed is None and required:
            message = f"{place.table} has no ledger of pipeline {chain.name}"
            breaks.append(Break("ledger", place.table, message))
        if state.landed is not None:
            told = newest_segment(history.commits)
            commits = [progress_from_json([*map(list, each.progress)]) for each in told]
            breaks += chain_breaks(state.landed, commits)
        breaks += doubled_commits(commit.commit_id for commit in history.commits)
        breaks += [] if chain.is_quarantine else doubled_files(history.paths)
        found = ChainAudit(
            place.table,
            chain.name,
            len(history.commits),
            history.complete,
            len(history.paths),
            tuple(breaks),
        )
        return found, state.landed

    def _census(
        self, target: Target, table: Table, quarantine: Table | None, landed: Landed
    ) -> Census:
        columns = target.options.source_columns
        needed = ("topic", "partition", "offset")
        lacking = [name for name in needed if name not in columns]
        if lacking:
            raise InvalidError(
                f"{target.place.table}: rows cannot be told apart without source columns "
                f"{', '.join(lacking)}",
                code="P186",
                hint="audit without --count, or land topic, partition and offset",
            )
        self.progressed(f"counting {target.place.table}")
        subject = Subject(
            landed=landed,
            rows=table.coordinates({name: columns[name] for name in needed}),
            quarantine=quarantine,
            chain=Chain(
                f"{self.pipeline.name}/{target.place.table}", self.settings.quarantine.table
            ),
            target=target,
        )
        return count(self.pipeline, self.log, subject)
