"""The loop of a publication: start, then epoch after epoch, until it is asked to stop.

Invariants:
- truth is in the offsets topic: everything here can be lost at any moment, and is found by `start`;
- one epoch at a time: the next is planned on what the last one left, whatever came of it;
- after anything odd the term is renewed before anything else is asked for.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal

from penstock.core.errors import (
    PenstockError,
    UnavailableError,
)
from penstock.core.events import (
    PublicationStarted,
    PublicationStopped,
    RowsPublished,
    TransactionGivenUp,
)
from penstock.ownership.claim import PipelineClaim
from penstock.ports.sources import EpochLimit, Stands
from penstock.publishing.epoch import InDoubt, publish_epoch
from penstock.publishing.record import read_record
from penstock.publishing.settings import Publication, PublishingEnvironment, claim_context
from penstock.publishing.start import (
    PublicationState,
    Run,
    claims_in,
    renew_and_look,
    start,
)

Until = Literal["stopped", "once", "caught-up"]
TICK_SECONDS = 0.2
DOUBTS_MAX = 5
"""How often in a row an epoch may come to nothing."""


@dataclass(frozen=True, slots=True)
class PublishResult:
    """How a publication ended: why, its rows in this run, and the error that it waits for."""

    reason: str
    rows: int = 0
    transactions: int = 0
    error: PenstockError | None = None


def publish(
    publication: Publication,
    environment: PublishingEnvironment,
    stop: threading.Event,
    until: Until,
    *,
    takeover: bool = False,
) -> PublishResult:
    """Publish until asked to stop, or all that was there has been published.

    Raises any PenstockError that ends it; what was not ended then is made again by the next run.
    """
    environment.producers.terms.check()
    environment.producers.ledger.prepare()
    claim = PipelineClaim(claim_context(publication, environment))
    seen = claims_in(read_record(publication.name, environment.producers.ledger.look()))
    claim.acquire([replace(each, owner="") for each in seen], takeover=takeover)
    loop = _Loop(Run(publication, environment, claim), stop, until)
    try:
        reason = loop.run()
    except PenstockError as error:
        environment.observer(
            PublicationStopped(publication.name, error.message, clean=False, code=error.code)
        )
        raise
    finally:
        claim.close()
        with suppress(PenstockError):  # it may be another's by now; a claim is advisory
            claim.release()
    environment.observer(PublicationStopped(publication.name, reason, clean=True))
    return PublishResult(reason, loop.rows, loop.transactions)


def _give_up(run: Run, state: PublicationState) -> None:
    """Abort what is open, so that no reader waits for it until its time is over."""
    with suppress(PenstockError):
        run.environment.producers.terms.renew(run.publication.transactional_id, state.term)


@dataclass(slots=True)
class _Loop:
    run_of: Run
    stop: threading.Event
    until: Until
    rows: int = 0
    transactions: int = 0
    doubts: int = 0

    def run(self) -> str:
        environment, publication = self.run_of.environment, self.run_of.publication
        state = start(self.run_of)
        ends = environment.source.ends()
        fixed = None if self.until == "stopped" else ends
        environment.observer(
            PublicationStarted(
                publication.name,
                publication.into,
                self.run_of.generation,
                state.ledger.epoch,
                environment.source.count(state.stands, ends),
            )
        )
        began = environment.clock.monotonic() - publication.interval_seconds
        while not self.stop.is_set():
            self.run_of.claim.check()
            ends = fixed or environment.source.ends()
            waiting = environment.source.count(state.stands, ends)
            if not waiting and fixed is not None:
                return "caught up"
            now = environment.clock.monotonic()
            due = now - began >= publication.interval_seconds
            if not waiting or not (due or fixed or waiting >= publication.limit.rows_max):
                environment.clock.wait(TICK_SECONDS)
                continue
            began = now
            state, ended = self._epoch(state, ends)
            if ended and self.until == "once":
                return "once"
        return "asked to stop"

    def _epoch(self, state: PublicationState, ends: Stands) -> tuple[PublicationState, bool]:
        """Publish one epoch; return where it left the publication, and whether it ended."""
        run, environment = self.run_of, self.run_of.environment
        begun = environment.clock.monotonic()
        stretches = environment.source.plan(state.stands, ends, self._limit())
        try:
            found = publish_epoch(run, state, stretches)
        except UnavailableError as error:
            found = InDoubt(error.message)
        except PenstockError:
            _give_up(run, state)
            raise
        if found is None:
            environment.clock.wait(TICK_SECONDS)
            return state, False
        if isinstance(found, InDoubt):
            return self._renewed(state, found), False
        self.doubts = 0
        self.rows += found.receipt.published
        self.transactions += 1
        environment.observer(
            RowsPublished(
                run.publication.name,
                run.publication.into,
                found.receipt.epoch,
                found.receipt.published,
                len(found.receipt.targets),
                environment.clock.monotonic() - begun,
                environment.source.count(found.state.stands, ends),
            )
        )
        return found.state, True

    def _renewed(self, state: PublicationState, doubt: InDoubt) -> PublicationState:
        run = self.run_of
        self.doubts += 1
        epoch = state.ledger.epoch + 1
        run.environment.observer(TransactionGivenUp(run.publication.name, epoch, doubt.reason))
        if self.doubts > DOUBTS_MAX:
            raise UnavailableError(
                f"{run.publication.name}: {self.doubts} transactions in a row came to nothing, the"
                f" last one because {doubt.reason}",
                code="P814",
                hint="look at the brokers:  penstock doctor",
            )
        found = renew_and_look(run, state)
        if found.ledger.epoch > state.ledger.epoch:  # it had ended after all
            self.doubts = 0
            self.transactions += 1
            self.rows += found.ledger.totals.published - state.ledger.totals.published
        return found

    def _limit(self) -> EpochLimit:
        """Return what the next epoch may hold: half as much after each that came to nothing."""
        limit = self.run_of.publication.limit
        return EpochLimit(
            max(limit.rows_max >> self.doubts, 1), max(limit.bytes_max >> self.doubts, 1)
        )
