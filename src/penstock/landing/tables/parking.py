"""Tables that are parked: why, since when, and when they are tried again."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.errors import (
    BugError,
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.landing.settings import TableLocation

RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 30.0
OF_ONE_TABLE = (UnavailableError, InvalidError, DecisionNeededError, BugError)
"""What an act on a table raises about this table alone."""
TRIES_MAX = 10
"""How often a table is parked, and nothing of it landed, in a run that ends by itself."""


@dataclass(frozen=True, slots=True)
class Parked:
    """Why a table is parked. `quiet` when it only fell out of step with what was planned.

    `tries` counts how often it was parked since something of it landed.
    """

    error: PenstockError
    since: float
    retry_at: float
    tries: int
    internal: bool

    @property
    def needs_decision(self) -> bool:
        """Return whether only a human can bring it back, or a version that mends a bug."""
        return isinstance(self.error, DecisionNeededError | BugError)

    def is_due(self, now: float, *, patient: bool) -> bool:
        """Return whether it is to be tried again; in a run without patience that has an end."""
        return (
            not self.needs_decision and self.retry_at <= now and (patient or self.tries < TRIES_MAX)
        )


def retry_delay_seconds(tries: int) -> float:
    """Return the pause before a table is tried again: it doubles each time, to half a minute."""
    return min(RETRY_SECONDS * 2.0 ** min(tries - 1, 5), RETRY_SECONDS_MAX)


def desynchronized(table: str, reason: str) -> UnavailableError:
    """Build the error for a table whose position is not the expected one."""
    return UnavailableError(f"{table}: {reason}", code="P460", hint="it is opened again")


def table_missing(place: TableLocation) -> UnavailableError:
    """Build the error for a missing table with pending commits."""
    return UnavailableError(
        f"table {place.table} is missing, and commits are prepared for it",
        code="P459",
        hint="restore the table; the run continues with it by itself",
    )


def missed_spec_change(table: str) -> UnavailableError:
    """Build the error for a table that trails under rules no longer in force."""
    return UnavailableError(
        f"table {table} was unavailable when the spec changed, and is behind the other tables",
        code="P463",
        hint="run again: it first catches up under its former rules",
    )
