"""The columns of row ids that the third format has beside those of a table, written and read.

Theory of operation: the rows of a file have the ids from its entry's `first_row_id` on, in their
order, and were last changed by the commit that added it. A row that is moved to another file must
keep both, so they are columns there, whose values go before what its entry says (docs/design/0359).

Invariants:
- a row that is moved has the id and the sequence number that it had, whatever file it comes from;
- where rows have no ids, for nothing has landed since the table was upgraded, none are written: the
  commit that moves them gives them.

Source: Apache Iceberg table specification, "Row Lineage", "Reserved Field IDs".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import TableVersion
from pyiceberg.types import LongType, NestedField

ROW_IDS_FROM: TableVersion = 3
"""The first format version with row ids."""
ROW_ID = NestedField(2147483540, "_row_id", LongType(), required=False)
CHANGED = NestedField(2147483539, "_last_updated_sequence_number", LongType(), required=False)
ROW_ID_FIELDS = {each.name: each for each in (ROW_ID, CHANGED)}


@dataclass(frozen=True, slots=True)
class Inherited:
    """What the entry of a file says of its rows; None where they have no ids, or none yet."""

    first_row_id: int | None = None
    sequence: int | None = None

    def filled(self, name: str, column: pa.Array, begun: int) -> pa.Array:
        """Return a column of ids or of sequence numbers without the values that are inherited.

        `begun` is the place of its first row in the file.
        """
        if self.first_row_id is None or not column.null_count:
            return column
        if name == CHANGED.name:
            return pc.fill_null(column, pa.scalar(self.sequence, pa.int64()))
        first = self.first_row_id + begun
        return pc.coalesce(column, pa.array(np.arange(first, first + len(column))))


NOTHING_INHERITED = Inherited()
"""What a file says that has not landed yet."""


def has_row_ids(metadata: TableMetadata) -> bool:
    """Return whether rows of a table have ids."""
    return bool(metadata.format_version >= ROW_IDS_FROM)


def row_ids_of(metadata: TableMetadata, branch: str) -> tuple[str, ...]:
    """Return the columns of row ids; none where the rows of a branch have no ids, or none yet."""
    head = metadata.snapshot_by_name(branch)
    return () if head is None or head.first_row_id is None else tuple(ROW_ID_FIELDS)
