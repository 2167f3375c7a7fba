"""Where a record of a keyed table says what it does: upsert a row, delete it, truncate the table.

The operation becomes a column of the rows that are made of records. Where the table has that column
itself, it is read there; else the records are converted with one more, which no table has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Field, Kind, Schema
from penstock.rows.options import KeyedOptions, Operation, RowOptions

UPSERT, DELETE, TRUNCATE, UNKNOWN = range(4)
_NUMBERS: Mapping[Operation, int] = {"upsert": UPSERT, "delete": DELETE, "truncate": TRUNCATE}
_COLUMN = "_penstock_operation"
_OF_ENVELOPES: Mapping[str, Operation] = {
    "insert": "upsert",
    "update": "upsert",
    "read": "upsert",
    "delete": "delete",
}


@dataclass(frozen=True, slots=True)
class OperationColumn:
    """The column of the operation, and how records are read for a schema that has it.

    `shown` is what it is called in messages. `meanings` maps what it holds to what is done;
    `of_null` is what is done where it holds nothing.
    """

    field: Field
    shown: str
    options: RowOptions
    meanings: Mapping[str, Operation]
    of_null: int

    @classmethod
    def of(cls, schema: Schema, options: RowOptions) -> OperationColumn | None:
        """Find it; None where each record with a value is an upsert."""
        keyed = options.keyed
        assert keyed is not None, "the table has keys"
        if options.envelope != "none":
            return _of_envelope(schema, options)
        if keyed.operation_field is not None:
            field = _column(schema, keyed.operation_field, options)
            return cls(field, keyed.operation_field, options, keyed.operations, UNKNOWN)
        if keyed.operation_header is not None:
            return _of_header(schema, options, keyed, keyed.operation_header)
        return None

    @property
    def upserts_only(self) -> bool:
        """Return whether no record does anything else."""
        return {*self.meanings.values()} <= {"upsert"}

    def numbers(self, rows: pa.RecordBatch) -> npt.NDArray[np.int8]:
        """Return what is done with each row: UPSERT, DELETE, TRUNCATE, or UNKNOWN."""
        said = _texts(rows.column(self.field.name))
        meant = pa.array([_NUMBERS[each] for each in self.meanings.values()], pa.int8())
        places = pc.index_in(said, pa.array([*self.meanings], pa.string()))
        found = pc.if_else(said.is_valid(), meant.take(places).fill_null(UNKNOWN), self.of_null)
        numbers: npt.NDArray[np.int8] = found.cast(pa.int8()).to_numpy(zero_copy_only=False)
        return numbers


def _of_envelope(schema: Schema, options: RowOptions) -> OperationColumn:
    field = schema.field(options.change_columns.get("operation", ""))
    if field is None:
        field = Field(_COLUMN, Kind.STRING)
        changed = {**options.change_columns, "operation": _COLUMN}
        options = replace(options, change_columns=changed)
    return OperationColumn(field, field.name, options, _OF_ENVELOPES, UPSERT)


def _of_header(
    schema: Schema, options: RowOptions, keyed: KeyedOptions, header: str
) -> OperationColumn:
    named = (name for name, held in options.header_columns.items() if held == header)
    fields = (schema.field(name) for name in named)
    field = next((each for each in fields if each and each.type is Kind.STRING), None)
    if field is None:
        field = Field(_COLUMN, Kind.STRING)
        headers = {**options.header_columns, _COLUMN: header}
        options = replace(options, header_columns=headers)
    return OperationColumn(field, header, options, keyed.operations, UNKNOWN)


def _column(schema: Schema, name: str, options: RowOptions) -> Field:
    for field in schema.fields:
        if field.name == name:
            return field
        if options.spelling("", field.name) == options.spelling("", name):
            return field
    return Field(name, Kind.STRING)


def _texts(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return column
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(column), pa.string())
