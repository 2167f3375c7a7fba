"""The loop of a publication: it starts, then publishes epoch after epoch, until asked to stop.

Invariants:
- truth is in the offsets topic: everything here can be lost at any moment, and is found by `start`;
- one epoch of a publication at a time: the next is planned on what the last one left;
- after anything odd the term is renewed before anything else is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from penstock.core.claims import Claim
from penstock.core.errors import (
    DecisionNeededError,
    FencedError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.events import ASKED
from penstock.core.publication_events import (
    ColumnTypesChanged,
    FieldsAbsent,
    PublicationStarted,
    PublicationStopped,
    RowsPublished,
    TransactionGivenUp,
)
from penstock.core.receipts import Receipt
from penstock.core.store_errors import ALIVE
from penstock.ownership.claim import PipelineClaim
from penstock.ports.producers import PROTOCOL_2
from penstock.ports.runtime import DIED
from penstock.ports.sources import EpochLimit, Stands, Stretch
from penstock.publishing.epoch import InDoubt, Published, Share, publish_epoch
from penstock.publishing.own_stops import SOURCE_RAISED
from penstock.publishing.pace import Pace
from penstock.publishing.poison_search import PoisonSearch
from penstock.publishing.schemas import with_schemas
from penstock.publishing.settings import Publication, PublishingEnvironment
from penstock.publishing.shares import publish_shares
from penstock.publishing.start import PublicationState, Run, claimed, renew_and_look, start
from penstock.publishing.stops import naming, require_source

Until = Literal["stopped", "once", "caught-up"]
CAUGHT_UP, ONCE = "caught up", "one transaction"
TICK_SECONDS = 0.2
DOUBTS_MAX = 5
"""How often in a row an epoch may come to nothing."""
MOVED_SECONDS = 60.0
"""How long a position waits that moves without rows: behind a compaction, whose history may end."""
LOOKED_AT_MIN = 100
"""Of how many rows a transaction is that tells whether a field is in any."""
AGAIN_SECONDS = 10.0
"""How long a publication waits that something outside kept from going on."""


@dataclass(slots=True)
class Publisher:
    """Publishes one publication, from one thread.

    `reason` says why it ended, `error` what it waits for or ended with. What a person accepted
    holds for one start: what is found later is asked for again. One that `stands_by` ends where
    another run is alive, instead of trying again.
    """

    publication: Publication
    environment: PublishingEnvironment
    until: Until
    takeover: bool = False
    stands_by: bool = False
    rows: int = 0
    rejected: int = 0
    transactions: int = 0
    reason: str = ""
    error: PenstockError | None = None
    _former: Claim | None = None
    _claim: PipelineClaim | None = None
    _state: PublicationState | None = None
    _fixed: Stands | None = None
    _began: float = 0.0
    _again_at: float = 0.0
    _doubts: int = 0
    _search: PoisonSearch = field(default_factory=PoisonSearch)
    _types: dict[str, str] = field(default_factory=dict)
    _has_looked: bool = False
    _pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        self._pace = Pace(self.publication.rate, self.publication.interval_seconds)

    def run(self, stop: threading.Event) -> None:
        """Publish until it has ended, or between two epochs once it is asked to stop."""
        try:
            while not self.reason and not stop.is_set():
                if not self.step():
                    self.environment.clock.wait(TICK_SECONDS)
            self.end(ASKED)
        finally:
            self.close()

    def step(self) -> bool:
        """Start, or publish one epoch if it is due; return whether anything was done.

        An error ends it, but for one that may pass in a run that goes on until it is stopped.
        """
        clock = self.environment.clock
        if self.reason or clock.monotonic() < self._again_at:
            return False
        try:
            return self._step()
        except PenstockError as error:
            if not isinstance(error, FencedError):  # what is open now is the newer run's
                self._abort()
            self.close()
            self.error = naming(self.publication, error)
            self._again_at = clock.monotonic() + AGAIN_SECONDS
            stopped = stopped_by(self.publication, error, self.until)
            if self._former is not None:
                stopped = replace(stopped, generation=self._former.generation)
            if self.stands_by and error.code == ALIVE:
                stopped = replace(stopped, waits=False)
            if not stopped.waits:
                self.reason = error.message
            self.environment.observer(stopped)
            return True

    def end(self, reason: str) -> None:
        """End in order, between two epochs."""
        if not self.reason:
            self.reason = reason
            self.environment.observer(PublicationStopped(self.publication.name, reason, clean=True))
        self.close()

    def close(self) -> None:
        """Give the claim back."""
        if self._claim is not None:
            self._claim.close()
            with suppress(PenstockError):  # it may be another's by now; a claim is advisory
                self._claim.release()
        self._claim, self._state = None, None

    def _step(self) -> bool:
        if self._state is None or self._claim is None:
            self._begin()
            return True
        run = Run(self.publication, self.environment, self._claim)
        self._claim.check()
        source, clock = self.environment.ports.source, self.environment.clock
        ends = self._fixed or source.ends()
        if self._state.stands.keys() - ends.keys():
            require_source(self.publication, source, self._state.stands)
        waiting, since = source.count(self._state.stands, ends), clock.monotonic() - self._began
        if not waiting and self._fixed is None and since < MOVED_SECONDS:
            return False
        due = (
            self._search.within
            or self.publication.polls
            or since >= self.publication.interval_seconds
        )
        is_enough = waiting >= self._pace.limit(self.publication.limit).rows_max
        if waiting and not (due or self._fixed or is_enough):
            return False
        if waiting and clock.monotonic() < self._pace.free_at:
            return False
        limit = self._limit()
        stretches = source.plan(self._state.stands, self._search.within or ends, limit)
        if self._search.within:
            stretches = self._searched(stretches, limit)
            if not stretches:
                return True
        if not waiting and not stretches:
            return self._caught_up(self._state, self._fixed)
        self._began = clock.monotonic()
        self._compare_types()
        run = replace(run, publication=with_schemas(self.publication, run.environment.ports))
        return self._epoch(run, self._state, stretches, ends, limit)

    def _compare_types(self) -> None:
        """Tell of columns whose types are others than when this run sent the last transaction."""
        rules, columns = self.publication.messages, None
        if rules is not None and not rules.schemas:  # a schema says them, and is compared itself
            columns = self.environment.ports.source.columns()
        types = {each.name: str(each.type) for each in columns or ()}
        changes = ", ".join(
            f"{name}: {kind}, was {self._types[name]}"
            for name, kind in types.items()
            if self._types.get(name, kind) != kind
        )
        self._types = types or self._types
        if changes:
            self.environment.observer(ColumnTypesChanged(self.publication.name, changes))

    def _caught_up(self, state: PublicationState, fixed: Stands | None) -> bool:
        """End where there is a place to end at, and all of it was known; return whether there is.

        Raises UnavailableError (P250): where a part of the source ends is not known even now.
        """
        if fixed is None:
            return False
        self.environment.ports.source.require_known()
        ends = self.environment.ports.source.ends()
        late = {of: ends[of] for of in state.stands.keys() & (ends.keys() - fixed.keys())}
        self._fixed = {**fixed, **late}
        if not late:
            self.end(CAUGHT_UP)
        return True

    def _searched(self, planned: Sequence[Stretch], limit: EpochLimit) -> Sequence[Stretch]:
        """Return what is tried next where a row is sought that kills; none where none is left."""
        if not planned:
            self._search.end()
            return []
        tried = self._search.tried(planned, limit)
        if not self._search.is_found:
            return tried
        return [self._search.refused(self.publication, each) for each in tried]

    def _begin(self) -> None:
        publication, environment = self.publication, self.environment
        former = self._former  # who has it afterwards took it over: it is not taken back
        takeover = self.takeover and former is None
        claim = claimed(publication, environment, takeover=takeover, former=former)
        self._claim, self._former = claim, claim.claim
        self._state = start(Run(publication, environment, claim))
        self.publication = publication.without_consent
        self.error, self._doubts = None, 0
        ends = environment.ports.source.ends()
        if self.until != "stopped" and self._fixed is None:
            self._fixed = ends
        self._began = environment.clock.monotonic() - publication.interval_seconds
        environment.observer(
            PublicationStarted(
                publication.name,
                publication.into,
                claim.claim.generation,
                self._state.epoch,
                environment.ports.source.count(self._state.stands, ends),
            )
        )

    def _epoch(
        self,
        run: Run,
        state: PublicationState,
        stretches: Sequence[Stretch],
        ends: Stands,
        limit: EpochLimit,
    ) -> bool:
        begun = self.environment.clock.monotonic()
        environment = self.environment
        try:
            if environment.ports.producers.terms.protocol < PROTOCOL_2:
                found = publish_shares(run, state, stretches)
            else:
                found = publish_epoch(share_of(run), state, stretches)
        except UnavailableError as error:
            if error.code == SOURCE_RAISED:  # nothing of it was sent, and no smaller part will do
                raise
            found = InDoubt(error.message, died=error.code == DIED)
        except (DecisionNeededError, InvalidError) as error:
            source = self.environment.ports.source
            require_source(self.publication, source, state.stands, instead_of=error)
            raise
        if found is None:
            return False
        if isinstance(found, InDoubt):
            is_narrower = found.died and not self._search.is_found
            if is_narrower:
                rows = sum(each.rows for each in stretches)
                self._search.died(stretches, limit.rows_max if self.publication.reads_own else rows)
            self._state = self._renewed(run, state, found, counts=not is_narrower)
            return True
        if self._search.within:
            self._search.lived(stretches, sum(map(_read, found.receipts)))
        self._doubts = 0 if found.doubt is None else self._doubts
        self._pace.spend(begun, sum(map(_sent, found.receipts)), found.sent_bytes)
        self._note(found, environment.clock.monotonic() - begun, ends)
        self._look_for_fields(stretches, sum(map(_read, found.receipts)))
        if self._is_cut(found.state, stretches):  # what is left of the plan waits for no interval
            self._began -= self.publication.interval_seconds
        if found.doubt is not None:
            self._state = self._renewed(run, found.state, found.doubt, counts=True)
            return True
        if self.until == "once":
            self.end(ONCE)
        return True

    def _look_for_fields(self, stretches: Sequence[Stretch], rows: int) -> None:
        """Tell once, after a transaction of some size, of fields that no record has."""
        look = self.environment.absent_fields
        if look is None or self._has_looked or rows < LOOKED_AT_MIN:
            return
        self._has_looked = True
        with suppress(PenstockError):  # it was published, and is read again only to be looked at
            found, name = look(stretches), self.publication.name
            if found.fields:
                self.environment.observer(FieldsAbsent(name, found.records, found.words()))

    def _is_cut(self, state: PublicationState, stretches: Sequence[Stretch]) -> bool:
        """Return whether less was read of a topic than was planned: it was too large, or late."""
        stops = {each.of: each.stop for each in stretches}
        source = self.environment.ports.source
        return self.publication.reads_topic and source.count(state.stands, stops) > 0

    def _note(self, found: Published, seconds: float, ends: Stands) -> None:
        self._state = found.state
        self.transactions += len(found.receipts)
        backlog = self.environment.ports.source.count(found.state.stands, ends)
        for receipt in found.receipts:
            self.rows += receipt.published
            self.rejected += receipt.totals.rejected
            self.environment.observer(
                RowsPublished(
                    self.publication.name,
                    self.publication.into,
                    receipt.epoch,
                    receipt.published,
                    sum(at.topic == self.publication.into for at in receipt.targets),
                    seconds,
                    backlog,
                    receipt.filtered,
                    receipt.rejected,
                )
            )

    def _renewed(
        self, run: Run, state: PublicationState, doubt: InDoubt, *, counts: bool
    ) -> PublicationState:
        """Find out what came of an epoch, under a new term; too many that count end the run.

        One whose batches were too large is tried again with smaller ones, however often that is.
        """
        known, limit = state.batch_bytes_max, doubt.batch_bytes_max
        is_smaller = limit is not None and (known is None or limit < known)
        self._doubts += counts and not is_smaller
        epoch = state.epoch + 1
        self.environment.observer(TransactionGivenUp(self.publication.name, epoch, doubt.reason))
        if self._doubts > DOUBTS_MAX:
            raise UnavailableError(
                f"{self.publication.name}: {self._doubts} transactions in a row came to nothing,"
                f" the last one because {doubt.reason}",
                code="P814",
                hint="ask all that it needs:  penstock doctor",
            )
        found = renew_and_look(run, state, doubt.sent)
        if found.epoch > state.epoch:  # it had ended after all
            self._doubts = 0
            self.transactions += found.epoch - state.epoch
            self.rows += found.totals.published - state.totals.published
            self.rejected += found.totals.rejected - state.totals.rejected
        return replace(found, batch_bytes_max=limit if is_smaller else known)

    def _abort(self) -> None:
        """Abort what may be open, so that no reader waits for it until its time is over."""
        if self._state is not None:
            with suppress(PenstockError):
                self.environment.ports.producers.terms.renew(
                    self.publication.transactional_id, self._state.term
                )

    def _limit(self) -> EpochLimit:
        """Return what the next epoch may hold: half as much after each that came to nothing."""
        limit = self._pace.limit(self.publication.limit)
        if self._search.within:
            limit = self._search.limit(limit)
        return EpochLimit(
            max(limit.rows_max >> self._doubts, 1), max(limit.bytes_max >> self._doubts, 1)
        )


def stopped_by(publication: Publication, error: PenstockError, until: Until) -> PublicationStopped:
    """Return the event of an error: it ends the publication, or what it tells of is waited for."""
    waits = isinstance(error, UnavailableError) and until == "stopped"
    return PublicationStopped(
        publication.name, error.message, clean=False, code=error.code, waits=waits
    )


def share_of(run: Run) -> Share:
    """Return the only task of a publication whose workers share a term."""
    environment, ports = run.environment, run.environment.ports
    return Share(
        run.publication, ports.targets, ports.producers, environment.engine, environment.observer
    )


def _sent(receipt: Receipt) -> int:
    return sum(batches.records for batches in receipt.targets.values())


def _read(receipt: Receipt) -> int:
    return receipt.published + receipt.totals.rejected + receipt.totals.filtered
