"""Writes rows of one Iceberg table on a worker; opens no catalog and commits nothing.

Invariants:
- everything comes from the target: location, field ids, partition spec, write properties;
- no part of a path comes from a record: names are `<prefix>-<random>.<format>` below the table's
  data path, and partition values live in metadata only;
- all rows of a writer land late, or none does: where it chooses, by the first that it holds;
- nothing is deleted.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.manifest import FileFormat
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import SortOrder

from penstock.connectors.iceberg.files.file_metadata import Describer, Metadata
from penstock.connectors.iceberg.schema.late_spec import LATE
from penstock.connectors.iceberg.schema.orc_types import orc_schema
from penstock.connectors.iceberg.schema.partition_values import splitter
from penstock.connectors.iceberg.schema.row_ids import ROW_ID_FIELDS
from penstock.connectors.iceberg.schema.types import file_schema
from penstock.connectors.iceberg.write.distribution import (
    HELD_BYTES,
    is_cheaper_late,
    late_by_table,
)
from penstock.connectors.iceberg.write.new_files import NewFiles
from penstock.connectors.iceberg.write.row_orders import can_sort_by, order_of
from penstock.connectors.iceberg.write.target import Shape, Target, target_from_json
from penstock.core.commits import DataFile
from penstock.files import ParquetEncoding, PartitionedWriter
from penstock.files.encoding import Encoding
from penstock.files.orc import OrcEncoding
from penstock.ports.runtime import Observer, Secrets
from penstock.ports.writers import AS_THEY_COME, Distribution, Placing

if TYPE_CHECKING:
    from penstock.files.row_order import OrderOf
    from penstock.ports.writers import Places


class IcebergWriter:
    """Routes rows to one rolling file for each partition, or to one without any, and
    describes the files.

    Raises InvalidError when the target asks for what cannot be honoured, has no late rows (P869),
    or its files cannot be placed (P289).
    """

    def __init__(
        self,
        target: str,
        *,
        prefix: str,
        observer: Observer,
        secrets: Secrets,
        places: bool,
        placing: Placing = AS_THEY_COME,
    ) -> None:
        assert "/" not in prefix, f"a file's name cannot begin with {prefix!r}"
        self._target = target_from_json(target)
        self._prefix = prefix
        self._columns = [*self._target.shape.columns, *placing.row_ids]
        self._schema = _file_schema(self._target.shape, placing.row_ids)
        self._files = NewFiles(self._target, secrets)
        self._open = partial(
            PartitionedWriter,
            encoding=_encoding(self._target, self._schema, placing.row_ids),
            filesystem=self._files.filesystem,
            path_of=self._new_path,
            observer=observer,
            places=places,
        )
        self._is_sorted = placing.is_sorted
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._writer: PartitionedWriter[Metadata] | None = None
        late = late_by_table(self._target, Distribution.NONE if places else placing.distribution)
        if late is not None:
            self._begin(is_late=late)

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows with the columns of the schema, in its order, and those of row ids.

        Raises UnavailableError.
        """
        assert rows.schema.names == self._columns, (
            f"columns {rows.schema.names} are not the table's {self._columns}"
        )
        rows = rows.select(self._schema.names).cast(self._schema)
        if self._writer is not None:
            self._writer.write(rows)
            return
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > HELD_BYTES:
            self._decide()

    def close(self) -> Sequence[DataFile]:
        """Finish all files and describe them. Raises UnavailableError."""
        if self._writer is None:
            self._decide()
        assert self._writer is not None, "what is held decides"
        written = self._writer.close()
        return [self._describer.described(self._files.uris[each.path], each) for each in written]

    def places(self) -> Places:
        """Return, once closed, where each row went, if that was asked for."""
        assert self._writer is not None, "rows have places once their files are finished"
        return self._writer.places()

    def abandon(self) -> None:
        """Let go of open files without finishing them; deletes nothing."""
        self._held.clear()
        if self._writer is not None:
            self._writer.abandon()

    def _decide(self) -> None:
        """Let the rows that are held decide whether they land late, and write them."""
        self._begin(is_late=is_cheaper_late(self._held, self._target.shape))
        assert self._writer is not None, "it has begun"
        for each in self._held:
            self._writer.write(each)
        self._held.clear()

    def _begin(self, *, is_late: bool) -> None:
        shape, is_sorted = self._target.shape, self._is_sorted
        split = splitter(LATE if is_late else shape.spec, shape.schema)
        order = _order(shape, is_late=is_late, is_sorted=is_sorted)
        self._writer = self._open(partition_of=split, order=order)
        self._describer = _describer(shape, is_late=is_late, is_sorted=is_sorted)

    def _new_path(self, partition: tuple[Any, ...], ending: str) -> str:
        del partition  # never part of a path
        return self._files.path(self._prefix, ending)


@functools.lru_cache(maxsize=64)
def _file_schema(shape: Shape, row_ids: Sequence[str]) -> pa.Schema:
    return file_schema(_with_ids(shape, row_ids))


def _with_ids(shape: Shape, row_ids: Sequence[str]) -> IcebergSchema:
    return IcebergSchema(*shape.schema.fields, *(ROW_ID_FIELDS[each] for each in row_ids))


def _encoding(target: Target, schema: pa.Schema, row_ids: Sequence[str]) -> Encoding[Metadata]:
    if target.format is FileFormat.ORC:
        stored = orc_schema(_with_ids(target.shape, row_ids))
        return OrcEncoding(schema, stored, target.orc_options(), target.options())
    return ParquetEncoding(schema, target.options())


@functools.lru_cache(maxsize=64)
def _order(shape: Shape, *, is_late: bool, is_sorted: bool) -> OrderOf | None:
    """Return the order of late rows, by partition first; that of the table; None."""
    within = shape.order if is_sorted and can_sort_by(shape.order, shape.schema) else SortOrder()
    if not is_late and not within.fields:
        return None
    return order_of(shape.spec if is_late else PartitionSpec(), within, shape.schema)


@functools.lru_cache(maxsize=64)
def _describer(shape: Shape, *, is_late: bool, is_sorted: bool) -> Describer:
    """Return what describes files: late ones are sorted by partition first, so by no order."""
    if is_late:
        return Describer(shape.schema, LATE, shape.metrics)
    has_order = is_sorted and can_sort_by(shape.order, shape.schema)
    order_id = shape.order.order_id if has_order else None
    return Describer(shape.schema, shape.spec, shape.metrics, order_id)
