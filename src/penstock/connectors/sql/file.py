"""One SQLite file, its transactions, and what its failures mean.

Invariants:
- a transaction that returned is on disk: rollback journal, truncated and synced. `kill -9` and a
  power cut lose nothing that was confirmed, and there is one file to copy or delete: the
  write-ahead log of a deleted file would be played into the next one;
- reading writes nothing: tables are created, and those that came later added, by whoever writes;
- a file that was deleted or replaced under this process is noticed before each transaction and
  reported as lost (P502), never written to in silence;
- SQLite's and SQLAlchemy's exceptions end here.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from penstock.connectors.sql.layout import is_in_file, prepare_file
from penstock.core.errors import InvalidError, PenstockError, UnavailableError

LOCK_WAIT_SECONDS = 5.0


class StoreFile:
    """Open a store file when first needed; one connection, used by one thread at a time.

    `holds` tells whether its tables are there, `prepare` brings them up to date; both are given the
    path for what they raise.
    """

    def __init__(
        self,
        path: Path,
        *,
        lock_wait_seconds: float = LOCK_WAIT_SECONDS,
        holds: Callable[[Connection, str], bool] = is_in_file,
        prepare: Callable[[Connection, str], None] = prepare_file,
        synchronous: Literal["FULL", "OFF"] = "FULL",
    ) -> None:
        self.path = path
        self._holds, self._prepare = holds, prepare
        self._synchronous = synchronous
        self._lock_wait_seconds = lock_wait_seconds
        self._guard = threading.RLock()
        self._engine: Engine | None = None
        self._identity: tuple[int, int] | None = None
        self._is_known = self._is_prepared = False

    @contextmanager
    def creating(self, pipeline: str) -> Iterator[Connection]:
        """Write in one transaction; the file is created when it is not there (any more)."""
        del pipeline  # a file has one lock for all
        with self._guard, self._translated():
            if self._lost():
                self._close()
            if self._engine is None:
                self._make_directory()
                self._open()
            with self._transaction("BEGIN IMMEDIATE") as connection:
                if not self._is_prepared:
                    self._prepare(connection, str(self.path))
                yield connection
            self._is_known = self._is_prepared = True

    @contextmanager
    def writing(self, pipeline: str) -> Iterator[Connection]:
        """Write in one transaction. Raises UnavailableError (P502) when the file is lost."""
        del pipeline
        with self._guard, self._translated():
            if self._lost() or not self._there():
                raise self.lost()
            with self._transaction("BEGIN IMMEDIATE") as connection:
                if not self._knows(connection):
                    raise self.lost()
                yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        """Read in one transaction; None when there is no file yet, or an empty one."""
        with self._guard, self._translated():
            if self._lost():
                raise self.lost()
            if not self._there():
                yield None
                return
            with self._transaction("BEGIN") as connection:
                yield connection if self._knows(connection) else None

    @staticmethod
    def server(connection: Connection) -> str:
        """Return "": a file is of no server."""
        del connection
        return ""

    def lost(self) -> UnavailableError:
        """Return the error of a store that is not the one we began with."""
        return UnavailableError(
            f"the pending store {self.path} was lost: it was deleted, replaced or restored",
            code="P502",
            hint="start `penstock run` again: the tables know where to continue",
        )

    def close(self) -> None:
        """Close the connection; the next use opens the file again."""
        with self._guard:
            self._close()

    def _there(self) -> bool:
        if self._engine is None and self.path.exists():
            self._open()
        return self._engine is not None

    def _lost(self) -> bool:
        return self._engine is not None and _identity_of(self.path) != self._identity

    def _knows(self, connection: Connection) -> bool:
        """Return whether the tables are there; once they were, they are while the file is."""
        self._is_known = self._is_known or self._holds(connection, str(self.path))
        return self._is_known

    def _make_directory(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(self.path, str(error)) from error

    def _open(self) -> None:
        self._engine = create_engine("sqlite://", creator=self._connect, poolclass=StaticPool)
        try:
            self._engine.connect().close()
        except BaseException:
            self._close()
            raise
        self._identity = _identity_of(self.path)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._lock_wait_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA journal_mode = TRUNCATE")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        assert self._engine is not None
        with self._engine.connect() as connection:
            # SQLite's own BEGIN: IMMEDIATE takes the write lock before anything is read, so that
            # what a write was decided on cannot change beneath it.
            connection.exec_driver_sql(begin)
            yield connection
            connection.commit()

    def _close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        self._engine, self._identity = None, None
        self._is_known = self._is_prepared = False

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._translate(error.orig) from error
        except sqlite3.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: BaseException | None) -> PenstockError:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if self._lost() or "no such table" in str(error) or name == "SQLITE_READONLY_DBMOVED":
            return self.lost()
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return UnavailableError(
                f"the pending store {self.path} is locked by another process",
                code="P503",
                hint=f"see which process holds it: `fuser {self.path}`; one stopped in mid-write "
                "keeps it until it goes on or is killed; then start again",
            )
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
            return _unwritable(self.path, str(error))
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return InvalidError(
                f"the pending store {self.path} is damaged or not a database: {error}",
                code="P507",
                hint="move the file away and start again: landed records are not in it",
            )
        return UnavailableError(
            f"the pending store {self.path} cannot be written: {error}",
            code="P504",
            hint=f"free space on its disk (`df -h {self.path.parent}`), then start again",
        )


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - the cheapest form, asked before each transaction
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _unwritable(path: Path, reason: str) -> InvalidError:
    return InvalidError(
        f"the pending store {path} cannot be opened for writing: {reason}",
        code="P506",
        hint="give the directory to this user, or name another file at pending.store in the spec",
    )
