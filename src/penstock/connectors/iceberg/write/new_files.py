"""Where new files of a table are placed: below its data path, by whatever places files there.

Invariant: no part of a path comes from a record: names are `<prefix>-<random>.<ending>`.
"""

from __future__ import annotations

import secrets as randomness

from pyarrow import fs

from penstock.connectors.iceberg.io.arrow_file_io import ArrowIO, parsed
from penstock.connectors.iceberg.io.credentials import opened
from penstock.connectors.iceberg.io.locations import elsewhere, provider_of
from penstock.connectors.iceberg.write.target import Target
from penstock.ports.runtime import Secrets

_RANDOM_BYTES = 8


class NewFiles:
    """Gives paths on `filesystem` to new files, and knows the URI of each.

    Raises InvalidError (P289) where the table's files cannot be placed, or a reference is not
    there.
    """

    def __init__(self, target: Target, secrets: Secrets) -> None:
        self._table = target.table
        self._places = provider_of(target.location, target.properties, target.table)
        scheme, netloc, _ = parsed(self._places.new_data_location("x"))
        self._storage = scheme, netloc
        self._io = ArrowIO(opened(target.storage, target.lent, secrets))
        self.filesystem: fs.FileSystem = self._io.fs_by_scheme(scheme, netloc)
        self.uris: dict[str, str] = {}

    def path(self, prefix: str, ending: str) -> str:
        """Return a new path, which no other file has. Raises InvalidError (P289)."""
        name = f"{prefix.rstrip('-')}-{randomness.token_hex(_RANDOM_BYTES)}.{ending}"
        uri = self._places.new_data_location(name)
        scheme, netloc, path = parsed(uri)
        if (scheme, netloc) != self._storage:
            raise elsewhere(self._table, uri)
        self.uris[path] = uri
        return path
