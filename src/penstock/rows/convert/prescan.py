"""Tell at C speed which records of a failed block are plain enough for the block parser.

Invariant: the answer is a guess that costs time when wrong and never a row: a record called plain
is parsed by the block parser, which checks it, and any other by the record converter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.schema import Decimal, Kind, List, Schema, Struct, Type
from penstock.rows.decode.json.exact_text import NUMERIC

Mask = npt.NDArray[np.bool_]
_INT = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
_LONG = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_NUMBER = int | float | Annotated[str, msgspec.Meta(pattern=f"^(?:{NUMERIC.pattern})$")]
"""What stands for a decimal: pyarrow.json reads them out of texts as well."""

_PLAIN: dict[Kind, Any] = {
    Kind.UNKNOWN: None,
    Kind.BOOLEAN: bool,
    Kind.INT: _INT,
    Kind.LONG: _LONG,
    Kind.FLOAT: float,
    Kind.DOUBLE: float,
}


@dataclass(frozen=True, slots=True)
class PrescanResult:
    """Which values look like records of a schema, and which seem to be no JSON at all."""

    plain: Mask
    broken: Mask


def prescan(values: pa.BinaryArray, schema: Schema) -> PrescanResult:
    """Look at each value."""
    decode = _decoder(schema)
    found = np.zeros(len(values), np.bool_)
    broken = np.zeros(len(values), np.bool_)
    if decode is None:
        return PrescanResult(found, broken)
    for index, value in enumerate(values.to_pylist()):
        try:
            decode(value)
        except (msgspec.ValidationError, RecursionError):
            continue
        except (msgspec.DecodeError, UnicodeDecodeError):
            broken[index] = True
            continue
        found[index] = True
    return PrescanResult(found, broken)


@lru_cache(maxsize=64)
def _decoder(schema: Schema) -> Callable[[bytes], Any] | None:
    try:
        return msgspec.json.Decoder(_plain_type(schema)).decode
    except ValueError:
        # msgspec has no place for some names (quotes, control characters).
        return None


def _plain_type(type_: Type) -> Any:
    match type_:
        case Struct(fields):
            names = {f"f{index}": field.name for index, field in enumerate(fields)}
            members = [
                (alias, _optional(field.type), None)
                for alias, field in zip(names, fields, strict=True)
            ]
            return msgspec.defstruct(
                "Plain", members, rename=names, forbid_unknown_fields=True, gc=False
            )
        case List(element):
            return list[_optional(element)]  # type: ignore[misc]
        case Decimal():
            return _NUMBER
        case Kind():
            return _PLAIN.get(type_, str)
        case _:
            return str


def _optional(type_: Type) -> Any:
    return None if type_ is Kind.UNKNOWN else _plain_type(type_) | None
