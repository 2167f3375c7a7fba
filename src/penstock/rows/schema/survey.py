"""Finds the columns that a batch of any format needs, for tables that do not exist yet."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from penstock.core.schema import Field, Kind, Schema, Struct, Type
from penstock.core.schema_join import join, united
from penstock.core.schema_walk import merge
from penstock.rows.arrow_arrays import validity_of
from penstock.rows.bisection import bisect_on_error
from penstock.rows.decode.decoder import ReaderCache, decode_values
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.decode.keys import decoded_keys
from penstock.rows.options import RowOptions
from penstock.rows.schema.inference import columns_in, infer, usable_columns


def survey(
    batch: pa.RecordBatch, options: RowOptions, readers: ReaderCache, *, columns_max: int
) -> Schema:
    """Join the schemas of a batch's records, those that can be read.

    Raises what `Registry.find` raises.
    """
    make = partial(_survey, options=options, readers=readers, columns_max=columns_max)
    first, *others = bisect_on_error(batch, make).parts or [Struct(())]
    for each in others:
        wider = united((first, each))
        if columns_in(wider) <= columns_max:
            first = wider
    return first


def _survey(
    batch: pa.RecordBatch, *, options: RowOptions, readers: ReaderCache, columns_max: int
) -> Schema:
    valued = validity_of(batch.column("value"))
    joined: Struct = Struct(())
    for group in decode_values(batch, np.flatnonzero(valued), options, readers, {}).groups:
        if group.reader is not None:
            asked = usable_columns(group.reader.type)
        else:
            shown = infer(
                pa.record_batch({"value": group.values}),
                record_bytes_max=options.record_bytes_max,
                depth_max=options.depth_max,
                columns_max=columns_max,
            )
            declared = usable_columns(group.type) if isinstance(group.type, Struct) else Struct(())
            both = merge(
                declared, shown, lambda own, other, _: other if own is Kind.UNKNOWN else own
            )
            assert isinstance(both, Struct), "structs merge to a struct"
            asked = both
        wider = united((joined, options.asked_for(asked)))
        if columns_in(wider) <= columns_max:
            joined = wider
    column = options.source_columns.get("key")
    if column is None or options.key_format == "bytes":
        return joined
    # The type that typed keys ask for replaces a field of that name.
    own = tuple(field for field in joined.fields if field.name != column)
    return Struct((*own, Field(column, _key_type(batch, options, readers))))


def _key_type(batch: pa.RecordBatch, options: RowOptions, readers: ReaderCache) -> Type:
    """Join the types that the keys of a batch ask for, `unknown` when they have none."""
    joined: Type = Kind.UNKNOWN
    for group in decoded_keys(batch, options, readers, {}):
        if group.reader is not None:
            asked = usable_columns(group.reader.type)
        elif group.type is not Kind.UNKNOWN:
            asked = usable_columns(Struct((Field(VALUE_COLUMN, group.type),)))
        else:
            asked = infer(pa.record_batch({"value": group.values}))
        only = asked.field(VALUE_COLUMN) if len(asked.fields) == 1 else None
        if asked.fields:
            joined, _ = join(joined, asked if only is None else only.type)
    return joined
