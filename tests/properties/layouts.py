"""The partitions that a table may have: which transform takes which column, and which value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.properties.filters import FLOATS
from tests.properties.nasty_values import columns_without, values_of

from penstock.core.schema import Decimal, Fixed, Kind, Type

Layout = Sequence[tuple[str, str]]
"""Partition transforms, by name, and the columns that they read."""

_CALENDAR = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)


def is_transformed(transform: str, type_: Type) -> bool:
    """Return whether a partition transform of Iceberg takes a type."""
    match transform:
        case "identity":  # others are refused: readers disagree on them
            return type_ not in (*FLOATS, Kind.UUID) and not isinstance(type_, Fixed)
        case "bucket":
            return type_ not in (Kind.BOOLEAN, *FLOATS)
        case "truncate":
            numbers = (Kind.INT, Kind.LONG, Kind.STRING, Kind.BINARY)
            return type_ in numbers or isinstance(type_, Decimal)
        case "hour":
            return type_ in _CALENDAR
        case _:
            return type_ in (*_CALENDAR, Kind.DATE)


TRANSFORMS = {
    **{name: f"{name}({{}})" for name in ("identity", "year", "month", "day", "hour")},
    "bucket": "bucket(4, {})",
    "truncate": "truncate(10, {})",
}
LAYOUTS = tuple(
    (name, column)
    for name in TRANSFORMS
    for column, type_ in columns_without().items()
    if is_transformed(name, type_)
)
"""Every partition transform on every column that it takes."""


def fits(transform: str, type_: Type, value: Any) -> bool:
    """Return whether a value has a partition: rounded down it may be none of its type."""
    if transform == "plain":
        return value != ""  # which is null in Delta
    if transform != "truncate" or value is None or type_ in (Kind.STRING, Kind.BINARY):
        return True
    low = min(values_of(type_))
    return bool(value > low)
