"""`penstock validate`: check everything a run will need, and report all problems at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from penstock.app.assembly import assembly, engines
from penstock.app.assembly.functions import function_at
from penstock.app.inspect.creation_settings import creation_only, without_effect
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError, PenstockError
from penstock.core.events import WaitBegan
from penstock.core.resolutions import records_only
from penstock.landing.settings import Settings, TableTarget
from penstock.landing.tables import opening, route_tables, start_positions
from penstock.landing.tables.progress import by_table
from penstock.landing.waiting import KAFKA
from penstock.observe.fanout import UNHEARD
from penstock.ports.log import Log
from penstock.ports.runtime import Observer
from penstock.ports.store import PendingStore
from penstock.ports.tables import TableFormat
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import leads_to

Got = TypeVar("Got")


def check(
    pipeline: Pipeline, *, observer: Observer = UNHEARD
) -> tuple[list[PenstockError], dict[str, str]]:
    """Return all problems of brokers, topics, routes, catalogs, tables, store and Java, and what is
    known of each table in words.

    No table is touched. That catalogs may be written is tried, so an empty one stays where there
    was none (docs/design/0209).
    """
    problems: list[PenstockError] = []
    tables: dict[str, str] = {}

    def attempt(act: Callable[[], Got]) -> Got | None:
        try:
            return act()
        except PenstockError as error:
            problems.append(error)
            return None

    with ExitStack() as stack:
        attempt(lambda: _java(pipeline))
        for rule in pipeline.tables:
            if rule.transform is not None and rule.transform.function is not None:
                attempt(partial(function_at, rule.transform.function.call))
        observer(WaitBegan("the pending store to answer"))
        store = attempt(lambda: assembly.open_store(pipeline))
        if store is not None:
            stack.callback(store.close)
        catalogs = assembly.open_catalogs(pipeline, stack)
        usable = set()
        for name in catalogs:
            observer(WaitBegan(f"catalog {name} to answer"))
            if attempt(partial(_checked, catalogs, name)):
                usable.add(name)
        observer(WaitBegan(KAFKA))
        log = attempt(lambda: assembly.open_log(pipeline))
        settings = attempt(lambda: assembly.settings_of(pipeline))
        if log is not None and settings is not None:
            stack.callback(log.close)
            targets = attempt(partial(_targets, settings, log))
            for target, wanted in targets or []:
                place = target.location
                observer(WaitBegan(f"{place.table} to open"))
                if place.catalog not in usable:
                    tables[place.table] = f"was not checked: see the problem of {place.catalog}"
                    continue
                state = partial(_table_state, settings, catalogs, target, wanted)
                text = attempt(partial(_naming, place.table, state))
                tables[place.table] = text or "has a problem, see above"
            if store is not None and targets is not None:
                tables |= attempt(partial(_without_rule, pipeline, store, tables)) or {}
    return problems, tables


def _naming(table: str, act: Callable[[], Got]) -> Got:
    """Act on a table; its errors name it as the spec does: catalogs do not know their own name."""
    try:
        return act()
    except PenstockError as error:
        if table in error.message:
            raise
        raise type(error)(f"{table}: {error.message}", code=error.code, hint=error.hint) from error


def _checked(catalogs: Mapping[str, TableFormat], name: str) -> bool:
    catalogs[name].check()
    return True


def _java(pipeline: Pipeline) -> None:
    if pipeline.spark.master != engines.INLINE:
        from penstock.engines.java import find_java
        from penstock.engines.spark.release import require_installed

        require_installed()
        find_java(os.environ)


def _targets(settings: Settings, log: Log) -> list[tuple[TableTarget, opening.Listing]]:
    log.cluster_id()
    targets, wanted, unrouted = opening.route_topics(settings, log.partitions())
    if unrouted:
        raise InvalidError(
            f"no table takes topic {', '.join(unrouted)}",
            code="P187",
            hint="add a table with  from: '…'  for it, or narrow kafka.topics",
        )
    return [(targets[name], wanted[name]) for name in sorted(targets)]


def _table_state(
    settings: Settings,
    catalogs: Mapping[str, TableFormat],
    target: TableTarget,
    wanted: opening.Listing,
) -> str:
    place = target.location
    if target.is_route:
        return _route_state(settings, catalogs, target)
    table = catalogs[place.catalog].load(place.name)
    if table is None:
        if not target.create:
            raise opening.table_absent(place.table)
        catalogs[place.catalog].require_properties(place.name, target.properties)
        return "will be created from the first epoch's records"
    chain = Chain(settings.pipeline, place.table)
    state = table.state(chain)
    opening.require_usable(target, chain, table, state)
    names = creation_only(target, state)
    note = f"; {without_effect(names)}" if names else ""
    if required := opening.required_of_deleted(target, state):
        columns = ", ".join(required)
        note += f"; deletes that bring a key alone are quarantined (P374), as it requires {columns}"
    if state.landed is None:
        return (
            f"exists without progress of this pipeline: it begins at kafka.start, rows stay{note}"
        )
    start_positions.require_known_ledger(place.table, records_only(state.landed.offsets), wanted)
    return f"continues from generation {state.landed.generation}{note}"


def _route_state(
    settings: Settings, catalogs: Mapping[str, TableFormat], target: TableTarget
) -> str:
    catalog = catalogs[target.location.catalog]
    there = [
        name
        for name in route_tables.candidate_tables(target, catalog)
        if route_tables.has_our_ledger(settings, catalog, target.route_table(name))
    ]
    route = target.route
    assert route is not None, "it is a route"
    if route.unknown == "create":
        catalog.require_properties(target.location.name, target.properties)
    unknown = {
        "create": "others are created when a record asks for them",
        "quarantine": "records that ask for others are quarantined",
        "fail": "a record that asks for another one parks the route",
    }
    return f"routes records to {len(there)} existing tables; {unknown[route.unknown]}"


def _without_rule(
    pipeline: Pipeline, store: PendingStore, tables: Mapping[str, str]
) -> dict[str, str]:
    waiting = by_table(pipeline.name, store.pending(pipeline.name))
    left = {}
    for name in sorted({*store.examined(pipeline.name), *waiting} - set(tables)):
        if any(leads_to(rule.into, name) for rule in pipeline.tables if rule.route):
            continue
        count = len(waiting.get(name, []))
        commits = f", with {count} prepared commits" if count else ""
        left[name] = (
            f"no rule writes to it any more; its progress is kept{commits},"
            " and it continues from there when a rule writes to it again"
        )
    return left
