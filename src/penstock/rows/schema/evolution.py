"""What rejected records ask of a table's schema, whatever their format.

A record whose schema is known asks for the columns and types of that schema, all at once; a plain
JSON record asks for what it holds (widening.py).

Invariants: those of widening.py; the answer is a function of the schema, the records, their schemas
and their order alone.

Source: data.md 3.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from penstock.core.schema import LEVELS_MAX, Schema, Struct
from penstock.core.schema_join import known
from penstock.rows.arrow_arrays import validity_of
from penstock.rows.bisection import bisect_on_error
from penstock.rows.decode.decoder import ReaderCache, ReaderGroup, decode_values
from penstock.rows.decode.format_reader import FormatReader, NoRowError
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectError
from penstock.rows.schema.inference import columns_in, usable_columns
from penstock.rows.schema.widening import EvolutionPolicy, widened, with_identifiers

_NULLS = EvolutionPolicy(columns=False, types=False, nulls=True)


def requested_schema(
    batch: pa.RecordBatch,
    schema: Schema,
    options: RowOptions,
    readers: ReaderCache,
    columns_left: int,
) -> Schema:
    """Widen a schema for a batch of records that it rejected, as far as the options give leave.

    A record that would bring more than `columns_left` further columns is left out, and so is one
    that raises an unexpected error. Raises what `Registry.find` raises.
    """
    wide, most = schema, columns_in(schema) + columns_left
    changes = _changes(schema, options)

    def widen(part: pa.RecordBatch) -> None:  # a part that raises leaves the schema as it was
        nonlocal wide
        valued = np.flatnonzero(validity_of(part.column("value")))
        groups = decode_values(part, valued, options, readers, changes).groups
        wide = _requested(groups, wide, options, most)

    bisect_on_error(batch, widen)
    return with_identifiers(wide, options.identifiers)


def _requested(
    groups: Iterable[ReaderGroup], wide: Schema, options: RowOptions, columns_max: int
) -> Schema:
    policy = EvolutionPolicy.of(options)
    apart = frozenset({*options.source_columns.values(), *options.header_columns})
    for group in groups:
        told = group.type if group.reader is None else group.reader.type
        if isinstance(told, Struct):
            shown = known(options.asked_for(usable_columns(told), wide))
            asked = policy.struct(wide, {f.name: f.type for f in shown.fields}, LEVELS_MAX, apart)
            wide = asked if columns_in(asked) <= columns_max else wide
        if group.reader is None:
            wide = widened(wide, group.values.to_pylist(), options, columns_max - columns_in(wide))
        elif policy.nulls:
            wide = _for_nulls(wide, group, group.reader, apart)
    return wide


def _changes(schema: Schema, options: RowOptions) -> dict[str, str]:
    changes = options.change_columns.items()
    return {role: column for role, column in changes if schema.field(column) is not None}


def _for_nulls(
    wide: Struct, group: ReaderGroup, reader: FormatReader, apart: frozenset[str]
) -> Struct:
    """Make columns optional in which a record has null."""
    for value in group.values.to_pylist():
        try:
            wide = _NULLS.struct(wide, reader.record(value), LEVELS_MAX, apart)
        except (RejectError, NoRowError):
            continue
    return wide
