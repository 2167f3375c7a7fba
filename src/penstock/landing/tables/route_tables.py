"""The tables of a route, as they are found in its catalog.

A route is a rule that computes its tables' names from the records. Its chain is its quarantine
chain. Every record below that chain's position has its table, or is in quarantine.

Invariants:
- a table of a route begins at the route's durable position, never after it: what is below was
  decided without the table, and stays in quarantine;
- a route goes on only while all of its tables are known and have begun: what it counts as theirs is
  at or above their positions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from penstock.core.commits import Chain
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.landing.foreign_errors import OPEN, acting_on_table
from penstock.landing.settings import Environment, Settings, TableLocation, TableTarget
from penstock.landing.tables.parking import OF_ONE_TABLE
from penstock.landing.tables.progress import TableProgress
from penstock.ports.tables import TableFormat

FOREIGN_RECHECK_SECONDS = 600.0
REDISCOVERY_SECONDS = 30.0
_PLACEHOLDER = re.compile(r"\\\{[A-Za-z_][A-Za-z0-9_]*\\\}")


@dataclass(slots=True)
class RouteTables:
    """The tables that the routes of a run lead to, as far as they are known."""

    _by_route: dict[str, set[str]] = field(default_factory=dict)
    _with_ledger: set[str] = field(default_factory=set)
    _rediscover_at: dict[str, float] = field(default_factory=dict)

    def of(self, route: str) -> frozenset[str]:
        """Return the tables of a route."""
        return frozenset(self._by_route.get(route, ()))

    def route_of(self, table: str) -> str | None:
        """Name the route that leads to a table; None for a table of a fixed name."""
        return next((route for route, each in self._by_route.items() if table in each), None)

    def add(self, route: str, table: str) -> None:
        """Note a table of a route."""
        self._by_route.setdefault(route, set()).add(table)

    def found(self, tables: Mapping[str, bool]) -> None:
        """Note which of the tables that were found have a ledger."""
        self._with_ledger |= {name for name, has_ledger in tables.items() if has_ledger}

    def mark_discovered(self, route: str, now: float) -> None:
        """Note that all tables of a route were listed."""
        self._rediscover_at[route] = now + REDISCOVERY_SECONDS

    def is_due(self, route: TableProgress, now: float) -> bool:
        """Return whether tables of a route are to be listed."""
        return route.route_tables is None or now >= self._rediscover_at.get(route.name, 0.0)

    def has_ledger(self, table: str) -> bool:
        """Return whether a table was found with a ledger."""
        return table in self._with_ledger


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


def may_own(target: TableTarget, location: TableLocation) -> bool:
    """Return by its name whether a table is a target's own, or one its records may ask for."""
    if not target.is_route or target.location.table == location.table:
        return target.location.table == location.table
    same = target.location.catalog == location.catalog
    return same and _names_of(target).fullmatch(location.name) is not None


def _names_of(route: TableTarget) -> re.Pattern[str]:
    return re.compile(_PLACEHOLDER.sub("[a-z0-9_]+", re.escape(route.location.name)))


def has_our_ledger(settings: Settings, catalog: TableFormat, target: TableTarget) -> bool:
    """Return whether a table of a route has a ledger of this pipeline, or may be given one."""
    return _may_join(target, _ledger_in(settings, catalog, target))


def _may_join(target: TableTarget, has_ledger: bool | None) -> bool:  # noqa: FBT001
    assert target.route is not None, "it is a table of a route"
    return bool(has_ledger) or (has_ledger is not None and target.route.unknown != "create")


def _ledger_in(settings: Settings, catalog: TableFormat, target: TableTarget) -> bool | None:
    """Return whether a table has a ledger of this pipeline; None when there is no table."""
    try:
        table = catalog.load(target.location.name)
    except InvalidError:
        return None  # it is no table; a record that asks for it is rejected with that reason
    if table is None:
        return None
    return table.state(Chain(settings.pipeline, target.location.table)).landed is not None


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a listing of a route's tables found: those that are not known yet and whether each has a
    ledger, foreign ones with when to check them again, and the error that ended the listing.
    """

    found: Mapping[str, bool]
    foreign: Mapping[str, float]
    failed: PenstockError | None = None


def discover(
    settings: Settings, environment: Environment, route: TableProgress, known: Collection[str]
) -> Discovery:
    """List the tables of a route that exist and are not known yet.

    One table that cannot be read does not hide the others. A foreign one is checked again after
    `FOREIGN_RECHECK_SECONDS`: a namespace may have hundreds. A record that asks for it goes another
    way.
    """
    target, now = route.target, environment.clock.monotonic()
    found: dict[str, bool] = {}
    foreign = dict(route.foreign_tables)
    failed: PenstockError | None = None
    try:
        with acting_on_table(route.name, "its tables cannot be listed"):
            catalog = environment.catalogs[target.location.catalog]
            names = [name for name in candidate_tables(target, catalog) if name not in known]
    except OF_ONE_TABLE as error:
        return Discovery({}, foreign, error)
    for name in names:
        if foreign.get(name, now) > now:
            continue
        try:
            with acting_on_table(name, OPEN):
                there = _ledger_in(settings, catalog, target.route_table(name))
        except OF_ONE_TABLE as error:
            failed = error
            continue
        if _may_join(target, there):
            found[name] = bool(there)
        elif there is not None:
            foreign[name] = now + FOREIGN_RECHECK_SECONDS
    return Discovery(found, foreign, failed)


def expand_routes(
    settings: Settings,
    catalogs: Mapping[str, TableFormat],
    targets: Mapping[str, TableTarget],
    wanted: Mapping[str, list[TopicPartition]],
) -> tuple[dict[str, TableTarget], dict[str, list[TopicPartition]]]:
    """Return targets and their partitions with the tables of routes in place of the routes.

    A route stays where its catalog cannot list its tables: loading it reports the reason.
    """
    there: dict[str, TableTarget] = {}
    theirs: dict[str, list[TopicPartition]] = {}
    for name, target in targets.items():
        try:
            found = [target]
            if target.is_route:
                catalog = catalogs[target.location.catalog]
                tables = map(target.route_table, candidate_tables(target, catalog))
                found = [each for each in tables if has_our_ledger(settings, catalog, each)]
        except (UnavailableError, InvalidError):
            found = [target]
        for each in found:
            there[each.location.table], theirs[each.location.table] = each, wanted[name]
    return there, theirs
