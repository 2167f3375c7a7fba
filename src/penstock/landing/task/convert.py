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
from penstock.landing.task.rejects import refuse, with_rejects
from penstock.ports.tables import ColumnPath
from penstock.rows.cast.json_columns import mask_of
from penstock.rows.convert.batch import Converted, convert
from penstock.rows.reject_codes import Code
from penstock.rows.route.compute import Functions, Wanted, with_computed, without_computed
from penstock.rows.route.router import Sorter

if TYPE_CHECKING:
    from penstock.core.offsets import TopicPartition
    from penstock.rows.decode.decoder import Readers


def converted_for(
    table: TableJob,
    batch: pa.RecordBatch,
    at: TopicPartition,
    readers: Readers,
    functions: Functions,
) -> Converted:
    """Turn the records that are a table's into its rows.

    Raises what `convert` and `with_computed` raise.
    """
    computed, options = table.computed, table.options
    own = without_computed(table.schema, computed) if computed.names else table.schema
    converted = convert(batch, at=at, schema=own, options=options, readers=readers)
    if computed.names and table.destination is not None:
        wanted = Wanted(table.schema, options, computed, readers)
        converted = with_computed(converted, Sorter(batch, at), wanted, functions)
    return with_partition(converted, table.least)


def with_partition(converted: Converted, least: Mapping[ColumnPath, Decimal]) -> Converted:
    """Refuse the records of rows that hold a value below the least one of a column."""
    for path, value in least.items():
        column = converted.rows.column(path[0])
        column = pc.struct_field(column, list(path[1:])) if path[1:] else column
        low = mask_of(pc.less(column, pa.scalar(value).cast(column.type)).fill_null(False))
        if not low.any():
            continue
        rejects = refuse(Code.NO_PARTITION, converted.offsets[low], ".".join(path))
        kept = replace(
            converted,
            rows=converted.rows.filter(pa.array(~low)),
            offsets=converted.offsets[~low],
        )
        converted = with_rejects(kept, rejects)
    return converted
