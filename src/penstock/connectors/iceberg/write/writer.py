"""Writes rows of one Iceberg table on a worker; opens no catalog and commits nothing.

Invariants:
- everything comes from the target: location, field ids, partition spec, write properties;
- no part of a path comes from a record: names are `<prefix>-<random>.parquet` below the table's
  data path, and partition values live in metadata only;
- nothing is deleted.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.locations import load_location_provider

from penstock.connectors.iceberg.files.file_metadata import Describer
from penstock.connectors.iceberg.io.credentials import opened
from penstock.connectors.iceberg.schema.partition_values import splitter
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.connectors.iceberg.write.target import Shape, target_from_json
from penstock.core.commits import DataFile
from penstock.files import PartitionedParquetWriter
from penstock.ports.runtime import Observer, Secrets

if TYPE_CHECKING:
    from penstock.ports.writers import Places

_RANDOM_BYTES = 8


class IcebergWriter:
    """Routes rows to one rolling Parquet file for each partition and describes the files.

    Raises InvalidError when the target asks for what cannot be honoured.
    """

    def __init__(
        self, target: str, *, prefix: str, observer: Observer, secrets: Secrets, places: bool
    ) -> None:
        assert "/" not in prefix, f"a file's name cannot begin with {prefix!r}"
        self._target = target_from_json(target)
        self._prefix = prefix.rstrip("-")
        self._schema = _file_schema(self._target.shape)
        self._io = PyArrowFileIO(opened(self._target.storage, self._target.lent, secrets))
        self._places = load_location_provider(self._target.location, dict(self._target.properties))
        self._uris: dict[str, str] = {}
        scheme, netloc, _ = PyArrowFileIO.parse_location(self._places.new_data_location("x"))
        self._writer = PartitionedParquetWriter(
            schema=self._schema,
            filesystem=self._io.fs_by_scheme(scheme, netloc),
            path_of=self._new_path,
            partition_of=splitter(self._target.shape.spec, self._target.shape.schema),
            options=self._target.options(),
            observer=observer,
            places=places,
        )

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows with the columns of the schema, in its order. Raises UnavailableError."""
        assert rows.schema.names == self._schema.names, (
            f"columns {rows.schema.names} are not the table's {self._schema.names}"
        )
        self._writer.write(rows.cast(self._schema))

    def close(self) -> Sequence[DataFile]:
        """Finish all files and describe them. Raises UnavailableError."""
        known = _describer(self._target.shape)
        return [known.described(self._uris[each.path], each) for each in self._writer.close()]

    def places(self) -> Places:
        """Return, once closed, where each row went, if that was asked for."""
        return self._writer.places()

    def abandon(self) -> None:
        """Let go of open files without finishing them; deletes nothing."""
        self._writer.abandon()

    def _new_path(self, partition: tuple[Any, ...]) -> str:
        del partition  # never part of a path
        name = f"{self._prefix}-{secrets.token_hex(_RANDOM_BYTES)}.parquet"
        uri = self._places.new_data_location(name)
        _, _, path = PyArrowFileIO.parse_location(uri)
        self._uris[path] = uri
        return path


@functools.lru_cache(maxsize=64)
def _file_schema(shape: Shape) -> pa.Schema:
    return file_schema(shape.schema)


@functools.lru_cache(maxsize=64)
def _describer(shape: Shape) -> Describer:
    return Describer(shape.schema, shape.spec, shape.metrics)
