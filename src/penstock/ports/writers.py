"""Writers of a table's files: on the workers, and on the driver where files are written again.

Rule of every implementation, which the contract suite checks: what `close` describes is whole and
durable on storage; no file is ever deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from penstock.core.commits import DataFile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from penstock.ports.runtime import Observer, Secrets

    Places = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]


class Distribution(StrEnum):
    """How the rows of tasks get into the partitions of a table (docs/design/0320, 0377).

    NONE: into a file for each partition and task. HASH: those of a partition meet in one task
    before they are written. LATE: into one file, without partitions, and into those when the table
    is maintained. AUTO: as the table says; else as a writer finds cheaper, where the table allows
    rows that land late.
    """

    NONE = "none"
    HASH = "hash"
    LATE = "late"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Placing:
    """How rows get into the files of a table; `is_sorted`: by its sort order, where it has one.

    Rows that were in the table before bring columns behind its own: `TableState.row_ids`.
    """

    distribution: Distribution = Distribution.NONE
    is_sorted: bool = False
    row_ids: tuple[str, ...] = ()


AS_THEY_COME = Placing()
"""Rows go into a file for each partition, in the order in which they come."""


class FileWriter(Protocol):
    """Writes rows of one table; rolls files at the target size, buffers row groups."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows with the columns of the schema, in its order and Arrow mapping.

        Raises UnavailableError (disk full, no storage).
        """

    def close(self) -> Sequence[DataFile]:
        """Finish all files and describe them; `ranges` are left empty for the caller to fill in."""

    def places(self) -> Places:
        """Return, of a closed writer that was opened for it, where each row went, in the order of
        writing: its file among those that `close` gave, and its position there, both from 0.
        """

    def abandon(self) -> None:
        """Let go of open files without finishing them; deletes nothing."""


class WriterFactory(Protocol):
    """Opens a writer from a table's `target`."""

    def __call__(
        self,
        target: str,
        *,
        prefix: str,
        observer: Observer,
        places: bool = False,
        placing: Placing = AS_THEY_COME,
    ) -> FileWriter:
        """`prefix` begins every file's name: it attributes leftovers; a random part is added.
        With `places` the writer knows `FileWriter.places`, at the price of 20 bytes for each row;
        it then places no row late. Raises InvalidError (P869) where the table can hold no late
        rows.
        """


class WriterOpener(Protocol):
    """Opens a writer as a connector offers it: references in the target are resolved here."""

    def __call__(
        self,
        target: str,
        *,
        prefix: str,
        observer: Observer,
        secrets: Secrets,
        places: bool = False,
        placing: Placing = AS_THEY_COME,
    ) -> FileWriter:
        """Like `WriterFactory`; raises InvalidError when a reference is not there."""
