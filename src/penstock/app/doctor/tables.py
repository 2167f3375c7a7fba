"""Checks each table that the topics lead to: whether it agrees with its ledger, which features it
has, what a commit has to read, and who compacts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.app.assembly import assembly
from penstock.commit.errors import rolled_back
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError, PenstockError
from penstock.core.maintenance import DELTALAKE, LOOKED_AT_MAX, MaintenanceAct
from penstock.landing.settings import TableLocation
from penstock.landing.tables import opening, route_tables
from penstock.ports.checks import CheckResult, failed, passed, warning
from penstock.ports.log import Log
from penstock.ports.tables import Table, TableFormat, TableState
from penstock.spec.model import Pipeline
from penstock.spec.settings.sections import MaintainSettings

KEPT_MAX = 200
"""Snapshots, or versions since a checkpoint, from which commits and readers get slow."""


def findings(
    pipeline: Pipeline, log: Log, catalogs: Mapping[str, TableFormat]
) -> Iterator[CheckResult]:
    """Check all tables and the quarantine. Raises what listing topics and routes raises."""
    for place, chain in places(pipeline, log, catalogs):
        yield from _table(pipeline, catalogs[place.catalog], place, chain)


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
    pipeline: Pipeline, catalog: TableFormat, place: TableLocation, chain: Chain | None
) -> Iterator[CheckResult]:
    try:
        table = catalog.load(place.name)
        if table is None:
            yield passed("table", place.table, "is not there yet")
            return
        facts = table.describe()
        if chain is not None:
            state = table.state(chain)
            if not state.verdict.is_sound:
                raise rolled_back(place.table, state.evidence, quarantine=chain.is_quarantine)
            if facts.files is not None and facts.files <= LOOKED_AT_MAX:
                yield from _compactions(pipeline.maintain, place.table, table, state)
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


def _compactions(
    settings: MaintainSettings, name: str, table: Table, state: TableState
) -> Iterator[CheckResult]:
    """Warn of rows that may be there twice, and of a compactor that makes them so beside another.

    Raises UnavailableError.
    """
    try:
        layout = table.layout(state)
    except InvalidError:  # equality deletes: which rows are live would have to be searched for
        return
    if layout.doubled:
        yield warning(
            "rows",
            name,
            f"may be there twice: {layout.doubled}",
            "see what to do in docs/explanation/small-files.md; penstock audit --count names them",
        )
    compacts = not settings.only or MaintenanceAct.REARRANGE in settings.only
    by = "" if layout.maintained is None else layout.maintained.by
    if settings.every_seconds is not None and compacts and by == DELTALAKE:
        yield warning(
            "compaction",
            name,
            "deltalake compacted it last, and it doubles rows that another compacted meanwhile",
            "let one of them compact it:  maintain: { only: [sweep] }, or Penstock alone",
        )
