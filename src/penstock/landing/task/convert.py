"""Records become a table's rows: what they say themselves, what is computed for them, and whether
the table has a partition for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.landing.task.messages import TableJob
from penstock.landing.task.rejects import merge_rejects, rejects_of
from penstock.ports.tables import ColumnPath
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.convert.batch import ConvertedBatch, convert_batch
from penstock.rows.reject_codes import RejectCode
from penstock.rows.route.compute import ComputeRequest, Functions, add_computed, without_computed
from penstock.rows.route.router import Router

if TYPE_CHECKING:
    from penstock.core.offsets import TopicPartition
    from penstock.rows.decode.decoder import ReaderCache


def convert_for_table(
    table: TableJob,
    batch: pa.RecordBatch,
    at: TopicPartition,
    readers: ReaderCache,
    functions: Functions,
) -> ConvertedBatch:
    """Turn the records that are a table's into its rows.

    Raises what `convert` and `add_computed` raise.
    """
    computed, options = table.computed, table.options
    own = without_computed(table.schema, computed) if computed.names else table.schema
    converted = convert_batch(batch, at=at, schema=own, options=options, readers=readers)
    if computed.names and table.write_target is not None:
        wanted = ComputeRequest(table.schema, options, computed, readers)
        converted = add_computed(converted, Router(batch, at), wanted, functions)
    return within_partition_bounds(converted, table.least)


def within_partition_bounds(
    converted: ConvertedBatch, least: Mapping[ColumnPath, Decimal]
) -> ConvertedBatch:
    """Refuse the records of rows that hold a value below the least one of a column."""
    for path, value in least.items():
        column = converted.rows.column(path[0])
        column = pc.struct_field(column, list(path[1:])) if path[1:] else column
        low = mask_of(pc.less(column, pa.scalar(value).cast(column.type)).fill_null(False))
        if not low.any():
            continue
        rejects = rejects_of(RejectCode.NO_PARTITION, converted.offsets[low], ".".join(path))
        kept = replace(
            converted,
            rows=converted.rows.filter(pa.array(~low)),
            offsets=converted.offsets[~low],
        )
        converted = merge_rejects(kept, rejects)
    return converted
