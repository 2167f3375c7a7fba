"""`penstock publish`: publish until asked to stop, and say with which exit code it ended."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from penstock.app.assembly import engines, publishing
from penstock.app.assembly.process import SystemClock
from penstock.core.errors import InvalidError, PenstockError, gravest
from penstock.ports.runtime import Observer
from penstock.publishing.publisher import Publisher, Publishers, Until
from penstock.spec.problems import listed, nearest
from penstock.spec.publications import Publications
from penstock.spec.settings.publication import PublicationRule


@dataclass(frozen=True, slots=True)
class PublishResult:
    """How a publication ended: why, what it published in this run, and the error it ended with.

    `rejected` rows are no messages, and in the topic for rejects.
    """

    publication: str
    reason: str
    rows: int
    rejected: int
    transactions: int
    error: PenstockError | None


def publish(
    spec: Publications,
    names: Collection[str],
    *,
    observer: Observer,
    stop: threading.Event,
    until: Until,
    takeover: bool = False,
    accept: Collection[str] = (),
) -> list[PublishResult]:
    """Publish the named publications, or all. Raises what concerns all of them.

    `accept` is what a person consents to: `ledger`, `target`, `tail` (what a start found), `gap`
    (go on behind records that are gone).
    """
    rules = _rules_to_run(spec, names)
    with ExitStack() as stack:
        engine = engines.open_engine(spec, work=publishing.PUBLISHING_WORK)
        stack.callback(engine.close)
        publishers = []
        for rule in rules:
            own = publishing.publication_of(spec, rule, accept=accept)
            environment = publishing.open_publishing(
                spec, own, stack, engine=engine, observer=observer
            )
            publishers.append(Publisher(own, environment, until, takeover))
        engine.capacity()  # nothing is claimed by a run whose workers do not start
        Publishers(publishers, SystemClock(), stop).run()
    return [result_of(each) for each in publishers]


def result_of(publisher: Publisher) -> PublishResult:
    """Return how a publication ended."""
    return PublishResult(
        publication=publisher.publication.name,
        reason=publisher.reason,
        rows=publisher.rows,
        rejected=publisher.rejected,
        transactions=publisher.transactions,
        error=publisher.error,
    )


def exit_code(results: Sequence[PublishResult]) -> int:
    """Return the exit code of publications that ended: the gravest of their errors."""
    return gravest(each.error.exit_code for each in results if each.error is not None)


def _rules_to_run(spec: Publications, names: Collection[str]) -> list[PublicationRule]:
    """Return the rules that a run publishes. Raises InvalidError (P825, P864)."""
    found = rules_named(spec, names)
    rules = [rule for rule in found if not rule.is_of_frames]
    if not rules or (names and len(rules) < len(found)):
        raise InvalidError(
            "DataFrames are published by the program that makes them",
            code="P864",
            hint="call  penstock.publish_once  or  penstock.publisher  there",
        )
    return rules


def rules_named(spec: Publications, names: Collection[str]) -> list[PublicationRule]:
    """Return the rules with these names, or all. Raises InvalidError (P825)."""
    known = {rule.name: rule for rule in spec.publish}
    for name in names:
        if name not in known:
            near = nearest(name, known)
            raise InvalidError(
                f"the spec has no publication {name!r}",
                code="P825",
                hint=f"did you mean {near}?" if near else f"it has {listed(known)}",
            )
    return [rule for rule in spec.publish if not names or rule.name in names]
