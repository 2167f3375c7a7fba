"""The columns beside a record's payload that are read: typed keys, and headers by their names.

A record whose key or header does not fit is rejected like one whose value does not.

Invariants: keys are read as values are, by the same readers and converters; of several headers with
one name the last counts, as Kafka's `lastHeader`; a header that a record has not is null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult
from penstock.rows.cast.record_cast import compile_record_cast
from penstock.rows.cast.rescued_column import LeftOut
from penstock.rows.convert.blocks import ConversionPlan, convert_group
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.decode.keys import decoded_keys, key_field, key_options
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import NO_TEXT, RejectCode, RejectError


@dataclass(frozen=True, slots=True)
class ExtraColumns:
    """Columns by name, and the rejects by position; columns are null there."""

    columns: dict[str, pa.Array]
    rejects: dict[int, RejectError]


def key_and_header_columns(
    batch: pa.RecordBatch, schema: Schema, options: RowOptions, readers: ReaderCache
) -> ExtraColumns:
    """Read the columns of typed keys and of headers that a table has.

    Raises what `Registry.find` raises.
    """
    found = ExtraColumns({}, {})
    field = key_field(schema, options)
    if field is not None:
        found.columns[field.name] = _keys(batch, field, options, readers, found.rejects)
    for column, header in options.header_columns.items():
        field = schema.field(column)
        if field is not None:
            found.columns[column] = _header(batch, header, field, options, found.rejects)
    return found


def _keys(
    batch: pa.RecordBatch,
    field: Field,
    options: RowOptions,
    readers: ReaderCache,
    errors: dict[int, RejectError],
) -> pa.Array:
    own = key_options(options)
    refused: dict[int, RejectError] = {}
    pieces: list[tuple[npt.NDArray[np.int64], pa.Array]] = []
    for group in decoded_keys(batch, options, readers, refused):
        whole = isinstance(field.type, Struct) and group.reader is not None
        table = field.type if whole else Struct((Field(VALUE_COLUMN, field.type),))
        assert isinstance(table, Struct), "a whole key is a struct"
        plan = ConversionPlan.of(table, own)
        fitted = BlockResult.concat(list(convert_group(group, plan)), plan.payload)
        refused |= fitted.rejects
        pieces.append((fitted.positions, fitted.rows if whole else fitted.rows.field(0)))
    for at, error in refused.items():
        path = f"{field.name}.{error.path}" if error.path else field.name
        errors.setdefault(at, RejectError(error.code, error.reason, path))
    array = _placed(pieces, len(batch), arrow_type(field.type))
    _require(array, field, options, errors)
    return array


def _placed(
    pieces: list[tuple[npt.NDArray[np.int64], pa.Array]], count: int, type_: pa.DataType
) -> pa.Array:
    """Put the values of pieces at their positions, and null elsewhere."""
    if not pieces:
        return pa.nulls(count, type_)
    index = np.full(count, -1, np.int64)
    at = np.concatenate([positions for positions, _ in pieces])
    index[at] = np.arange(len(at))
    return pa.concat_arrays([rows for _, rows in pieces]).take(pa.array(index, mask=index < 0))


def _header(
    batch: pa.RecordBatch,
    header: str,
    field: Field,
    options: RowOptions,
    errors: dict[int, RejectError],
) -> pa.Array:
    fit = _text_fit(field, options)
    values: list[Any] = [None] * len(batch)
    for at, entries in enumerate(_headers(batch)):
        named = [entry["value"] for entry in entries or () if entry["key"] == header]
        if not named or named[-1] is None:
            continue
        try:
            values[at] = fit(named[-1])
        except RejectError as error:
            errors.setdefault(at, error.at_path(field.name))
    array = pa.array(values, arrow_type(field.type))
    _require(array, field, options, errors)
    return array


def _headers(batch: pa.RecordBatch) -> list[Any]:
    names = batch.schema.names
    return batch.column("headers").to_pylist() if "headers" in names else [None] * len(batch)


def _text_fit(field: Field, options: RowOptions) -> Callable[[bytes], Any]:
    """Return what makes a column's value of a header's bytes."""
    if field.type is Kind.BINARY:
        return lambda data: data
    fit = compile_record_cast(Struct((Field(VALUE_COLUMN, field.type),)), key_options(options))

    def read(data: bytes) -> Any:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RejectError(RejectCode.NOT_UTF8, "the header is not UTF-8", field.name) from error
        try:
            return fit({VALUE_COLUMN: text}, LeftOut())[VALUE_COLUMN]
        except RejectError as error:
            raise RejectError(error.code, error.reason, field.name) from error

    return read


def _require(
    array: pa.Array, field: Field, options: RowOptions, errors: dict[int, RejectError]
) -> None:
    if field.required:
        missing = RejectError(RejectCode.MISSING, "a required column is null", field.name)
        for at in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            errors.setdefault(at, missing)
    if field.type is Kind.STRING and field.name in options.not_empty:
        empty = pc.equal(array, "").fill_null(False).to_numpy(zero_copy_only=False)
        for at in np.flatnonzero(empty).tolist():
            errors.setdefault(at, RejectError(RejectCode.EMPTY_TEXT, NO_TEXT, field.name))
