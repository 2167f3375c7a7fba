"""Filters on one column: what they keep, in plain Python, and their form for each reader.

Invariants:
- `keeps` knows no library: null compares with nothing, strings by code points, bytes unsigned;
- readers differ on NaN and on the sign of zero, so `keeps` is given how a reader compares floats.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal as Exact
from enum import Enum, StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions as iceberg
from pyiceberg.expressions import BooleanExpression

from penstock.core.schema import Kind, Type
from penstock.rows.arrow_types import arrow_type

FLOATS = (Kind.FLOAT, Kind.DOUBLE)


class Op(StrEnum):
    """Name what a filter asks."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    IS_NULL = "is null"
    NOT_NULL = "is not null"
    IS_NAN = "is nan"
    NOT_NAN = "is not nan"
    STARTS = "starts with"


COMPARING: Mapping[Op, Callable[[Any, Any], bool]] = {
    Op.EQ: operator.eq,
    Op.NE: operator.ne,
    Op.LT: operator.lt,
    Op.LE: operator.le,
    Op.GT: operator.gt,
    Op.GE: operator.ge,
}


class Floats(Enum):
    """How a reader compares floats."""

    IEEE = "NaN compares with nothing, zeros are equal"
    NAN_LAST = "NaN is the greatest and equal to itself, zeros are equal"


@dataclass(frozen=True, slots=True)
class Filter:
    """Ask `op` of a column, by dotted path; `values` are one, but for IN (many) and tests (none)."""

    column: str
    type: Type
    op: Op
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        shown = ", ".join(repr(each)[:60] for each in self.values)
        return f"{self.column} {self.op} {shown}".strip()

    def keeps(self, value: Any, floats: Floats) -> bool:
        """Return whether a row with this value in the column is found."""
        match self.op:
            case Op.IS_NULL:
                return value is None
            case Op.NOT_NULL:
                return value is not None
            case Op.IS_NAN:
                return value is not None and math.isnan(value)
            case Op.NOT_NAN:
                return value is not None and not math.isnan(value)
            case Op.STARTS:
                return value is not None and value.startswith(self.values[0])
            case Op.IN:
                return any(_holds(operator.eq, value, each, floats) for each in self.values)
            case _:
                return _holds(COMPARING[self.op], value, self.values[0], floats)


def _holds(comparing: Callable[[Any, Any], bool], left: Any, right: Any, floats: Floats) -> bool:
    if left is None:
        return False
    if isinstance(left, float) and floats is Floats.NAN_LAST:
        return comparing(_rank(left), _rank(right))
    return comparing(left, right)


def _rank(value: float) -> tuple[int, float]:
    return (1, 0.0) if math.isnan(value) else (0, value)


# As PyIceberg takes it.

_ICEBERG: Mapping[Op, Callable[..., BooleanExpression]] = {
    Op.EQ: iceberg.EqualTo,
    Op.NE: iceberg.NotEqualTo,
    Op.LT: iceberg.LessThan,
    Op.LE: iceberg.LessThanOrEqual,
    Op.GT: iceberg.GreaterThan,
    Op.GE: iceberg.GreaterThanOrEqual,
    Op.STARTS: iceberg.StartsWith,
    Op.IS_NULL: iceberg.IsNull,
    Op.NOT_NULL: iceberg.NotNull,
    Op.IS_NAN: iceberg.IsNaN,
    Op.NOT_NAN: iceberg.NotNaN,
}


def to_iceberg(asked: Filter) -> BooleanExpression:
    """Write a filter for PyIceberg."""
    values = [_for_iceberg(each, asked.type) for each in asked.values]
    if asked.op is Op.IN:
        return iceberg.In(asked.column, values)
    return _ICEBERG[asked.op](asked.column, *values)


def _for_iceberg(value: Any, type_: Type) -> Any:
    return uuid.UUID(bytes=value) if type_ is Kind.UUID else value


# As Arrow's data sets take it.


def to_arrow(asked: Filter) -> pc.Expression:
    """Write a filter for a data set of pyarrow."""
    field = pc.field(*asked.column.split("."))
    type_ = arrow_type(asked.type)
    match asked.op:
        case Op.IS_NULL:
            return field.is_null()
        case Op.NOT_NULL:
            return ~field.is_null()
        case Op.IS_NAN:
            return pc.is_nan(field)
        case Op.NOT_NAN:
            return ~pc.is_nan(field)
        case Op.STARTS:
            return pc.starts_with(field, asked.values[0])
        case Op.IN:
            return field.isin(pa.array(asked.values, type_))
        case _:
            return COMPARING[asked.op](field, pa.scalar(asked.values[0], type_))


# As SQL.


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine's SQL writes what engines write differently."""

    quote: str
    binary: str
    double: str
    moment: str
    local: str
    starts: str

    def column(self, name: str) -> str:
        """Quote a column by dotted path."""
        return ".".join(f"{self.quote}{each}{self.quote}" for each in name.split("."))

    def literal(self, value: Any, type_: Type) -> str:
        """Write a value of a type."""
        match value:
            case bool():
                return "true" if value else "false"
            case float():
                text = "NaN" if math.isnan(value) else repr(value)
                return self.double.format(text, type_="float" if type_ is Kind.FLOAT else "double")
            case int():
                return f"CAST('{value}' AS {'int' if type_ is Kind.INT else 'bigint'})"
            case str():
                return self.text(value)
            case bytes():
                return self.binary.format(value.hex())
            case dt.datetime():
                text = value.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
                return (self.moment if value.tzinfo else self.local).format(text)
            case dt.date():
                return f"CAST('{value.isoformat()}' AS date)"
            case Exact():
                return f"CAST('{value:f}' AS {type_})"
        raise AssertionError(f"no SQL for {value!r}")

    def text(self, value: str) -> str:
        """Write a string; a quote is doubled, and nothing else means anything."""
        return "'" + value.replace("'", "''") + "'"


def to_sql(asked: Filter, dialect: Dialect) -> str:
    """Write a filter as a condition of SQL."""
    column = dialect.column(asked.column)
    values = [dialect.literal(each, asked.type) for each in asked.values]
    match asked.op:
        case Op.IS_NULL | Op.NOT_NULL:
            return f"{column} {asked.op}"
        case Op.IS_NAN:
            return f"isnan({column})"
        case Op.NOT_NAN:
            return f"({column} IS NOT NULL AND NOT isnan({column}))"
        case Op.STARTS:
            return dialect.starts.format(column, *values)
        case Op.IN:
            return f"{column} IN ({', '.join(values)})"
        case _:
            return f"{column} {asked.op} {values[0]}"


DUCKDB = Dialect(
    quote='"',
    binary="from_hex('{}')",
    double="CAST('{}' AS {type_})",
    moment="CAST('{}+00' AS timestamptz)",
    local="CAST('{}' AS timestamp)",
    starts="starts_with({}, {})",
)
DATAFUSION = Dialect(
    quote='"',
    binary="decode('{}', 'hex')",
    double="CAST('{}' AS {type_})",
    moment="arrow_cast('{}Z', 'Timestamp(Microsecond, Some(\"UTC\"))')",
    local="arrow_cast('{}', 'Timestamp(Microsecond, None)')",
    starts="starts_with({}, {})",
)
SPARK = Dialect(
    quote="`",
    binary="X'{}'",
    double="CAST('{}' AS {type_})",
    moment="TIMESTAMP '{} UTC'",
    local="TIMESTAMP_NTZ '{}'",
    starts="startswith({}, {})",
)
