"""The exchange: rows of one partition of a table meet in one task, through files of the table's
own storage.

Rules of every implementation, which the contract suite checks:
- rows of one partition are in blocks of one part, whichever process hashed them;
- what is read is what was written, or an error: a file that is lost, cut short or another one is
  never taken for rows;
- only files of the exchange are ever deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.core.exchange import ExchangeFile, Share
from penstock.ports.writers import Distribution

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.ports.runtime import Observer, Secrets


class ExchangeWriter(Protocol):
    """Takes the rows that one task read for one table."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows, as `FileWriter` does. Raises UnavailableError (disk full, no storage)."""

    def close(self) -> Sequence[ExchangeFile]:
        """Finish and describe the file; none where there were no rows. `ranges` are left empty."""

    def abandon(self) -> None:
        """Let go of what is open; deletes nothing."""


class Exchange(Protocol):
    """The exchange of one table's rows."""

    def writer(self, prefix: str) -> ExchangeWriter:
        """Open a writer; `prefix` begins the file's name, a random part is added."""

    def read(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a share, file by file, those of a part in the order of writing.

        Raises UnavailableError (P481) where a file is not there, or not as it was written.
        """

    def discard(self, paths: Iterable[str]) -> None:
        """Delete exchange files; what cannot be deleted is left over, without an error."""


class ExchangeFactory(Protocol):
    """Opens the exchange of a table from its `target`."""

    def __call__(
        self, target: str, distribution: Distribution, *, observer: Observer
    ) -> Exchange | None:
        """Return None where rows of the table are not exchanged: it has no partitions, or neither
        `distribution` nor the table itself asks for it.
        """


Exchanges = Callable[[str], ExchangeFactory | None]
"""The exchanges of a connector, by its name."""


def no_exchange(connector: str) -> ExchangeFactory | None:
    """Return None for any connector: no rows are exchanged."""
    del connector
    return None


class ExchangeOpener(Protocol):
    """Opens an exchange as a connector offers it: references in the target are resolved here."""

    def __call__(
        self, target: str, distribution: Distribution, *, observer: Observer, secrets: Secrets
    ) -> Exchange | None:
        """Like `ExchangeFactory`; raises InvalidError when a reference is not there."""
