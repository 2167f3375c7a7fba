"""`penstock validate`: look at everything a run will need, and tell all problems at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from penstock.app import assembly
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError, PenstockError
from penstock.landing import opening
from penstock.landing.settings import Settings, Target
from penstock.observe.fanout import Observers
from penstock.ports.log import Log
from penstock.ports.tables import TableFormat
from penstock.spec.model import Pipeline

Got = TypeVar("Got")


@dataclass(frozen=True, slots=True)
class Found:
    """All problems, and what is known of each table in words."""

    problems: tuple[PenstockError, ...]
    tables: Mapping[str, str]


def check(pipeline: Pipeline) -> Found:
    """Check brokers, topics, routes, catalogs, tables, store and Java. Writes nothing lasting."""
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
        store = attempt(lambda: assembly.open_store(pipeline))
        if store is not None:
            stack.callback(store.close)
        log = attempt(lambda: assembly.open_log(pipeline))
        catalogs = attempt(lambda: assembly.open_catalogs(pipeline, Observers())) or {}
        for catalog in catalogs.values():
            stack.callback(catalog.close)
            attempt(catalog.check)
        if log is not None:
            stack.callback(log.close)
            settings = assembly.settings_of(pipeline)
            for target, wanted in attempt(partial(_targets, settings, log)) or []:
                told = attempt(partial(_standing, settings, catalogs, target, wanted))
                tables[target.place.table] = told or "has a problem, see above"
    return Found(tuple(problems), tables)


def _java(pipeline: Pipeline) -> None:
    if pipeline.spark.master != assembly.INLINE:
        from penstock.engines.java import SPARK_JAVA_MAJORS, find_java

        find_java(SPARK_JAVA_MAJORS, environment=os.environ)


def _targets(settings: Settings, log: Log) -> list[tuple[Target, opening.Listing]]:
    log.cluster_id()
    targets, wanted, unrouted = opening.routed(settings, log.partitions())
    if unrouted:
        raise InvalidError(
            f"no table takes topic {', '.join(unrouted)}",
            code="P187",
            hint="add a table with  from: '…'  for it, or narrow kafka.topics",
        )
    return [(targets[name], wanted[name]) for name in sorted(targets)]


def _standing(
    settings: Settings,
    catalogs: Mapping[str, TableFormat],
    target: Target,
    wanted: opening.Listing,
) -> str:
    place = target.place
    table = catalogs[place.catalog].load(place.name)
    if table is None:
        if not target.create:
            raise opening.absent(place.table)
        return "will be created from the first epoch's records"
    state = table.state(Chain(settings.pipeline, place.table))
    opening.require_columns(target, state)
    if state.landed is None:
        return "exists without progress of this pipeline: it begins at kafka.start, rows stay"
    opening.refuse_strangers(place.table, state.landed.offsets, wanted)
    return f"goes on from generation {state.landed.generation}"
