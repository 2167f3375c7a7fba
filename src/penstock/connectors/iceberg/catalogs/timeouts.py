"""Opens catalogs none of whose requests waits for ever: PyIceberg gives them no timeout.

Invariants:
- every request counts, those that open the catalog and fetch its token as well; not those of an
  `auth:` block in the user's own PyIceberg configuration, which asks by itself;
- an answer that is late is one that was lost: reading can be repeated, and what a commit did is
  found out by reading the table again (protocol.md 5);
- a PostgreSQL database and Glue get ours where address and settings name none; other databases have
  those of their address.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.utils.config import Config, merge_config
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

if TYPE_CHECKING:
    from pyiceberg.catalog.rest.auth import AuthManager
    from requests import Session

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
            return _TimedRest(name, timeout_seconds, **found)
        case "hive" if "uri" in found and find_spec("thrift"):
            from penstock.connectors.iceberg.catalogs.hive import TimedHive

            return TimedHive(name, timeout_seconds, **found)
        case "glue" if find_spec("boto3"):
            from penstock.connectors.iceberg.catalogs.glue import TimedGlue

            return TimedGlue(name, timeout_seconds, **found)
        case "sql" if "uri" in given:
            return load_catalog(name, **{**given, "uri": with_timeouts(given["uri"])})
    return load_catalog(name, **given)


def with_timeouts(uri: str) -> str:
    """Return the address of a PostgreSQL database with bounds on its silence; others as they are.

    What the address says by itself counts. Source: libpq, "Parameter Key Words".
    """
    try:
        url = make_url(uri)
    except ArgumentError:
        return uri
    if url.drivername not in _LIBPQ:
        return uri
    bounds = {name: value for name, value in _BOUNDS.items() if name not in url.query}
    return url.update_query_dict(bounds).render_as_string(hide_password=False)


class _TimedRest(RestCatalog):
    """Asks a REST catalog with a timeout."""

    def __init__(self, name: str, timeout_seconds: float, /, **properties: str) -> None:
        self._timeout_seconds = timeout_seconds
        super().__init__(name, **properties)

    def _create_session(self) -> Session:
        return self._bounded(super()._create_session())

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        # It asks for the token before the session is given back.
        return super()._create_legacy_oauth2_auth_manager(self._bounded(session))

    def _bounded(self, session: Session) -> Session:
        bounded = partial(session.request, timeout=self._timeout_seconds)
        session.request = bounded  # type: ignore[method-assign]
        return session
