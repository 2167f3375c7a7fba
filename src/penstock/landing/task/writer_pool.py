"""The open writers of a job, by table, bounded in what they hold together.

Invariant: writers together took at most `bytes_max` and one batch since they were opened; the
fullest is finished first, and what it wrote is kept until its table is closed. So a thousand tables
in one task need the memory of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock.core.errors import PenstockError
from penstock.landing.foreign_errors import WRITE, converting

if TYPE_CHECKING:
    import pyarrow as pa


Described = TypeVar("Described")
Described_co = TypeVar("Described_co", covariant=True)


class Writer(Protocol[Described_co]):
    """A writer of files that are described so: of a table's, or of an exchange's."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows."""

    def close(self) -> Sequence[Described_co]:
        """Finish all files and describe them."""

    def abandon(self) -> None:
        """Let go of open files; deletes nothing."""


@dataclass(slots=True)
class WriterPool(Generic[Described]):
    """Opens a writer for a table when it is first written to."""

    open: Callable[[str], Writer[Described]]
    bytes_max: int
    _writers: dict[str, Writer[Described]] = field(default_factory=dict)
    _held: dict[str, int] = field(default_factory=dict)
    _finished: dict[str, list[Described]] = field(default_factory=dict)
    _broken: dict[str, PenstockError] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """List the tables that got rows."""
        return [*dict.fromkeys((*self._finished, *self._writers, *self._broken))]

    def write(self, name: str, rows: pa.RecordBatch) -> None:
        """Pass rows to a table's writer. Raises what that raises, or raised before."""
        self._require_whole(name)
        if name not in self._writers:
            self._writers[name] = self.open(name)
        self._writers[name].write(rows)
        self._held[name] = self._held.get(name, 0) + rows.nbytes
        while len(self._held) > 1 and sum(self._held.values()) > self.bytes_max:
            self._finish_early(max(self._held, key=self._held.__getitem__))

    def close(self, name: str) -> list[Described]:
        """Finish a table's files and describe all that it got. Raises like `write`."""
        self._require_whole(name)
        if name in self._writers:
            self._finish(name)
        return self._finished.pop(name, [])

    def abandon(self, name: str) -> None:
        """Let go of a table's rows and files; deletes nothing."""
        self._held.pop(name, None)
        self._finished.pop(name, None)
        writer = self._writers.pop(name, None)
        if writer is not None:
            writer.abandon()

    def _require_whole(self, name: str) -> None:
        if name in self._broken:
            raise self._broken[name]

    def _finish_early(self, name: str) -> None:
        """Finish a table that is not being written to: its error is raised when its turn comes."""
        try:
            with converting(name, WRITE):
                self._finish(name)
        except PenstockError as error:
            self.abandon(name)
            self._broken[name] = error

    def _finish(self, name: str) -> None:
        files = self._writers[name].close()
        self._finished.setdefault(name, []).extend(files)
        del self._writers[name]
        self._held.pop(name, None)
