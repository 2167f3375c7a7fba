"""JSON change events become JSON rows: the image of the row, and in front what changed it.

An event is cut into its members without reading them; the row is read, strictly, by whatever reads
bare rows. What the envelope says of the change becomes further members of the row, under the names
of the table's change columns; a row that has such a member itself is rejected for its duplicate
key.

Invariants:
- an event's row is the image after it, or before it for a delete; never a mixture;
- an event without a row (truncate, schema change, control) is filtered with a reason;
- an operation that is not known is rejected.

Source: Debezium, "Change events", and `UnchangedToastedPlaceholder` of its PostgreSQL connector;
AWS DMS, "Using Apache Kafka as a target"; Maxwell, "Data format"; Canal, "FlatMessage".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from penstock.rows.decode.format_reader import NoRowError
from penstock.rows.decode.json.parser import check_depth, parse_object
from penstock.rows.options import FORMER_KEY, Envelope
from penstock.rows.reject_codes import RejectCode, RejectError

Members = Mapping[str, bytes]
FormerKeyReader = Callable[[Members, bytes], bytes | None]
"""Finds the key that an update changes in its members, and in its row. Raises RejectError."""

NULL = b"null"
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  the text gets its Z below
_MS_US, _SECOND_US = 1000, 1_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """One event: its row as JSON text, its operation, and when and where it happened.

    `time_us` counts microseconds since 1970; `time_text` is an ISO text in its place.
    `source` is the JSON text of what tells its place in the source. Operations are insert, update,
    delete and read, which is a row of a snapshot.
    """

    row: bytes
    operation: str | None
    time_us: int | None = None
    time_text: str | None = None
    source: bytes | None = None


def unwrap(
    value: bytes,
    envelope: Envelope,
    columns: Mapping[str, str],
    *,
    depth_max: int,
    former_key: FormerKeyReader | None = None,
) -> bytes:
    """Return the row of an event with the change columns that are asked for, as JSON.

    Raises RejectError, and NoRowError.
    """
    members = members_of(value, depth_max=depth_max)
    change = _READERS[envelope](members, value)
    said = _said(change, columns)
    if former_key is not None and change.operation == "update":
        found = former_key(members, change.row)
        said += [] if found is None else [json_member(columns[FORMER_KEY], found)]
    return _joined(change.row, said)


def members_of(value: bytes, *, depth_max: int) -> dict[str, bytes]:
    """Cut an object into its members, each as it is written. Raises RejectError."""
    check_depth(value, depth_max)
    try:
        members = _MEMBERS.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        parse_object(value, depth_max=depth_max)
        raise RejectError(RejectCode.MALFORMED, "the event cannot be cut into members") from error
    cut = {name: bytes(member) for name, member in members.items()}
    colons = sum(len(name.encode()) + len(member) + len('"":') for name, member in cut.items())
    if len(value) != len("{}") + colons + max(len(cut) - 1, 0):
        # White space, escapes in names, or a duplicate key: only a strict parser can decide.
        parse_object(value, depth_max=depth_max)
    return cut


def _debezium(members: Members, _: bytes) -> Change:
    if "op" not in members and {"ddl", "databaseName"} & members.keys():
        raise NoRowError("schema change")
    op = _named(members, "op")
    if op in DEBEZIUM_WITHOUT_ROW:
        raise NoRowError(DEBEZIUM_WITHOUT_ROW[op])
    operation = _known(op, DEBEZIUM_OPERATIONS)
    row = _row_image(members.get("before" if operation == "delete" else "after"), operation)
    source = members.get("source")
    return Change(row, operation, _debezium_us(source), source=source)


def _debezium_us(source: bytes | None) -> int | None:
    if source is None or source == NULL:
        return None
    times = _decoded(source, _SOURCE_TIMES, "source")
    if times.ts_us is not None:
        return int(times.ts_us)
    return None if times.ts_ms is None else int(times.ts_ms) * _MS_US


def _flattened(members: Members, value: bytes) -> Change:
    """ExtractNewRecordState: the row alone; members with `__` may hold the operation and time."""
    operation = None
    if members.get("__op", NULL) != NULL:
        operation = _known(_named(members, "__op"), DEBEZIUM_OPERATIONS)
    elif members.get("__deleted") in (b'"true"', b"true"):
        operation = "delete"
    time = members.get("__source_ts_ms", NULL)
    time_us = None if time == NULL else _whole(time, "__source_ts_ms") * _MS_US
    return Change(value.strip(), operation, time_us)


def _dms(members: Members, _: bytes) -> Change:
    if "metadata" not in members:
        raise no_envelope("the event has no 'metadata'")
    metadata = _decoded(members["metadata"], _DMS_METADATA, "metadata")
    if metadata.record_type == "control":
        raise NoRowError("control")
    if metadata.record_type != "data":
        raise no_envelope("the event's 'record-type' is neither data nor control")
    operation = _known(metadata.operation, _DMS_OPERATIONS)
    row = _row_image(members.get("data"), operation)
    return Change(row, operation, time_text=metadata.timestamp, source=members["metadata"])


def _maxwell(members: Members, _: bytes) -> Change:
    kind = _named(members, "type")
    if kind.startswith(("table-", "database-")):
        raise NoRowError("schema change")
    if kind in ("bootstrap-start", "bootstrap-complete"):
        raise NoRowError("control")
    operation = _known(kind, _MAXWELL_OPERATIONS)
    row = _row_image(members.get("data"), operation)
    time_us = _whole(members["ts"], "ts") * _SECOND_US if "ts" in members else None
    return Change(row, operation, time_us, source=_rest(members, ("data", "old", "type", "ts")))


def _canal(members: Members, _: bytes) -> Change:
    kind = _named(members, "type")
    if kind == "TRUNCATE":
        raise NoRowError("truncate")
    if members.get("isDdl") == b"true" or kind in _CANAL_SCHEMA_CHANGES:
        raise NoRowError("schema change")
    operation = _known(kind, _CANAL_OPERATIONS)
    row = _row_image(single_row(members, "data"), operation)
    time_us = _whole(members["es"], "es") * _MS_US if "es" in members else None
    left_out = ("data", "old", "type", "es", "mysqlType", "sqlType", "sql")
    return Change(row, operation, time_us, source=_rest(members, left_out))


def single_row(members: Members, name: str) -> bytes | None:
    """Return the one row of a member that lists rows. Raises RejectError for several."""
    rows = [] if members.get(name, NULL) == NULL else _decoded(members[name], _ROWS, name)
    if len(rows) > 1:
        raise RejectError(RejectCode.SEVERAL_ROWS, f"the event holds {len(rows)} rows")
    return bytes(rows[0]) if rows else None


def _named(members: Members, name: str) -> str:
    if name not in members:
        wrapped = members.keys() == {"schema", "payload"}
        within = ", and has a schema and a payload: format json-schema-envelope" if wrapped else ""
        raise no_envelope(f"the event names no '{name}'{within}")
    return str(_decoded(members[name], _STRING, name))


def _row_image(row: bytes | None, operation: str) -> bytes:
    if row is None or row == NULL:
        raise RejectError(RejectCode.IMAGE_MISSING, f"the event of {operation} holds no row")
    if not row.startswith(b"{"):
        raise no_envelope("the row is not an object")
    return row


def _known(name: str, operations: Mapping[str, str]) -> str:
    if name not in operations:
        raise RejectError(RejectCode.UNKNOWN_OPERATION, "the event's operation is not known")
    return operations[name]


def _rest(members: Members, left_out: tuple[str, ...]) -> bytes:
    kept = {name: member for name, member in members.items() if name not in left_out}
    return b"{%s}" % b",".join(json_member(name, member) for name, member in kept.items())


@lru_cache(maxsize=64)
def _said_operation(column: str, operation: str | None) -> bytes:
    return json_member(column, _json(operation))


def _said(change: Change, columns: Mapping[str, str]) -> list[bytes]:
    said: list[bytes] = []
    if "operation" in columns:
        said.append(_said_operation(columns["operation"], change.operation))
    if "timestamp" in columns:
        text = change.time_text
        if change.time_us is not None:
            text = _iso(change.time_us, columns["timestamp"])
        said.append(json_member(columns["timestamp"], _json(text)))
    if "source" in columns:
        source = None if change.source in (None, NULL) else change.source
        text = None if source is None else source.decode("utf-8", "surrogateescape")
        said.append(json_member(columns["source"], _json(text)))
    return said


def _joined(row: bytes, said: list[bytes]) -> bytes:
    if not said:
        return row
    body = row[1:].lstrip()
    comma = b"" if body.startswith(b"}") else b","
    return b"{%s%s%s" % (b",".join(said), comma, body)


def _iso(time_us: int, column: str) -> str:
    try:
        return f"{(_EPOCH + timedelta(microseconds=time_us)).isoformat()}Z"
    except OverflowError as error:
        reason = "the time of the change is not in years 1 to 9999"
        raise RejectError(RejectCode.OUT_OF_RANGE, reason, column) from error


def json_member(name: str, value: bytes) -> bytes:
    """Write a member of an object."""
    return b"%s:%s" % (_json(name), value)


def _json(value: str | None) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _whole(raw: bytes, name: str) -> int:
    return int(_decoded(raw, _LONG, name))


def _decoded(raw: bytes, decoder: Any, name: str) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise no_envelope(f"'{name}' is not what it should be") from error


def no_envelope(reason: str) -> RejectError:
    """Build the error for a value that is not in its envelope."""
    return RejectError(RejectCode.NO_ENVELOPE, reason)


class _SourceTimes(msgspec.Struct):
    ts_ms: int | None = None
    ts_us: int | None = None


class _DmsMetadata(msgspec.Struct, rename={"record_type": "record-type"}):
    operation: str
    record_type: str = "data"
    timestamp: str | None = None


_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ROWS = msgspec.json.Decoder(list[msgspec.Raw])
_STRING, _LONG = msgspec.json.Decoder(str), msgspec.json.Decoder(int)
_SOURCE_TIMES = msgspec.json.Decoder(_SourceTimes)
_DMS_METADATA = msgspec.json.Decoder(_DmsMetadata)

DEBEZIUM_OPERATIONS = {"c": "insert", "u": "update", "d": "delete", "r": "read"}
DEBEZIUM_WITHOUT_ROW = {"t": "truncate", "m": "message"}
_CHANGES = {"insert": "insert", "update": "update", "delete": "delete"}
_DMS_OPERATIONS = {**_CHANGES, "load": "read"}
_MAXWELL_OPERATIONS = {**_CHANGES, "bootstrap-insert": "read"}
_CANAL_OPERATIONS = {name.upper(): name for name in _CHANGES}
_CANAL_SCHEMA_CHANGES = frozenset(
    {"CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY"}
)
_READERS: Mapping[str, Callable[[Members, bytes], Change]] = {
    "debezium": _debezium,
    "flattened": _flattened,
    "dms": _dms,
    "maxwell": _maxwell,
    "canal": _canal,
}

WITH_PLACEHOLDERS = frozenset({"debezium", "flattened"})
