"""What a look at the outside found: one fact for each thing looked at, good or bad.

Invariant: what is not well has a code or says in words what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.core.errors import PenstockError


class Standing(StrEnum):
    """How well a thing is: `odd` works, and deserves a look; `unknown` could not be checked."""

    GOOD = "good"
    ODD = "odd"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check on one subject: a sentence, and the next command or act.

    `exit_code` is what a run would end with for it; 0 unless the standing is bad.
    """

    check: str
    subject: str
    standing: Standing
    message: str
    hint: str = ""
    code: str = ""
    exit_code: int = 0


def good(check: str, subject: str, message: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(check, subject, Standing.GOOD, message)


def odd(check: str, subject: str, message: str, hint: str) -> Finding:
    """Return a finding of something that works and deserves a look."""
    return Finding(check, subject, Standing.ODD, message, hint)


def unseen(check: str, subject: str, message: str, hint: str) -> Finding:
    """Return a finding of something that could not be checked."""
    return Finding(check, subject, Standing.UNKNOWN, message, hint)


def bad(check: str, subject: str, error: PenstockError) -> Finding:
    """Return a finding of what a run would end with."""
    return Finding(
        check, subject, Standing.BAD, error.message, error.hint, error.code, error.exit_code
    )
