"""Tables that stand aside: why, since when, and when they are tried again."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.errors import DecisionNeededError, PenstockError, UnavailableError
from penstock.landing.settings import Place


@dataclass(frozen=True, slots=True)
class Aside:
    """Why a table stands aside. `quiet` when it only fell out of step with what was planned."""

    error: PenstockError
    since: float
    retry_at: float
    tries: int
    quiet: bool

    @property
    def final(self) -> bool:
        """Tell whether only a human can bring it back."""
        return isinstance(self.error, DecisionNeededError)


def missing(place: Place) -> UnavailableError:
    """Say that a table with pending commits is not there."""
    return UnavailableError(
        f"table {place.table} is missing, and commits are prepared for it",
        code="P459",
        hint="restore the table; it goes on by itself where it was",
    )


def away_when_rules_changed(table: str) -> UnavailableError:
    """Say that a table trails under rules that are no longer in force."""
    return UnavailableError(
        f"table {table} was away when the spec changed, and trails the other tables",
        code="P463",
        hint="run again: it is first brought level by the rules it was fed with",
    )
