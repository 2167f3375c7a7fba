"""Columns of every type that tables hold, and for each type the values that metadata get wrong.

The values lie at the ends of a type, on both sides of where an encoding turns round, and where a
bound is cut: U+D7FF and U+10FFFF have no successor, 4,096 bytes is what Arrow's footers bound.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Mapping
from decimal import Decimal as Exact
from typing import Any

from penstock.core.schema import Decimal, Field, Fixed, Kind, List, Map, Schema, Struct, Type

UTC = dt.UTC
MICROSECOND = dt.timedelta(microseconds=1)
MIDNIGHT = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - the type has no zone


def _single(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


_FLOATS = (0.0, -0.0, 1.0, -1.0, 1.5, math.nan, math.inf, -math.inf, 5.0, -5.0)
_TEXTS = (
    *("", "a", "m", "z", "y", "n", "A", "é", "\x00", "%", "_", "'", "\x7f", "\u0080", " "),
    *("\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "🙂"),
    *("a" * 15, "a" * 16, "a" * 17, "a" * 32, "a" * 33, "a" * 31 + "\ud7ff" + "b"),
    *("\ud7ff" * 16, "\ud7ff" * 17, "\uffff" * 17, "\U0010ffff" * 17, "\U0010ffff" * 33),
    *("b" * 15 + "\ud7ff" + "c", "b" * 32 + "\U0010ffff", "b" * 31 + "\uffff" + "\U00010000"),
    *("z" * 4095, "z" * 4096, "z" * 4097, "y" * 5000, "\U0010ffff" * 1100, "q" * 65536),
)
_BYTES = (
    *(b"", b"\x00", b"\x7f", b"\x80", b"\xff", b"a", b"m", b"\x00\x00", b"\xff" * 15),
    *(b"\xff" * 16, b"\xff" * 17, b"\x7f" + b"\xff" * 16, b"a" * 16, b"a" * 17),
    *(b"\x80" * 4096, b"m" * 4097, b"\xff" * 5000, b"z" * 65536),
)
_UUIDS = ("00" * 16, "ff" * 16, "7f" + "ff" * 15, "80" + "00" * 15, "00" * 8 + "80" + "00" * 7)
_DATES = (
    *(dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(1969, 12, 31)),
    *(dt.date(1582, 10, 4), dt.date(1900, 2, 28), dt.date(2000, 2, 29), dt.date(1969, 1, 1)),
)
_MOMENTS = (
    *(MIDNIGHT, MIDNIGHT - MICROSECOND, MIDNIGHT + MICROSECOND, MIDNIGHT - dt.timedelta(hours=1)),
    *(MIDNIGHT.replace(year=1), MIDNIGHT.replace(year=10_000 - 1) + dt.timedelta(days=364)),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999_999),  # noqa: DTZ001
    dt.datetime(1582, 10, 4, 12, 0, 0, 1),  # noqa: DTZ001
    dt.datetime(2024, 2, 29, 23, 59, 59, 999_500),  # noqa: DTZ001
    dt.datetime(1899, 12, 31, 23, 59, 59, 1_001),  # noqa: DTZ001
)
_TIMES = (dt.time(0), dt.time(23, 59, 59, 999_999), dt.time(12), dt.time(0, 0, 0, 1))

_POOLS: Mapping[Type, tuple[Any, ...]] = {
    Kind.BOOLEAN: (True, False),
    Kind.INT: (0, 1, -1, 9, 10, -9, -10, -11, 127, 128, 255, 256, 2**31 - 1, -(2**31), 10**9),
    Kind.LONG: (0, 1, -1, 9, 10, -10, -11, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**31),
    Kind.FLOAT: (*_FLOATS, *map(_single, (0.1, 3.4e38, -3.4e38, 1e-45, 16_777_217.0))),
    Kind.DOUBLE: (*_FLOATS, 0.1, 1e300, -1e300, 5e-324, 1.7976931348623157e308),
    Kind.STRING: _TEXTS,
    Kind.BINARY: _BYTES,
    Kind.UUID: tuple(bytes.fromhex(text) for text in _UUIDS),
    Kind.DATE: _DATES,
    Kind.TIME: _TIMES,
    Kind.TIMESTAMP: _MOMENTS,
    Kind.TIMESTAMPTZ: tuple(each.replace(tzinfo=UTC) for each in _MOMENTS),
}


def values_of(type_: Type) -> tuple[Any, ...]:
    """Return the values of a type, as `pyarrow` takes them: bytes for UUIDs."""
    match type_:
        case Decimal(precision, scale):
            most = 10**precision - 1
            units = (0, 1, -1, 10, -10, 49, -51, most, -most, most - 9, 10 ** (precision // 2))
            return tuple(Exact(f"{each}e-{scale}") for each in units if abs(each) <= most)
        case Fixed(length):
            return (
                *((each * length)[:length] for each in _BYTES[1:6]),
                b"\x00" * (length - 1) + b"\xff",
            )
        case _:
            return _POOLS[type_]


FLAT: Mapping[str, Type] = {
    "ok": Kind.BOOLEAN,
    "i": Kind.INT,
    "l": Kind.LONG,
    "f": Kind.FLOAT,
    "d": Kind.DOUBLE,
    "s": Kind.STRING,
    "b": Kind.BINARY,
    "u": Kind.UUID,
    "x": Fixed(4),
    "on_day": Kind.DATE,
    "tod": Kind.TIME,
    "local": Kind.TIMESTAMP,
    "ts": Kind.TIMESTAMPTZ,
    "n9": Decimal(9, 2),
    "n18": Decimal(18, 0),
    "n38": Decimal(38, 10),
}
"""Columns by name; a struct holds some of them once more."""

NOT_OF_DELTA = (Kind.UUID, Kind.TIME, Fixed(4))
INNER = {"t": Kind.STRING, "g": Kind.DOUBLE, "k": Kind.LONG}


def columns_without(*types: Type) -> dict[str, Type]:
    """Name the columns that filters are tried on, members of the struct by dotted path."""
    flat = {name: type_ for name, type_ in FLAT.items() if type_ not in types}
    return {**flat, **{f"in.{name}": type_ for name, type_ in INNER.items()}}


def schema_of(columns: Mapping[str, Type]) -> Schema:
    """Return the schema: `id`, then lists and maps between the columns, for readers that count."""
    flat = [Field(name, type_) for name, type_ in columns.items() if "." not in name]
    within = {name: columns.get(f"in.{name}") for name in INNER}
    inner = Struct(tuple(Field(name, type_) for name, type_ in within.items() if type_))
    return Struct(
        (
            Field("id", Kind.LONG),
            *flat[:5],
            Field("many", List(Kind.STRING)),
            Field("in", inner),
            *flat[5:],
            Field("more", Map(Kind.STRING, Kind.DOUBLE)),
        )
    )


def value_in(row: Mapping[str, Any], column: str) -> Any:
    """Look a value up by dotted path; a member of a null struct is null."""
    value: Any = row
    for name in column.split("."):
        value = None if value is None else value[name]
    return value
