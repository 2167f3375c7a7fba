"""Writes rows that a warehouse keeps in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.connectors.memory.warehouse import Row, Warehouse
from penstock.core.commits import DataFile
from penstock.core.crash_points import CrashPoint
from penstock.ports import writers
from penstock.ports.runtime import Observer


class MemoryWriter:
    """Keep rows in memory until closed; one file for each writer that got rows."""

    def __init__(self, warehouse: Warehouse, path: str, observer: Observer) -> None:
        self._warehouse, self._path, self._observer = warehouse, path, observer
        self._rows: list[Row] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows."""
        if not self._rows:
            self._observer.passed(CrashPoint.FILE_OPENED)
        self._rows += rows.to_pylist()
        self._observer.passed(CrashPoint.FILE_WRITTEN)

    def close(self) -> Sequence[DataFile]:
        """Put the rows on storage and describe the file."""
        if not self._rows:
            return []
        size_bytes = 4 + 100 * len(self._rows)
        self._warehouse.keep_file(self._path, self._rows, size_bytes)
        self._observer.passed(CrashPoint.FILE_CLOSED)
        return [DataFile(self._path, len(self._rows), size_bytes, {})]

    def places(self) -> writers.Places:
        """Return the one file and the order of writing."""
        return np.zeros(len(self._rows), np.int32), np.arange(len(self._rows))

    def abandon(self) -> None:
        """Forget the rows."""
        self._rows.clear()
