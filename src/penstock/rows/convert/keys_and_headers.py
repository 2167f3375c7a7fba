"""The columns beside a record's payload that are read: typed keys, and headers by their names.

A record whose key or header does not fit is refused like one whose value does not.

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
from penstock.rows.block_result import Fitted
from penstock.rows.cast.record_cast import record_fit
from penstock.rows.cast.rescued_column import Drops
from penstock.rows.convert.blocks import Plan, fit_group
from penstock.rows.decode.decoder import Readers
from penstock.rows.decode.format_reader import BARE
from penstock.rows.decode.keys import decoded_keys, key_field, key_options
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import NO_TEXT, Code, MisfitError


@dataclass(frozen=True, slots=True)
class Beside:
    """Columns by name, and the misfits by position; columns are null there."""

    columns: dict[str, pa.Array]
    misfits: dict[int, MisfitError]


def columns_beside(
    batch: pa.RecordBatch, schema: Schema, options: RowOptions, readers: Readers
) -> Beside:
    """Read the columns of typed keys and of headers that a table has.

    Raises what `Registry.find` raises.
    """
    found = Beside({}, {})
    field = key_field(schema, options)
    if field is not None:
        found.columns[field.name] = _keys(batch, field, options, readers, found.misfits)
    for column, header in options.header_columns.items():
        field = schema.field(column)
        if field is not None:
            found.columns[column] = _header(batch, header, field, options, found.misfits)
    return found


def _keys(
    batch: pa.RecordBatch,
    field: Field,
    options: RowOptions,
    readers: Readers,
    misfits: dict[int, MisfitError],
) -> pa.Array:
    own = key_options(options)
    refused: dict[int, MisfitError] = {}
    pieces: list[tuple[npt.NDArray[np.int64], pa.Array]] = []
    for group in decoded_keys(batch, options, readers, refused):
        whole = isinstance(field.type, Struct) and group.reader is not None
        table = field.type if whole else Struct((Field(BARE, field.type),))
        assert isinstance(table, Struct), "a whole key is a struct"
        plan = Plan.of(table, own)
        fitted = Fitted.joined(list(fit_group(group, plan)), plan.payload)
        refused |= fitted.misfits
        pieces.append((fitted.positions, fitted.rows if whole else fitted.rows.field(0)))
    for at, misfit in refused.items():
        path = f"{field.name}.{misfit.path}" if misfit.path else field.name
        misfits.setdefault(at, MisfitError(misfit.code, misfit.reason, path))
    array = _placed(pieces, len(batch), arrow_type(field.type))
    _require(array, field, options, misfits)
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
    misfits: dict[int, MisfitError],
) -> pa.Array:
    fit = _text_fit(field, options)
    values: list[Any] = [None] * len(batch)
    for at, entries in enumerate(_headers(batch)):
        named = [entry["value"] for entry in entries or () if entry["key"] == header]
        if not named or named[-1] is None:
            continue
        try:
            values[at] = fit(named[-1])
        except MisfitError as misfit:
            misfits.setdefault(at, misfit.at(field.name))
    array = pa.array(values, arrow_type(field.type))
    _require(array, field, options, misfits)
    return array


def _headers(batch: pa.RecordBatch) -> list[Any]:
    names = batch.schema.names
    return batch.column("headers").to_pylist() if "headers" in names else [None] * len(batch)


def _text_fit(field: Field, options: RowOptions) -> Callable[[bytes], Any]:
    """Return what makes a column's value of a header's bytes."""
    if field.type is Kind.BINARY:
        return lambda data: data
    fit = record_fit(Struct((Field(BARE, field.type),)), key_options(options))

    def read(data: bytes) -> Any:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MisfitError(Code.NOT_UTF8, "the header is not UTF-8", field.name) from error
        try:
            return fit({BARE: text}, Drops())[BARE]
        except MisfitError as misfit:
            raise MisfitError(misfit.code, misfit.reason, field.name) from misfit

    return read


def _require(
    array: pa.Array, field: Field, options: RowOptions, misfits: dict[int, MisfitError]
) -> None:
    if field.required:
        missing = MisfitError(Code.MISSING, "a required column is null", field.name)
        for at in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
            misfits.setdefault(at, missing)
    if field.type is Kind.STRING and field.name in options.not_empty:
        empty = pc.equal(array, "").fill_null(False).to_numpy(zero_copy_only=False)
        for at in np.flatnonzero(empty).tolist():
            misfits.setdefault(at, MisfitError(Code.EMPTY_TEXT, NO_TEXT, field.name))
