"""Constants of expressions, as Spark types them.

Invariant: a text whose meaning depends on a session, but for its time zone, is no constant here;
times without a zone are those of UTC.

Source: "Literals" of Spark's SQL reference, and `DecimalType.fromDecimal`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal as Exact

from penstock.core.expressions.tree import Constant
from penstock.core.schema import PRECISION_MAX, Decimal, Kind, Type

_NUMBER = re.compile(r"([0-9.]+)([eE][+-]?[0-9]+)?(L|D|BD|)", re.IGNORECASE)
_STAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?)(Z|[+-]\d{2}:\d{2})?)?"
)
_INT_MAX, _LONG_MAX = (1 << 31) - 1, (1 << 63) - 1
_WHOLE = {Kind.INT, Kind.LONG}
_LEAST = {str(-_INT_MAX - 1), str(-_LONG_MAX - 1)}


class UnsupportedError(ValueError):
    """Why an expression is not of the subset that is computed here."""


def number(text: str) -> Constant:
    """Read a number without a sign. Raises UnsupportedError."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise UnsupportedError(f"{text[:40]} is not a supported number")
    digits, exponent, suffix = found[1], found[2] or "", found[3].upper()
    if suffix == "D" or (exponent and not suffix):
        value = float(digits + exponent)
        if not math.isfinite(value):
            raise UnsupportedError(f"{text[:40]} is not a supported number")
        return Constant(repr(value), Kind.DOUBLE)
    if exponent or (suffix == "L" and "." in digits):
        raise UnsupportedError(f"{text[:40]} is not a supported number")
    if suffix == "BD" or "." in digits:
        return _decimal(digits)
    return _whole(int(digits), Kind.LONG if suffix == "L" else Kind.INT)


def negative(value: Constant) -> Constant:
    """Return a number with its sign changed. Raises UnsupportedError."""
    assert value.text is not None, "null has no sign"
    text = value.text.removeprefix("-") if value.text.startswith("-") else f"-{value.text}"
    if text in _LEAST:  # an int, or a long, by the grammar that reads the sign with the digits
        raise UnsupportedError(f"the constant {text} is not supported")
    return Constant(text, value.type)


def temporal(text: str, kind: Kind) -> Constant:
    """Read a day, or a time with its day, years 1 to 9999. Raises UnsupportedError."""
    found = _STAMP.fullmatch(text.strip())
    if found is None or (kind is Kind.DATE and found[2]) or (kind is Kind.TIMESTAMP and found[3]):
        raise UnsupportedError(f"{text[:40]!r} is not a supported {kind}")
    try:
        if kind is Kind.DATE:
            return Constant(dt.date.fromisoformat(found[1]).isoformat(), kind)
        zone = (found[3] or "Z") if kind is Kind.TIMESTAMPTZ else ""
        value = dt.datetime.fromisoformat(f"{found[1]}T{_micros(found[2] or '00:00:00')}{zone}")
        if kind is Kind.TIMESTAMPTZ:
            value = value.astimezone(dt.UTC)
    except (ValueError, OverflowError) as error:
        raise UnsupportedError(f"{text[:40]!r} is not a supported {kind}") from error
    return Constant(value.isoformat(), kind)


def converted(value: Constant, type_: Type) -> Constant | None:
    """Return a constant in a wider type, None where a worker must convert it."""
    if value.text is None:
        return Constant(None, type_)
    if value.type is Kind.STRING and type_ in {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}:
        assert isinstance(type_, Kind), "they are all kinds"
        return temporal(value.text, type_)
    if value.type is Kind.FLOAT:
        return None
    if type_ is Kind.DOUBLE:
        return Constant(repr(float(value.text)), type_)
    if type_ is Kind.LONG or isinstance(type_, Decimal):
        return Constant(value.text, type_)
    return None


def assigned(value: Constant, type_: Type) -> Constant:
    """Return a constant as a column of some type holds it, exactly. Raises UnsupportedError."""
    if value.type == type_:
        return value
    if value.text is None:
        return Constant(None, type_)
    if isinstance(type_, Decimal) and (value.type in _WHOLE or isinstance(value.type, Decimal)):
        own = decimal_of(value)
        fits = own.scale <= type_.scale and own.precision - own.scale <= (
            type_.precision - type_.scale
        )
        if fits:
            return Constant(value.text, type_)
    wider = {Kind.LONG, Kind.DOUBLE} if value.type is Kind.INT else {Kind.DOUBLE}
    if type_ in wider and (value.type in _WHOLE or isinstance(value.type, Decimal)):
        return converted(value, type_) or value
    raise UnsupportedError(f"a {value.type} is not assigned to a {type_}")


def decimal_of(value: Constant) -> Decimal:
    """Return the type of a whole constant among decimals: of as many digits as it has."""
    assert value.text is not None, "null has no digits"
    return _type_of(Exact(value.text))


def _whole(value: int, least: Kind) -> Constant:
    """Return a whole number in the first type that holds it: of int, long and decimal."""
    if least is Kind.INT and value <= _INT_MAX:
        return Constant(str(value), Kind.INT)
    if value <= _LONG_MAX:
        return Constant(str(value), Kind.LONG)
    return _decimal(str(value))


def _decimal(digits: str) -> Constant:
    try:
        value = Exact(digits)
    except ArithmeticError as error:
        raise UnsupportedError(f"{digits[:40]} is not a supported number") from error
    return Constant(str(value), _type_of(value))


def _type_of(value: Exact) -> Decimal:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "it is finite"
    scale = -exponent
    precision = max(len(digits), scale)
    if precision > PRECISION_MAX:
        raise UnsupportedError(f"{value} has more than {PRECISION_MAX} digits")
    return Decimal(precision, scale)


def _micros(time: str) -> str:
    whole_seconds, _, fraction = time.partition(".")
    return f"{whole_seconds}.{fraction:0<6}" if fraction else whole_seconds
