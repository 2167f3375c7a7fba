"""The tables of a pipeline by name: of its rules, its routes, and its quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing

from penstock.app.assembly import assembly
from penstock.landing.tables import opening, route_tables
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import no_table


def tables_named(pipeline: Pipeline, names: Sequence[str]) -> list[str]:
    """Return the tables with these names, or all when none is given.

    Kafka and catalogs are asked only where a rule computes names. Raises InvalidError (P185) for a
    table that the pipeline does not have, UnavailableError.
    """
    rules = {rule.table for rule in pipeline.tables if "{" not in rule.into}
    fixed = {pipeline.quarantine.into, *rules}
    computes = any("{" in rule.into for rule in pipeline.tables)
    if names and fixed.issuperset(names):
        return [*dict.fromkeys(names)]
    known, topics = _found(pipeline) if computes or names else (fixed, set[str]())
    for name in names:
        if name not in known:
            raise no_table(name, known, topics)
    return [*dict.fromkeys(names)] or sorted(known | fixed)


def _found(pipeline: Pipeline) -> tuple[set[str], set[str]]:
    """Return the tables that the rules lead to now, and the topics."""
    with ExitStack() as stack:
        log = stack.enter_context(closing(assembly.open_log(pipeline)))
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        settings, listing = assembly.settings_of(pipeline), log.partitions()
        targets, partitions, _ = opening.route_topics(settings, listing)
        targets, _ = route_tables.expand_routes(settings, catalogs, targets, partitions)
        return {*targets, settings.quarantine.table}, {at.topic for at in listing}
