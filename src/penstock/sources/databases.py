"""Databases that queries are read from: opened, and their refusals told from what may pass.

Source: PostgreSQL, "Error Codes"; "The Cumulative Statistics System", pg_stat_activity; "System
Views", pg_prepared_xacts.
"""

from __future__ import annotations

import datetime as dt
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, make_url, text
from sqlalchemy.exc import DataError, DBAPIError, OperationalError, ProgrammingError

from penstock.core.errors import InvalidError, UnavailableError

POSTGRESQL = "postgresql"
_DRIVERS = {POSTGRESQL: "postgresql+psycopg", "sqlite": "sqlite"}
_OPEN = """
    SELECT pg_is_in_recovery(), clock_timestamp(), bool_or(hidden), min(since),
        (array_agg(who ORDER BY since))[1] FROM (
        SELECT state IS NULL AND backend_type IS NULL AS hidden, xact_start AS since,
            'pid ' || pid || coalesce(', ' || state, '') AS who
            FROM pg_stat_activity WHERE pid <> pg_backend_pid()
            AND coalesce(backend_type, 'client backend') = 'client backend'
        UNION ALL SELECT false, prepared, 'prepared as ' || gid
            FROM pg_prepared_xacts WHERE database = current_database()
    ) AS found"""
_NOT_LET_IN = re.compile(
    r'(?:role|database) ".*" does not exist|password authentication failed|no pg_hba\.conf entry'
    r"|is not permitted to log in"
)
"""What PostgreSQL says to whom it never lets in: the driver has no code for it."""


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The time of a database, since when its oldest open transaction is open, and whose it is."""

    now: dt.datetime
    since: dt.datetime | None
    who: str = ""


def opened(database: str, password: str | None) -> Engine:
    """Open a database of PostgreSQL or SQLite. Raises InvalidError (P858)."""
    scheme = database.partition(":")[0]
    if scheme not in _DRIVERS:
        raise InvalidError(
            f"no rows are read from {scheme}:…",
            code="P858",
            hint="write  from.database  as  postgresql://user@host/database  or  sqlite:///./file.db",
        )
    url = make_url(database).set(drivername=_DRIVERS[scheme])
    if scheme == "sqlite" and not Path(url.database or "").is_file():  # SQLite would create it
        raise InvalidError(
            f"there is no database {url.database}",
            code="P858",
            hint="correct  from.database  in the spec",
        )
    if password is not None:
        url = url.set(password=password)
    options = {"options": "-c timezone=UTC -c default_transaction_read_only=on"}
    given = {**options, "connect_timeout": 10} if scheme == POSTGRESQL else {}
    return create_engine(url, connect_args=given, pool_pre_ping=True, hide_parameters=True)


@contextmanager
def connected(engine: Engine) -> Iterator[Connection]:
    """Give a connection.

    Raises InvalidError: the database lets the user never in (P858), or refuses a query, or has a
    value that cannot be read (P893); and what may pass, as it is.
    """
    try:
        with engine.connect() as connection:
            yield connection
    except (DataError, OperationalError, ProgrammingError) as error:
        said = str(error.orig).splitlines()[0]
        if found := _NOT_LET_IN.search(str(error.orig)):
            raise InvalidError(
                f"the database {engine.url.host} does not let {engine.url.username or 'us'} in:"
                f" {found[0]}",
                code="P858",
                hint="correct  from.database  or  from.password  in the spec, or the user's rights"
                " there",
            ) from error
        if not _is_refusal(error):
            raise
        raise InvalidError(
            f"the database refuses the query: {said}",
            code="P893",
            hint="correct  from.query  or  from.cursor  in the spec; of values that cannot be read,"
            " as times without end, give others in the query:  NULLIF(at, 'infinity')",
        ) from error


def open_transactions(engine: Engine) -> OpenTransactions:
    """Ask PostgreSQL which transaction is open for longest. Raises InvalidError (P858)."""
    with connected(engine) as connection:
        standby, now, hidden, oldest, who = connection.execute(text(_OPEN)).one()
    if standby or hidden:
        fact = "it is a standby" if standby else "its user may not see those of others"
        raise InvalidError(
            f"the database {engine.url.host} does not say which transactions are open: {fact}",
            code="P858",
            hint="read from the primary; GRANT pg_read_all_stats TO the user",
        )
    return OpenTransactions(now, oldest, who or "")


def held_up(found: OpenTransactions) -> UnavailableError:
    """Return the error for what keeps a first end from being safe: a transaction, or `settle`."""
    if found.since is None:
        fact = "the first rows wait until  settle  is over"
    else:
        seconds = (found.now - found.since).total_seconds()
        fact = (
            f"a transaction of the database is open since {seconds:.0f} seconds ({found.who}), and"
            " may add rows before those that are there"
        )
    return UnavailableError(
        fact,
        code="P894",
        hint="end it:  SELECT pg_terminate_backend(PID);  those that are forgotten end by"
        "  idle_in_transaction_session_timeout",
    )


def _is_refusal(error: DBAPIError) -> bool:
    """Say whether a database refuses a statement for what it says, and always will."""
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return isinstance(error, DataError | ProgrammingError)
