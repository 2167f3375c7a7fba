"""Opens catalogs none of whose requests waits for ever: PyIceberg gives REST and Hive no timeout.

Invariants:
- every request counts, those that open the catalog and fetch its token as well; not those of an
  `auth:` block in the user's own PyIceberg configuration, which asks by itself;
- an answer that is late is one that was lost: reading can be repeated, and what a commit did is
  found out by reading the table again (protocol.md 5);
- SQL catalogs have the timeouts of their address, and Glue those of botocore (60 s, tried again).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.utils.config import Config, merge_config

if TYPE_CHECKING:
    from pyiceberg.catalog.rest.auth import AuthManager
    from requests import Session


def opened(name: str, given: Mapping[str, str], timeout_seconds: float) -> Catalog:
    """Open a catalog by its type. Raises what PyIceberg raises.

    As PyIceberg does, it takes what `given` leaves out from the user's PyIceberg configuration.
    """
    found: Any = merge_config(Config().get_catalog_config(name) or {}, {**given})
    match given.get("type"):
        case "rest" if "uri" in found:
            return _TimedRest(name, timeout_seconds, **found)
        case "hive" if "uri" in found and find_spec("thrift"):
            from penstock.connectors.iceberg.metastores import TimedHive

            return TimedHive(name, timeout_seconds, **found)
    return load_catalog(name, **given)


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
