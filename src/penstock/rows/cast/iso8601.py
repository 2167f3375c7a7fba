"""ISO 8601 text becomes days or microseconds, exactly.

Invariants: years 1 to 9999 in UTC, nothing beyond; a time names at least hour and minute, nothing
is filled in but absent seconds; digits beyond microseconds must be zeros.

Source: data.md 2, rows date, time, timestamp, timestamptz.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from penstock.core.schema import Kind
from penstock.rows.decode.logical_types import DateValue, TimestampValue, TimeValue
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
}
"""The required form of a text, by the type of its column."""
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_SECOND_US = 1_000_000
_FRACTION_DIGITS = 6
_HOURS, _MINUTES = 24, 60

DAY_US = 86_400 * _SECOND_US
DAY_MIN = date.min.toordinal() - _EPOCH_ORDINAL
DAY_MAX = date.max.toordinal() - _EPOCH_ORDINAL
STAMP_MIN = DAY_MIN * DAY_US
STAMP_MAX = (DAY_MAX + 1) * DAY_US - 1


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
    return _clock_us(*found.groups())


def timestamp_us(text: str, *, drop_offset: bool) -> int:
    """Read a timestamp without offset into microseconds since 1970. Raises RejectError."""
    local_us, offset = _stamp(text)
    if offset is not None and not drop_offset:
        raise RejectError(RejectCode.ZONE_UNEXPECTED, "the time stamp has an offset")
    return local_us


def timestamptz_us(text: str, *, zone: ZoneInfo | None) -> int:
    """Read a timestamp with offset into microseconds since 1970 UTC; `zone` is assumed where there
    is none. Raises RejectError.
    """
    local_us, offset = _stamp(text)
    if offset is not None:
        return _in_range(local_us - _offset_seconds(offset) * _SECOND_US)
    return in_zone_us(local_us, zone)


def in_zone_us(local_us: int, zone: ZoneInfo | None) -> int:
    """Return the instant of a local time in the zone that is assumed. Raises RejectError."""
    if zone is None:
        raise RejectError(RejectCode.ZONE_MISSING, "the time stamp names no zone")
    return _in_range(_from_zone(local_us, zone))


def checked_date(date: DateValue) -> int:
    """Return days since 1970-01-01 that lie in years 1 to 9999. Raises RejectError."""
    if not DAY_MIN <= date.count <= DAY_MAX:
        raise RejectError(RejectCode.OUT_OF_RANGE, "the date is not in years 1 to 9999")
    return date.count


def time_of_day_us(time: TimeValue) -> int:
    """Return microseconds since midnight. Raises RejectError."""
    time_us = _exact_us(time)
    if not 0 <= time_us < DAY_US:
        raise RejectError(RejectCode.OUT_OF_RANGE, "there is no such time of day")
    return time_us


def moment_us(stamp: TimestampValue) -> int:
    """Return microseconds since 1970. Raises RejectError."""
    return _in_range(_exact_us(stamp))


def _exact_us(value: TimeValue | TimestampValue) -> int:
    whole, rest = divmod(value.count * _SECOND_US, value.per_second)
    if rest:
        raise RejectError(RejectCode.INEXACT, "finer than microseconds")
    return whole


def _stamp(text: str) -> tuple[int, str | None]:
    found = _STAMP.fullmatch(text)
    if found is None:
        raise RejectError(RejectCode.UNREADABLE, "the text is not an ISO time stamp")
    year, month, day, hour, minute, second, fraction, offset = found.groups()
    if offset is not None:
        _offset_seconds(offset)
    days = _days(year, month, day)
    return days * DAY_US + _clock_us(hour, minute, second, fraction), offset


@lru_cache(maxsize=4096)
def _days(year: str, month: str, day: str) -> int:
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH_ORDINAL
    except ValueError as error:
        raise RejectError(RejectCode.OUT_OF_RANGE, "there is no such day") from error


def _clock_us(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    seconds = (int(hour) * _MINUTES + int(minute)) * 60 + int(second or 0)
    if int(hour) >= _HOURS or int(minute) >= _MINUTES or int(second or 0) >= _MINUTES:
        raise RejectError(RejectCode.OUT_OF_RANGE, "there is no such time of day")
    digits = (fraction or "").rstrip("0")
    if len(digits) > _FRACTION_DIGITS:
        raise RejectError(RejectCode.INEXACT, "the fraction is finer than microseconds")
    return seconds * _SECOND_US + int(digits.ljust(_FRACTION_DIGITS, "0"))


def _offset_seconds(offset: str) -> int:
    if offset == "Z":
        return 0
    hours, minutes = int(offset[1:3]), int(offset[3:].lstrip(":") or 0)
    if hours >= _HOURS or minutes >= _MINUTES:
        raise RejectError(RejectCode.OUT_OF_RANGE, "there is no such offset")
    seconds = (hours * _MINUTES + minutes) * 60
    return -seconds if offset[0] == "-" else seconds


def _from_zone(local_us: int, zone: ZoneInfo) -> int:
    clock = datetime(1970, 1, 1, tzinfo=zone) + timedelta(seconds=local_us // _SECOND_US)
    offset = clock.utcoffset()
    # A local time that occurs twice, or never, has another offset on the other fold.
    if offset is None or offset != clock.replace(fold=1).utcoffset():
        reason = "the local time is not unique in the assumed zone"
        raise RejectError(RejectCode.ZONE_MISSING, reason)
    return local_us - offset // timedelta(microseconds=1)


def _in_range(stamp_us: int) -> int:
    if not STAMP_MIN <= stamp_us <= STAMP_MAX:
        raise RejectError(RejectCode.OUT_OF_RANGE, "the time stamp is not in years 1 to 9999")
    return stamp_us
