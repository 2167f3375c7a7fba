"""Counts and bounds of live files, as their `add` says, for looking rows up.

Invariants:
- a bound is never tighter than the values, whether rows of the file are deleted or not: what is
  not known exactly has none;
- a time with a text that ends at milliseconds was cut there, and an upper one is raised for it;
- of decimals with more digits than a double holds nothing is known: deltalake states those of files
  that it rewrote as doubles, or as the greatest long;
- values are those of Python that Arrow makes columns of: numbers, texts, dates, times.

Source: Delta transaction log protocol, "Per-file Statistics", "Partition Value Serialization".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Exact
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.connectors.delta.log.actions import PARSED
from penstock.connectors.delta.read.live_files import Add
from penstock.connectors.delta.schema.types import arrow_schema
from penstock.connectors.delta.vectors.descriptor import vector_of
from penstock.core.schema import Decimal, Kind, Type

if TYPE_CHECKING:
    from penstock.connectors.delta.files.target import Target
    from penstock.connectors.delta.log.table_metadata import TableMetadata

Bounds = dict[str, tuple[Any, Any]]

_CUT = timedelta(microseconds=999)
_MILLISECOND_US = 1000
_DOUBLE_DIGITS = 15
_TIMES = {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}


def record_count(add: Add) -> int | None:
    """Return how many rows were written into a file; None where its `add` does not say."""
    for stated in (_texts(add), add.get(PARSED) or {}):
        count = stated.get("numRecords")
        if isinstance(count, int) and count >= 0:
            return count
    return None


def live_row_count(adds: Iterable[Add]) -> int | None:
    """Count the rows of live files that are not deleted; None where an `add` does not say."""
    total = 0
    for add in adds:
        rows, vector = record_count(add), vector_of(add)
        if rows is None:
            return None
        total += rows - (0 if vector is None else vector.cardinality)
    return total


def bounds_of(add: Add, form: TableMetadata) -> tuple[Bounds, dict[str, int]]:
    """Return least and greatest values of columns at the top, and how many nulls, by their names.

    Nulls are those of all rows that were written, or of no row.
    """
    stats = _texts(add)
    lowest, highest = _mapping(stats, "minValues"), _mapping(stats, "maxValues")
    counts = _mapping(stats, "nullCount")
    found: Bounds = {}
    nulls: dict[str, int] = {}
    schema = form.target.schema
    for own, there in zip(schema.fields, form.target.stored.schema.fields, strict=True):
        if own.name in form.partition_by:
            value = partition_value(add, form.target, own.name).as_py()
            if value is not None:
                found[own.name], nulls[own.name] = (value, value), 0
            continue
        if isinstance(count := counts.get(there.name), int):
            nulls[own.name] = count
        low, high = (
            _value(lowest.get(there.name), own.type),
            _value(highest.get(there.name), own.type),
        )
        if low is None or high is None:
            continue
        if own.type in _TIMES and high.microsecond % _MILLISECOND_US == 0:
            high = _later(high)
        if high is not None:
            found[own.name] = (low, high)
    return found, nulls


def partition_value(add: Add, target: Target, column: str) -> pa.Scalar:
    """Read the value of a column that the table is partitioned by. Raises ValueError."""
    kind = arrow_schema(target.schema).field(column).type
    name = target.stored.name_of(target.schema, column)
    text = (add.get("partitionValues") or {}).get(name)
    if text is None or text == "":
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        moment = datetime.fromisoformat(text)
        return pa.scalar(moment if moment.tzinfo else moment.replace(tzinfo=UTC), kind)
    return pa.scalar(text).cast(kind)


def _texts(add: Add) -> Mapping[str, Any]:
    try:
        found = json.loads(add.get("stats") or "{}", parse_float=Exact)
    except ValueError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _mapping(stats: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = stats.get(key)
    return found if isinstance(found, Mapping) else {}


def _value(bound: Any, kind: Type) -> Any:
    """Read a bound; None where Python cannot hold it, and of floats, which have NaN."""
    try:
        match kind, bound:
            case (_, None):
                return None
            case (Kind.INT | Kind.LONG, int()) | (Kind.STRING, str()) | (Kind.BOOLEAN, bool()):
                return bound
            case (Decimal(precision=digits), int() | Exact()):
                return Exact(bound) if digits <= _DOUBLE_DIGITS else None
            case (Kind.DATE, str()):
                return date.fromisoformat(bound)
            case (Kind.TIMESTAMP, str()):
                moment = datetime.fromisoformat(bound)
                return moment if moment.tzinfo is None else None
            case (Kind.TIMESTAMPTZ, str()):
                moment = datetime.fromisoformat(bound)
                return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:  # a year that Python has no dates for, or another writer's text
        return None
    return None


def _later(moment: datetime) -> datetime | None:
    try:
        return moment + _CUT
    except OverflowError:
        return None
