"""Reads columns from records other than the payload: typed keys, and headers by name.

A key or header that does not fit rejects its record as a value does.

Invariants: keys are read as values are, by the same readers and converters; of several headers with
one name the last counts, as Kafka's `lastHeader`; a header that a record does not have is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Field, Kind, Schema, Struct
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult
from penstock.rows.cast.record_cast import compile_record_cast
from penstock.rows.cast.rescued_column import LeftOut
from penstock.rows.convert import source_columns
from penstock.rows.convert.blocks import ConversionPlan, convert_group
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.decode.keys import decoded_keys, key_field, key_options
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode, RejectError


def key_and_header_columns(
    batch: pa.RecordBatch, schema: Schema, options: RowOptions, readers: ReaderCache
) -> tuple[dict[str, pa.Array], dict[int, RejectError]]:
    """Read the columns of typed keys and of headers that a table has, by name, and the rejects by
    position; columns are null there.

    Raises what `Registry.find` raises.
    """
    columns: dict[str, pa.Array] = {}
    errors: dict[int, RejectError] = {}
    field = key_field(schema, options)
    if field is not None:
        columns[field.name] = _keys(batch, field, options, readers, errors)
    for column, header in options.header_columns.items():
        field = schema.field(column)
        if field is not None:
            columns[column] = _header(batch, header, field, options, errors)
    return columns, errors


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
    known = "headers" in batch.schema.names
    for at, entries in enumerate(batch.column("headers").to_pylist() if known else ()):
        named = [entry["value"] for entry in entries or () if entry["key"] == header]
        if not named or named[-1] is None:
            continue
        try:
            values[at] = fit(named[-1])
        except RejectError as error:
            errors.setdefault(at, RejectError(error.code, error.reason, field.name))
    array = pa.array(values, arrow_type(field.type))
    _require(array, field, options, errors)
    return array


def _text_fit(field: Field, options: RowOptions) -> Callable[[bytes], Any]:
    if field.type is Kind.BINARY:
        return lambda data: data
    fit = compile_record_cast(Struct((Field(VALUE_COLUMN, field.type),)), key_options(options))

    def read(data: bytes) -> Any:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RejectError(RejectCode.NOT_UTF8, "the header is not UTF-8") from error
        return fit({VALUE_COLUMN: text}, LeftOut())[VALUE_COLUMN]

    return read


def _require(
    array: pa.Array, field: Field, options: RowOptions, errors: dict[int, RejectError]
) -> None:
    found = source_columns.missing(array, field) | source_columns.empty(array, field, options)
    for at, error in found.items():
        errors.setdefault(at, error)
