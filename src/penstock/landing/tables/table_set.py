"""All tables of a run: opened, parked when they fail, recovered and opened again.

Invariants:
- a table that is parked gets no rows and holds up no other table;
- it comes back only through recovery: its pending commits are settled against what it says now,
  and it goes on from there (protocol.md 6);
- start-up is the same path for every table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.commit.attempt import CommitContext
from penstock.commit.chain_position import ChainPosition
from penstock.commit.errors import ROLLED_BACK
from penstock.commit.two_phase import Work
from penstock.core.commits import Chain, Committable
from penstock.core.errors import InvalidError, UnavailableError
from penstock.core.events import TableResumed, TopicUnrouted, WaitBegan
from penstock.core.offsets import TopicPartition
from penstock.landing.foreign_errors import COMMIT, OPEN
from penstock.landing.settings import Environment, Settings
from penstock.landing.tables.column_budget import ColumnBudget
from penstock.landing.tables.credentials import with_credentials
from penstock.landing.tables.log_checks import check_recreated
from penstock.landing.tables.opening import TableOpener, TopicRoutes, quarantined_by, route_topics
from penstock.landing.tables.parking import ParkedTables, table_missing
from penstock.landing.tables.progress import TableProgress, by_table, resume_examined
from penstock.landing.tables.route_tables import RouteTables, discover
from penstock.landing.tables.spec_change import catch_up_needed, former_rules
from penstock.landing.tables.start_positions import write_missing_starts
from penstock.ownership import fencing
from penstock.ports.store import Examined
from penstock.ports.tables import Table
from penstock.rows.schema.inference import columns_in


@dataclass(slots=True)
class TableSet:
    """Holds the progress of a run's tables by name. Used by the coordinator's thread only."""

    settings: Settings
    environment: Environment
    quarantine: Table
    progress: dict[str, TableProgress] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    _listed: tuple[TopicPartition, ...] = ()
    _topic_routes: TopicRoutes = field(default_factory=lambda: TopicRoutes({}, {}, []))
    parked: ParkedTables = field(init=False)
    columns: ColumnBudget = field(init=False)
    opener: TableOpener = field(init=False)
    _routes: RouteTables = field(default_factory=RouteTables)
    _spec_adopted: bool = False
    _verify_ledgers: bool = False

    def __post_init__(self) -> None:
        self.parked = ParkedTables(self.environment.observer, self.environment.clock)
        self.opener = TableOpener(self.settings, self.environment, self.quarantine)
        self.columns = ColumnBudget(self.settings.new_columns_per_hour)

    @property
    def active(self) -> dict[str, TableProgress]:
        """The tables that take part in epochs."""
        return {name: each for name, each in self.progress.items() if name not in self.parked}

    def is_active(self, name: str) -> bool:
        """Return whether a table takes part in epochs."""
        return name in self.progress and name not in self.parked

    def update(self, progress: TableProgress) -> None:
        """Hold a table's progress in place of what it was."""
        self.progress[progress.name] = progress

    def list_topics(self, listing: Sequence[TopicPartition]) -> None:
        """Take notice of topics and partitions, and open the tables that are new."""
        if "topic" not in self.settings.accept:
            check_recreated(((e.name, e.expected) for e in self.progress.values()), listing)
        if self._listed != (listed := tuple(listing)):
            self.topics = frozenset(at.topic for at in listing)
            self._route_topics(listing)
            self._listed = listed
        for name in [*self._topic_routes.targets]:
            if name not in self.progress and name not in self.parked:
                self.open(name)
        self._add_route_tables()
        self.parked.report_without_topics(self._topic_routes.targets.keys())

    def _route_topics(self, listing: Sequence[TopicPartition]) -> None:
        before, self._topic_routes = self._topic_routes, route_topics(self.settings, listing)
        for topic in sorted({*self._topic_routes.unrouted} - {*before.unrouted}):
            self.environment.observer(TopicUnrouted(topic))
        targets, partitions, _ = self._topic_routes
        for name in [name for name, target in targets.items() if target.is_route]:
            for table in sorted(self._routes.of(name)):
                targets[table] = targets[name].route_table(table)
                partitions[table] = partitions[name]

    def open(self, name: str) -> None:
        """Read a table's position, or park it, as while its topics do not exist."""
        target = self._topic_routes.targets.get(name)
        if target is None:
            self.parked.reopen(name, "its topics do not exist any more")
            return
        self.environment.observer(WaitBegan(f"{name} to open"))
        with self.parked.parking(name, OPEN):
            opened = resume_examined(
                self.settings, self.environment.store, self.opener.open(target)
            )
            route = self._routes.route_of(name)
            if route is not None:
                rejects = self.progress[route].quarantine
                opened = opened.excluding(quarantined_by(rejects, opened))
            left, now = self.capacity_left(opened), self.environment.clock.monotonic()
            self.update(replace(opened, committed_at=now, capacity_left=left))
            self.parked.opened(name)

    def _add_route_tables(self) -> None:
        now = self.environment.clock.monotonic()
        routes = [name for name, each in self._topic_routes.targets.items() if each.is_route]
        for name in filter(self.is_active, routes):
            if self._routes.is_due(self.progress[name], now):
                self._discover_route_tables(self.progress[name])
            if self.is_active(name) and self.progress[name].route_tables is not None:
                known = self._routes.of(name)
                self.update(replace(self.progress[name], route_tables=known))
        for name in filter(self.is_active, routes):
            route = self.progress[name]
            self.update(replace(route, capacity_left=self.capacity_left(route)))

    def renew(self) -> None:
        """Renew before an epoch what tables have for a while: credentials, room for columns."""
        for each in self.active.values():
            table = with_credentials(each)
            self.update(replace(table, capacity_left=self.capacity_left(table)))

    def capacity_left(self, progress: TableProgress) -> int:
        """Return for how many more tables, or columns of a table, there is room now."""
        if not progress.target.is_route:
            left = self.columns.left(progress.name, self.environment.clock.monotonic())
            held = columns_in(progress.state.schema) if progress.state else 0
            return max(min(self.settings.columns_max - held, left), 0)
        tables = sum(not target.is_route for target in self._topic_routes.targets.values())
        return max(self.settings.tables_max - tables, 0)

    def _discover_route_tables(self, route: TableProgress) -> None:
        """Find tables of a route that are in the catalog, created by an earlier run or a person.

        They come in when all that the route rejected has landed, because that is not theirs.
        """
        known = self._topic_routes.targets
        discovery = discover(self.settings, self.environment, route, known)
        route = replace(route, foreign_tables=discovery.foreign)
        if discovery.found and route.commits_in_flight:
            self.update(replace(route, route_tables=None))
            return
        self.update(route)
        self._routes.found(discovery.found)
        store, pipeline = self.environment.store, self.settings.pipeline
        pending = by_table(pipeline, store.pending(pipeline) if discovery.found else ())
        for name in discovery.found:
            self.add_route_table(route, name)
            late = self._verify_ledgers or self._spec_adopted or name in pending
            if self.is_active(name) and late:
                self.parked.reopen(name, "it was found later, and comes in as at the start")
        if discovery.failed is not None:
            self.parked.park(route.name, discovery.failed)
            return
        if route.route_tables is None:  # what it rejected before it knew of tables is final
            for name in sorted(self._routes.of(route.name) & set(self.active)):
                with self.parked.parking(name, OPEN):
                    table = self.progress[name]
                    self.update(table.excluding(quarantined_by(route.quarantine, table)))
        self._routes.mark_discovered(route.name, self.environment.clock.monotonic())
        self.update(replace(route, route_tables=frozenset()))

    def has_begun(self, name: str) -> bool:
        """Return whether a table is known to have a ledger with its position."""
        known = name in self.progress and bool(self.progress[name].expected)
        return known or self._routes.has_ledger(name)

    def add_route_table(self, route: TableProgress, name: str) -> None:
        """Let an existing table of a route take part, from its ledger's or its route's position.

        Raises InvalidError when another rule's route leads to it as well.
        """
        if name in self._topic_routes.targets and name not in self._routes.of(route.name):
            raise InvalidError(
                f"{route.name}: a record asks for {name}, which another rule writes as well",
                code="P466",
                hint="start the tables of one of the rules with another word:"
                "  into: lake.bronze.x_{kind}",
            )
        self._routes.add(route.name, name)
        self._topic_routes.targets[name] = route.target.route_table(name)
        self._topic_routes.partitions[name] = self.partitions_of(route.name)
        self.open(name)

    def route_table_created(self, route: TableProgress, name: str, context: CommitContext) -> None:
        """Let a table of a route that was just created take part.

        Raises FencedError when another owner took the route's chain, by which the table begins.
        """
        self.add_route_table(route, name)
        route.quarantine.recheck(context)
        position = self.progress[name].position if self.is_active(name) else None
        if position is not None and (self._verify_ledgers or position.last_claim != context.claim):
            self.parked.reopen(name, "it comes in as at the start")

    def route_of(self, name: str) -> TableProgress | None:
        """Return the route that leads to a table, when it takes part."""
        route = self._routes.route_of(name)
        return self.progress[route] if route is not None and self.is_active(route) else None

    def table_created(self, name: str, table: Table, context: CommitContext) -> None:
        """Let a table that was just created take part; what was examined before stays examined.

        Raises FencedError when another owner took its quarantine chain, which is all there was.
        """
        start_offsets = self.progress[name].start_offsets
        with self.parked.parking(name, OPEN):
            attached = self.opener.attach(self.progress[name], table)
            self.update(attached)
            attached.quarantine.recheck(context)
            assert attached.position is not None, "it was attached"
            moved = attached.position.expected != start_offsets
            if moved or attached.position.last_claim != context.claim:
                self.parked.reopen(name, "another created it first")

    def take_over(self, context: CommitContext) -> None:
        """Read no table before its ledgers have seen our claim: others may have prepared commits
        that our store does not know, from ranges that are read here again.
        """
        self._verify_ledgers = True
        for name in self.active:
            self._take_over(name, context)

    def _take_over(self, name: str, context: CommitContext) -> None:
        with self.parked.parking(name, COMMIT):
            while self.take_over_chains(self.progress[name], context):
                self.open(name)  # it may have been created meanwhile
                if not self.is_active(name):
                    return

    def take_over_chains(self, table: TableProgress, context: CommitContext) -> bool:
        """Write our claim into the chains of a table that have not seen it; return whether one had
        not.
        """
        landed = table.state.landed if table.state else None
        rules_hash = landed.rules_hash if landed and landed.rules_hash else self.settings.rules_hash
        return fencing.take_over_chains(
            table.positions, self.environment.cluster_id, rules_hash, context
        )

    @property
    def active_chains(self) -> list[ChainPosition]:
        """The chains of the tables that take part."""
        return [each for table in self.active.values() for each in table.positions]

    def rolled_back_chains(self) -> Iterator[tuple[Chain, Table]]:
        """Load the chains of tables that were found rolled back: they wait for a person."""
        for name, parked in self.parked.items():
            target = self._topic_routes.targets.get(name)
            if parked.error.code == ROLLED_BACK and target is not None:
                yield from self.opener.chains(target)

    def partitions_of(self, name: str) -> list[TopicPartition]:
        """List the partitions that are routed to a table, or to the route that leads to it."""
        return self._topic_routes.partitions.get(name, [])

    def partitions_of_all(self, name: str) -> list[TopicPartition]:
        """List the same for all shards of the pipeline."""
        if self.settings.shards == 1:
            return self.partitions_of(name)
        routes = self.settings.routes(sorted(self.topics))
        led = {
            topic
            for topic, targets in routes.items()
            if any(target.location.table == name for target in targets)
        }
        return [at for at in self._listed if at.topic in led]

    def write_start_positions(self, context: CommitContext) -> None:
        """Write start positions for partitions that a ledger does not know yet."""
        for name in sorted(self.active, key=lambda each: not self.progress[each].target.is_route):
            table, route = self.progress[name], self.route_of(name)
            ready = route is not None and (bool(table.expected) or route.is_level)
            if self._routes.route_of(name) is not None and not ready:
                continue
            with self.parked.parking(name, COMMIT):
                begun = write_missing_starts(
                    self.settings,
                    self.environment,
                    table,
                    self.partitions_of_all(name),
                    context,
                    route=route,
                )
                self.update(begun)

    def assign_partitions(self) -> None:
        """Let the active tables take part with all partitions that are routed to them.

        A route waits until all of its tables are known and have begun.
        """
        for name, table in self.active.items():
            wanted = tuple(self.partitions_of(name))
            if table.target.is_route and (
                table.route_tables is None or not all(map(self.has_begun, self._routes.of(name)))
            ):
                wanted = ()
            if wanted != table.wanted:
                self.update(replace(table, wanted=wanted))

    def commit_succeeded(self, name: str) -> None:
        """Note that commits of a table landed."""
        self.parked.commit_succeeded(name)
        if name in self.progress:
            now = self.environment.clock.monotonic()
            self.update(replace(self.progress[name], committed_at=now))

    def due_for_retry(self, busy: Collection[str], *, patient: bool) -> list[str]:
        """List the parked tables that are to be tried again now and have no commit under way."""
        due = self.parked.due(busy, patient=patient)
        return [name for name in due if name in self._topic_routes.targets]

    def recovery_work(self, name: str, rows: Sequence[Committable]) -> tuple[Work, ...] | None:
        """Return what settles the pending commits of a table; None when it cannot be had."""
        work = None
        with self.parked.parking(name, OPEN):
            work = tuple(
                (each, self.quarantine if each.chain.is_quarantine else self._load(name))
                for each in rows
            )
            self.parked.recovery_started(name)
        return work

    def adopt_spec(self, context: CommitContext) -> None:
        """Write the present rules into all ledgers, before anything is decided by them.

        Later it is known what was decided by which rules, though only some tables got rows.
        Raises FencedError when a newer owner has landed.
        """
        self._spec_adopted = True
        self._adopt_spec(self.active, context)

    def _adopt_spec(self, names: Iterable[str], context: CommitContext) -> None:
        settings, environment = self.settings, self.environment
        fed = [n for n in names if former_rules([self.progress[n]], settings.rules_hash)]
        tables = [*self.progress.values()]
        catch_up = catch_up_needed(tables, settings, environment.store) if fed else None
        for name in fed:
            if catch_up and name in catch_up.ranges:
                error = UnavailableError(
                    f"table {name} was unavailable when the spec changed, and lags behind the other"
                    " tables",
                    code="P463",
                    hint="run again: it first catches up under its former rules",
                )
                self.parked.park(name, error)
                continue
            with self.parked.parking(name, COMMIT):
                position = self.progress[name].position
                assert position is not None, "a table that was fed by other rules exists"
                fencing.write_claim(
                    position.table,
                    position.chain,
                    environment.cluster_id,
                    settings.rules_hash,
                    context,
                )
                self.update(replace(self.progress[name], state=position.read()))

    def recovered(self, name: str, context: CommitContext) -> None:
        """Open a table after its pending commits were settled."""
        before = self.parked.recovered(name)
        self.open(name)
        if self._verify_ledgers and self.is_active(name):
            self._take_over(name, context)
        if self._spec_adopted and self.is_active(name):
            self._adopt_spec([name], context)
        if self.is_active(name) and before is not None and not before.internal:
            seconds = self.environment.clock.monotonic() - before.since
            self.environment.observer(TableResumed(name, seconds))

    def _load(self, name: str) -> Table:
        target = self._topic_routes.targets[name]
        table = self.opener.load(target)
        if table is None:
            raise table_missing(target.location)
        return table

    def examined(self) -> dict[str, Examined]:
        """Return what to keep next to the pending commits, of tables that take part."""
        rules_hash = self.settings.rules_hash
        return {
            name: Examined(each.expected, each.quarantine.expected, each.examined, rules_hash)
            for name, each in self.active.items()
        }
