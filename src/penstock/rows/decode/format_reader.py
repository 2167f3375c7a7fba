"""The interface of a format with types: blocks of values as columns, and single values as trees.

Both ways lead to the table's columns: columns by typed_columns.py, trees by record_cast.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Field, Kind, Struct
from penstock.rows.decode.json.parser import utf8_text
from penstock.rows.reject_codes import RejectError

T = TypeVar("T")
R = TypeVar("R")

VALUE_COLUMN = "value"
"""The column of values that are no records of named members."""


@dataclass(frozen=True, slots=True)
class DecodedBlock:
    """A row for each value; those that are `uncertain` mean nothing and are read one by one.

    Except for those in `rejects`, which holds, by position, why `record` rejects them.
    """

    array: pa.StructArray
    uncertain: npt.NDArray[np.bool_]
    rejects: Mapping[int, RejectError] = field(default_factory=dict)


class NoRowError(Exception):
    """Why a value holds no row to land: it is filtered, and counted under `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class FormatReader:
    """Reads values of one schema.

    `type` has the columns that the schema asks for, `unknown` where it does not say. `block` reads
    non-null values; a row that is not uncertain holds what `record` returns. `record` reads one
    value, and raises RejectError and NoRowError.
    """

    type: Struct
    block: Callable[[pa.BinaryArray], DecodedBlock]
    record: Callable[[bytes], dict[str, Any]]


def unread(count: int, type_: pa.DataType) -> DecodedBlock:
    """Return a block of a type with every value left to be read one by one."""
    return DecodedBlock(pa.nulls(count, type_), np.ones(count, np.bool_))


def or_none(read: Callable[[T], R], value: T) -> R | None:
    """Return what is read from a value, None where it is rejected."""
    try:
        return read(value)
    except RejectError:
        return None


def as_member(value: bytes) -> bytes:
    """Make a record of a JSON value, which has to be a single one."""
    return b'{"%s":%s}' % (VALUE_COLUMN.encode(), value)


def _bytes_block(values: pa.BinaryArray) -> DecodedBlock:
    return DecodedBlock(_bare(values), np.zeros(len(values), np.bool_))


def _text_block(values: pa.BinaryArray) -> DecodedBlock:
    try:
        return _bytes_block(values.cast(pa.string()))
    except pa.ArrowInvalid:  # one of them is no text: all are uncertain
        return unread(len(values), pa.struct({VALUE_COLUMN: pa.string()}))


def _bare(array: pa.Array) -> pa.StructArray:
    return pc.make_struct(array, field_names=[VALUE_COLUMN])


BYTES_READER = FormatReader(
    Struct((Field(VALUE_COLUMN, Kind.BINARY),)), _bytes_block, lambda value: {VALUE_COLUMN: value}
)
"""Takes values as they are."""
TEXT_READER = FormatReader(
    Struct((Field(VALUE_COLUMN, Kind.STRING),)),
    _text_block,
    lambda value: {VALUE_COLUMN: utf8_text(value)},
)
"""Takes values as UTF-8 text."""
