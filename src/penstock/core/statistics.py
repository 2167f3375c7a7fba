"""Compares the metadata of a data file with the contents of the file. Pure.

Invariants:
- what metadata leaves out is right: a reader then reads the file;
- bounds may be wider than the values, since formats cut long ones, but never narrower: a reader
  skips a whole file by them, and a delete takes away a whole file by them;
- bounds cover numbers only, so a column with NaN has bounds only with the number of NaN.

Source: Apache Iceberg table specification, "Data File Fields"; Delta transaction log protocol,
"Per-file Statistics".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from penstock.core.schema import Kind

Value = Any
"""An int, float, Decimal or bytes, all of one column alike. Dates are days and times microseconds
since 1970, or nanoseconds where their type says so, booleans 0 and 1, texts their UTF-8."""
_SHOWN_CHARACTERS_MAX = 60
_SHOWN_VALUES_MAX = 3


class Fault(StrEnum):
    """Name what can be wrong with the metadata of a file."""

    FILE = "file"
    FILE_SIZE = "file size"
    RECORDS = "record count"
    VALUES = "value count"
    NULLS = "null count"
    NANS = "NaN count"
    LOWER = "lower bound"
    UPPER = "upper bound"
    PARTITION = "partition value"
    SUMMARY = "manifest's partition summary"
    COUNTS = "manifest's count"
    UNREADABLE = "statistics"


_HARM: Mapping[Fault, str] = {
    Fault.FILE: "reading the table fails",
    Fault.FILE_SIZE: "readers that find the footer by it fail, or read another one",
    Fault.RECORDS: "counts that are answered from metadata are wrong",
    Fault.VALUES: "a reader's filter can skip rows that match",
    Fault.NULLS: "a filter with IS NULL or IS NOT NULL can skip rows that match",
    Fault.NANS: "a reader's filter can skip rows, and a delete take away rows that do not match",
    Fault.LOWER: "a reader's filter can skip rows, and a delete take away rows that do not match",
    Fault.UPPER: "a reader's filter can skip rows, and a delete take away rows that do not match",
    Fault.PARTITION: "a reader's filter can skip rows, and some readers show the metadata's value",
    Fault.SUMMARY: "a reader's filter can skip all files of the manifest",
    Fault.COUNTS: "readers skip a manifest without files, writers leave it out; counts are wrong",
    Fault.UNREADABLE: "readers fail on it, or each takes it for something else",
}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One column of a table that is no struct, list or map, and how it is found in a file.

    `name` is the table's, with dots; files are asked for `field_id`, or else for `path`. `kind` is
    what its values are shown as.
    """

    name: str
    path: tuple[str, ...]
    field_id: int | None = None
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What metadata says of one column of a file; None where it says nothing."""

    column: Leaf
    values: int | None = None
    nulls: int | None = None
    nans: int | None = None
    lower: Value | None = None
    upper: Value | None = None


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """What a manifest list says of one partition field, over all files of a manifest.

    `has_nans` is None where it is not said. Without bounds a reader takes all values for null or
    NaN; where they exist and one of them is None, that one says nothing.
    """

    has_nulls: bool
    has_nans: bool | None
    is_bounded: bool
    lower: Value | None = None
    upper: Value | None = None

    def covers(self, value: Any) -> bool:
        """Return whether a reader that filters by a file's partition value reads the manifest."""
        if value is None:
            return self.has_nulls
        if isinstance(value, float) and math.isnan(value):
            return self.has_nans is not False
        found = value.encode() if isinstance(value, str) else value
        return self.is_bounded and not (_is_less(found, self.lower) or _is_less(self.upper, found))

    def __str__(self) -> str:
        if not self.is_bounded:
            return "no bounds" if self.has_nulls else "no bounds and no null"
        nulls = "with" if self.has_nulls else "without"
        return f"{shown(self.lower, None)} to {shown(self.upper, None)}, {nulls} null"


@dataclass(frozen=True, slots=True)
class PartitionValue:
    """What metadata says of one partition field of a file: `derived` of every row's column.

    `derived` takes an Arrow array of the column, and returns one of values like `value`. It raises
    ValueError where a row's value is outside the range of the partition field. `summary` is
    that of the file's manifest, None where nothing is said of a manifest.
    """

    name: str
    column: Leaf
    value: Any
    derived: Callable[[Any], Any] = field(repr=False, compare=False)
    summary: PartitionSummary | None = None


@dataclass(frozen=True, slots=True)
class FileStatistics:
    """What metadata says of one live data file.

    `unreadable` are sentences on metadata that cannot be understood, `not_compared` on what is not
    compared.
    """

    path: str
    records: int | None = None
    size_bytes: int | None = None
    columns: tuple[ColumnStatistics, ...] = ()
    partition: tuple[PartitionValue, ...] = ()
    unreadable: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()


def described_columns(stated: FileStatistics) -> frozenset[Leaf]:
    """Return the columns of which a file's metadata says anything, its partition's among them."""
    said = (each.column for each in stated.columns if each != ColumnStatistics(each.column))
    return frozenset([*said, *(each.column for each in stated.partition)])


@dataclass(frozen=True, slots=True)
class ColumnContents:
    """What a file holds of one column; `least` and `greatest` leave nulls and NaN out."""

    values: int = 0
    nulls: int = 0
    nans: int = 0
    least: Value | None = None
    greatest: Value | None = None

    def __add__(self, more: ColumnContents) -> ColumnContents:
        lows = [each for each in (self.least, more.least) if each is not None]
        highs = [each for each in (self.greatest, more.greatest) if each is not None]
        return ColumnContents(
            self.values + more.values,
            self.nulls + more.nulls,
            self.nans + more.nans,
            min(lows, default=None),
            max(highs, default=None),
        )


@dataclass(frozen=True, slots=True)
class FileContents:
    """What a data file holds: columns by `Leaf`, distinct values by the names of partition fields.

    A column that could not be found in the file is in neither.
    """

    records: int
    size_bytes: int
    columns: Mapping[Leaf, ColumnContents]
    partition: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One place where metadata and the file differ, for people.

    `column` is "" where it is about the whole file; a partition field has the name of its column.
    The file of a count is the manifest.
    """

    file: str
    column: str
    fault: Fault
    stated: str
    held: str

    @property
    def harm(self) -> str:
        """Return the harm it does."""
        return _HARM[self.fault]


def mismatches(stated: FileStatistics, held: FileContents) -> list[Mismatch]:
    """Compare what metadata says of a file with what it holds."""
    path = stated.path
    found = unreadable(stated)
    if stated.size_bytes not in (None, held.size_bytes):
        size, actual = f"{stated.size_bytes:,} bytes", f"{held.size_bytes:,} bytes"
        found.append(Mismatch(path, "", Fault.FILE_SIZE, stated=size, held=actual))
    if stated.records not in (None, held.records):
        count, actual = f"{stated.records:,} records", f"{held.records:,} records"
        found.append(Mismatch(path, "", Fault.RECORDS, stated=count, held=actual))
    for column in stated.columns:
        contents = held.columns.get(column.column)
        if contents is not None:
            found += _of_column(path, column, contents)
    for part in stated.partition:
        if part.summary is not None and not part.summary.covers(part.value):
            summary, value = str(part.summary), shown(part.value, None)
            found.append(Mismatch(path, part.name, Fault.SUMMARY, stated=summary, held=value))
        others = [
            each
            for each in held.partition.get(part.name, ())
            if not is_same_value(each, part.value)
        ]
        if others:
            values = ", ".join(shown(each, None) for each in others[:_SHOWN_VALUES_MAX])
            values += ", …" if len(others) > _SHOWN_VALUES_MAX else ""
            value = shown(part.value, None)
            found.append(Mismatch(path, part.name, Fault.PARTITION, value, f"rows of {values}"))
    return found


def unreadable(stated: FileStatistics) -> list[Mismatch]:
    """Return what is in the metadata of a file and cannot be read."""
    return [Mismatch(stated.path, "", Fault.UNREADABLE, each, "—") for each in stated.unreadable]


def is_same_value(one: Any, other: Any) -> bool:
    """Return whether two partition values are the same: NaN is NaN, and -0.0 is 0.0."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


def shown(value: Any, kind: Kind | None) -> str:
    """Show a value in one short line."""
    text = _text(value, kind)
    cut = text[:_SHOWN_CHARACTERS_MAX]
    return cut if cut == text else f"{cut}… ({len(text):,} characters)"


def _of_column(path: str, stated: ColumnStatistics, held: ColumnContents) -> Iterator[Mismatch]:
    name = stated.column.name
    for fault, said, there in (
        (Fault.VALUES, stated.values, held.values),
        (Fault.NULLS, stated.nulls, held.nulls),
        (Fault.NANS, stated.nans, held.nans),
    ):
        if said is not None and said != there:
            yield Mismatch(path, name, fault, f"{said:,}", f"{there:,}")
    bounded = stated.lower is not None or stated.upper is not None
    if bounded and held.nans and stated.nans is None:
        holds = f"{held.nans:,} NaN, which no bound covers"
        yield Mismatch(path, name, Fault.NANS, "bounds, and no number of NaN", holds)
    kind = stated.column.kind
    if _is_less(held.least, stated.lower):
        lower, least = shown(stated.lower, kind), shown(held.least, kind)
        yield Mismatch(path, name, Fault.LOWER, stated=lower, held=least)
    if _is_less(stated.upper, held.greatest):
        upper, greatest = shown(stated.upper, kind), shown(held.greatest, kind)
        yield Mismatch(path, name, Fault.UPPER, stated=upper, held=greatest)


def _is_less(one: Value | None, other: Value | None) -> bool:
    """Return whether both are known and one is less; values of a file's own odd type are not."""
    if one is None or other is None or isinstance(one, bytes) != isinstance(other, bytes):
        return False
    return bool(one < other)


def _text(value: Any, kind: Kind | None) -> str:
    if value is None:
        return "null"
    try:
        match kind:
            case Kind.STRING:
                return repr(value.decode(errors="replace"))
            case Kind.BOOLEAN:
                return "true" if value else "false"
            case Kind.DATE:
                return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
                return moment.isoformat().removesuffix("" if kind is Kind.TIMESTAMPTZ else "+00:00")
            case Kind.TIMESTAMP_NS | Kind.TIMESTAMPTZ_NS:
                micros, nanos = divmod(value, 1000)
                moment = datetime(1970, 1, 1) + timedelta(microseconds=micros)  # noqa: DTZ001
                zone = "" if kind is Kind.TIMESTAMP_NS else "+00:00"
                return f"{moment.isoformat(timespec='microseconds')}{nanos:03}{zone}"
    except OverflowError:
        return f"{value} (since 1970)"
    return str(value) if isinstance(value, Decimal) else repr(value)
