"""What snapshots of a table did to its rows, as a publication reads them.

Rules that every implementation keeps, and the contract suite checks (docs/design/0284):
- a file never changes, and with other deleted rows it has another `identity`;
- sequence numbers grow along a table's history, and a file has that of the snapshot that added it
  or, where it was rewritten, of a later one: it holds no row that is younger than its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from penstock.core.commits import DataFile

if TYPE_CHECKING:
    import pyarrow as pa

NO_SNAPSHOT = -1
"""The snapshot of a table that has none."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A data file as one snapshot sees it.

    `rows` were written, `live` of them are not deleted; `identity` is its path and what says which
    are deleted. `sequence` and, among files of one, `written_ms` say in which order files came.
    """

    path: str
    rows: int
    live: int
    sequence: int
    size_bytes: int
    identity: str
    written_ms: int = 0
    handle: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class TableHead:
    """The newest snapshot of a table, and how many rows are live there."""

    uuid: str
    snapshot: int
    sequence: int
    records: int
    handle: Any = field(default=None, repr=False, compare=False)


class Effect(StrEnum):
    """What a snapshot did to the rows of the one before; `KEPT` moved files, `NONE` nothing."""

    NONE = "none"
    APPENDED = "appended"
    KEPT = "kept"
    REMOVED = "removed"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class TableStep:
    """One snapshot: its effect, and `act`, the word that the table has for it."""

    snapshot: int
    sequence: int
    effect: Effect
    act: str


@dataclass(frozen=True, slots=True)
class StepsSince:
    """The snapshots behind a former one, oldest first; None where they cannot be listed.

    `left` says why the former one is no part of the table's history any more; with "" and None it
    is not known: snapshots are expired.
    """

    steps: Sequence[TableStep] | None = None
    left: str = ""


class Increments(Protocol):
    """Lists what the snapshots of one table added; on the driver."""

    def head(self) -> TableHead:
        """Read the table afresh. Raises UnavailableError, InvalidError (P436)."""

    def since(self, head: TableHead, snapshot: int, sequence: int) -> StepsSince:
        """List the snapshots that led to a head from a former one."""

    def added(self, head: TableHead, snapshot: int) -> Sequence[SourceFile]:
        """List the files that a snapshot added, which appended them, in any order."""

    def live(self, head: TableHead, snapshot: int) -> Sequence[SourceFile] | None:
        """List the files that a snapshot sees, in any order; None where it is gone."""

    def columns(self, head: TableHead) -> pa.Schema:
        """Return the columns that a worker reads of any file, `POSITION` aside."""

    def work(self, head: TableHead) -> str:
        """Return what workers open files with: columns and storage, no secret of the spec."""

    def detail(self, head: TableHead, file: SourceFile) -> str:
        """Return how a worker reads one file, as it was listed: its place and its deleted rows."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class ReadableFiles:
    """What workers open files of a table with, and how each is read (`FileRows`)."""

    work: str
    details: tuple[str, ...]


class FileRows(Protocol):
    """Reads files of tables on a worker."""

    def read(self, work: str, detail: str, *, start: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of a file in their order; the last column is `POSITION`.

        All from the place `start` on are there, and of those before it as many as come cheaper.
        Raises UnavailableError (P403: the file is gone), InvalidError.
        """

    def written(self, work: str, file: DataFile) -> str:
        """Return how a file is read that was written for the table: all of its rows are live.

        Raises InvalidError (P439).
        """
