"""One decoded scalar becomes the exact value of a column type, or a reject that says why.

A scalar comes from JSON, where a number is still its text, or from a format with types
(logical_types.py).

Invariants: nothing is rounded but the digits of a fractional JSON number in a float or double,
once, to the nearest; numbers with a type stay exact or are rejected; text is read as a number only
in decimal notation; base64 and UUID text are taken only in their one standard form.

Values are what `pyarrow.array` takes: dates, times and timestamps are integers of their unit.

Source: data.md 2.
"""

from __future__ import annotations

import decimal
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from penstock.core.schema import Decimal, Fixed, Kind
from penstock.rows.cast import iso8601
from penstock.rows.decode.json.exact_text import (
    NUMERIC,
    base64_bytes,
    float32_of,
    number_parts,
    require_exact,
)
from penstock.rows.decode.json.parser import JsonNumber, kind_of
from penstock.rows.decode.logical_types import DateValue, Temporal, TimestampValue, TimeValue
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode, RejectError

Scalar = Callable[[Any], Any]

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_SHORT_DIGITS = 18
_BOOLEANS = {"true": True, "false": False}
_UUID_BYTES = 16
_ZEROS_MAX = 400
_FLOAT_MAX = float(np.finfo(np.float32).max)
_TAKEN = {DateValue: "a date", TimeValue: "a time of day", TimestampValue: "a time stamp"}
BITS = {Kind.INT: 31, Kind.LONG: 63}
"""The bits of an integer type, without the sign."""

READABLE: Mapping[Any, str] = MappingProxyType(
    {
        **dict.fromkeys((Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Decimal), NUMERIC.pattern),
        **iso8601.READABLE,
        Kind.BOOLEAN: "true|false",
        Kind.UUID: _UUID.pattern,
    }
)
"""What a text must be to be read as a value of a type: any other is rejected for the same
reason.
"""


def scalar_cast(type_: Kind | Decimal | Fixed, options: RowOptions) -> Scalar:
    """Return the function that converts one non-null value; it raises RejectError."""
    match type_:
        case Decimal():
            return partial(_decimal, type_=type_)
        case Fixed(length):
            return partial(_fixed, length=length)
        case Kind.INT | Kind.LONG:
            return partial(_integer, bits=BITS[type_])
        case Kind() if type_ in iso8601.LOCAL:
            unit, drop = iso8601.LOCAL[type_], options.drop_offset
            return _dated(
                partial(iso8601.timestamp, unit=unit, drop_offset=drop),
                TimestampValue,
                partial(_local, unit=unit, drop_offset=drop),
            )
        case Kind() if type_ in iso8601.INSTANTS:
            unit = iso8601.INSTANTS[type_]
            zone = None if options.assume_zone is None else ZoneInfo(options.assume_zone)
            return _dated(
                partial(iso8601.timestamptz, unit=unit, zone=zone),
                TimestampValue,
                partial(_instant, unit=unit, zone=zone),
            )
        case _:
            return _SCALARS[type_]


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    found = _BOOLEANS.get(_text(value, "a boolean"))
    if found is None:
        raise RejectError(RejectCode.UNREADABLE, "the text is neither true nor false")
    return found


def _string(value: Any) -> str:
    if value.__class__ is str:
        return value
    return _text(value, "a string")


def _integer(value: Any, *, bits: int) -> int:
    if isinstance(value, JsonNumber) and len(value) <= _SHORT_DIGITS and value.isdecimal():
        short = int(value)
        if short < 1 << bits:
            return short
    if isinstance(value, Temporal):
        value = value.count
    sign, digits, exponent = number_parts(_numeric(value))
    if exponent < 0:
        raise RejectError(
            RejectCode.INEXACT, "the number has a fraction, the column holds integers"
        )
    if len(digits) + exponent <= len(str(1 << bits)):
        number: int = int(f"{sign}{digits}") * 10**exponent
        if -(1 << bits) <= number < 1 << bits:
            return number
    raise RejectError(RejectCode.OUT_OF_RANGE, f"the number does not fit {bits + 1} bits")


def _decimal(value: Any, *, type_: Decimal) -> decimal.Decimal:
    sign, digits, exponent = number_parts(_numeric(value))
    if exponent < -type_.scale:
        raise RejectError(
            RejectCode.INEXACT, f"more than {type_.scale} fraction digits for {type_}"
        )
    if len(digits) + exponent > type_.precision - type_.scale and digits != "0":
        raise RejectError(RejectCode.OUT_OF_RANGE, f"too many digits for {type_}")
    return decimal.Decimal(f"{sign}{digits}E{exponent}") if digits != "0" else decimal.Decimal(0)


def _double(value: Any) -> float:
    if isinstance(value, float):
        return value
    text = _numeric(value)
    return _unrounded(value, require_exact(text, float(text)))


def _float(value: Any) -> float:
    if isinstance(value, float):
        return _narrow(value)
    return _unrounded(value, float32_of(_numeric(value)))


def _unrounded(value: Any, number: float) -> float:
    """Return what a decimal with a type became, when it is the same; JSON's digits may round."""
    if isinstance(value, decimal.Decimal) and decimal.Decimal(number) != value:
        raise RejectError(RejectCode.INEXACT, "the decimal would be rounded")
    return number


def _narrow(number: float) -> float:
    """Return a double that is one of 32 bits as well."""
    if not math.isfinite(number):
        return number
    if abs(number) > _FLOAT_MAX:
        raise RejectError(RejectCode.OUT_OF_RANGE, "the number is too large for the column")
    if float(np.float32(number)) != number:
        raise RejectError(RejectCode.INEXACT, "the double would be rounded")
    return number


def _numeric(value: Any) -> str:
    if isinstance(value, JsonNumber):
        return value
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return _written(value)
    text = _text(value, "a number")
    if NUMERIC.fullmatch(text) is None:
        raise RejectError(RejectCode.UNREADABLE, "the text is not a number")
    return text


def _written(number: float | decimal.Decimal) -> str:
    """Write a number with all its digits; an integer without a point or an exponent."""
    if isinstance(number, int):
        return JsonNumber(number)
    exact = decimal.Decimal(number)
    if not exact.is_finite():
        raise RejectError(RejectCode.OUT_OF_RANGE, "not a finite number")
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int), "a finite number has an exponent"
    text = f"{'-' if sign else ''}{''.join(map(str, digits))}"
    if 0 <= exponent <= _ZEROS_MAX:
        return JsonNumber(text + "0" * exponent)
    return JsonNumber(f"{text}E{exponent}")


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return base64_bytes(_text(value, "base64 text"))


def _fixed(value: Any, *, length: int) -> bytes:
    data = _binary(value)
    if len(data) != length:
        raise RejectError(RejectCode.WRONG_LENGTH, f"{len(data)} bytes, the column holds {length}")
    return data


def _uuid(value: Any) -> bytes:
    if isinstance(value, bytes):
        return _fixed(value, length=_UUID_BYTES)
    text = _text(value, "a UUID")
    if _UUID.fullmatch(text) is None:
        raise RejectError(RejectCode.UNREADABLE, "the text is not a UUID (RFC 4122)")
    return bytes.fromhex(text.replace("-", ""))


def _dated(
    read: Callable[[str], int], taken: type[Temporal], count: Callable[[Any], int]
) -> Scalar:
    """Convert text by `read`, and what is a date or time already by `count` if it is `taken`."""

    def convert(value: Any) -> int:
        if isinstance(value, taken):
            return count(value)
        if isinstance(value, Temporal):
            reason = f"{kind_of(value)}, the column takes {_TAKEN[taken]}"
            raise RejectError(RejectCode.WRONG_TYPE, reason)
        if isinstance(value, JsonNumber | int | float | decimal.Decimal) and not isinstance(
            value, bool
        ):
            raise RejectError(RejectCode.UNIT_MISSING, "a number, and its unit is not declared")
        return read(_text(value, "a date or time"))

    return convert


def _local(stamp: TimestampValue, *, unit: iso8601.StampUnit, drop_offset: bool) -> int:
    local = iso8601.moment(stamp, unit)
    if stamp.zoned and not drop_offset:
        raise RejectError(RejectCode.ZONE_UNEXPECTED, "the time stamp is in UTC")
    return local


def _instant(stamp: TimestampValue, *, unit: iso8601.StampUnit, zone: ZoneInfo | None) -> int:
    moment = iso8601.moment(stamp, unit)
    return moment if stamp.zoned else iso8601.in_zone(moment, unit, zone)


def _nothing(value: Any) -> None:
    raise RejectError(RejectCode.WRONG_TYPE, f"{kind_of(value)}, the column holds nulls only")


def _text(value: Any, wanted: str) -> str:
    if isinstance(value, str) and not isinstance(value, JsonNumber):
        return value
    raise RejectError(RejectCode.WRONG_TYPE, f"{kind_of(value)}, the column takes {wanted}")


_SCALARS: dict[Kind, Scalar] = {
    Kind.UNKNOWN: _nothing,
    Kind.BOOLEAN: _boolean,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.STRING: _string,
    Kind.BINARY: _binary,
    Kind.UUID: _uuid,
    Kind.DATE: _dated(iso8601.date_days, DateValue, iso8601.checked_date),
    Kind.TIME: _dated(iso8601.time_us, TimeValue, iso8601.time_of_day_us),
}
