"""What the store asks of a database: transactions of three kinds, and errors in our words."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import Connection

from penstock.core.errors import UnavailableError


class Database(Protocol):
    """Opens transactions; foreign exceptions end in its connector.

    A writing transaction is alone with its pipeline: what it read cannot change beneath it. It is
    durable when the block was left without an error.
    """

    def creating(self, pipeline: str) -> AbstractContextManager[Connection]:
        """Write in one transaction; the tables are created when they are not there (any more)."""
        ...

    def writing(self, pipeline: str) -> AbstractContextManager[Connection]:
        """Write in one transaction. Raises UnavailableError (P502) when the tables are lost."""
        ...

    def reading(self) -> AbstractContextManager[Connection | None]:
        """Read in one transaction; None when there are no tables yet."""
        ...

    def lost(self) -> UnavailableError:
        """Return the error of a store that is not the one we began with."""
        ...

    def close(self) -> None:
        """Close connections; the next use opens them again."""
        ...
