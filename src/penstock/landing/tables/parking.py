"""Tables that are parked: why, since when, and when they are tried again.

Invariant: the pause before a table is tried again grows until something of it lands: that it opened
again proves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from penstock.commit.pauses import PAUSED
from penstock.core.errors import (
    BugError,
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.events import TableAbandoned, TableParked
from penstock.core.hold import HELD
from penstock.landing.foreign_errors import acting_on_table
from penstock.landing.settings import TableLocation
from penstock.ports.runtime import Clock, Observer

RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 30.0
OF_ONE_TABLE = (UnavailableError, InvalidError, DecisionNeededError, BugError)
"""What an act on a table raises about this table alone."""
TRIES_MAX = 10
"""How often a table is parked, and nothing of it landed, in a run that ends by itself."""
REJECTED_COMMITS_MAX = 3


@dataclass(frozen=True, slots=True)
class Parked:
    """Why a table is parked. `internal` when it only fell out of step with what was planned.

    `tries` counts how often it was parked since something of it landed.
    """

    error: PenstockError
    since: float
    retry_at: float
    tries: int
    internal: bool

    @property
    def needs_decision(self) -> bool:
        """Return whether only a person can bring it back, or a version that fixes a bug."""
        return isinstance(self.error, DecisionNeededError | BugError)

    @property
    def is_paused(self) -> bool:
        """Return whether it is parked only until a pause is over."""
        return self.error.code == PAUSED

    @property
    def is_held(self) -> bool:
        """Return whether it is parked until it has fewer small files."""
        return self.error.code == HELD


@dataclass(slots=True, eq=False)
class ParkedTables(Mapping[str, Parked]):
    """The parked tables of a run by name. Used by the coordinator's thread only."""

    observer: Observer
    clock: Clock
    _parked: dict[str, Parked] = field(default_factory=dict)
    _recovering: set[str] = field(default_factory=set)
    _without_topics: set[str] = field(default_factory=set)
    _tries: Counter[str] = field(default_factory=Counter)

    def __getitem__(self, name: str) -> Parked:
        return self._parked[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parked)

    def __len__(self) -> int:
        return len(self._parked)

    @contextmanager
    def parking(self, name: str, failing: str) -> Iterator[None]:
        """Park a table for what an act on it raises; `failing` says what cannot be done then, where
        the error is an unforeseen one.
        """
        try:
            with acting_on_table(name, failing):
                yield
        except OF_ONE_TABLE as error:
            self.park(name, error)

    def park(self, name: str, error: PenstockError) -> None:
        """Park a table, loudly; it is tried again after a while unless a person must act."""
        before, now = self._parked.get(name), self.clock.monotonic()
        since = now if before is None else before.since
        self._tries[name] += error.code not in (PAUSED, HELD)
        retry_at = now + retry_delay_seconds(max(self._tries[name], 1))
        self._parked[name] = Parked(error, since, retry_at, self._tries[name], internal=False)
        self._recovering.discard(name)
        if before is None or before.internal or before.error.code != error.code:
            self._report(name)

    def reopen(self, name: str, reason: str) -> None:
        """Leave a table out until its queue is empty, then open it at its real position."""
        self._recovering.discard(name)
        if name not in self._parked:
            now = self.clock.monotonic()
            self._parked[name] = Parked(desynchronized(name, reason), now, now, 0, internal=True)

    def opened(self, name: str) -> None:
        """Note that a table takes part again."""
        self._parked.pop(name, None)

    def commit_succeeded(self, name: str) -> None:
        """Note that commits of a table landed: nothing keeps it any more."""
        del self._tries[name]

    def commit_rejected(self, name: str, reason: str) -> None:
        """Read a table again after a rejected commit; after a pause when that goes on."""
        self._tries[name] += 1
        if self._tries[name] < REJECTED_COMMITS_MAX:
            self.reopen(name, reason)
        else:
            self.park(name, desynchronized(name, reason))

    def due(self, busy: Collection[str], *, patient: bool) -> list[str]:
        """List those that are to be tried again now, but for busy ones and those in recovery.

        A run that is not `patient` tries a table `TRIES_MAX` times at most.
        """
        now = self.clock.monotonic()
        return [
            name
            for name, parked in self._parked.items()
            if not parked.needs_decision
            and parked.retry_at <= now
            and (patient or parked.tries < TRIES_MAX)
            and name not in self._recovering
            and name not in busy
        ]

    def recovery_started(self, name: str) -> None:
        """Note that what is pending for a table is being settled."""
        self._recovering.add(name)

    def recovered(self, name: str) -> Parked | None:
        """Note that it is settled; return why the table was parked."""
        self._recovering.discard(name)
        return self._parked.get(name)

    @property
    def reopening(self) -> bool:
        """Return whether one is about to be opened again without anybody's help."""
        return bool(self._recovering) or any(
            parked.internal
            for name, parked in self._parked.items()
            if name not in self._without_topics
        )

    def report_without_topics(self, routed: Collection[str]) -> None:
        """Wait no more for tables whose topics no longer exist; they return only as others do."""
        before, self._without_topics = self._without_topics, self._parked.keys() - routed
        for name in sorted(self._without_topics - before):
            self.observer(TableAbandoned(name))
        for name in sorted((before & self._parked.keys()) - self._without_topics):
            self._report(name)

    def _report(self, name: str) -> None:
        parked = self._parked[name]
        if not parked.internal:
            self.observer(TableParked(name, parked.error.code, parked.error.message))


def retry_delay_seconds(tries: int) -> float:
    """Return the pause before a table is tried again: it doubles with each try, up to a limit."""
    return min(RETRY_SECONDS * 2.0 ** min(tries - 1, 5), RETRY_SECONDS_MAX)


def desynchronized(table: str, reason: str) -> UnavailableError:
    """Build the error for a table that is at another position than expected."""
    return UnavailableError(f"{table}: {reason}", code="P460", hint="it is opened again")


def table_missing(location: TableLocation) -> UnavailableError:
    """Build the error for a table with pending commits that is not there."""
    return UnavailableError(
        f"table {location.table} is missing, and commits are prepared for it",
        code="P459",
        hint="restore the table; the run continues with it by itself",
    )
