"""Whether rows of a task land late, in one file, to be moved to their partitions by maintenance;
and whether they are exchanged with those of other tasks first (docs/design/0377).

Theory of operation: a small file costs what it costs to open it, whatever is in it, now and when
maintenance makes few of many; a row that lands late is sorted now, and read and written once more
later. Both were measured (docs/design/0321). So few rows for each partition are cheaper late.

Invariant: what nobody asked for is done only in tables that we created, and maintain.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.connectors.iceberg.ledger.properties import CREATED
from penstock.connectors.iceberg.schema.partition_values import partition_columns
from penstock.connectors.iceberg.write.target import DISTRIBUTION_MODE, Shape, Target
from penstock.core.table_errors import no_late_rows
from penstock.files.row_order import order_by, ranks_of
from penstock.ports.writers import Distribution

HELD_BYTES = 128 << 20
"""How much a writer looks at before it chooses, of Arrow memory."""
FILE_SECONDS = 7.0e-3
"""CPU that a small file costs: to write it now, and to make one of many of it later."""
LATE_ROW_SECONDS = 8.1e-6
"""CPU that a row costs that lands late: sorted now, moved later."""
PARTITIONS_MIN = 8
"""From how many partitions on rows land late: below, readers get more from files of their own."""

_LATE_FROM_VERSION = 2
_EXCHANGED = {"hash", "range"}
_EXPLICIT = _EXCHANGED | {"none"}
"""What a table's owner may say of it."""
_MAYBE_LATE = {Distribution.LATE, Distribution.AUTO}


def late_by_table(target: Target, distribution: Distribution) -> bool | None:
    """Return whether rows of a table land late; None where their number decides.

    Raises InvalidError (P869) where they cannot and are to.
    """
    if distribution not in _MAYBE_LATE or not target.shape.spec.fields:
        return False
    has_late_rows = target.format_version >= _LATE_FROM_VERSION
    if distribution is Distribution.LATE:
        if not has_late_rows:
            why = f"its files have one partition spec in format-version {target.format_version}"
            raise no_late_rows(target.table, why)
        return True
    is_ours = target.properties.get(CREATED) == "true"
    chooses = is_ours and has_late_rows and _said_by(target) not in _EXPLICIT
    return None if chooses else False


def is_exchanged(target: Target, distribution: Distribution) -> bool:
    """Return whether rows of a table are exchanged by its partitions: where that is asked for, or
    left to us and the table's owner asks for it. Rows of ranges are exchanged by their hash, too,
    and sorted where files are made few.
    """
    if not target.shape.spec.fields:
        return False
    if distribution is Distribution.AUTO:
        return _said_by(target) in _EXCHANGED
    return distribution is Distribution.HASH


def _said_by(target: Target) -> str:
    return target.properties.get(DISTRIBUTION_MODE, "").lower()


def is_cheaper_late(batches: Sequence[pa.RecordBatch], shape: Shape) -> bool:
    """Return whether the rows of some batches are cheaper to land late, all in all."""
    rows = sum(each.num_rows for each in batches)
    if not rows:
        return False
    values_of = partition_columns(shape.spec, shape.schema)
    by_batch = [values_of(each) for each in batches]
    ranks = [ranks_of(pa.chunked_array(column)) for column in zip(*by_batch, strict=True)]
    partitions = len(order_by(rows, ranks).borders) + 1
    is_cheaper = partitions * FILE_SECONDS > rows * LATE_ROW_SECONDS
    return is_cheaper and partitions >= PARTITIONS_MIN
