"""Types the operators and functions of expressions, as Spark does in its ANSI mode.

Invariants:
- arguments of unlike types become alike only where nothing is lost, by a node `cast`; a decimal
  column and a double are not compared, and no result has digits beyond 38, which Spark would round;
- a day, and a time without a zone, that meet a time with one, are those of UTC.

Source: AnsiTypeCoercion, DecimalPrecision and the expressions' `inputTypes` in Spark 4.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.expressions.literals import (
    UnsupportedError,
    converted,
    decimal_of,
    negative,
)
from penstock.core.expressions.tree import Call, ColumnValue, Constant, Node
from penstock.core.schema import PRECISION_MAX, Decimal, Kind, Schema, Struct, Type

PATTERNS = frozenset(
    (
        *("yyyy", "MM", "dd", "HH", "yyyy-MM", "yyyyMM", "yyyy-MM-dd", "yyyyMMdd"),
        *("yyyy-MM-dd-HH", "yyyy-MM-dd HH", "yyyyMMddHH"),
    )
)
"""The patterns that DATE_FORMAT may have."""

_DIGITS = {Kind.INT: Decimal(10, 0), Kind.LONG: Decimal(20, 0)}
_FLOATS = {Kind.FLOAT, Kind.DOUBLE}
_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
_COMPARABLE = {Kind.BOOLEAN, Kind.STRING, *_TIMES, *_DIGITS, *_FLOATS}
_LENGTHS = {"LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH"}
_PARTS = {"YEAR": "YEAR", "MONTH": "MONTH", "DAY": "DAY", "DAYOFMONTH": "DAY"}


def column(schema: Schema, names: Sequence[str]) -> ColumnValue:
    """Find a column or a member of one, in whatever case. Raises UnsupportedError."""
    type_: Type = schema
    path: list[str] = []
    for name in names:
        if not isinstance(type_, Struct):
            raise UnsupportedError(f"{'.'.join(path)} has no member {name[:40]}")
        alike = [each for each in type_.fields if each.name.lower() == name.lower()]
        if len(alike) != 1:
            raise UnsupportedError(f"{'.'.join([*path, name[:40]])} is not one column")
        path.append(alike[0].name)
        type_ = alike[0].type
    return ColumnValue(tuple(path), type_)


def logical(name: str, *arguments: Node) -> Node:
    """Join or negate conditions."""
    return Call(name, tuple(_condition(each) for each in arguments), Kind.BOOLEAN)


def null_test(name: str, value: Node) -> Node:
    """Ask whether a value of any type is null."""
    return Call(name, (value,), Kind.BOOLEAN)


def compared(sign: str, left: Node, right: Node) -> Node:
    """Compare two values in the type that holds both."""
    type_ = _common(left, right)
    return Call(sign, (_cast(left, type_), _cast(right, type_)), Kind.BOOLEAN)


def within(value: Node, items: Sequence[Node]) -> Node:
    """Ask whether a value is among constants."""
    if not items or not all(isinstance(each, Constant) for each in items):
        raise UnsupportedError("IN is supported with a list of constants")
    if value.type in _TIMES and any(each.type is Kind.STRING for each in items):
        raise UnsupportedError("IN is supported for a day with a list like DATE'2024-02-29'")
    type_ = value.type
    for each in items:
        type_ = _common(ColumnValue((), type_) if type_ != value.type else value, each)
    nodes = (_cast(each, type_) for each in (value, *items))
    return Call("IN", tuple(nodes), Kind.BOOLEAN)


def arithmetic(sign: str, left: Node, right: Node) -> Node:
    """Compute with two numbers."""
    if {left.type, right.type} - {*_DIGITS, *_FLOATS} - _decimals(left, right):
        raise UnsupportedError(f"{sign} is supported between numbers only")
    if not any(isinstance(each.type, Decimal) for each in (left, right)):
        type_ = Kind.DOUBLE if sign == "/" else _common(left, right)
        return Call(sign, (_cast(left, type_), _cast(right, type_)), type_)
    if left.type in _FLOATS or right.type in _FLOATS:
        type_ = _common(left, right)
        return Call(sign, (_cast(left, type_), _cast(right, type_)), type_)
    first, second = _as_decimal(left), _as_decimal(right)
    if sign == "/":
        raise UnsupportedError("the division of decimals is not supported")
    type_ = _digits_of(sign, first.type, second.type)
    return Call(sign, (first, second), type_)


def negated(value: Node) -> Node:
    """Change the sign of a number."""
    if isinstance(value, Constant) and value.text is not None and _is_number(value.type):
        return negative(value)
    if not _is_number(value.type):
        raise UnsupportedError("a sign - is supported before numbers only")
    return Call("NEGATIVE", (value,), value.type)


def as_date(value: Node) -> Node:
    """Return the day of a day or time."""
    if value.type not in _TIMES:
        raise UnsupportedError(f"CAST of a {value.type} AS DATE is not supported")
    return _cast(value, Kind.DATE)


def function(name: str, arguments: Sequence[Node]) -> Node:
    """Call a function by its name in capitals."""
    match name, [each.type for each in arguments], arguments:
        case _, [Kind.STRING | Kind.BINARY], _ if name in _LENGTHS:
            return Call("LENGTH", tuple(arguments), Kind.INT)
        case _, [type_], [value] if name in _PARTS and type_ in _TIMES:
            return Call(_PARTS[name], (_cast(value, Kind.DATE),), Kind.INT)
        case "HOUR", [Kind.TIMESTAMP | Kind.TIMESTAMPTZ], _:
            return Call(name, tuple(arguments), Kind.INT)
        case "DATE_FORMAT", [type_, Kind.STRING], [_, Constant(str() as pattern)] if (
            type_ in _TIMES
        ):
            if pattern not in PATTERNS:
                raise UnsupportedError(f"the pattern {pattern[:40]!r} is not supported")
            return Call(name, tuple(arguments), Kind.STRING)
        case "SUBSTRING" | "SUBSTR", [Kind.STRING, *_], [_, Constant(), *rest] if len(rest) <= 1:
            return _substring(arguments)
        case _:
            given = ", ".join(str(each.type) for each in arguments)
            raise UnsupportedError(f"{name[:40]}({given}) is not supported")


def _substring(arguments: Sequence[Node]) -> Node:
    least = (1, 0)
    for each, low in zip(arguments[1:], least, strict=False):
        if each.type is not Kind.INT or not isinstance(each, Constant) or int(each.text or 0) < low:
            raise UnsupportedError("SUBSTRING is supported from a constant, for a constant length")
    return Call("SUBSTRING", tuple(arguments), Kind.STRING)


def _common(left: Node, right: Node) -> Type:
    """Return the type that two values are compared in. Raises UnsupportedError."""
    one, other = left.type, right.type
    if one is Kind.UNKNOWN or other is Kind.UNKNOWN or one == other:
        type_ = other if one is Kind.UNKNOWN else one
        if type_ in _COMPARABLE or isinstance(type_, Decimal):
            return type_
    elif _is_number(one) and _is_number(other):
        return _wider(left, right)
    elif one in _TIMES and other in _TIMES:
        return max(one, other, key=_TIMES.index)
    else:
        for time, text in ((one, right), (other, left)):
            if time in _TIMES and isinstance(text, Constant) and text.type is Kind.STRING:
                return time
    raise UnsupportedError(f"a {one} and a {other} are not compared")


def _wider(left: Node, right: Node) -> Type:
    one, other = left.type, right.type
    if one in _FLOATS or other in _FLOATS:
        for each in (left, right):
            if isinstance(each.type, Decimal) and not isinstance(each, Constant):
                raise UnsupportedError("a decimal column and a double are not compared")
        return Kind.DOUBLE
    if isinstance(one, Decimal) or isinstance(other, Decimal):
        first, second = _digits(one), _digits(other)
        return _bounded(
            max(first.precision - first.scale, second.precision - second.scale),
            max(first.scale, second.scale),
        )
    return Kind.LONG


def _digits_of(sign: str, one: Type, other: Type) -> Decimal:
    assert isinstance(one, Decimal), "both are decimals"
    assert isinstance(other, Decimal), "both are decimals"
    if sign == "*":
        scale = one.scale + other.scale
        return _bounded(one.precision + other.precision + 1 - scale, scale)
    whole = max(one.precision - one.scale, other.precision - other.scale) + 1
    return _bounded(whole, max(one.scale, other.scale))


def _bounded(whole: int, scale: int) -> Decimal:
    if whole + scale > PRECISION_MAX:
        raise UnsupportedError(f"it needs decimals of {whole + scale} digits")
    return Decimal(whole + scale, scale)


def _as_decimal(value: Node) -> Node:
    if isinstance(value.type, Decimal):
        return value
    return _cast(value, decimal_of(value) if isinstance(value, Constant) else _digits(value.type))


def _digits(type_: Type) -> Decimal:
    """Return the decimals that hold all numbers of a type without fractions, or a decimal type."""
    if isinstance(type_, Decimal):
        return type_
    assert isinstance(type_, Kind), "it is an int or a long"
    return _DIGITS[type_]


def _decimals(*nodes: Node) -> set[Type]:
    return {each.type for each in nodes if isinstance(each.type, Decimal)}


def _is_number(type_: Type) -> bool:
    return isinstance(type_, Decimal) or type_ in _DIGITS or type_ in _FLOATS


def _condition(value: Node) -> Node:
    if value.type not in {Kind.BOOLEAN, Kind.UNKNOWN}:
        raise UnsupportedError(f"a {value.type} is not a condition")
    return _cast(value, Kind.BOOLEAN)


def _cast(value: Node, type_: Type) -> Node:
    if value.type == type_:
        return value
    folded = converted(value, type_) if isinstance(value, Constant) else None
    return folded or Call("CAST", (value,), type_)
