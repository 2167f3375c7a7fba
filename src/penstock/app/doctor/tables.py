"""Each table that the topics lead to: does it stand as its ledger says, with what features, and
what has a commit to go through.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.app.assembly import assembly
from penstock.commit.errors import rolled_back
from penstock.core.commits import Chain
from penstock.core.errors import PenstockError
from penstock.landing.settings import TableLocation
from penstock.landing.tables import opening, route_tables
from penstock.ports.checks import CheckResult, failed, passed, warning
from penstock.ports.log import Log
from penstock.ports.tables import Table, TableFormat, Verdict
from penstock.spec.model import Pipeline

KEPT_MAX = 200
"""Snapshots, or versions since a checkpoint, from which commits and readers get slow."""


def findings(
    pipeline: Pipeline, log: Log, catalogs: Mapping[str, TableFormat]
) -> Iterator[CheckResult]:
    """Look at all tables and the quarantine. Raises what listing topics and routes raises."""
    settings = assembly.settings_of(pipeline)
    targets, wanted, _ = opening.route_topics(settings, log.partitions())
    known = {name: each for name, each in targets.items() if each.location.catalog in catalogs}
    targets, _ = route_tables.expand_routes(settings, catalogs, known, wanted)
    places = [targets[name].location for name in sorted(targets)]
    for place in places:
        yield from _table(catalogs[place.catalog], place, Chain(pipeline.name, place.table))
    if settings.quarantine.catalog in catalogs:
        yield from _table(catalogs[settings.quarantine.catalog], settings.quarantine, None)


def _table(
    catalog: TableFormat, place: TableLocation, chain: Chain | None
) -> Iterator[CheckResult]:
    try:
        table = catalog.load(place.name)
        if table is None:
            yield passed("table", place.table, "is not there yet")
            return
        yield from _standing(table, place, chain)
    except PenstockError as error:
        yield failed("table", place.table, error)


def _standing(table: Table, place: TableLocation, chain: Chain | None) -> Iterator[CheckResult]:
    if chain is not None:
        state = table.state(chain)
        if state.verdict in (Verdict.ROLLED_BACK, Verdict.UNCERTAIN):
            error = rolled_back(place.table, state.evidence, quarantine=chain.is_quarantine)
            yield failed("table", place.table, error)
            return
    facts = table.describe()
    yield passed("table", place.table, facts.format)
    text = f"{facts.history_length:,} {facts.kept_what}"
    if facts.history_length <= KEPT_MAX:
        yield passed("snapshots", place.table, text)
        return
    yield warning(
        "snapshots",
        place.table,
        f"{text}: each commit gets slower with them",
        "lower commit.retain, and expire what others leave behind; a run writes checkpoints",
    )
