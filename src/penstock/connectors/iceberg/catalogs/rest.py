"""Asks a REST catalog with a timeout, and parses no answer about a table twice.

Invariants:
- a table is asked for afresh each time, and without conditions: what a cache in front of the
  catalog takes for unchanged proves nothing (docs/design/spec/Answers.tla);
- what is kept is what an answer was read to, and counts while the next is byte for byte the same:
  with the same credentials, where a catalog lends them;
- a server that is known to accept commits on a table that others have changed is refused
  (design/0380).
"""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

from pyiceberg.catalog.rest import (
    SNAPSHOT_LOADING_MODE,
    Endpoints,
    RestCatalog,
    TableResponse,
)

from penstock.connectors.iceberg.catalogs.kept_tables import KeptTables
from penstock.core.errors import InvalidError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog.rest.auth import AuthManager
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier
    from requests import Session

_NESSIE = "nessie.is-nessie-catalog"
"""Nessie says so when it is asked for its settings."""


def require_comparing(name: str, properties: Mapping[str, str]) -> None:
    """Raise InvalidError (P214) by what a server says of itself, where it compares no states."""
    if properties.get(_NESSIE) == "true":
        raise InvalidError(
            f"the catalog {name} is served by Nessie, which lets a first commit replace rows that"
            " others have committed meanwhile, and shows one snapshot of a table",
            code="P214",
            hint="keep the tables of this pipeline in another catalog, such as  type: sql",
        )


class TimedRest(RestCatalog):
    """A REST catalog that is given up when it does not answer in time (requests' Timeout)."""

    def __init__(self, name: str, timeout_seconds: float, /, **properties: str) -> None:
        self._timeout_seconds = timeout_seconds
        self._kept = KeptTables()
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

    def load_table(self, identifier: str | Identifier) -> Table:
        """Ask for a table, and read the answer where it is not the former one."""
        name = self.identifier_to_tuple(identifier)
        where = self._split_identifier_for_path(identifier)
        table: Table
        if SNAPSHOT_LOADING_MODE in self.properties:
            table = super().load_table(identifier)
            return table
        answer = self._session.get(self.url(Endpoints.load_table, prefixed=True, **where))
        if not answer.ok:  # PyIceberg says what that means, or asks for another token
            table = super().load_table(identifier)
            return table
        mark = hashlib.sha256(answer.content).hexdigest()
        known = self._kept.get(name, mark)
        if known is not None:
            return known
        table = self._response_to_table(name, TableResponse.model_validate_json(answer.text))
        self._kept.keep(mark, table)
        return table
