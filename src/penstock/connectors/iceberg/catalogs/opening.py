"""Opens catalogs with a timeout on every request: PyIceberg sets none.

Invariants:
- every request counts, those that open the catalog and fetch its token as well; not those of an
  `auth:` block in the user's own PyIceberg configuration, which asks by itself;
- an answer that is late is one that was lost: reading can be repeated, and what a commit did is
  found out by reading the table again (protocol.md 5);
- a PostgreSQL database and Glue get ours where address and settings name none; other databases have
  those of their address;
- what is opened read-only is never created or changed. PyIceberg's SQL catalog creates its database
  and its tables when it is opened, so one that is not there yet is taken for an empty one, held in
  memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sqlalchemy
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import IcebergTables as TablesOfCatalog
from pyiceberg.utils.config import Config, merge_config

from penstock.connectors.iceberg.catalogs.by_pointer import OwnInMemory, OwnSql
from penstock.connectors.iceberg.catalogs.rest import TimedRest
from penstock.connectors.iceberg.errors import no_room_for, reading
from penstock.files.directories import why_not_made
from penstock.files.errors import first_line

_SQLITE = "sqlite:///"
_EMPTY = {"uri": "sqlite://", "init_catalog_tables": "true"}
_LIBPQ = {"postgresql", "postgresql+psycopg", "postgresql+psycopg2"}
_BOUNDS = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}


def opened(name: str, given: Mapping[str, str], timeout_seconds: float) -> Catalog:
    """Open a catalog by its type. Raises what PyIceberg raises.

    As PyIceberg does, it takes what `given` leaves out from the user's PyIceberg configuration.
    """
    found: Any = merge_config(Config().get_catalog_config(name) or {}, {**given})
    match given.get("type"):
        case "rest" if "uri" in found:
            return TimedRest(name, timeout_seconds, **found)
        case "hive" if "uri" in found and find_spec("thrift"):
            from penstock.connectors.iceberg.catalogs.hive import TimedHive

            return TimedHive(name, timeout_seconds, **found)
        case "glue" if find_spec("boto3"):
            from penstock.connectors.iceberg.catalogs.glue import TimedGlue

            return TimedGlue(name, timeout_seconds, **found)
        case "sql" if "uri" in found:
            return OwnSql(name, **{**found, "uri": with_timeouts(found["uri"])})
        case "in-memory":
            return OwnInMemory(name, **found)
    return load_catalog(name, **given)


def with_timeouts(uri: str) -> str:
    """Return the address of a PostgreSQL database with bounds on its silence; others as they are.

    What the address says by itself counts. Source: libpq, "Parameter Key Words".
    """
    try:
        url = sqlalchemy.make_url(uri)
    except sqlalchemy.exc.ArgumentError:
        return uri
    if url.drivername not in _LIBPQ:
        return uri
    bounds = {name: value for name, value in _BOUNDS.items() if name not in url.query}
    return url.update_query_dict(bounds).render_as_string(hide_password=False)


def read_only_settings(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to open a catalog without changing it. Raises UnavailableError (P430).

    A SQLite file is opened to be written: what a killed writer has not committed is taken back by
    who opens it next. Source: SQLite, "Hot Rollback Journals".
    """
    if given.get("type", "") != "sql":
        return {**given}
    uri = given.get("uri", "")
    path = uri.removeprefix(_SQLITE)
    if path != uri:
        if not Path(path).exists():
            return {**given, **_EMPTY}
        uri = f"{_SQLITE}file:{path}?mode=rw&uri=true"
    if not _has_tables(name, uri):
        return {**given, **_EMPTY}
    return {**given, "uri": uri, "init_catalog_tables": "false"}


def require_room(uri: str) -> None:
    """Raise InvalidError (P431) where a run could not create the database of a SQLite catalog."""
    path = Path(uri.removeprefix(_SQLITE))
    if not uri.startswith(_SQLITE) or path.exists():
        return
    if why := why_not_made(path.parent):
        raise no_room_for(path, why)


def make_room(uri: str) -> None:
    """Create the directory of a SQLite catalog, so that a first run needs no preparation.

    Raises InvalidError (P431).
    """
    path = uri.removeprefix(_SQLITE)
    if path != uri and path and not path.startswith(":"):
        file = Path(path.partition("?")[0])
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise no_room_for(file, first_line(error)) from error


def _has_tables(name: str, uri: str) -> bool:
    engine = sqlalchemy.create_engine(with_timeouts(uri))
    try:
        with reading(f"catalog {name}"), closing(engine.connect()) as connection:
            return bool(sqlalchemy.inspect(connection).has_table(TablesOfCatalog.__tablename__))
    finally:
        engine.dispose()
