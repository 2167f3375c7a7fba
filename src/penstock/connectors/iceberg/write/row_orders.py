"""The orders in which rows are written: by the partitions of late rows, by a table's sort order.

Invariant: rows that are said to be in a table's sort order are in it, or none is said.

Source: Apache Iceberg table specification, "Sorting".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform

from penstock.connectors.iceberg.schema.partition_values import (
    KNOWN_TRANSFORMS,
    column_at,
    partition_columns,
    path_of,
    transform_of,
)
from penstock.files.row_order import OrderOf, RowOrder, order_by, ranks_of

if TYPE_CHECKING:
    from penstock.files.row_order import Places

_Ranks = Callable[[pa.RecordBatch], "Places"]


def can_sort_by(order: SortOrder, schema: IcebergSchema) -> bool:
    """Return whether there is an order, and rows can be sorted by it."""
    return bool(order.fields) and all(
        isinstance(each.transform, KNOWN_TRANSFORMS) and path_of(schema.fields, each.source_id)
        for each in order.fields
    )


def order_of(spec: PartitionSpec, order: SortOrder, schema: IcebergSchema) -> OrderOf:
    """Return what sorts rows by the values of a spec, then by an order that can be sorted by."""
    values_of = partition_columns(spec, schema)
    within = [_ranked(each, schema) for each in order.fields]

    def found(rows: pa.RecordBatch) -> RowOrder:
        groups = [ranks_of(each) for each in values_of(rows)]
        return order_by(rows.num_rows, groups, [each(rows) for each in within])

    return found


def _ranked(field: SortField, schema: IcebergSchema) -> _Ranks:
    path = tuple(number for number, _ in path_of(schema.fields, field.source_id))
    transform = transform_of(field, schema)
    falls = field.direction is SortDirection.DESC
    nulls_last = field.null_order is NullOrder.NULLS_LAST

    def ranks(rows: pa.RecordBatch) -> Places:
        values = column_at(rows, path)
        if not isinstance(field.transform, IdentityTransform):  # its values are one of a partition
            values = transform(values)
        return ranks_of(values, falls=falls, nulls_last=nulls_last)

    return ranks
