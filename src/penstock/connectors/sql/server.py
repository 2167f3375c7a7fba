"""One PostgreSQL database, its transactions, and what its failures mean.

Invariants:
- a writing transaction holds the lock of its pipeline from its first statement to its end, so that
  a claim is a compare-and-swap and a fenced owner writes nothing;
- a silent process does not keep others out: the server ends a transaction that idles, and a dead
  peer is noticed by both sides within half a minute;
- tables that vanished or are older than what this process wrote are reported as lost (P502), and
  so is a store that a promoted replica, or another server, has taken the place of;
- the driver's and SQLAlchemy's exceptions end here, and no password is in what is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from penstock.connectors.sql.layout import (
    SCHEMA,
    add_later,
    create_in_schema,
    has_later,
    is_in_schema,
)
from penstock.core.errors import InvalidError, PenstockError, UnavailableError

LOCK_WAIT_SECONDS = 5.0
IDLE_SECONDS_MAX = 10.0
_STATEMENT_SECONDS = 30.0
_LOCK_CLASS = 0x50454E53  # "PENS": advisory locks are shared by all programs of a database
_LAYOUT_LOCK = f"{SCHEMA}.layout"
_CONNECTING = {
    "application_name": "penstock",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
_SERVER = (
    "SELECT system_identifier::text || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)"
    " FROM pg_control_system()"
)
_BEGIN = text(
    "SELECT set_config('lock_timeout', :lock, true), set_config('statement_timeout', :each, true),"
    " set_config('idle_in_transaction_session_timeout', :idle, true)"
)
_LOCK = text("SELECT pg_advisory_xact_lock(:class, hashtext(:name))")
_MESSAGE_CHARACTERS_MAX = 300

# postgresql.org/docs/current/errcodes-appendix.html
_GONE = {"42P01", "3F000"}
_LOCKED = {"55P03", "40P01"}
_REFUSED = {"28000", "28P01", "3D000", "42501"}
_UNWRITABLE = {"25006", "53100"}
_LOGIN_WORDS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "not permitted")


class StoreServer:
    """Open connections when first needed; used by any number of threads."""

    def __init__(
        self,
        url: URL,
        *,
        lock_wait_seconds: float = LOCK_WAIT_SECONDS,
        idle_seconds: float = IDLE_SECONDS_MAX,
    ) -> None:
        self._place = _place(url)
        options = {name: value for name, value in _CONNECTING.items() if name not in url.query}
        engine = create_engine(url, connect_args=options, pool_pre_ping=True, hide_parameters=True)
        event.listen(engine, "connect", _note_server)
        self._engine: Engine = engine.execution_options(schema_translate_map={None: SCHEMA})
        waits = {"lock": lock_wait_seconds, "each": _STATEMENT_SECONDS, "idle": idle_seconds}
        self._has_notes = False
        self._waits = {name: str(round(seconds * 1000)) for name, seconds in waits.items()}

    @contextmanager
    def creating(self, pipeline: str) -> Iterator[Connection]:
        """Write in one transaction; the tables are created when they are not there (any more)."""
        with self.translated(), self._engine.begin() as connection:
            connection.execute(_BEGIN, self._waits)
            if not (is_in_schema(connection, self._place) and has_later(connection)):
                _lock(connection, _LAYOUT_LOCK)
                if not is_in_schema(connection, self._place):  # of several, one creates them
                    create_in_schema(connection)
                add_later(connection)
            _lock(connection, pipeline)
            yield connection

    @contextmanager
    def writing(self, pipeline: str) -> Iterator[Connection]:
        """Write in one transaction. Raises UnavailableError (P502) when the tables are lost."""
        with self.translated(), self._engine.begin() as connection:
            connection.execute(_BEGIN, self._waits)
            _lock(connection, pipeline)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection | None]:
        """Read in one transaction; None when there are no tables (any more)."""
        with self.translated(), self._engine.begin() as connection:
            connection.execute(_BEGIN, self._waits)
            yield connection if is_in_schema(connection, self._place) else None

    @contextmanager
    def noting(self, create: Callable[[Connection], None]) -> Iterator[Connection]:
        """Write what may be lost, in one transaction that waits for no disk and for no pipeline.

        `create` makes the tables where this process has not seen them yet.
        """
        try:
            with self.translated(), self._engine.begin() as connection:
                connection.execute(_BEGIN, self._waits)
                connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")
                if not self._has_notes:
                    _lock(connection, _LAYOUT_LOCK)
                    if not is_in_schema(connection, self._place):  # else they would seem foreign
                        raise self.lost()
                    create(connection)
                yield connection
            self._has_notes = True
        except PenstockError:
            self._has_notes = False
            raise

    @contextmanager
    def looking(self, is_there: Callable[[Connection], bool]) -> Iterator[Connection | None]:
        """Read what may be lost, in one transaction; None where its tables are not there."""
        with self.translated(), self._engine.begin() as connection:
            connection.execute(_BEGIN, self._waits)
            yield connection if is_there(connection) else None

    @staticmethod
    def server(connection: Connection) -> str:
        """Name the server and its timeline, which changes as a replica is promoted.

        Return "" for a server that does not tell.
        """
        return str(connection.info.get("server", ""))

    def session(self) -> Connection:
        """Open a connection for one user, without transactions: each statement is one."""
        return self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")

    def lost(self) -> UnavailableError:
        """Return the error of a store that is not the one we began with."""
        return UnavailableError(
            f"the pending store {self._place} was lost: it was dropped, restored from a backup, or "
            "another server has taken its place",
            code="P502",
            hint="start `penstock run` again: the tables know where to continue",
        )

    def close(self) -> None:
        """Close connections; the next use opens them again."""
        self._engine.dispose()

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise errors of the database as errors of ours."""
        try:
            yield
        except DBAPIError as error:
            raise self._translate(error.orig) from error
        except SQLAlchemyError as error:
            raise self._translate(error) from error

    def _translate(self, error: BaseException | None) -> PenstockError:
        state = getattr(error, "sqlstate", None)
        message = " ".join(str(error).split())[:_MESSAGE_CHARACTERS_MAX]
        if state in _GONE:
            return self.lost()
        if state in _LOCKED:
            return UnavailableError(
                f"the pending store {self._place} is locked by another process",
                code="P503",
                hint="see pg_stat_activity (application_name penstock) for its holder; the server "
                "ends a transaction that idles, so start again",
            )
        if state in _REFUSED or (state is None and any(word in message for word in _LOGIN_WORDS)):
            return InvalidError(
                f"the pending store {self._place} rejected the login: {message}",
                code="P511",
                hint=f"try the address with psql; the user needs CREATE on the database once, or a "
                f"schema named {SCHEMA} of its own",
            )
        if state in _UNWRITABLE:
            return UnavailableError(
                f"the pending store {self._place} cannot be written: {message}",
                code="P504",
                hint="name the primary in the address (target_session_attrs=read-write), or make "
                "room on its disk; then start again",
            )
        return UnavailableError(
            f"the pending store {self._place} does not answer: {message}",
            code="P512",
            hint="see that the server is up (`pg_isready -h HOST -p PORT`), then start again",
        )


def _note_server(connection: Any, record: Any) -> None:
    """Ask a new connection which server it is of; neither changes while it lasts."""
    try:
        record.info["server"] = connection.execute(_SERVER).fetchone()[0]
    except psycopg.Error:  # a managed server that does not tell
        record.info["server"] = ""
    connection.rollback()


def _lock(connection: Connection, name: str) -> None:
    connection.execute(_LOCK, {"class": _LOCK_CLASS, "name": name})


def _place(url: URL) -> str:
    """Name the database for people, without a password."""
    user = f"{url.username}@" if url.username else ""
    port = f":{url.port}" if url.port else ""
    return f"postgresql://{user}{url.host or ''}{port}/{url.database}"
