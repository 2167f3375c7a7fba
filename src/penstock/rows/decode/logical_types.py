"""Values of formats with schemas that are no plain Python ones, and how numbers become them.

A decoded value is None, bool, int, float, `decimal.Decimal`, str, bytes, a list, a dict, or one of
the three here. A `LogicalType` says what a number, bytes or text of a schema means.

Invariant: a value is exactly that of the record, in the unit of the record.

Source: Apache Avro specification, "Logical Types"; Kafka Connect `org.apache.kafka.connect.data`;
Debezium connectors, "Temporal types".
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import pyarrow as pa

from penstock.core.schema import PRECISION_MAX, Decimal, Kind, Type
from penstock.rows.reject_codes import RejectCode, RejectError

MS, US, NS = 1000, 1_000_000, 1_000_000_000
PER_SECOND: Mapping[str, int] = MappingProxyType({"s": 1, "ms": MS, "us": US, "ns": NS})
"""By Arrow's units."""
DECIMAL_BYTES_MAX = 256
DECIMAL_SCALE_MAX = 1000


@dataclass(frozen=True, slots=True)
class DateValue:
    """A date: days since 1970-01-01."""

    count: int


@dataclass(frozen=True, slots=True)
class TimeValue:
    """A time of day: units since midnight."""

    count: int
    per_second: int


@dataclass(frozen=True, slots=True)
class TimestampValue:
    """A point in time: units since 1970, in UTC when it is `zoned`, else on a clock on the wall."""

    count: int
    per_second: int
    zoned: bool


Temporal = DateValue | TimeValue | TimestampValue


@dataclass(frozen=True, slots=True)
class EpochCount:
    """The number counts: days for a date, else units of a second."""

    type: Kind
    per_second: int = 0

    def value_of(self, count: int) -> Temporal:
        """Return a number as its logical type."""
        match self.type:
            case Kind.DATE:
                return DateValue(count)
            case Kind.TIME:
                return TimeValue(count, self.per_second)
            case _:
                return TimestampValue(count, self.per_second, zoned=self.type is Kind.TIMESTAMPTZ)


@dataclass(frozen=True, slots=True)
class UnscaledDecimal:
    """The bytes are a big-endian two's complement number of 10**-scale."""

    precision: int
    scale: int

    @property
    def type(self) -> Type:
        """Return the column type that holds it; `unknown` when there is none."""
        if not 1 <= self.precision <= PRECISION_MAX or not 0 <= self.scale <= self.precision:
            return Kind.UNKNOWN
        return Decimal(self.precision, self.scale)

    def value_of(self, data: bytes) -> decimal.Decimal:
        """Return bytes as their logical type."""
        return unscaled(data, self.scale)


@dataclass(frozen=True, slots=True)
class IsoText:
    """The text is a value of a type in its standard form."""

    type: Kind


@dataclass(frozen=True, slots=True)
class VariableScaleDecimal:
    """The record has a scale and unscaled bytes: a decimal with a scale that varies.

    The schema alone determines no column type: it takes a hint.
    """

    type: ClassVar[Type] = Kind.UNKNOWN


@dataclass(frozen=True, slots=True)
class JsonText:
    """The message is a tree without a schema, and its value the tree's JSON text."""

    type: ClassVar[Type] = Kind.STRING


LogicalType = EpochCount | UnscaledDecimal | IsoText | VariableScaleDecimal | JsonText
"""The meaning of a number, bytes or text; `type` is the column type that holds it."""

ARROW_TYPES: Mapping[EpochCount, pa.DataType] = MappingProxyType(
    {
        EpochCount(Kind.DATE): pa.date32(),
        EpochCount(Kind.TIME, MS): pa.time32("ms"),
        EpochCount(Kind.TIME, US): pa.time64("us"),
        EpochCount(Kind.TIME, NS): pa.time64("ns"),
        **{
            EpochCount(kind, PER_SECOND[unit]): pa.timestamp(unit, zone)
            for kind, zone in ((Kind.TIMESTAMPTZ, "UTC"), (Kind.TIMESTAMP, None))
            for unit in ("ms", "us", "ns")
        },
    }
)
"""The Arrow types of counts in columns: as wide as the numbers they are made of."""

NAMED: Mapping[str, LogicalType] = MappingProxyType(
    {
        "org.apache.kafka.connect.data.Date": EpochCount(Kind.DATE),
        "org.apache.kafka.connect.data.Time": EpochCount(Kind.TIME, MS),
        "org.apache.kafka.connect.data.Timestamp": EpochCount(Kind.TIMESTAMPTZ, MS),
        "io.debezium.time.Date": EpochCount(Kind.DATE),
        "io.debezium.time.Time": EpochCount(Kind.TIME, MS),
        "io.debezium.time.MicroTime": EpochCount(Kind.TIME, US),
        "io.debezium.time.NanoTime": EpochCount(Kind.TIME, NS),
        "io.debezium.time.Timestamp": EpochCount(Kind.TIMESTAMP, MS),
        "io.debezium.time.MicroTimestamp": EpochCount(Kind.TIMESTAMP, US),
        "io.debezium.time.NanoTimestamp": EpochCount(Kind.TIMESTAMP, NS),
        "io.debezium.time.ZonedTimestamp": IsoText(Kind.TIMESTAMPTZ),
        "io.debezium.data.Uuid": IsoText(Kind.UUID),
        "io.debezium.data.VariableScaleDecimal": VariableScaleDecimal(),
    }
)
"""The logical types by Connect's and Debezium's schema names; other names have none."""

CONNECT_DECIMAL = "org.apache.kafka.connect.data.Decimal"
CONNECT_DIGITS = "connect.decimal.precision"
"""Connect's Decimal names a scale only, unless this is among its parameters."""


def unscaled(data: bytes, scale: int) -> decimal.Decimal:
    """Read a big-endian two's complement number and move its point, exactly.

    Raises RejectError for a number that no type could hold.
    """
    if len(data) > DECIMAL_BYTES_MAX or abs(scale) > DECIMAL_SCALE_MAX:
        raise RejectError(RejectCode.OUT_OF_RANGE, "a decimal of so many digits")
    number = int.from_bytes(data, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return decimal.Decimal((int(number < 0), digits, -scale))
