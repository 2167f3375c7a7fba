"""What a format with types offers: blocks of values as columns, and single values as trees.

Both ways lead to the table's columns: columns by typed_columns.py, trees by record_cast.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Field, Kind, Struct
from penstock.rows.reject_codes import RejectCode, RejectError

VALUE_COLUMN = "value"
"""The column of values that are no records of named members."""


@dataclass(frozen=True, slots=True)
class DecodedBlock:
    """A row for each value; those that are `uncertain` mean nothing and are read one by one.

    But for those in `faults`, which tells, by position, why `record` rejects them.
    """

    array: pa.StructArray
    uncertain: npt.NDArray[np.bool_]
    rejects: Mapping[int, RejectError] = field(default_factory=dict)


class NoRowError(Exception):
    """Why a value holds no row to land: it is filtered, and counted under `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class FormatReader(Protocol):
    """Reads values of one schema."""

    @property
    def type(self) -> Struct:
        """Return the columns that the schema asks for, `unknown` where it does not tell."""
        ...

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Read non-null values; a row that is not uncertain holds what `record` gives."""
        ...

    def record(self, value: bytes) -> dict[str, Any]:
        """Read one value. Raises RejectError, and NoRowError."""
        ...


@dataclass(frozen=True, slots=True)
class BytesReader:
    """Takes values as they are."""

    @property
    def type(self) -> Struct:
        """Return the one column."""
        return Struct((Field(VALUE_COLUMN, Kind.BINARY),))

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Return values unread."""
        return DecodedBlock(_bare(values), np.zeros(len(values), np.bool_))

    def record(self, value: bytes) -> dict[str, Any]:
        """Return a value unread."""
        return {VALUE_COLUMN: value}


@dataclass(frozen=True, slots=True)
class TextReader:
    """Takes values as UTF-8 text."""

    @property
    def type(self) -> Struct:
        """Return the one column."""
        return Struct((Field(VALUE_COLUMN, Kind.STRING),))

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Return values as text; if one of them is none, all are uncertain."""
        try:
            return DecodedBlock(_bare(values.cast(pa.string())), np.zeros(len(values), np.bool_))
        except pa.ArrowInvalid:
            nothing = pa.nulls(len(values), pa.string())
            return DecodedBlock(_bare(nothing), np.ones(len(values), np.bool_))

    def record(self, value: bytes) -> dict[str, Any]:
        """Return a value as text. Raises RejectError."""
        try:
            return {VALUE_COLUMN: value.decode("utf-8")}
        except UnicodeDecodeError as error:
            reason = f"byte {error.start} is not UTF-8"
            raise RejectError(RejectCode.NOT_UTF8, reason) from error


def _bare(array: pa.Array) -> pa.StructArray:
    return pc.make_struct(array, field_names=[VALUE_COLUMN])
