"""What the landing part of a spec makes of the topics and tables that its publications name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.spec.checks.rules import is_read
from penstock.spec.model import Pipeline
from penstock.spec.problems import Problem, listed, nearest, shown
from penstock.spec.routing.names import is_led_to
from penstock.spec.routing.topics import tables_for
from penstock.spec.settings.publication import PublicationRule
from penstock.spec.settings.sources import QUARANTINE, QuarantineToPublish


def landed_topics(pipeline: Pipeline, topics: Iterable[str]) -> dict[str, list[str]]:
    """Return what topics become that a spec lands: its tables, with the placeholders that records
    fill, and what it rejects.
    """
    return {
        topic: [*(each.table for each in tables_for(pipeline, topic)), QUARANTINE]
        for topic in topics
        if is_read(topic, pipeline.kafka)
    }


def check_rejecting_tables(
    rules: Sequence[PublicationRule], landing: Pipeline
) -> Iterator[Problem]:
    """Find tables of which nothing can be rejected, since no rule leads to them."""
    for index, rule in enumerate(rules):
        given = rule.from_
        for name in given.tables if isinstance(given, QuarantineToPublish) else ():
            if not is_led_to(landing, name):
                ours = sorted(each.table for each in landing.tables)
                near = nearest(name, ours)
                hint = f"did you mean {near}?" if near else f"its tables are {listed(ours)}"
                fact = f"{shown(name)} is not a table of this spec"
                yield Problem(("publish", index, "from", "quarantine"), "P888", fact, hint)
