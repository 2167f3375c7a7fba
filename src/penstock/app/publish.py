"""`penstock publish`: publish until asked to stop, and say with which exit code it ended.

Invariants:
- each publication has a thread of its own, in which everything of it is opened and used: what one
  waits for, and what it ends with, is its own, and the others go on;
- what is no error of ours asks all to stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial

from penstock.app.assembly import engines, publishing
from penstock.app.assembly.producers import open_producers, open_targets
from penstock.app.standby import Candidate, is_owned, leadership_of_run, run_led
from penstock.core.claims import publication_claim
from penstock.core.errors import InvalidError, PenstockError, gravest
from penstock.core.events import ASKED, GAVE_WAY
from penstock.engines.inline import InlineEngine
from penstock.ports.producers import NO_TRANSACTIONS
from penstock.ports.runtime import Engine, Observer
from penstock.publishing.publisher import AGAIN_SECONDS, Publisher, Until, stopped_by
from penstock.publishing.settings import Publication, PublishingEnvironment
from penstock.publishing.stops import naming
from penstock.spec.problems import listed, nearest
from penstock.spec.publications import Publications
from penstock.spec.settings.publication import OFF, REQUIRED, PublicationRule


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
    standby: bool = False,
    accept: Collection[str] = (),
) -> list[PublishResult]:
    """Publish the named publications, or all. Raises what concerns all of them.

    With `standby` each waits for its turn (InvalidError P521 where the store has no stand-bys).
    `accept` is what a person consents to: `ledger`, `target`, `tail` (what a start found), `gap`
    (go on behind records that are gone).
    """
    rules = _rules_to_run(spec, names)
    with ExitStack() as stack:
        here: Engine = InlineEngine(publishing.PUBLISHING_WORK)
        engine = here
        if not all(rule.is_read_here for rule in rules):
            engine = engines.open_engine(spec, work=publishing.PUBLISHING_WORK)
        stack.callback(engine.close)
        run = _Run(spec, engine, observer, stop, until, takeover, standby)
        acts = []
        for rule in rules:
            own = publishing.publication_of(spec, rule, accept=accept)
            by = replace(run, engine=here) if rule.is_read_here else run
            acts.append(partial(by.published, own))
        return side_by_side(acts, stop)


@dataclass(frozen=True, slots=True)
class _Run:
    """What the publications of one run share."""

    spec: Publications
    engine: Engine
    observer: Observer
    stop: threading.Event
    until: Until
    takeover: bool
    standby: bool

    def published(self, own: Publication) -> PublishResult:
        """Open a publication, and publish it until it ends. Raises what the engine's start raised.

        Where it cannot be opened, that is its end, or tried again, as in a run of it.
        """
        with ExitStack() as stack:
            while True:
                try:
                    with ExitStack() as opened:
                        environment = publishing.open_publishing(
                            self.spec, own, opened, engine=self.engine, observer=self.observer
                        )
                        stack.push(opened.pop_all())
                    break
                except PenstockError as error:
                    naming(own, error)
                    stopped = stopped_by(own, error, self.until)
                    self.observer(stopped)
                    if not stopped.waits:
                        return PublishResult(own.name, error.message, 0, 0, 0, error)
                    if self.stop.wait(AGAIN_SECONDS):
                        return PublishResult(own.name, ASKED, 0, 0, 0, error)
            self.engine.capacity()  # nothing is claimed by a run whose workers do not start
            return self._in_turn(own, environment)

    def _in_turn(self, own: Publication, environment: PublishingEnvironment) -> PublishResult:
        """Publish, at once or whenever it is the turn of this process."""
        given, turns = own, list[PublishResult]()

        def run(ends: threading.Event, *, takeover: bool) -> PublishResult:
            nonlocal given
            publisher = Publisher(given, environment, self.until, takeover, self.standby)
            publisher.run(ends)
            turns.append(result_of(publisher))
            given = publisher.publication  # a consent that one turn has used holds in no other
            if self.standby and publisher.error is not None and is_owned(publisher.error):
                raise publisher.error
            return turns[-1]

        leadership = leadership_of_run(
            self.spec, own.claimed_as, standby=self.standby, takeover=self.takeover
        )
        candidate = Candidate(own.claimed_as, rules_of(own), partial(_probe, own))
        standby, takeover = self.standby, self.takeover
        try:
            ended = run_led(
                candidate,
                leadership,
                environment,
                self.stop,
                run,
                standby=standby,
                takeover=takeover,
            )
        except PenstockError as error:
            if not turns or turns[-1].error is not error:  # no publisher has said it
                self.observer(replace(stopped_by(own, error, self.until), waits=False))
            ended = PublishResult(own.name, error.message, 0, 0, 0, error)
        reason = ASKED if standby else GAVE_WAY
        return ended_after(turns, ended or PublishResult(own.name, reason, 0, 0, 0, None))


def ended_after(turns: Sequence[PublishResult], last: PublishResult) -> PublishResult:
    """Return how a run ended, with what it published in all of its turns."""
    return replace(
        last,
        rows=sum(each.rows for each in turns),
        rejected=sum(each.rejected for each in turns),
        transactions=sum(each.transactions for each in turns),
    )


def rules_of(own: Publication) -> str:
    """Return by what a publication is run, which a stand-by has to share with a dead owner."""
    mode = OFF if own.target.get("protocol") == NO_TRANSACTIONS else REQUIRED
    return f"{own.rules_hash}/{own.changes}/{mode}"


def _probe(own: Publication) -> None:
    """Ask what a publication needs, with connections of its own. Raises what a run would meet."""
    with ExitStack() as stack:
        if own.reads_own:  # to open it may be more than to look
            stack.enter_context(closing(open_targets(own)))
            stack.enter_context(closing(open_producers(own))).terms.check()
            return
        ports = publishing.open_ports(own, stack)
        ports.producers.terms.check()
        ports.source.ends()


def side_by_side(
    acts: Sequence[Callable[[], PublishResult]], stop: threading.Event
) -> list[PublishResult]:
    """Do each in a thread of its own, and return what they return once all have ended.

    Where one raises, the others are asked to stop, and it is raised here. The thread that calls
    only waits, so that its signals are heard whatever the others do.
    """
    with ThreadPoolExecutor(len(acts), "publication") as threads:
        futures = [threads.submit(act) for act in acts]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        except BaseException:
            stop.set()
            raise
        if any(each.exception() is not None for each in done):
            stop.set()
    return [each.result() for each in futures]


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
    """Return the exit code of publications that ended: the gravest of their errors.

    A stop that was asked for is clean, whatever was waited for.
    """
    own = [each for each in results if each.reason != ASKED]
    return gravest(each.error.exit_code for each in own if each.error is not None)


def claim_named(spec: Publications, name: str | None) -> str:
    """Return as what a publication is claimed: the named one, or the only one.

    Raises InvalidError (P825).
    """
    rule, *others = rules_named(spec, [] if name is None else [name])
    if others:
        raise InvalidError(
            f"the spec has {len(spec.publish)} publications, and this is for one",
            code="P825",
            hint=f"name one: {listed(each.name for each in spec.publish)}",
        )
    return publication_claim(spec.name, rule.name)


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
