"""What can go wrong, sorted by what the reader of the message must do.

    PenstockError
    ├── InvalidError          fix your input                      exit 2
    ├── FencedError           a newer owner runs; do not restart  exit 3
    ├── DecisionNeededError   a human must decide                 exit 4
    ├── BugError              ours; please report                 exit 70
    ├── UnavailableError      try again later                     exit 75
    ├── ConflictError         certainly not applied; refresh      internal
    └── OutcomeUnknownError   may have been applied; find out     internal

Invariants: a message is one sentence of fact, the hint is the next command or act, the code is
stable (`P` and three digits). A new direct child needs a design note (docs/design/).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.claims import Claim

_BY_RANK = (4, 2, 3, 70, 75)
"""Exit codes by rank: what waits for a human comes before what may end by itself."""


class PenstockError(Exception):
    """A fact, its stable code, and what to do next."""

    exit_code = 70

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.code, self.hint))


class InvalidError(PenstockError):
    """The input is at fault: spec, missing topic, refused permission, unsupported feature."""

    exit_code = 2


class FencedError(PenstockError):
    """A newer owner of the pipeline runs; this one must not be restarted.

    `by` is its claim, where a ledger has it.
    """

    exit_code = 3
    by: Claim | None = None


class DecisionNeededError(PenstockError):
    """Going on would lose or double records, or forget a rollback: a human decides."""

    exit_code = 4


class BugError(PenstockError):
    """A promise of our own code was broken."""

    exit_code = 70


class UnavailableError(PenstockError):
    """Something outside is not there now: broker, catalog, store, Java process, disk."""

    exit_code = 75


class ConflictError(PenstockError):
    """The commit was certainly not applied: the table moved since it was examined."""


class OutcomeUnknownError(PenstockError):
    """The commit may have been applied: read the table before doing anything else."""


def gravest(codes: Iterable[int]) -> int:
    """Return the exit code that a human should see first; 0 when there is none but that.

    Source: docs/reference/exit-codes.md, "4 before 2 before 75".
    """
    return min((code for code in codes if code), key=_BY_RANK.index, default=0)


def _rebuild(kind: type[PenstockError], message: str, code: str, hint: str) -> PenstockError:
    return kind(message, code=code, hint=hint)
