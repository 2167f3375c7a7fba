"""Everything that a publication reports; see `events.py`."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.events import Event


@dataclass(frozen=True, slots=True)
class PublicationStarted(Event):
    """A publication has its term and goes on from its ledger; `backlog` counts the rows to read."""

    publication: str
    into: str
    generation: int
    epoch: int
    backlog: int


@dataclass(frozen=True, slots=True)
class RowsPublished(Event):
    """A transaction ended: its rows are visible; `lag` counts the rows that are left."""

    publication: str
    into: str
    epoch: int
    rows: int
    partitions: int
    seconds: float
    lag: int


@dataclass(frozen=True, slots=True)
class TransactionGivenUp(Event):
    """A transaction was not ended, or nobody knows: it is looked for, and made again."""

    publication: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class PublicationStopped(Event):
    """A publication ended, or waits; `code` is that of its error."""

    publication: str
    reason: str
    clean: bool
    code: str = ""
