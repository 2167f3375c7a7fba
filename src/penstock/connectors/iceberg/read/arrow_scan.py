"""PyIceberg's reader of files, for which times of ORC are micros in every format version.

Arrow reads those of ORC in nanoseconds, and from the third version on PyIceberg takes them for
such, unless a setting of the whole process says otherwise.

Invariant: columns of nanoseconds are never cut to micros.
"""

from __future__ import annotations

import logging

from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.metadata import TableMetadata

from penstock.connectors.iceberg.schema.types import NANOS

# It says so of each ORC file.
logging.getLogger("pyiceberg.io.pyarrow").addFilter(
    lambda record: "Downcasting to 'us'" not in record.getMessage()
)


class MicrosScan(ArrowScan):
    """Reads columns of rows that a filter lets pass."""

    def __init__(
        self, metadata: TableMetadata, io: FileIO, columns: Schema, row_filter: BooleanExpression
    ) -> None:
        super().__init__(metadata, io, columns, row_filter)
        kinds = (each.field_type for each in index_by_id(columns).values())
        self._downcast_ns_timestamp_to_us = not any(isinstance(each, NANOS) for each in kinds)
