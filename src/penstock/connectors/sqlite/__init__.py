"""The pending store in one SQLite file: `sqlite:///path/to/shop.db`."""

from __future__ import annotations

from penstock.ports.connectors import PORTS_VERSION, StoreConnector
from penstock.ports.running import Secrets
from penstock.ports.store import PendingStore


def open_store(address: str, secrets: Secrets) -> PendingStore:
    """Open the store at an address; nothing is created before the first claim.

    Raises InvalidError (P507) when the address names no file.
    """
    from penstock.connectors.sqlite.store import SqliteStore, path_of

    return SqliteStore(path_of(secrets.resolve(address)))


connector = StoreConnector(PORTS_VERSION, frozenset({"sqlite"}), open_store)
