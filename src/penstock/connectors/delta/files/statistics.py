"""Column statistics of a data file, from its writer's own footer, in Delta's JSON form.

Invariants:
- a bound is never tighter than the values: what is not known is left out; strings are cut to 32
  characters with an upper bound that is not below any value cut;
- timestamps are milliseconds, the lower cut down and the upper cut up, but for the very last;
- floats beyond all numbers are texts, `"Infinity"`, as Spark writes them; decimals are exact;
- lists, maps and binary columns have no bounds; members of lists and maps have nothing, and each
  list and map counts as one column;
- either all columns at the top that readers ask bounds of have them, or the file has none at all:
  deltalake's data sets take a bound that is missing next to others for null, and leave out all rows
  (docs/design/0232); so a struct with members that have no bounds has bounds without members.

Source: Delta transaction log protocol, "Per-file Statistics"; Parquet format, `Statistics` (NaN is
not in min and max, so the writer reports which columns hold NaN).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pyarrow.parquet as pq

from penstock.core.schema import Decimal, Kind, List, Map, Struct, Type
from penstock.core.schema_walk import leaves
from penstock.files.footers import extremes, null_count, row_groups_of, statistics_of
from penstock.files.texts import Beginnings, is_kept_whole

STRING_CHARACTERS_MAX = 32
INDEXED_COLUMNS = 32

_LAST_CHARACTER = "\U0010ffff"
_MILLISECOND = timedelta(milliseconds=1)
_INFINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


@dataclass(frozen=True, slots=True)
class Indexed:
    """The columns with statistics: the first `count` leaves (-1: all), or those named; and
    `clustering` ones, by which the table is clustered.
    """

    count: int = INDEXED_COLUMNS
    names: tuple[str, ...] = ()
    clustering: tuple[str, ...] = ()

    def takes(self, position: int, path: tuple[str, ...]) -> bool:
        """Return whether a leaf is indexed."""
        if ".".join(path) in self.clustering:
            return True
        if self.names:
            return path[0] in self.names or ".".join(path) in self.names
        return self.count < 0 or position < self.count


@dataclass(frozen=True, slots=True)
class _Leaf:
    path: tuple[str, ...]
    type: Type | None  # None within lists and maps
    column: int  # as Delta counts, which takes a list or a map for one


def statistics_json(
    footer: pq.FileMetaData,
    schema: Struct,
    indexed: Indexed,
    with_nan: AbstractSet[str],
    texts: Beginnings,
) -> str:
    """Describe a file with the columns of `schema`.

    `with_nan` names float columns holding NaN by dotted path, `texts` are bounds of columns for
    which the footer has no room.
    """
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    whole, in_file = True, row_groups_of(footer)
    for position, leaf in enumerate(_leaves(schema, (), itertools.count())):
        if leaf.type is None or not indexed.takes(leaf.column, leaf.path):
            continue
        is_top = len(leaf.path) == 1  # `a.b` may also be the member of a struct
        if not is_top:
            for target in (lowest, highest):
                target.setdefault(leaf.path[0], {})
        groups = statistics_of([each.column(position) for each in in_file])
        missing = null_count(groups)
        if missing is not None:
            _put(nulls, leaf.path, missing)
        if leaf.type is Kind.BINARY or missing == footer.num_rows:
            continue
        text = texts.get(leaf.path[0]) if is_top else None
        found = None if ".".join(leaf.path) in with_nan else extremes(groups, text)
        low, high = (None, None) if found is None else _bounds(leaf.type, *found)
        for target, value in ((lowest, low), (highest, high)):
            if value is not None:
                _put(target, leaf.path, value)
        whole &= not is_top or not (low is None or high is None)
    bounds = {"minValues": lowest, "maxValues": highest} if whole else {}
    return msgspec.json.encode(
        {"numRecords": footer.num_rows, **bounds, "nullCount": nulls}
    ).decode()


def _leaves(type_: Type, path: tuple[str, ...], numbers: Iterator[int]) -> Iterator[_Leaf]:
    match type_:
        case Struct():
            for field in type_.fields:
                yield from _leaves(field.type, (*path, field.name), numbers)
        case List() | Map():
            number = next(numbers)
            yield from (_Leaf(path, None, number) for _ in leaves(type_))
        case _:
            yield _Leaf(path, type_, next(numbers))


def _bounds(type_: Type, low: Any, high: Any) -> tuple[Any, Any]:
    match type_:
        case Kind.FLOAT | Kind.DOUBLE:
            return _INFINITE.get(low, low), _INFINITE.get(high, high)
        case Kind.STRING if not is_kept_whole(low, high):
            return low[:STRING_CHARACTERS_MAX], _upper(high)
        case Kind.DATE:
            return low.isoformat(), high.isoformat()
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return _timestamps(low, high)
        case Decimal():  # without an exponent, which deltalake reads wrongly
            return msgspec.Raw(f"{low:f}".encode()), msgspec.Raw(f"{high:f}".encode())
        case _:
            return low, high


def _timestamps(low: datetime, high: datetime) -> tuple[str, str]:
    rest = timedelta(microseconds=high.microsecond % 1000)
    if rest and high < datetime.max.replace(microsecond=999_000, tzinfo=high.tzinfo):
        high += _MILLISECOND - rest
        rest = timedelta()
    return _moment(low, "milliseconds"), _moment(high, "microseconds" if rest else "milliseconds")


def _moment(value: datetime, unit: str) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec=unit)
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=unit) + "Z"


def _upper(value: str) -> str | None:
    """Cut a string so that the result is above all that begin like it, in the order of code points.

    That takes a character which is not the last of all; None where there is none.
    """
    if len(value) <= STRING_CHARACTERS_MAX:
        return value
    for at, character in enumerate(value[STRING_CHARACTERS_MAX:], STRING_CHARACTERS_MAX):
        if character != _LAST_CHARACTER:
            return value[:at] + _LAST_CHARACTER
    return None


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        target = target.setdefault(name, {})
    target[path[-1]] = value
