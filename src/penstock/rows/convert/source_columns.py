"""The source columns of a table: where each row came from.

Invariants: they are filled from the record's coordinates, never from its value; a timestamp that
no table can hold rejects the record like any other value.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.schema import Field, Kind, Schema
from penstock.rows.arrow_arrays import Mask, mask_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.cast import iso8601
from penstock.rows.cast.json_columns import without_text
from penstock.rows.options import SOURCE_TYPES, RowOptions
from penstock.rows.reject_codes import NO_TEXT, RejectCode, RejectError

_MS_US = 1000
_STAMP_MIN_MS = iso8601.STAMP_MIN // _MS_US
_STAMP_MAX_MS = iso8601.STAMP_MAX // _MS_US


def columns(
    batch: pa.RecordBatch, *, at: TopicPartition, schema: Schema, options: RowOptions
) -> dict[str, pa.Array]:
    """Return the source columns that a table has, by name. Raises InvalidError (P399)."""
    return {
        field.name: _cast(_column(role, batch, at), field)
        for role, field in _held(schema, options).items()
        if role != "key" or options.key_format == "bytes"
    }


def rejects(batch: pa.RecordBatch, schema: Schema, options: RowOptions) -> dict[int, RejectError]:
    """Find records with coordinates that do not fit the table's source columns."""
    found: dict[int, RejectError] = {}
    held = _held(schema, options)
    if (field := held.get("timestamp")) is not None:
        reason = "the record's time stamp is not in years 1 to 9999"
        error = RejectError(RejectCode.OUT_OF_RANGE, reason, field.name)
        found |= dict.fromkeys(np.flatnonzero(beyond(batch.column("timestamp"))).tolist(), error)
    for role in ("timestamp", "key", "headers"):
        if (field := held.get(role)) is not None and role in batch.schema.names:
            found |= missing(batch.column(role), field)
    if (field := held.get("key")) is not None and options.key_format == "bytes":
        found |= empty(batch.column("key"), field, options)
    return found


def missing(array: pa.Array, field: Field) -> dict[int, RejectError]:
    """Find the nulls of a column that is required."""
    error = RejectError(RejectCode.MISSING, "a required column is null", field.name)
    absent = np.flatnonzero(mask_of(array.is_null())) if field.required else np.zeros(0, np.int64)
    return dict.fromkeys(absent.tolist(), error)


def empty(array: pa.Array, field: Field, options: RowOptions) -> dict[int, RejectError]:
    """Find the empty texts, or bytes to become text, of a column that must have none."""
    if field.type is not Kind.STRING or field.name not in options.not_empty:
        return {}
    error = RejectError(RejectCode.EMPTY_TEXT, NO_TEXT, field.name)
    return dict.fromkeys(np.flatnonzero(without_text(array)).tolist(), error)


def beyond(stamps: pa.Array) -> Mask:
    """Return which timestamps lie outside of years 1 to 9999."""
    plain = stamps.cast(pa.timestamp("ms", "UTC")).view(pa.int64()).fill_null(0).to_numpy()
    outside: Mask = (plain < _STAMP_MIN_MS) | (plain > _STAMP_MAX_MS)
    return outside


def _held(schema: Schema, options: RowOptions) -> Mapping[str, Field]:
    return {
        role: field
        for role, column in options.source_columns.items()
        if (field := schema.field(column)) is not None
    }


def _column(role: str, batch: pa.RecordBatch, at: TopicPartition) -> pa.Array:
    match role:
        case "topic":
            return pa.repeat(pa.scalar(at.topic, pa.string()), len(batch))
        case "partition":
            return pa.repeat(pa.scalar(at.partition, pa.int32()), len(batch))
        case _ if role in batch.schema.names:
            return batch.column(role)
        case _:
            return pa.nulls(len(batch), arrow_type(SOURCE_TYPES[role]))


def _cast(array: pa.Array, field: Field) -> pa.Array:
    target = arrow_type(field.type)
    try:
        return array if array.type == target else array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidError(
            f"the source column {field.name} is a {field.type}, which cannot hold its values",
            code="P399",
            hint="name another column under  source_columns  in the spec",
        ) from error
