"""ISO 8601 text becomes days, microseconds or nanoseconds, exactly.

Invariants: years 1 to 9999 in UTC, nothing beyond, and no more than 64 bits count; a time names at
least hour and minute, nothing is filled in but absent seconds; digits beyond the unit must be
zeros.

Source: data.md 2, rows date, time, timestamp, timestamptz; Apache Iceberg table specification,
"Primitive Types".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from zoneinfo import ZoneInfo

from penstock.core.schema import Kind
from penstock.rows.decode.logical_types import NS, US, DateValue, TimestampValue, TimeValue
from penstock.rows.reject_codes import RejectCode, RejectError

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
_TIME = re.compile(_CLOCK)
_STAMP = re.compile(
    rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})[T ]{_CLOCK}(Z|[+-][0-9]{{2}}(?::?[0-9]{{2}})?)?"
)
READABLE = {
    Kind.DATE: _DATE.pattern,
    Kind.TIME: _TIME.pattern,
    Kind.TIMESTAMP: _STAMP.pattern,
    Kind.TIMESTAMPTZ: _STAMP.pattern,
    Kind.TIMESTAMP_NS: _STAMP.pattern,
    Kind.TIMESTAMPTZ_NS: _STAMP.pattern,
}
"""The required form of a text, by the type of its column."""
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_HOURS, _MINUTES = 24, 60
_DAY_SECONDS = 86_400

DAY_US = _DAY_SECONDS * US
DAY_MIN = date.min.toordinal() - _EPOCH_ORDINAL
DAY_MAX = date.max.toordinal() - _EPOCH_ORDINAL
STAMP_MIN = DAY_MIN * DAY_US
STAMP_MAX = (DAY_MAX + 1) * DAY_US - 1


@dataclass(frozen=True, slots=True)
class StampUnit:
    """What time stamps of a type count since 1970, and from where to where."""

    per_second: int
    low: int
    high: int
    name: str
    reach: str

    @property
    def fraction_digits(self) -> int:
        """The digits after the point of a second."""
        return len(str(self.per_second)) - 1


MICROS = StampUnit(US, STAMP_MIN, STAMP_MAX, "microseconds", "in years 1 to 9999")
_NANOS_MAX = (1 << 63) - 2
"""The counts beyond are no times in NumPy or pandas, or infinite in DuckDB."""
NANOS = StampUnit(NS, -_NANOS_MAX, _NANOS_MAX, "nanoseconds", "from 1677-09-21 to 2262-04-11")
LOCAL: Mapping[Kind, StampUnit] = MappingProxyType(
    {Kind.TIMESTAMP: MICROS, Kind.TIMESTAMP_NS: NANOS}
)
INSTANTS: Mapping[Kind, StampUnit] = MappingProxyType(
    {Kind.TIMESTAMPTZ: MICROS, Kind.TIMESTAMPTZ_NS: NANOS}
)
STAMPS: Mapping[Kind, StampUnit] = MappingProxyType({**LOCAL, **INSTANTS})
"""The types of time stamps, with the units of each; those of `INSTANTS` are in UTC."""


def date_days(text: str) -> int:
    """Read `YYYY-MM-DD` into days since 1970-01-01. Raises RejectError."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise RejectError(RejectCode.UNREADABLE, "the text is not a date (YYYY-MM-DD)")
    return _days(*found.groups())


def time_us(text: str) -> int:
    """Read `HH:MM[:SS[.fraction]]` into microseconds since midnight. Raises RejectError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise RejectError(RejectCode.UNREADABLE, "the text is not a time (HH:MM:SS)")
    return _clock(*found.groups(), unit=MICROS)


def timestamp(text: str, *, unit: StampUnit, drop_offset: bool) -> int:
    """Read a timestamp without offset, as units since 1970. Raises RejectError."""
    local, offset = _stamp(text, unit)
    if offset is not None and not drop_offset:
        raise RejectError(RejectCode.ZONE_UNEXPECTED, "the time stamp has an offset")
    return _in_range(local, unit)


def timestamptz(text: str, *, unit: StampUnit, zone: ZoneInfo | None) -> int:
    """Read a timestamp with offset, as units since 1970 UTC; `zone` is assumed where there is
    none. Raises RejectError.
    """
    local, offset = _stamp(text, unit)
    if offset is not None:
        return _in_range(local - _offset_seconds(offset) * unit.per_second, unit)
    return in_zone(local, unit, zone)


def in_zone(local: int, unit: StampUnit, zone: ZoneInfo | None) -> int:
    """Return the instant of a local time in the zone that is assumed. Raises RejectError."""
    if zone is None:
        raise RejectError(RejectCode.ZONE_MISSING, "the time stamp names no zone")
    return _in_range(_from_zone(local, unit, zone), unit)


def checked_date(date: DateValue) -> int:
    """Return days since 1970-01-01 that lie in years 1 to 9999. Raises RejectError."""
    if not DAY_MIN <= date.count <= DAY_MAX:
        raise RejectError(RejectCode.OUT_OF_RANGE, "the date is not in years 1 to 9999")
    return date.count


def time_of_day_us(time: TimeValue) -> int:
    """Return microseconds since midnight. Raises RejectError."""
    time_us = _exact(time, MICROS)
    if not 0 <= time_us < DAY_US:
        raise RejectError(RejectCode.OUT_OF_RANGE, "there is no such time of day")
    return time_us


def moment(stamp: TimestampValue, unit: StampUnit) -> int:
    """Return units since 1970. Raises RejectError."""
    return _in_range(_exact(stamp, unit), unit)


def _exact(value: TimeValue | TimestampValue, unit: StampUnit) -> int:
    whole, rest = divmod(value.count * unit.per_second, value.per_second)
    if rest:
        raise RejectError(RejectCode.INEXACT, f"finer than {unit.name}")
    return whole


def _stamp(text: str, unit: StampUnit) -> tuple[int, str | None]:
    found = _STAMP.fullmatch(text)
    if found is None:
        raise RejectError(RejectCode.UNREADABLE, "the text is not an ISO time stamp")
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    if offset is not None:
        _offset_seconds(offset)
    days = _days(year, month, day)
    seconds = days * _DAY_SECONDS
    return seconds * unit.per_second + _clock(hour, minute, second, fraction, unit=unit), offset


@lru_cache(maxsize=4096)
def _days(year: str, month: str, day: str) -> int:
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH_ORDINAL
    except ValueError as error:
        raise RejectError(RejectCode.OUT_OF_RANGE, "there is no such day") from error


def _clock(
    hour: str, minute: str, second: str | None, fraction: str | None, *, unit: StampUnit
) -> int:
    seconds = (int(hour) * _MINUTES + int(minute)) * 60 + int(second or 0)
    if int(hour) >= _HOURS or int(minute) >= _MINUTES or int(second or 0) >= _MINUTES:
        raise RejectError(RejectCode.OUT_OF_RANGE, "there is no such time of day")
    digits = (fraction or "").rstrip("0")
    if len(digits) > unit.fraction_digits:
        raise RejectError(RejectCode.INEXACT, f"the fraction is finer than {unit.name}")
    return seconds * unit.per_second + int(digits.ljust(unit.fraction_digits, "0"))


def _offset_seconds(offset: str) -> int:
    if offset == "Z":
        return 0
    hours, minutes = int(offset[1:3]), int(offset[3:].lstrip(":") or 0)
    if hours >= _HOURS or minutes >= _MINUTES:
        raise RejectError(RejectCode.OUT_OF_RANGE, "there is no such offset")
    seconds = (hours * _MINUTES + minutes) * 60
    return -seconds if offset[0] == "-" else seconds


def _from_zone(local: int, unit: StampUnit, zone: ZoneInfo) -> int:
    clock = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=local // unit.per_second)
    offset = clock.utcoffset()
    # A local time that occurs twice, or never, has another offset on the other fold.
    if offset is None or offset != clock.replace(fold=1).utcoffset():
        reason = "the local time is not unique in the assumed zone"
        raise RejectError(RejectCode.ZONE_MISSING, reason)
    return local - offset // timedelta(seconds=1) * unit.per_second


def _in_range(stamp: int, unit: StampUnit) -> int:
    if not unit.low <= stamp <= unit.high:
        raise RejectError(RejectCode.OUT_OF_RANGE, f"the time stamp is not {unit.reach}")
    return stamp
