"""Converts records to a table's rows, or to changes of its rows: their fields, computed columns,
and whether the table has a partition for them. Others are rejected, by a code of the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Struct
from penstock.landing.task.messages import TableJob
from penstock.ports.tables import ColumnPath
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.convert.batch import ConvertedBatch, Reject, convert_batch
from penstock.rows.demands.apply import demanded, given_schema, require_options
from penstock.rows.keyed.changes import ChangeBatch, convert_changes
from penstock.rows.options import Policy, RowOptions
from penstock.rows.reject_codes import CODE_INFO, OF_TYPES, RejectCode, RejectError
from penstock.rows.route.compute import Functions, add_computed
from penstock.rows.route.router import Router

if TYPE_CHECKING:
    from penstock.core.offsets import TopicPartition
    from penstock.rows.decode.decoder import ReaderCache

Converted = ConvertedBatch | ChangeBatch
"""What a table gets of a batch: rows to append, or changes of the rows that it has."""
_Either = TypeVar("_Either", bound=Converted)
_OF_TYPES = OF_TYPES | {RejectCode.MISSING}


def convert_records(
    table: TableJob,
    batch: pa.RecordBatch,
    at: TopicPartition,
    readers: ReaderCache,
    functions: Functions,
    *,
    lane: int,
) -> Converted:
    """Turn the records that are a table's into what it gets: here is decided which of the two.

    `lane` numbers the partition. A table that does not exist yet has no rows to change. Raises what
    `convert` and `add_computed` raise.
    """
    if table.options.keyed is None or table.write_target is None:
        return convert_for_table(table, batch, at, readers, functions)
    return convert_changes_for_table(table, batch, at, lane, readers, functions)


def convert_for_table(
    table: TableJob,
    batch: pa.RecordBatch,
    at: TopicPartition,
    readers: ReaderCache,
    functions: Functions,
) -> ConvertedBatch:
    """Turn the records that are a table's into its rows.

    Raises what `convert` and `add_computed` raise, and InvalidError (P436, `require_options`).
    """
    computed, options = table.computed, table.options
    given = given_schema(table.schema, table.demands)
    own = Struct(tuple(f for f in given.fields if f.name not in computed.names))
    converted = convert_batch(batch, at=at, schema=own, options=options, readers=readers)
    if computed.names and table.write_target is not None:
        converted = add_computed(
            converted,
            Router(batch, at),
            schema=given,
            options=options,
            computed=computed,
            readers=readers,
            functions=functions,
        )
    return as_demanded(converted, table)


def convert_changes_for_table(  # noqa: PLR0917  as `convert_for_table`
    table: TableJob,
    batch: pa.RecordBatch,
    at: TopicPartition,
    lane: int,
    readers: ReaderCache,
    functions: Functions,
) -> ChangeBatch:
    """Turn the records that are a keyed table's into changes of its rows; the table exists.

    Raises what `convert_changes` raises.
    """
    assert table.write_target is not None, "without a table nothing has a key"
    changed = convert_changes(
        batch,
        at=at,
        lane=lane,
        schema=given_schema(table.schema, table.demands),
        options=table.options,
        readers=readers,
        computed=table.computed,
        functions=functions,
        fitted=partial(as_demanded, table=table),
    )
    if not table.demands:
        return changed
    columns = changed.changes.rows.columns
    rows = pa.RecordBatch.from_arrays(columns, schema=arrow_schema(table.schema))
    return replace(changed, changes=replace(changed.changes, rows=rows))


def as_demanded(converted: ConvertedBatch, table: TableJob) -> ConvertedBatch:
    """Return the rows of a batch that a table takes, as it demands them; the others are refused."""
    require_options("the table", table.demands, table.options)
    demanded_rows = demanded(converted, table.demands, table.schema, table.options)
    return within_partition_bounds(demanded_rows, table.least)


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


def rejects_of(code: RejectCode, offsets: npt.NDArray[np.int64], path: str = "") -> list[Reject]:
    """Reject the records of some offsets, for a column or as a whole, with the words of a code."""
    meaning = CODE_INFO[code]
    error = RejectError(code, meaning.fact, path)
    stage, name, message = str(meaning.stage), str(code), error.message
    return [Reject(offset, stage, name, message) for offset in offsets.tolist()]


def merge_rejects(converted: _Either, rejects: Sequence[Reject]) -> _Either:
    """Put further rejects among those of a batch, by their offsets."""
    if not rejects:
        return converted
    everyone = sorted((*converted.rejects, *rejects), key=lambda reject: reject.offset)
    return replace(converted, rejects=tuple(everyone))


def count_by_code(rejects: Sequence[Reject]) -> dict[str, int]:
    """Count rejects by code."""
    return dict(Counter(reject.code for reject in rejects))


def policy_for(reject: Reject, options: RowOptions) -> Policy:
    """Return what is to be done about a refused record."""
    if reject.code == RejectCode.UNKNOWN_FIELD:
        return options.columns
    return options.types if reject.code in _OF_TYPES else "quarantine"
