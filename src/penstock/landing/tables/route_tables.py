"""The tables of a route: found in the catalog, created when records ask for them.

A route is a rule that makes its tables' names of what records say. Its chain is its quarantine
chain, and where that stands means: every record below has its table, or is in quarantine.

Invariants:
- a table of a route begins where the route durably stands, never behind it: what is below was
  judged without the table, and its fate is final;
- a route goes on only while all of its tables are known and have begun: what it counts as theirs is
  at or above where they stand;
- a route goes on only when the tables that its records ask for are there, with their ledgers
  (protocol.md 2; failure-modes.md W8); until then it reads the same stretch again;
- there are never more tables than `limits.tables`: what asks for more is quarantined.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.commit.land import CommitContext
from penstock.core.commits import Chain, first_ledger
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Schema, Struct
from penstock.core.schema_join import united
from penstock.landing.epoch import runner
from penstock.landing.settings import Environment, Settings, TableLocation, TableTarget
from penstock.landing.tables.foreign_errors import OPEN, acting_on_table
from penstock.landing.tables.parking import OF_ONE_TABLE
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.messages import TaskResult
from penstock.ports.tables import TableFormat

if TYPE_CHECKING:
    from penstock.landing.tables.table_set import TableSet

FOREIGN_RECHECK_SECONDS = 600.0
_PLACEHOLDER = re.compile(r"\\\{[A-Za-z_][A-Za-z0-9_]*\\\}")


def candidate_tables(target: TableTarget, catalog: TableFormat) -> list[str]:
    """List the tables of a catalog that a route may lead to, but for those of other rules.

    Raises UnavailableError.
    """
    route = target.route
    assert route is not None, "only a route leads to tables"
    namespace, _, _ = target.location.name.rpartition(".")
    wanted = _names_of(target)
    names = [name for name in catalog.names(namespace) if wanted.fullmatch(name)]
    full = [f"{target.location.catalog}.{name}" for name in sorted(names)]
    return [name for name in full if name not in route.reserved]


def may_own(target: TableTarget, place: TableLocation) -> bool:
    """Return whether a table, by its name, is a target's own or one its records may ask for."""
    if not target.is_route or target.location.table == place.table:
        return target.location.table == place.table
    same = target.location.catalog == place.catalog
    return same and _names_of(target).fullmatch(place.name) is not None


def _names_of(route: TableTarget) -> re.Pattern[str]:
    return re.compile(_PLACEHOLDER.sub("[a-z0-9_]+", re.escape(route.location.name)))


def has_our_ledger(settings: Settings, catalog: TableFormat, target: TableTarget) -> bool:
    """Return whether a table of a route has a ledger of this pipeline, or may be given one."""
    assert target.route is not None, "it is a table of a route"
    there = _ledger_in(settings, catalog, target)
    return bool(there) or (there is not None and target.route.unknown != "create")


def _ledger_in(settings: Settings, catalog: TableFormat, target: TableTarget) -> bool | None:
    """Return whether a table has a ledger of this pipeline; None when there is no table."""
    try:
        table = catalog.load(target.location.name)
    except InvalidError:
        return None  # something else stands there; a record that asks for it is told so
    if table is None:
        return None
    return table.state(Chain(settings.pipeline, target.location.table)).landed is not None


def discover(
    settings: Settings, world: Environment, route: TableProgress, known: Collection[str]
) -> tuple[dict[str, bool], PenstockError | None]:
    """Return the tables of a route that are there and not known yet, whether each has a ledger, and
    what kept from telling.

    One table that cannot be read does not hide the others. A stranger's is looked at again after
    `STRANGERS_AGAIN_SECONDS`: a namespace may have hundreds. A record that asks for it goes another
    way.
    """
    target, now = route.target, world.clock.monotonic()
    assert target.route is not None, "only a route leads to tables"
    found: dict[str, bool] = {}
    failed: PenstockError | None = None
    try:
        with acting_on_table(route.name, "its tables cannot be listed"):
            catalog = world.catalogs[target.location.catalog]
            names = [name for name in candidate_tables(target, catalog) if name not in known]
    except OF_ONE_TABLE as error:
        return {}, error
    for name in names:
        if route.foreign_tables.get(name, now) > now:
            continue
        try:
            with acting_on_table(name, OPEN):
                there = _ledger_in(settings, catalog, target.route_table(name))
        except OF_ONE_TABLE as error:
            failed = error
            continue
        if there is None:
            continue
        if there or target.route.unknown != "create":
            found[name] = there
        else:
            route.foreign_tables[name] = now + FOREIGN_RECHECK_SECONDS
    return found, failed


def expand_routes(
    settings: Settings,
    catalogs: Mapping[str, TableFormat],
    targets: Mapping[str, TableTarget],
    wanted: Mapping[str, list[TopicPartition]],
) -> tuple[dict[str, TableTarget], dict[str, list[TopicPartition]]]:
    """Return targets and their partitions with the tables of routes in place of the routes.

    A route stays where its catalog tells of no tables: whoever loads it is told why.
    """
    there: dict[str, TableTarget] = {}
    theirs: dict[str, list[TopicPartition]] = {}
    for name, target in targets.items():
        try:
            found = _tables_of(settings, catalogs, target) if target.is_route else [target]
        except (UnavailableError, InvalidError):
            found = [target]
        for each in found:
            there[each.location.table], theirs[each.location.table] = each, wanted[name]
    return there, theirs


def _tables_of(
    settings: Settings, catalogs: Mapping[str, TableFormat], route: TableTarget
) -> list[TableTarget]:
    catalog = catalogs[route.location.catalog]
    found = [route.route_table(table) for table in candidate_tables(route, catalog)]
    return [member for member in found if has_our_ledger(settings, catalog, member)]


def requested_tables(results: Iterable[TaskResult]) -> dict[str, dict[str, Schema]]:
    """Join what tasks say of tables that do not exist: by route, then by table."""
    found: dict[str, dict[str, Schema]] = defaultdict(dict)
    for result in results:
        for route, tables in result.requested.items():
            for name, schema in tables.items():
                found[route][name] = united((found[route].get(name, Struct(())), schema))
    return dict(found)


@dataclass(frozen=True, slots=True)
class RouteTableCreator:
    """Creates the tables that records ask for."""

    settings: Settings
    environment: Environment
    tables: TableSet

    def create_requested(
        self, conditions: CommitContext, results: Sequence[TaskResult]
    ) -> list[TableProgress]:
        """Create the tables that an epoch's records ask for; give the routes that read it again.

        A route that is not level reads it again, for its tables begin where it durably stands.
        Raises FencedError.
        """
        again = []
        tables = requested_tables(results)
        read = {name for each in results for lane in each.lanes for name in lane.lane.tables}
        for name, route in self.tables.active.items():
            if name not in read:
                continue
            asked = tables.get(name)
            route.wants_tables = bool(asked)
            if not asked:
                continue
            if not route.is_level:
                again.append(route)
                continue
            granted = {table: asked[table] for table in sorted(asked)[: route.capacity_left]}
            with self.tables.parking(name, "a table that its records ask for cannot be created"):
                self._create(conditions, route, granted)
            if name in self.tables.parked:
                continue
            if len(asked) > len(granted) or not all(map(self.tables.has_begun, granted)):
                again.append(route)
        return again

    def _create(
        self, conditions: CommitContext, route: TableProgress, granted: Mapping[str, Schema]
    ) -> None:
        claim, cluster, rules = (
            conditions.claim,
            self.environment.cluster_id,
            self.settings.rules_hash,
        )
        begun = dict(route.expected)
        for name, shown in granted.items():
            ledger = first_ledger(Chain(self.settings.pipeline, name), claim, cluster, rules, begun)
            runner.create_table(self.environment, route.target.route_table(name), shown, ledger)
            self.tables.route_table_added(route, name, conditions)


def routes_behind(fleet: TableSet) -> list[TableProgress]:
    """List the routes that a table waits for, to begin where they durably stand."""
    waited = {
        id(route): route
        for name, track in fleet.active.items()
        if (route := fleet.route_of(name)) is not None and not track.expected
    }
    return [route for route in waited.values() if not route.is_level]


def ambiguous_table(route: str, name: str) -> PenstockError:
    """Build the error for two rules that make the same table name."""
    return InvalidError(
        f"{route}: a record asks for {name}, which another rule writes as well",
        code="P466",
        hint="start the tables of one of the rules with another word:  into: lake.bronze.x_{kind}",
    )
