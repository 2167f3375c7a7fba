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

from penstock.commit.land import Conditions
from penstock.core.commits import Chain, first_ledger
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Schema, Struct, united
from penstock.landing.epoch import runner
from penstock.landing.settings import Place, Settings, Target, World
from penstock.landing.tables.foreign_errors import OPEN, serving
from penstock.landing.tables.parking import OF_ONE_TABLE
from penstock.landing.tables.progress import Track
from penstock.landing.task.messages import Result
from penstock.ports.tables import TableFormat

if TYPE_CHECKING:
    from penstock.landing.tables.table_set import Fleet

STRANGERS_AGAIN_SECONDS = 600.0
_PLACEHOLDER = re.compile(r"\\\{[A-Za-z_][A-Za-z0-9_]*\\\}")


def among(target: Target, catalog: TableFormat) -> list[str]:
    """List the tables of a catalog that a route may lead to, but for those of other rules.

    Raises UnavailableError.
    """
    route = target.route
    assert route is not None, "only a route leads to tables"
    namespace, _, _ = target.place.name.rpartition(".")
    wanted = _names_of(target)
    names = [name for name in catalog.names(namespace) if wanted.fullmatch(name)]
    full = [f"{target.place.catalog}.{name}" for name in sorted(names)]
    return [name for name in full if name not in route.reserved]


def may_lead(target: Target, place: Place) -> bool:
    """Return whether a table, by its name, is a target's own or one its records may ask for."""
    if not target.is_route or target.place.table == place.table:
        return target.place.table == place.table
    same = target.place.catalog == place.catalog
    return same and _names_of(target).fullmatch(place.name) is not None


def _names_of(route: Target) -> re.Pattern[str]:
    return re.compile(_PLACEHOLDER.sub("[a-z0-9_]+", re.escape(route.place.name)))


def is_ours(settings: Settings, catalog: TableFormat, target: Target) -> bool:
    """Return whether a table of a route has a ledger of this pipeline, or may be given one."""
    assert target.route is not None, "it is a table of a route"
    there = _ledger_in(settings, catalog, target)
    return bool(there) or (there is not None and target.route.unknown != "create")


def _ledger_in(settings: Settings, catalog: TableFormat, target: Target) -> bool | None:
    """Return whether a table has a ledger of this pipeline; None when there is no table."""
    try:
        table = catalog.load(target.place.name)
    except InvalidError:
        return None  # something else stands there; a record that asks for it is told so
    if table is None:
        return None
    return table.state(Chain(settings.pipeline, target.place.table)).landed is not None


def newcomers(
    settings: Settings, world: World, route: Track, known: Collection[str]
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
        with serving(route.name, "its tables cannot be listed"):
            catalog = world.catalogs[target.place.catalog]
            names = [name for name in among(target, catalog) if name not in known]
    except OF_ONE_TABLE as error:
        return {}, error
    for name in names:
        if route.strangers.get(name, now) > now:
            continue
        try:
            with serving(name, OPEN):
                there = _ledger_in(settings, catalog, target.member(name))
        except OF_ONE_TABLE as error:
            failed = error
            continue
        if there is None:
            continue
        if there or target.route.unknown != "create":
            found[name] = there
        else:
            route.strangers[name] = now + STRANGERS_AGAIN_SECONDS
    return found, failed


def spread(
    settings: Settings,
    catalogs: Mapping[str, TableFormat],
    targets: Mapping[str, Target],
    wanted: Mapping[str, list[TopicPartition]],
) -> tuple[dict[str, Target], dict[str, list[TopicPartition]]]:
    """Return targets and their partitions with the tables of routes in place of the routes.

    A route stays where its catalog tells of no tables: whoever loads it is told why.
    """
    there: dict[str, Target] = {}
    theirs: dict[str, list[TopicPartition]] = {}
    for name, target in targets.items():
        try:
            found = _led_to(settings, catalogs, target) if target.is_route else [target]
        except (UnavailableError, InvalidError):
            found = [target]
        for each in found:
            there[each.place.table], theirs[each.place.table] = each, wanted[name]
    return there, theirs


def _led_to(settings: Settings, catalogs: Mapping[str, TableFormat], route: Target) -> list[Target]:
    catalog = catalogs[route.place.catalog]
    found = [route.member(table) for table in among(route, catalog)]
    return [member for member in found if is_ours(settings, catalog, member)]


def asked_for(results: Iterable[Result]) -> dict[str, dict[str, Schema]]:
    """Join what tasks say of tables that do not exist: by route, then by table."""
    found: dict[str, dict[str, Schema]] = defaultdict(dict)
    for result in results:
        for route, tables in result.wanted.items():
            for name, schema in tables.items():
                found[route][name] = united((found[route].get(name, Struct(())), schema))
    return dict(found)


@dataclass(frozen=True, slots=True)
class Usher:
    """Creates the tables that records ask for."""

    settings: Settings
    world: World
    fleet: Fleet

    def welcome(self, conditions: Conditions, results: Sequence[Result]) -> list[Track]:
        """Create the tables that an epoch's records ask for; give the routes that read it again.

        A route that is not level reads it again, for its tables begin where it durably stands.
        Raises FencedError.
        """
        again = []
        tables = asked_for(results)
        read = {name for each in results for lane in each.lanes for name in lane.lane.tables}
        for name, route in self.fleet.active.items():
            if name not in read:
                continue
            asked = tables.get(name)
            route.asks = bool(asked)
            if not asked:
                continue
            if not route.is_level:
                again.append(route)
                continue
            granted = {table: asked[table] for table in sorted(asked)[: route.room]}
            with self.fleet.parking(name, "a table that its records ask for cannot be created"):
                self._create(conditions, route, granted)
            if name in self.fleet.aside:
                continue
            if len(asked) > len(granted) or not all(map(self.fleet.has_begun, granted)):
                again.append(route)
        return again

    def _create(self, conditions: Conditions, route: Track, granted: Mapping[str, Schema]) -> None:
        claim, cluster, rules = conditions.claim, self.world.cluster_id, self.settings.rules_hash
        begun = dict(route.origins)
        for name, shown in granted.items():
            ledger = first_ledger(Chain(self.settings.pipeline, name), claim, cluster, rules, begun)
            runner.found(self.world, route.target.member(name), shown, ledger)
            self.fleet.joined(route, name, conditions)


def unlevel(fleet: Fleet) -> list[Track]:
    """List the routes that a table waits for, to begin where they durably stand."""
    waited = {
        id(route): route
        for name, track in fleet.active.items()
        if (route := fleet.route_of(name)) is not None and not track.origins
    }
    return [route for route in waited.values() if not route.is_level]


def of_two_routes(route: str, name: str) -> PenstockError:
    """Build the error for two rules that make the same table name."""
    return InvalidError(
        f"{route}: a record asks for {name}, to which another rule leads as well",
        code="P466",
        hint="give the tables of one of the rules another beginning:  into: lake.bronze.x_{kind}",
    )
