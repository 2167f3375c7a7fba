"""Readers of schemas in a worker's process: opened once a registry, and kept over tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from penstock.app.assembly.connectors import registry_connector
from penstock.files.reopening import Reopening
from penstock.rows.decode.decoder import ReaderCache
from penstock.spec.secrets import ProcessSecrets


def schema_readers(settings: Mapping[str, Any] | None) -> ReaderCache:
    """Return the readers of the schemas of a registry, kept over tasks. Raises InvalidError."""
    return _kept_readers("null" if settings is None else json.dumps({**settings}, sort_keys=True))()


@cache
def _kept_readers(settings: str) -> Callable[[], ReaderCache]:
    data, secrets = json.loads(settings), ProcessSecrets()
    if data is None:
        plain = ReaderCache()
        return lambda: plain
    connector = registry_connector(data["url"])
    return Reopening(data, secrets, lambda: ReaderCache(connector.open_registry(data, secrets)))
