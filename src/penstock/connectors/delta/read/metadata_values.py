"""Reads what the log says of live data files, to compare it with what the files hold.

Invariants:
- columns are those of the table's schema, known in files by the names that these have them under;
- a bound is what a reader makes of its text: a time with a text that ends at milliseconds was cut
  there, and readers add one to the upper (specification, "Per-file Statistics");
- a checkpoint may say things twice, as texts and as values of columns: both are read;
- what a table asks of its writers does not matter: nothing is written;
- of a column that the table is partitioned by, files hold nothing; where a file of another writer
  has it after all, its rows are compared.

Source: Delta transaction log protocol, "Per-file Statistics", "Partition Value Serialization".
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Exact
from decimal import InvalidOperation
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

from deltalake import DeltaTable as Handle

from penstock.connectors.delta.errors import unreadable_log
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log.actions import PARSED, PARTITION_PARSED
from penstock.connectors.delta.log.reader import Log
from penstock.connectors.delta.read.live_files import Add, live_adds
from penstock.connectors.delta.schema.column_mapping import stored_as
from penstock.connectors.delta.schema.types import schema_of
from penstock.core import statistics
from penstock.core.schema import Decimal, Kind, Struct, Type
from penstock.files.contents import comparable
from penstock.files.storage_settings import path_in
from penstock.ports.tables import StatedFile

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_CUT_MICROSECONDS = 999
_TIMES = {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
_TRUTHS = {"true": 1, "false": 0}
_FAR = re.compile(r"[+-]|\d{5}")


def stated_files(name: str, handle: Handle, log: Log, root: StorageRoot) -> Iterator[StatedFile]:
    """Yield what the log says of each file that is live at the version of a handle.

    Raises OSError, InvalidError (P435 a type that we do not know, P438 a damaged log).
    """
    text, metadata = handle.schema().to_json(), handle.metadata()
    schema = schema_of(text, name, {})
    stored = stored_as(text, schema, metadata.configuration).schema
    leaves = [*_leaves(schema, stored)]
    columns = [each for each in leaves if each[0].name not in metadata.partition_columns]
    parts = [each for each in leaves if each[0].name in metadata.partition_columns]
    try:
        adds = live_adds(log, int(handle.version()))
    except (ValueError, KeyError) as error:
        raise unreadable_log(name, error) from error
    storage, location = root.filesystem(), path_in(root.location(name))
    for add in adds:
        path = unquote(add["path"])
        elsewhere = bool(urlsplit(path).scheme) or path.startswith("/")
        place = path if elsewhere else f"{location}/{path}"
        not_compared = (f"{path}: it lies outside of the table's directory",) if elsewhere else ()
        opened = partial(storage.open_input_file, place)
        yield StatedFile(_statistics(add, place, columns, parts, not_compared), opened)


def _statistics(
    add: Add,
    place: str,
    columns: list[tuple[statistics.Leaf, Type]],
    parts: list[tuple[statistics.Leaf, Type]],
    not_compared: tuple[str, ...],
) -> statistics.FileStatistics:
    unreadable: list[str] = []
    text = add.get("stats") or "{}"
    try:
        stats: Any = json.loads(text, parse_float=Exact)
    except ValueError:
        stats = {}
        unreadable.append(f"its statistics are no JSON: {text[:40]!r}")
    if not isinstance(stats, Mapping):
        unreadable.append(f"its statistics are no object: {text[:40]!r}")
        stats = {}
    parsed = add.get(PARSED) or {}
    found = [
        _column(source, leaf, kind, read, unreadable)
        for source, read in ((stats, _value), (parsed, _held))
        for leaf, kind in columns
    ]
    partition = [_partition(add, leaf, kind, unreadable) for leaf, kind in parts]
    records, held = stats.get("numRecords"), parsed.get("numRecords")
    if None not in (records, held) and records != held:
        unreadable.append(f"numRecords is {records!r}, and {held} parsed")
    records = held if records is None else records
    return statistics.FileStatistics(
        place,
        records if isinstance(records, int) else None,
        add.get("size"),
        tuple(dict.fromkeys(each for each in found if each is not None)),
        tuple(each for each in partition if each is not None),
        tuple(unreadable),
        not_compared,
    )


def _column(
    stats: Mapping[str, Any],
    leaf: statistics.Leaf,
    kind: Type,
    read: Callable[[Any, Type], statistics.Value | None],
    unreadable: list[str],
) -> statistics.ColumnStatistics | None:
    stated = {
        key: _at(stats.get(key), leaf.path) for key in ("nullCount", "minValues", "maxValues")
    }
    if all(each is None for each in stated.values()):
        return None
    bounds: list[statistics.Value | None] = []
    for key in ("minValues", "maxValues"):
        try:
            bound = read(stated[key], kind)
        except (ValueError, TypeError, OverflowError, InvalidOperation):
            unreadable.append(f"{leaf.name}: {key} has {stated[key]!r}, which is no {kind}")
            bound = None
        if key == "maxValues" and kind in _TIMES and isinstance(bound, int) and bound % 1000 == 0:
            bound += _CUT_MICROSECONDS
        bounds.append(bound)
    nulls = stated["nullCount"] if isinstance(stated["nullCount"], int) else None
    return statistics.ColumnStatistics(leaf, None, nulls, None, *bounds)


def _partition(
    add: Add, leaf: statistics.Leaf, kind: Type, unreadable: list[str]
) -> statistics.PartitionValue | None:
    """Return what is said of a column to partition by; None for a text we cannot read.

    The library reads them all when it opens a table, and refuses one that is no value. A checkpoint
    may have the value once more, parsed; of bytes and of a time without its zone the text does not
    determine it.
    """
    values = dict(add.get("partitionValues") or {})  # a checkpoint has them as pairs
    text = values.get(leaf.path[0])
    try:
        value = None if text in (None, "") else _parted(text, kind)
    except (ValueError, KeyError, InvalidOperation):
        return None
    parsed = add.get(PARTITION_PARSED)
    is_exact = kind is not Kind.BINARY and (kind is not Kind.TIMESTAMPTZ or str(text).endswith("Z"))
    if parsed is not None and leaf.path[0] in parsed and is_exact:
        held = parsed[leaf.path[0]]
        of_text = value.encode() if isinstance(value, str) else value
        if not statistics.is_same_value(of_text, held):
            unreadable.append(f"{leaf.name}: its partition value is {text!r}, and {held!r} parsed")
    return statistics.PartitionValue(leaf.name, leaf, value, comparable)


def _parted(text: str, kind: Type) -> statistics.Value | None:
    """Read a partition value. Raises ValueError, KeyError, InvalidOperation."""
    match kind:
        case Kind.BOOLEAN:
            return _TRUTHS[text.lower()]
        case Kind.FLOAT | Kind.DOUBLE:
            return float(text)
        case Kind.BINARY:
            return text.encode()
        case _:
            return _value(text, kind)


def _value(bound: Any, kind: Type) -> statistics.Value | None:
    if bound is None:
        return None
    match kind:
        case Kind.INT | Kind.LONG:
            return int(bound)
        case Kind.DOUBLE | Kind.FLOAT:
            number = float(bound)
            if number != number:  # noqa: PLR0124 - NaN, the greatest of all: it bounds nothing
                return None
            if kind is Kind.FLOAT:  # a text of few digits is the nearest float of 32 bits
                (number,) = struct.unpack("<f", struct.pack("<f", number))
            return number
        case Decimal():
            return Exact(bound)
        case Kind.STRING:
            return str(bound).encode(errors="surrogatepass")
        case Kind.BOOLEAN:
            return int(bool(bound))
        case Kind.DATE | Kind.TIMESTAMP | Kind.TIMESTAMPTZ if _FAR.match(bound):
            return None  # a year that Python has no dates for
        case Kind.DATE:
            return (date.fromisoformat(bound) - _EPOCH.date()).days
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            moment = datetime.fromisoformat(bound)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return (moment - _EPOCH) // _MICROSECOND
        case _:
            return None


def _held(bound: Any, kind: Type) -> statistics.Value | None:
    """Return a bound that is held in a column: it has the column's type already."""
    if isinstance(bound, float) and math.isnan(bound):
        return None  # the greatest of all: it bounds nothing
    return None if kind is Kind.BINARY else bound


def _at(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree


def _leaves(
    schema: Struct, stored: Struct, name: str = "", above: tuple[str, ...] = ()
) -> Iterator[tuple[statistics.Leaf, Type]]:
    """List the columns that are no structs, lists or maps, nor within the latter."""
    for own, there in zip(schema.fields, stored.fields, strict=True):
        path = (*above, there.name)
        if isinstance(own.type, Struct) and isinstance(there.type, Struct):
            yield from _leaves(own.type, there.type, f"{name}{own.name}.", path)
        elif isinstance(own.type, Kind | Decimal):
            kind = own.type if isinstance(own.type, Kind) else None
            yield statistics.Leaf(f"{name}{own.name}", path, None, kind), own.type
