"""Which rows of the files of one table are deleted.

Invariant: a vector is known by its place, at which nothing else is ever written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.connectors.delta.errors import reading_file
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.vectors.descriptor import Vector, vector_of
from penstock.connectors.delta.vectors.store import read_vector
from penstock.core import table_errors
from penstock.files.errors import first_line
from penstock.files.kept import Kept
from penstock.files.positions import NONE, POSITIONS_KEPT_MAX, Positions


class DeletedRows:
    """Reads the deletion vectors of one table, and keeps those read or written last."""

    def __init__(self, root: StorageRoot, name: str) -> None:
        self._root, self._name = root, name
        self._kept = Kept[Positions](POSITIONS_KEPT_MAX)

    def of(self, add: Mapping[str, Any]) -> Positions:
        """Return which rows of a file are deleted.

        Raises UnavailableError (P403, P430), InvalidError (P436 in another storage, P438 damaged).
        """
        try:
            vector = vector_of(add)
            if vector is None:
                return NONE
            known = self._kept.get(vector.unique_id)
            if known is not None:
                return known
            with reading_file(self._name):
                found = read_vector(self._root, self._name, vector)
        except ValueError as error:
            damaged = f"a deletion vector of {self._name}"
            raise table_errors.unreadable(damaged, first_line(error)) from error
        self.keep(vector, found)
        return found

    def keep(self, vector: Vector, rows: Positions) -> None:
        """Keep the rows of a vector that was written."""
        self._kept.keep(vector.unique_id, rows, len(rows))
