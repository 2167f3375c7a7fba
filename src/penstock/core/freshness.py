"""Whether a table is as fresh as was promised: pure, judged by its valid-through and the time.

Invariant: a table that nothing waits for is fresh, however long ago its last record came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

BROKEN_AFTER = 2
"""A promise is broken once the age is more than so many times what was promised."""
LATE_EXIT, BROKEN_EXIT = 10, 11


class Freshness(StrEnum):
    """How a table keeps its promise."""

    FRESH = "fresh"
    LATE = "late"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Promise:
    """What was promised of a table, and how it is kept; `age_ms` is None where nothing landed."""

    promised_ms: int
    age_ms: int | None
    state: Freshness


def judged(
    promised_ms: int, valid_through_ms: int | None, lag_records: int | None, now_ms: int
) -> Promise:
    """Judge a promise; None for a lag that is not known, and for a table without valid-through."""
    age_ms = None if valid_through_ms is None else max(now_ms - valid_through_ms, 0)
    if lag_records == 0:
        state = Freshness.FRESH
    elif age_ms is None or age_ms > BROKEN_AFTER * promised_ms:
        state = Freshness.BROKEN
    else:
        state = Freshness.LATE if age_ms > promised_ms else Freshness.FRESH
    return Promise(promised_ms, age_ms, state)


def exit_code_of(promises: Iterable[Promise]) -> int:
    """Return 0 where all are kept, 10 where one is late, 11 where one is broken."""
    states = {each.state for each in promises}
    if Freshness.BROKEN in states:
        return BROKEN_EXIT
    return LATE_EXIT if Freshness.LATE in states else 0
