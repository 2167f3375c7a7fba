"""Reads files of a warehouse as a worker does: by what the driver says of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from penstock.connectors.memory.warehouse import Row, Warehouse
from penstock.core.commits import DataFile
from penstock.ports.increments import ReadableFiles
from penstock.ports.row_deletes import POSITION


def readable(
    columns: Sequence[str], deleted: Mapping[str, Collection[int]], paths: Sequence[str]
) -> ReadableFiles:
    """Write how files are read, each by its path and its deleted rows."""
    details = (json.dumps([each, sorted(deleted.get(each, ()))]) for each in paths)
    return ReadableFiles(json.dumps([*columns]), tuple(details))


def placed(warehouse: Warehouse, path: str, columns: Sequence[str]) -> list[Row]:
    """Return columns of all rows of a file with their positions. Raises UnavailableError (P403)."""
    rows = warehouse.rows_of([DataFile(path, 0, 0, {})])
    return [
        {**{name: row.get(name) for name in columns}, POSITION: at} for at, row in enumerate(rows)
    ]


class WarehouseRows:
    """Implements `ports.increments.FileRows`."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def read(self, work: str, detail: str, *, start: int = 0) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of a file at once. Raises UnavailableError (P403)."""
        columns, (path, deleted) = json.loads(work), json.loads(detail)
        rows = placed(self._warehouse, path, columns)[start:]
        if rows := [each for each in rows if each[POSITION] not in deleted]:
            yield pa.RecordBatch.from_pylist(rows)

    def written(self, work: str, file: DataFile) -> str:
        """Return how a file is read that has not landed."""
        del work
        return json.dumps([file.path, []])
