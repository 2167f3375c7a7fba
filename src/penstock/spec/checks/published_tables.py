"""What must agree where a publication reads a table, rejected records, or news of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.core.names import folded
from penstock.spec.checks.formats import is_of_iceberg
from penstock.spec.language.notation import MAIN
from penstock.spec.problems import KeyPath, Problem, listed, nearest, shown
from penstock.spec.settings.catalogs import Catalog
from penstock.spec.settings.publication import PublicationRule
from penstock.spec.settings.sections import QuarantineSettings
from penstock.spec.settings.sources import (
    NewsToPublish,
    QuarantineToPublish,
    TableToPublish,
)

OWN_HEADERS = "penstock."
"""What the names of the headers begin with that a dead letter gets."""


def without_tables(
    rules: Sequence[PublicationRule], quarantine: QuarantineSettings | None
) -> Iterator[Problem]:
    """Find what is about tables in a spec that lands none."""
    for index, rule in enumerate(rules):
        if isinstance(rule.from_, NewsToPublish) and rule.from_.of is None:
            fact = "news are about the tables that a spec lands, and this one has no 'tables'"
            hint = "name the spec that has them:  from: { news: [commits], of: ./shop.yaml }"
            yield Problem(("publish", index, "from", "news"), "P883", fact, hint)
        if isinstance(rule.from_, QuarantineToPublish):
            fact = "dead letters are what a spec rejects that lands, and this one has no 'tables'"
            hint = "write it into the spec that lands; its  penstock publish  lands nothing"
            yield Problem(("publish", index, "from", "quarantine"), "P888", fact, hint)
    if quarantine is not None:
        fact = "a quarantine is where a spec puts what it rejects, and this one has no 'tables'"
        yield Problem(("quarantine",), "P888", fact, "remove it", on_key=True)


def check_catalogs(
    rules: Sequence[PublicationRule], catalogs: Mapping[str, Catalog]
) -> Iterator[Problem]:
    """Find tables of no catalog, and references that a format does not have."""
    for index, rule in enumerate(rules):
        if not isinstance(rule.from_, TableToPublish):
            continue
        name = rule.from_.table.partition(".")[0]
        if name not in catalogs:
            near = nearest(name, catalogs)
            did_you_mean = f". Did you mean '{near}'?" if near else ""
            known = listed(catalogs) if catalogs else "none"
            fact = f"no catalog is named '{name}'{did_you_mean}"
            hint = "" if near else f"known are {known}; add it to  catalogs"
            yield Problem(("publish", index, "from", "table"), "P117", fact, hint)
        elif rule.from_.ref != MAIN and not is_of_iceberg(catalogs[name]):
            fact = "a Delta table has neither branches nor tags"
            place = ("publish", index, "from", "ref")
            yield Problem(place, "P155", fact, "remove it", on_key=True)


def check_dead_letters(
    at: KeyPath, rule: PublicationRule, quarantine: QuarantineSettings | None
) -> Iterator[Problem]:
    """Find what dead letters do not have: they are the rejected records, byte by byte."""
    if not isinstance(rule.from_, QuarantineToPublish):
        return
    for name in ("key", "value", "delete_when"):
        if name in rule.model_fields_set:
            fact = f"a dead letter has key and value of its record, and  {name}  is for other rows"
            yield Problem((*at, name), "P887", fact, "leave it out", on_key=True)
    for name in rule.headers if isinstance(rule.headers, Mapping) else ():
        if folded(name).startswith(OWN_HEADERS):
            fact = f"the header {shown(name)} says where a dead letter comes from"
            yield Problem((*at, "headers", name), "P887", fact, "name it otherwise", on_key=True)
    if quarantine is not None and quarantine.headers is None:
        fact = "a dead letter has the headers of its record only where the quarantine keeps them"
        hint = "say so:  quarantine: { headers: keep },  or  leave"
        yield Problem((*at, "from", "quarantine"), "P834", fact, hint)
