"""Writes rows of one Delta table on a worker; opens no log and never imports deltalake.

Invariants:
- no part of a path comes from a record: files lie in the table's own directory under names of our
  making, partition values live in the log only;
- partition columns are not in the files, columns of row ids are behind the others;
- nothing is deleted.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.delta.files.file_metadata import detail_of
from penstock.connectors.delta.files.statistics import statistics_json
from penstock.connectors.delta.files.target import target_from_json
from penstock.connectors.delta.schema.column_mapping import as_stored
from penstock.connectors.delta.schema.partition_values import Texts, split
from penstock.connectors.delta.schema.types import arrow_schema, without
from penstock.core.commits import DataFile
from penstock.files import ParquetEncoding, PartitionedWriter, Written
from penstock.files.filesystems import CREDENTIALS, filesystem_of
from penstock.files.storage_settings import path_in, resolved
from penstock.ports.runtime import Observer, Secrets

if TYPE_CHECKING:
    from penstock.ports.writers import Places

PARTITION_LABEL_MAX = 256

_RANDOM_BYTES = 8
_PREFIX_MAX = 160
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def safe_prefix(prefix: str) -> str:
    """Return what the name of a file may begin with."""
    return _UNSAFE.sub("-", prefix).strip("._-")[:_PREFIX_MAX] or "part"


class DeltaWriter:
    """Routes rows to one rolling Parquet file for each partition and describes the files."""

    def __init__(
        self,
        target: str,
        *,
        prefix: str,
        observer: Observer,
        secrets: Secrets,
        places: bool,
        row_ids: Sequence[str],
    ) -> None:
        self._target = target_from_json(target)
        self._prefix = safe_prefix(prefix)
        ids = [pa.field(each, pa.int64()) for each in row_ids]
        own = arrow_schema(self._target.stored.schema, self._target.stored.ids)
        stored = pa.schema([*own, *ids])
        self._columns = without(self._target.stored.schema, self._target.partition_by)
        self._rows = pa.schema([*arrow_schema(self._target.schema), *ids])
        self._stored = stored if self._target.stored.ids else None
        self._writer = PartitionedWriter(
            encoding=ParquetEncoding(
                pa.schema([stored.field(name) for name in (*self._columns.names, *row_ids)]),
                self._target.options,
            ),
            filesystem=filesystem_of(
                self._target.location, resolved(self._target.storage, CREDENTIALS, secrets)
            ),
            path_of=self._new_path,
            partition_of=partial(split, partition_by=self._target.partition_by),
            observer=observer,
            places=places,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows with the table's columns, and those of row ids behind them.

        Raises UnavailableError, InvalidError (P470): an empty partition value.
        """
        assert rows.schema.names == self._rows.names, (
            f"columns {rows.schema.names} are not the table's {self._rows.names}"
        )
        if rows.schema != self._rows:
            rows = rows.cast(self._rows)
        if self._stored is not None:
            rows = as_stored(rows, self._stored)
        self._writer.write(rows)

    def close(self) -> Sequence[DataFile]:
        """Finish all files and describe them. Raises UnavailableError."""
        return [self._described(each) for each in self._writer.close()]

    def places(self) -> Places:
        """Return, once closed, where each row went, if that was asked for."""
        return self._writer.places()

    def abandon(self) -> None:
        """Let go of open files without finishing them; deletes nothing."""
        self._writer.abandon()

    def _new_path(self, partition: Texts, ending: str) -> str:
        del partition  # never part of a path
        name = f"{self._prefix}-{secrets.token_hex(_RANDOM_BYTES)}.{ending}"
        return f"{path_in(self._target.location)}/{name}"

    def _described(self, written: Written[pq.FileMetaData]) -> DataFile:
        partition = dict(zip(self._target.partition_by, written.partition, strict=True))
        name = written.path.rpartition("/")[2]
        with_nan = frozenset(path for path, count in written.nans.items() if count)
        statistics = statistics_json(
            written.metadata, self._columns, self._target.indexed, with_nan, written.texts
        )
        label = json.dumps(partition, ensure_ascii=False) if partition else ""
        return DataFile(
            path=f"{self._target.location}/{name}",
            record_count=written.records,
            size_bytes=written.size_bytes,
            ranges={},
            partition=label[:PARTITION_LABEL_MAX],
            detail=detail_of(self._columns, partition, time.time_ns() // 1_000_000, statistics),
        )
