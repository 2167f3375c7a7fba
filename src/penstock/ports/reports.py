"""What a run says of itself, kept beside the pending store for whoever looks from elsewhere.

Advisory, all of it: nothing decides by it, and a store that lost it has lost a repetition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

HAPPENINGS_KEPT = 2_000
"""So many of a pipeline are kept, the newest."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An event in words, as the log has it, at a time of the process that reported it.

    `level` is the log's: info, warning or error.
    """

    at_ms: int
    event: str
    level: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """The status document that the owner last wrote, `age_ms` ago by the store's clock."""

    body: bytes
    age_ms: int


class Reports(Protocol):
    """Keeps the newest status document of each pipeline, and what happened in it last.

    Every call raises UnavailableError when the store does not answer; the next one asks anew.
    """

    def keep(
        self, pipeline: str, generation: int, body: bytes, happenings: Sequence[Happening]
    ) -> None:
        """Replace the document, unless a higher generation wrote it, and add what happened."""

    def newest(self, pipeline: str) -> Report | None:
        """Return the document; None where none was written, or it was lost."""

    def happenings(self, pipeline: str) -> Sequence[Happening]:
        """List what happened, the newest first."""

    def close(self) -> None:
        """Let go of the store."""
