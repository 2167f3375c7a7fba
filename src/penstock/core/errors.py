"""All errors, sorted by what the reader of the message must do.

    PenstockError
    ├── InvalidError          fix your input                      exit 2
    ├── FencedError           a newer owner runs; do not restart  exit 3
    ├── DecisionNeededError   a person must decide                exit 4
    ├── BugError              ours; please report                 exit 70
    ├── UnavailableError      try again later                     exit 75
    ├── ConflictError         certainly not applied; refresh      internal
    └── OutcomeUnknownError   may have been applied; find out     internal

Invariants: a message is one sentence of fact, the hint is the next command or act, the code is
stable (`P` and three digits). A new direct child needs a design note (docs/design/).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.claims import Claim
    from penstock.core.offsets import Offset, TopicPartition

_BY_RANK = (4, 2, 3, 70, 75)
"""Exit codes by rank: what waits for a person comes before what may end by itself."""


class PenstockError(Exception):
    """A fact, its stable code, and what to do next."""

    exit_code = 70

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.add_note(f"{code}  → {hint}" if hint else code)  # for programs, in their tracebacks

    @property
    def line(self) -> str:
        """Return its code and its fact, as they are shown."""
        return f"{self.code}  {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        return (partial(type(self), code=self.code, hint=self.hint), (self.message,))


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
    """Going on would lose or double records, or forget a rollback: a person decides.

    `at` is the record that asks, where it is one; what lies before it may land.
    """

    exit_code = 4
    at: tuple[TopicPartition, Offset] | None = None


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
    """Return the exit code that a person should see first; 0 when there is none but that.

    Source: docs/reference/exit-codes.md, "4 before 2 before 75".
    """
    return min((code for code in codes if code), key=_BY_RANK.index, default=0)
