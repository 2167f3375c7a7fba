"""Everything that a publication reports; see `events.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """A transaction ended: its rows are visible; `lag` counts the rows that are left.

    `filtered` and `rejected` are the rows that are no messages, by reason or code.
    """

    publication: str
    into: str
    epoch: int
    rows: int
    partitions: int
    seconds: float
    lag: int
    filtered: Mapping[str, int] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TransactionGivenUp(Event):
    """A transaction was not ended, or nobody knows: it is looked for, and made again."""

    publication: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class ColumnTypesChanged(Event):
    """Columns of a source have other types since its last transaction, and so have their members in
    messages of JSON; `changes` names them.
    """

    publication: str
    changes: str


@dataclass(frozen=True, slots=True)
class FieldsAbsent(Event):
    """Of the records that were looked at none has some fields that the spec reads: they are null in
    every row; `fields` names them, each with one that may be meant.
    """

    publication: str
    records: int
    fields: str


@dataclass(frozen=True, slots=True)
class PublicationStopped(Event):
    """A publication ended, or `waits` and is tried again; `code` is that of its error.

    `generation` is that of its run, 0 before it has claimed the publication.
    """

    publication: str
    reason: str
    clean: bool
    code: str = ""
    waits: bool = False
    generation: int = 0
