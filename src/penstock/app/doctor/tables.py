"""Checks each table that the topics lead to: whether it agrees with its ledger, which features it
has, and what a commit has to read.
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
from penstock.ports.tables import TableFormat
from penstock.spec.model import Pipeline

KEPT_MAX = 200
"""Snapshots, or versions since a checkpoint, from which commits and readers get slow."""


def findings(
    pipeline: Pipeline, log: Log, catalogs: Mapping[str, TableFormat]
) -> Iterator[CheckResult]:
    """Check all tables and the quarantine. Raises what listing topics and routes raises."""
    for place, chain in places(pipeline, log, catalogs):
        yield from _table(catalogs[place.catalog], place, chain)


def places(
    pipeline: Pipeline, log: Log, catalogs: Mapping[str, TableFormat]
) -> Iterator[tuple[TableLocation, Chain | None]]:
    """Yield each table that topics lead to with its chain, then the quarantine, which has many.

    Tables of catalogs that are not given are left out. Raises what listing topics and routes
    raises.
    """
    settings = assembly.settings_of(pipeline)
    targets, wanted, _ = opening.route_topics(settings, log.partitions())
    known = {name: each for name, each in targets.items() if each.location.catalog in catalogs}
    targets, _ = route_tables.expand_routes(settings, catalogs, known, wanted)
    for _, target in sorted(targets.items()):
        yield target.location, Chain(pipeline.name, target.location.table)
    if settings.quarantine.catalog in catalogs:
        yield settings.quarantine, None


def _table(
    catalog: TableFormat, place: TableLocation, chain: Chain | None
) -> Iterator[CheckResult]:
    try:
        table = catalog.load(place.name)
        if table is None:
            yield passed("table", place.table, "is not there yet")
            return
        if chain is not None:
            state = table.state(chain)
            if not state.verdict.is_sound:
                raise rolled_back(place.table, state.evidence, quarantine=chain.is_quarantine)
        facts = table.describe()
    except PenstockError as error:
        yield failed("table", place.table, error)
        return
    yield passed("table", place.table, facts.format)
    text = f"{facts.history_length:,} {facts.kept_what}"
    if facts.history_length <= KEPT_MAX:
        yield passed("snapshots", place.table, text)
        return
    yield warning(
        "snapshots",
        place.table,
        f"{text}: each commit gets slower with them",
        "lower commit.retain, and expire what other writers leave; a run writes checkpoints",
    )
