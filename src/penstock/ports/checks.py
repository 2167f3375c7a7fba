"""Results of checks of the systems outside: one fact for each thing checked, good or bad.

Invariant: what is not well has a code or says in words what to do next.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.core.errors import PenstockError


class CheckStatus(StrEnum):
    """The status of a check; a `warning` works and needs attention, `unknown` was not checked."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check on one subject: a sentence, and the next command or act.

    `exit_code` is what a run would end with for it; 0 unless the status is failed.
    """

    check: str
    subject: str
    status: CheckStatus
    message: str
    hint: str = ""
    code: str = ""
    exit_code: int = 0


def passed(check: str, subject: str, message: str) -> CheckResult:
    """Return a result that all is well."""
    return CheckResult(check, subject, CheckStatus.OK, message)


def warning(check: str, subject: str, message: str, hint: str) -> CheckResult:
    """Return a result of something that works and needs attention."""
    return CheckResult(check, subject, CheckStatus.WARNING, message, hint)


def unknown(check: str, subject: str, message: str, hint: str) -> CheckResult:
    """Return a result of something that could not be checked."""
    return CheckResult(check, subject, CheckStatus.UNKNOWN, message, hint)


def failed(check: str, subject: str, error: PenstockError) -> CheckResult:
    """Return a result of what a run would end with."""
    return CheckResult(
        check, subject, CheckStatus.FAILED, error.message, error.hint, error.code, error.exit_code
    )
