"""Computes expressions over the rows of a batch, column by column, as Spark does in ANSI mode.

Invariants:
- a value is exactly Spark's, null included, or its row is marked as failed: where Spark would raise
  an error, for an overflow or a division by zero;
- a right side that Spark does not compute, after a left one that is null or decides, fails nothing;
- equal rows get equal values, whatever else is in the batch.

Source: `eval` of Spark's expressions (4.1): And, Or, BinaryArithmetic, SQLOrderingUtil.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal as Exact
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.expressions.tree import Call, ColumnValue, Constant, Node
from penstock.core.schema import Decimal, Kind, Type
from penstock.rows.arrow_arrays import Mask, mask_of, validity_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.cast import iso8601

_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000
_PARSED: dict[Kind, Callable[[str], Any]] = {
    Kind.BOOLEAN: lambda text: text == "true",
    Kind.INT: int,
    Kind.LONG: int,
    Kind.FLOAT: float,
    Kind.DOUBLE: float,
    Kind.STRING: str,
    Kind.DATE: dt.date.fromisoformat,
    Kind.TIMESTAMP: dt.datetime.fromisoformat,
    Kind.TIMESTAMPTZ: dt.datetime.fromisoformat,
    Kind.TIMESTAMP_NS: partial(iso8601.timestamp, unit=iso8601.NANOS, drop_offset=False),
    Kind.TIMESTAMPTZ_NS: partial(iso8601.timestamptz, unit=iso8601.NANOS, zone=None),
}
_COMPUTED = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
_LEAST: dict[Type, int] = {Kind.INT: -1 << 31, Kind.LONG: -1 << 63}


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A value for each row, and which rows have none because it cannot be computed."""

    values: pa.Array
    failed: Mask | None = None


def evaluate(node: Node, rows: pa.RecordBatch) -> Evaluated:
    """Compute an expression for each of some rows."""
    match node:
        case Constant():
            return Evaluated(pa.repeat(constant(node), rows.num_rows))
        case ColumnValue(path):
            column = rows.column(path[0])
            return Evaluated(pc.struct_field(column, list(path[1:])) if path[1:] else column)
        case Call("AND" | "OR"):
            return _decided(node, rows)
        case Call("IN", (value, *items)):
            given = evaluate(value, rows)
            return Evaluated(_among(given.values, items), given.failed)
        case Call("+" | "-" | "*" | "/"):
            return _arithmetic(node, rows)
        case Call("NEGATIVE", (value,), type_):
            return _negative(value, type_, rows)
        case Call(name, (one, other)) if name in _COMPARED:
            left, right = evaluate(one, rows), evaluate(other, rows)
            failed = _either(left, right, goes_on=None if name == "<=>" else validity_of)
            return Evaluated(_COMPARED[name](_ordered(left.values), _ordered(right.values)), failed)
    assert isinstance(node, Call), "literals and columns are above"
    given = evaluate(node.arguments[0], rows)
    values = _function(node.name, given.values, node.arguments[1:], node.type)
    return Evaluated(values, given.failed)


def constant(literal: Constant) -> pa.Scalar:
    """Return a constant as Arrow holds it."""
    kind = arrow_type(literal.type)
    if literal.text is None:
        return pa.scalar(None, kind)
    if isinstance(literal.type, Decimal):
        return pa.scalar(Exact(literal.text), kind)
    assert isinstance(literal.type, Kind), "constants are scalars"
    return pa.scalar(_PARSED[literal.type](literal.text), kind)


def _decided(node: Call, rows: pa.RecordBatch) -> Evaluated:
    left, right = (evaluate(each, rows) for each in node.arguments)
    join = pc.and_kleene if node.name == "AND" else pc.or_kleene
    decides = node.name == "OR"

    def goes_on(values: pa.Array) -> Mask:
        return ~mask_of(pc.equal(values, decides).fill_null(False))

    return Evaluated(join(left.values, right.values), _either(left, right, goes_on=goes_on))


def _either(
    left: Evaluated, right: Evaluated, *, goes_on: Callable[[pa.Array], Mask] | None = None
) -> Mask | None:
    """Join failures; `goes_on` returns for which left values the right ones are computed at all."""
    if right.failed is None:
        return left.failed
    failed = right.failed if goes_on is None else right.failed & goes_on(left.values)
    return failed if left.failed is None else left.failed | failed


def _among(values: pa.Array, items: Sequence[Node]) -> pa.Array:
    constants = [constant(each) for each in items if isinstance(each, Constant)]
    known = [each for each in constants if each.is_valid]
    values = _ordered(values)
    listed = _ordered(pa.array([each.as_py() for each in known], constants[0].type))
    found = pc.is_in(values, value_set=listed)
    unknown = values.is_null() if len(known) == len(constants) else pc.invert(found)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def _ordered(values: pa.Array) -> pa.Array:
    """Return values that Arrow compares: of -0.0 and 0.0 the latter, and bits as numbers."""
    if pa.types.is_floating(values.type):
        return pc.add(values, pa.scalar(0.0, values.type))
    return values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values


def _equal(left: pa.Array, right: pa.Array) -> pa.Array:
    found = pc.equal(left, right)
    if not pa.types.is_floating(left.type):
        return found
    return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare as Spark does, to whom NaN is the largest number."""
    found = pc.less(left, right)
    if not pa.types.is_floating(left.type):
        return found
    return pc.or_(found, pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left))))


def _same(left: pa.Array, right: pa.Array) -> pa.Array:
    both_null = pc.and_(left.is_null(), right.is_null())
    return pc.or_(_equal(left, right).fill_null(False), both_null)


_COMPARED: dict[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "=": _equal,
    "<=>": _same,
    "<>": lambda left, right: pc.invert(_equal(left, right)),
    "<": _less,
    ">": lambda left, right: _less(right, left),
    "<=": lambda left, right: pc.invert(_less(right, left)),
    ">=": lambda left, right: pc.invert(_less(left, right)),
}


def same(left: pa.Array, right: pa.Array) -> Mask:
    """Return which values of two columns of one type are the same, null being null's alone."""
    return mask_of(_same(_ordered(left), _ordered(right)))


def _arithmetic(node: Call, rows: pa.RecordBatch) -> Evaluated:
    left, right = (evaluate(each, rows) for each in node.arguments)
    first, second = (right, left) if node.name == "/" else (left, right)  # Spark begins with it
    failed = _either(first, second, goes_on=validity_of)
    values = _COMPUTED[node.name](left.values, right.values)
    if node.name == "/":
        by_zero = pc.and_(pc.equal(right.values, 0), left.values.is_valid())
        return Evaluated(values, _also(failed, mask_of(by_zero.fill_null(False))))
    if pa.types.is_integer(values.type):
        beyond = _beyond(node.name, left.values, right.values, values)
        return Evaluated(values, _also(failed, beyond & validity_of(values)))
    return Evaluated(values, failed)


def _negative(value: Node, type_: Type, rows: pa.RecordBatch) -> Evaluated:
    given = evaluate(value, rows)
    if type_ not in _LEAST:
        return Evaluated(pc.negate(given.values), given.failed)
    least = mask_of(pc.equal(given.values, _LEAST[type_]).fill_null(False))
    return Evaluated(pc.negate(given.values), _also(given.failed, least))


def _beyond(sign: str, left: pa.Array, right: pa.Array, result: pa.Array) -> Mask:
    """Return which results of whole numbers left their type's range, and came round."""
    beyond: Mask
    a, b, made = (each.fill_null(0).to_numpy() for each in (left, right, result))
    match sign:
        case "+":
            beyond = ((a ^ made) & (b ^ made)) < 0
        case "-":
            beyond = ((a ^ b) & (a ^ made)) < 0
        case _:
            least = np.iinfo(made.dtype).min
            divisor = np.where((a == 0) | (a == -1), 1, a)
            beyond = ((a == -1) & (b == least)) | ((divisor == a) & (made // divisor != b))
    return beyond


def _also(failed: Mask | None, more: Mask) -> Mask | None:
    if not more.any():
        return failed
    return more if failed is None else failed | more


def _function(name: str, values: pa.Array, others: Sequence[Node], type_: Type) -> pa.Array:
    match name:
        case "NOT":
            return pc.invert(values)
        case "IS NULL":
            return values.is_null()
        case "IS NOT NULL":
            return values.is_valid()
        case "LENGTH" if pa.types.is_binary(values.type):
            return pc.binary_length(values)
        case "LENGTH":
            return pc.utf8_length(values)
        case "CAST":
            return _converted(values, type_)
        case "YEAR" | "MONTH" | "DAY":
            return {"YEAR": pc.year, "MONTH": pc.month, "DAY": pc.day}[name](values).cast(
                pa.int32()
            )
        case "HOUR":
            return _hours(values)
        case "DATE_FORMAT":
            return _formatted(values, _text(others[0]))
        case "SUBSTRING":
            start = int(_text(others[0])) - 1
            stop = start + int(_text(others[1])) if others[1:] else None
            return pc.utf8_slice_codeunits(values, start, stop)
    raise AssertionError(f"{name} is no function of an expression")


def _text(node: Node) -> str:
    assert isinstance(node, Constant), "it is a constant"
    assert node.text is not None, "it is not null"
    return node.text


def _converted(values: pa.Array, type_: Type) -> pa.Array:
    target = arrow_type(type_)
    if pa.types.is_timestamp(values.type) and type_ is Kind.DATE:
        return _floored(values, _DAY_US).cast(pa.int32()).view(pa.date32())
    if type_ is Kind.TIMESTAMPTZ:  # of a day, or a time without a zone: UTC
        return values.cast(pa.timestamp("us")).view(target)
    return values.cast(target, safe=type_ is not Kind.DOUBLE)


def _floored(values: pa.Array, unit: int) -> pa.Array:
    """Return how many whole units of microseconds a time is after 1970."""
    counts = values.view(pa.int64())
    floor = counts.fill_null(0).to_numpy() // unit
    return pa.array(floor, mask=~validity_of(counts))


def _hours(values: pa.Array) -> pa.Array:
    hours = _floored(values, _HOUR_US)
    days = pc.multiply(_floored(values, _DAY_US), 24)
    return pc.subtract(hours, days).cast(pa.int32())


def _formatted(values: pa.Array, pattern: str) -> pa.Array:
    """Write days or times by a pattern of known letters, with everything else as it stands."""
    is_day = pa.types.is_date(values.type)
    day = values if is_day else _converted(values, Kind.DATE)
    parts = {
        "yyyy": lambda: _padded(pc.year(day), 4),
        "MM": lambda: _padded(pc.month(day), 2),
        "dd": lambda: _padded(pc.day(day), 2),
        "HH": lambda: _padded(pc.multiply(pc.day(day), 0) if is_day else _hours(values), 2),
    }
    pieces: list[Any] = []
    while pattern:
        letters = next((each for each in parts if pattern.startswith(each)), pattern[0])
        pieces.append(parts[letters]() if letters in parts else pa.scalar(letters))
        pattern = pattern[len(letters) :]
    return pc.binary_join_element_wise(*pieces, pa.scalar(""))


def _padded(numbers: pa.Array, width: int) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.string()), width, "0")
