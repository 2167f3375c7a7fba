"""Settings by which an Iceberg catalog is looked at and never created or changed.

PyIceberg's SQL catalog creates its database and its tables when it is opened. To look at one, a
database that is not there yet is taken for an empty one, held in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import sqlalchemy
from pyiceberg.catalog.sql import IcebergTables as TablesOfCatalog

from penstock.connectors.iceberg.catalogs.timeouts import with_timeouts
from penstock.connectors.iceberg.errors import no_room_for, reading
from penstock.files.directories import why_not_made

_SQLITE = "sqlite:///"
_EMPTY = {"uri": "sqlite://", "init_catalog_tables": "true"}


def looked_at(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to open a catalog without changing it. Raises UnavailableError (P430)."""
    if given.get("type", "") != "sql":
        return {**given}
    uri = given.get("uri", "")
    path = uri.removeprefix(_SQLITE)
    if path != uri:
        if not Path(path).exists():
            return {**given, **_EMPTY}
        uri = f"{_SQLITE}file:{path}?mode=ro&uri=true"
    if not _has_tables(name, uri):
        return {**given, **_EMPTY}
    return {**given, "uri": uri, "init_catalog_tables": "false"}


def require_room(uri: str) -> None:
    """Raise InvalidError (P431) where a run could not create the database of a SQLite catalog."""
    path = uri.removeprefix(_SQLITE)
    if path == uri or Path(path).exists():
        return
    if why := why_not_made(Path(path).parent):
        raise no_room_for(Path(path), why)


def _has_tables(name: str, uri: str) -> bool:
    engine = sqlalchemy.create_engine(with_timeouts(uri))
    try:
        with reading(f"catalog {name}"), closing(engine.connect()) as connection:
            found: bool = sqlalchemy.inspect(connection).has_table(TablesOfCatalog.__tablename__)
            return found
    finally:
        engine.dispose()
