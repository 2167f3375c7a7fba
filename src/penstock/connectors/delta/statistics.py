"""Column statistics of a data file, from its writer's own footer, in Delta's JSON form.

Invariants:
- a bound is never tighter than the values: what cannot be told exactly is left out, which is always
  safe; strings are cut to 32 characters with an upper bound that is not below any value cut;
- timestamps are milliseconds, the lower cut down and the upper cut up;
- lists, maps, binary and boolean columns have no bounds; members of lists and maps have nothing.

Source: Delta transaction log protocol, "Per-file Statistics"; Parquet format, `Statistics` (NaN is
not in min and max, so the writer tells which columns hold NaN).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq

from penstock.core.schema import Decimal, Kind, List, Map, Struct, Type
from penstock.files.footers import extremes, null_count, statistics_of

STRING_CHARACTERS_MAX = 32
INDEXED_COLUMNS = 32

# Digits that survive a reader's double; more exact decimals get no bounds.
_DECIMAL_DIGITS_MAX = 15
_LAST_CHARACTER = "\U0010ffff"
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Indexed:
    """Say which columns get statistics: the first `count` leaves (-1: all), or those named."""

    count: int = INDEXED_COLUMNS
    names: tuple[str, ...] = ()

    def takes(self, position: int, path: tuple[str, ...]) -> bool:
        """Tell whether a leaf is indexed."""
        if self.names:
            return path[0] in self.names or ".".join(path) in self.names
        return self.count < 0 or position < self.count


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: tuple[str, ...]
    type: Type | None  # None within lists and maps


def statistics_json(
    footer: pq.FileMetaData, schema: Struct, indexed: Indexed, with_nan: frozenset[str]
) -> str:
    """Describe a file whose columns are `schema`; `with_nan` names float columns holding NaN."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for position, leaf in enumerate(_leaves(schema)):
        if leaf.type is None or not indexed.takes(position, leaf.path):
            continue
        groups = statistics_of(footer, position)
        missing = null_count(groups)
        if missing is not None:
            _put(nulls, leaf.path, missing)
        bounds = _BOUNDS.get(leaf.type if isinstance(leaf.type, Kind) else type(leaf.type))
        if bounds is None or (_is_float(leaf.type) and not _is_free_of_nan(leaf, with_nan)):
            continue
        found = bounds(leaf.type, groups)
        for target, value in zip((lowest, highest), found, strict=True):
            if value is not None:
                _put(target, leaf.path, value)
    told = {"minValues": lowest, "maxValues": highest, "nullCount": nulls}
    return json.dumps(
        {"numRecords": footer.num_rows, **told}, separators=(",", ":"), ensure_ascii=False
    )


def _leaves(type_: Type, path: tuple[str, ...] = (), *, told: bool = True) -> Iterator[_Leaf]:
    """List the columns of a Parquet file in its order."""
    match type_:
        case Struct():
            for field in type_.fields:
                yield from _leaves(field.type, (*path, field.name), told=told)
        case List():
            yield from _leaves(type_.element, path, told=False)
        case Map():
            yield from _leaves(type_.key, path, told=False)
            yield from _leaves(type_.value, path, told=False)
        case _:
            yield _Leaf(path, type_ if told else None)


def _is_float(type_: Type) -> bool:
    return type_ in (Kind.FLOAT, Kind.DOUBLE)


def _is_free_of_nan(leaf: _Leaf, with_nan: frozenset[str]) -> bool:
    # Only columns at the top are watched for NaN by the writer.
    return len(leaf.path) == 1 and leaf.path[0] not in with_nan


def _plain(_: Type, groups: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    found = extremes(groups)
    if found is None or not all(math.isfinite(value) for value in found):
        return None, None
    return found


def _decimals(type_: Type, groups: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    assert isinstance(type_, Decimal), "called for decimals"
    found = extremes(groups) if type_.precision <= _DECIMAL_DIGITS_MAX else None
    return (None, None) if found is None else (float(found[0]), float(found[1]))


def _dates(_: Type, groups: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    found = extremes(groups)
    if found is None:
        return None, None
    assert isinstance(found[0], date), "the footer's logical type is date"
    return found[0].isoformat(), found[1].isoformat()


def _timestamps(type_: Type, groups: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    found = extremes(groups)
    if found is None:
        return None, None
    low, high = found
    rest = timedelta(microseconds=high.microsecond % 1000)
    try:
        high = high - rest + _MILLISECOND if rest else high
    except OverflowError:
        return _moment(type_, low), None
    return _moment(type_, low), _moment(type_, high)


def _moment(type_: Type, value: datetime) -> str:
    if type_ is Kind.TIMESTAMPTZ:
        value = value.astimezone(UTC).replace(tzinfo=None)
        return value.isoformat(timespec="milliseconds") + "Z"
    return value.isoformat(timespec="milliseconds")


def _strings(_: Type, groups: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    found = extremes(groups)
    if found is None:
        return None, None
    low, high = found
    return low[:STRING_CHARACTERS_MAX], _upper(high)


def _upper(value: str) -> str | None:
    """Cut a string so that the result is not below it, in the order of code points."""
    if len(value) <= STRING_CHARACTERS_MAX:
        return value
    if value[STRING_CHARACTERS_MAX] == _LAST_CHARACTER:
        return None
    return value[:STRING_CHARACTERS_MAX] + _LAST_CHARACTER


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value


_BOUNDS: Mapping[Any, Callable[[Type, Sequence[pq.Statistics]], tuple[Any, Any]]] = {
    Kind.INT: _plain,
    Kind.LONG: _plain,
    Kind.FLOAT: _plain,
    Kind.DOUBLE: _plain,
    Kind.STRING: _strings,
    Kind.DATE: _dates,
    Kind.TIMESTAMP: _timestamps,
    Kind.TIMESTAMPTZ: _timestamps,
    Decimal: _decimals,
}
