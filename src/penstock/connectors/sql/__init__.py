"""The pending store in an SQL database: a SQLite file, or PostgreSQL for several hosts.

    sqlite:///./state/shop.db
    postgresql://penstock:${file:/run/secrets/store}@db.internal/penstock

Invariant: importing this package imports no library.
"""

from __future__ import annotations

from penstock.ports.connectors import PORTS_VERSION, StoreConnector
from penstock.ports.leadership import Leadership
from penstock.ports.reports import Reports
from penstock.ports.runtime import Secrets
from penstock.ports.store import PendingStore, StoreAsFound
from penstock.ports.table_locks import TableLocks


def open_sqlite(address: str, secrets: Secrets) -> PendingStore:
    """Open the store in a file; nothing is created before the first claim.

    Raises InvalidError (P508) when the address names no file.
    """
    from penstock.connectors.sql.addresses import path_of
    from penstock.connectors.sql.file import StoreFile
    from penstock.connectors.sql.store import SqlStore

    return SqlStore(StoreFile(path_of(secrets.resolve(address))))


def open_postgresql(address: str, secrets: Secrets) -> PendingStore:
    """Open the store in a PostgreSQL database; nothing is asked or created before its first use.

    Raises InvalidError (P508) when the address names no database, or a reference is not there.
    """
    from penstock.connectors.sql.addresses import postgresql_url
    from penstock.connectors.sql.server import StoreServer
    from penstock.connectors.sql.store import SqlStore

    return SqlStore(StoreServer(postgresql_url(address, secrets)))


def open_sqlite_as_found(address: str, secrets: Secrets) -> StoreAsFound:
    """Open the store in a file to look at it. Raises what `open_sqlite` and reading raise."""
    from penstock.connectors.sql.addresses import path_of
    from penstock.connectors.sql.as_found import as_found, in_file

    return as_found(in_file(path_of(secrets.resolve(address))))


def open_postgresql_as_found(address: str, secrets: Secrets) -> StoreAsFound:
    """Open the store in PostgreSQL to look at it. Raises what opening and reading it raise."""
    from penstock.connectors.sql.addresses import postgresql_url
    from penstock.connectors.sql.as_found import as_found
    from penstock.connectors.sql.server import StoreServer

    return as_found(StoreServer(postgresql_url(address, secrets)))


def open_leadership(address: str, secrets: Secrets, pipeline: str) -> Leadership:
    """Open the leadership of a pipeline beside its store; nothing is asked before its first use.

    Raises what `open_postgresql` raises.
    """
    from penstock.connectors.sql.addresses import postgresql_url
    from penstock.connectors.sql.leadership import SqlLeadership
    from penstock.connectors.sql.server import StoreServer

    return SqlLeadership(StoreServer(postgresql_url(address, secrets)), pipeline)


def open_table_locks(address: str, secrets: Secrets) -> TableLocks:
    """Open the locks of tables beside the store; nothing is asked before the first one.

    Raises what `open_postgresql` raises.
    """
    from penstock.connectors.sql.addresses import postgresql_url
    from penstock.connectors.sql.server import StoreServer
    from penstock.connectors.sql.table_locks import (
        HELD_SECONDS_MAX,
        WAIT_SECONDS_MAX,
        SqlTableLocks,
    )

    url = postgresql_url(address, secrets)
    waits = {"lock_wait_seconds": WAIT_SECONDS_MAX, "idle_seconds": HELD_SECONDS_MAX}
    return SqlTableLocks(StoreServer(url, **waits))


def open_reports_in_file(address: str, secrets: Secrets) -> Reports:
    """Open what runs say of themselves, in a file beside the store's: `shop.reports.db`.

    Raises what `open_sqlite` raises.
    """
    from penstock.connectors.sql.addresses import path_of
    from penstock.connectors.sql.reports import SqlReports, in_file

    path = path_of(secrets.resolve(address))
    return SqlReports(in_file(path.with_name(f"{path.stem}.reports.db")))


def open_reports(address: str, secrets: Secrets) -> Reports:
    """Open what runs say of themselves, beside the store in PostgreSQL.

    Raises what `open_postgresql` raises.
    """
    from penstock.connectors.sql.addresses import postgresql_url
    from penstock.connectors.sql.reports import SqlReports, in_schema
    from penstock.connectors.sql.server import StoreServer

    return SqlReports(in_schema(StoreServer(postgresql_url(address, secrets))))


sqlite = StoreConnector(
    PORTS_VERSION,
    frozenset({"sqlite"}),
    open_sqlite,
    open_reports=open_reports_in_file,
    open_as_found=open_sqlite_as_found,
)
postgresql = StoreConnector(
    PORTS_VERSION,
    frozenset({"postgresql"}),
    open_postgresql,
    open_leadership=open_leadership,
    open_table_locks=open_table_locks,
    open_reports=open_reports,
    open_as_found=open_postgresql_as_found,
)
