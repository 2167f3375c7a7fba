"""What a look at the outside found: one fact for each thing looked at, good or bad.

Invariant: what is not well has a code or says in words what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.core.errors import PenstockError


class CheckStatus(StrEnum):
    """How well a thing is: `odd` works, and deserves a look; `unknown` could not be checked."""

    OK = "good"
    WARNING = "odd"
    FAILED = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check on one subject: a sentence, and the next command or act.

    `exit_code` is what a run would end with for it; 0 unless the standing is bad.
    """

    check: str
    subject: str
    standing: CheckStatus
    message: str
    hint: str = ""
    code: str = ""
    exit_code: int = 0


def passed(check: str, subject: str, message: str) -> CheckResult:
    """Return a finding that all is well."""
    return CheckResult(check, subject, CheckStatus.OK, message)


def warning(check: str, subject: str, message: str, hint: str) -> CheckResult:
    """Return a finding of something that works and deserves a look."""
    return CheckResult(check, subject, CheckStatus.WARNING, message, hint)


def unknown(check: str, subject: str, message: str, hint: str) -> CheckResult:
    """Return a finding of something that could not be checked."""
    return CheckResult(check, subject, CheckStatus.UNKNOWN, message, hint)


def failed(check: str, subject: str, error: PenstockError) -> CheckResult:
    """Return a finding of what a run would end with."""
    return CheckResult(
        check, subject, CheckStatus.FAILED, error.message, error.hint, error.code, error.exit_code
    )
