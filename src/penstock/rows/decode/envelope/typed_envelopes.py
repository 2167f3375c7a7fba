"""Change events of formats with types become rows: Debezium's, whole or flattened.

The counterpart of json_envelopes.py for readers of columns and trees. The row's members keep their
types; the envelope's facts of the change are next to them under the table's change columns.

Invariant: both ways give the same row, and an event that is not plain is left to the single one.

Source: Debezium, "Change events" and "New record state extraction".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Struct
from penstock.rows.arrow_arrays import Mask, mask_of, struct_array
from penstock.rows.decode.envelope.json_envelopes import (
    DEBEZIUM_OPERATIONS,
    DEBEZIUM_WITHOUT_ROW,
    no_envelope,
)
from penstock.rows.decode.format_reader import DecodedBlock, FormatReader, NoRowError, unread
from penstock.rows.decode.logical_types import MS, US, Temporal, TimestampValue
from penstock.rows.options import FORMER_KEY, Envelope
from penstock.rows.reject_codes import RejectCode, RejectError


def event_reader(
    reader: FormatReader, envelope: Envelope, changes: Mapping[str, str], key: Sequence[str] = ()
) -> FormatReader:
    """Return the reader of events by one schema; `key` are the members of the former key.

    Raises RejectError when the schema is no such event's, NoRowError when none of them has a row.
    """
    flattened = envelope == "flattened"
    type_ = reader.type if flattened else _row_of_events(reader.type, envelope)
    asked = key if FORMER_KEY in changes else ()
    read = _flattened if flattened else partial(_event, key=asked)
    read_columns = _flattened_columns if flattened else partial(_event_columns, key=asked)
    return FormatReader(
        type_,
        lambda values: read_columns(reader.block(values), changes),
        lambda value: _beside(*read(reader.record(value)), changes),
    )


def _row_of_events(events: Struct, envelope: Envelope) -> Struct:
    if envelope != "debezium":
        raise no_envelope(f"a format with types has no envelope {envelope}")
    if "op" not in events.names and {"ddl", "databaseName"} & set(events.names):
        raise NoRowError("schema change")
    after = events.field("after")
    if "op" not in events.names or after is None or not isinstance(after.type, Struct):
        raise no_envelope("the schema has no 'op' or no row 'after'")
    return after.type


def _event(event: dict[str, Any], key: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    op, source = event["op"], event.get("source")
    if isinstance(op, str) and op in DEBEZIUM_WITHOUT_ROW:
        raise NoRowError(DEBEZIUM_WITHOUT_ROW[op])
    operation = _operation(op, "event")
    row = event.get("before" if operation == "delete" else "after")
    if row is None:
        raise RejectError(RejectCode.IMAGE_MISSING, f"the event of {operation} holds no row")
    if not isinstance(row, dict):
        raise no_envelope("the row is not an object")
    said: dict[str, Any] = {"operation": operation, "timestamp": _time(source)}
    said["source"] = _text(source)
    if key and operation == "update":
        said[FORMER_KEY] = _former_key(event.get("before"), row, key)
    return row, said


def _former_key(former: Any, row: Mapping[str, Any], key: Sequence[str]) -> dict[str, Any] | None:
    """Return the key that an update changes; None where it keeps it, or does not tell it."""
    if former is None:
        return None
    if not isinstance(former, dict):
        raise no_envelope("the former row is not an object")
    was = {name: former.get(name) for name in key}
    return None if all(was[name] == row.get(name) for name in key) else was


def _event_columns(
    events: DecodedBlock, changes: Mapping[str, str], key: Sequence[str]
) -> DecodedBlock:
    members = dict(zip(events.array.type.names, events.array.flatten(), strict=True))
    before, after = members.get("before"), members.get("after")
    op, source, count = members["op"], members.get("source"), len(events.array)
    given = before
    if after is None or not pa.types.is_struct(after.type) or not pa.types.is_string(op.type):
        return unread(count, events.array.type)
    if before is None or before.type != after.type:
        before = pa.nulls(count, after.type)
    deleted = pc.equal(op, "d").fill_null(False).to_numpy(zero_copy_only=False)
    index = np.arange(count) + np.where(deleted, count, 0)
    rows = pa.concat_arrays([after, before]).take(pa.array(index))
    operation = _operations(op)
    uncertain = events.uncertain | mask_of(operation.is_null()) | mask_of(rows.is_null())
    said = {"operation": operation}
    updated = mask_of(pc.equal(op, "u").fill_null(False)) if key and given is not None else None
    if given is not None and updated is not None and updated.any():
        if pa.types.is_struct(given.type):
            said[FORMER_KEY] = _former_keys(given, after, key, updated)
        else:
            uncertain |= updated & mask_of(given.is_valid())
    if "timestamp" in changes:
        said["timestamp"], unsure = _times(source, count)
        uncertain |= unsure
    if "source" in changes:
        said["source"], unsure = _texts(source, count)
        uncertain |= unsure
    return _joined(rows, said, changes, uncertain)


def _former_keys(
    before: pa.StructArray, after: pa.StructArray, key: Sequence[str], updated: Mask
) -> pa.StructArray:
    was = dict(zip(before.type.names, before.flatten(), strict=True))
    now = dict(zip(after.type.names, after.flatten(), strict=True))
    if not was.keys() >= set(key):
        return pa.nulls(len(before), pa.struct([]))
    given, differs = updated & mask_of(before.is_valid()), np.zeros(len(before), np.bool_)
    for name in key:
        differs |= _differs(was[name], now.get(name))
    members = [was[name] for name in key]
    return struct_array(key, members, len(before), pa.array(~(given & differs)))


def _differs(was: pa.Array, now: pa.Array | None) -> Mask:
    """Return which values are not equal, as far as Arrow can tell: else all are."""
    if now is None or was.type != now.type:
        return np.ones(len(was), np.bool_)
    try:
        return mask_of(pc.invert(pc.equal(was, now).fill_null(False)))
    except pa.ArrowNotImplementedError:
        return np.ones(len(was), np.bool_)


def _flattened(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    operation, op = None, row.get("__op")
    if op is not None:
        operation = _operation(op, "row")
    elif row.get("__deleted") in ("true", True):
        operation = "delete"
    time = row.get("__source_ts_ms")
    at = TimestampValue(time, MS, zoned=True) if isinstance(time, int) else None
    return row, {"operation": operation, "timestamp": at}


def _flattened_columns(rows: DecodedBlock, changes: Mapping[str, str]) -> DecodedBlock:
    members = dict(zip(rows.array.type.names, rows.array.flatten(), strict=True))
    nothing = pa.nulls(len(rows.array), pa.string())
    op, deleted = members.get("__op", nothing), members.get("__deleted", nothing)
    time = members.get("__source_ts_ms", pa.nulls(len(rows.array), pa.int64()))
    plain = pa.types.is_string(op.type) and pa.types.is_int64(time.type)
    if not plain or not pa.types.is_string(deleted.type):
        return unread(len(rows.array), rows.array.type)
    operation = _operations(op)
    uncertain = rows.uncertain | mask_of(pc.and_(operation.is_null(), op.is_valid()))
    is_delete = pc.and_(pc.equal(deleted, "true").fill_null(False), op.is_null())
    operation = pc.if_else(is_delete, "delete", operation)
    said = {"operation": operation, "timestamp": time.view(pa.timestamp("ms", "UTC"))}
    return _joined(rows.array, said, changes, uncertain)


def _beside(
    row: Mapping[str, Any], said: Mapping[str, Any], changes: Mapping[str, str]
) -> dict[str, Any]:
    if twice := set(changes.values()) & row.keys():
        reason = f"the row has a member of its own that is called {min(twice)}"
        raise RejectError(RejectCode.DUPLICATE_KEY, reason)
    return {**row, **{column: said.get(role) for role, column in changes.items()}}


def _joined(
    rows: pa.StructArray, said: Mapping[str, pa.Array], changes: Mapping[str, str], uncertain: Any
) -> DecodedBlock:
    names, members = list(rows.type.names), list(rows.flatten())
    if set(changes.values()) & set(names):
        uncertain = np.ones(len(rows), np.bool_)
    for role, column in changes.items():
        if role in said and column not in names:
            names.append(column)
            members.append(said[role])
    return DecodedBlock(struct_array(names, members, len(rows)), uncertain)


def _operation(op: Any, source: str) -> str:
    if not isinstance(op, str) or op not in DEBEZIUM_OPERATIONS:
        raise RejectError(RejectCode.UNKNOWN_OPERATION, f"the {source}'s operation is not known")
    return DEBEZIUM_OPERATIONS[op]


def _operations(op: pa.StringArray) -> pa.StringArray:
    letters, words = pa.array([*DEBEZIUM_OPERATIONS]), pa.array([*DEBEZIUM_OPERATIONS.values()])
    return words.take(pc.index_in(op, letters))


def _time(source: Any) -> TimestampValue | None:
    if not isinstance(source, dict):
        return None
    for name, per_second in (("ts_us", US), ("ts_ms", MS)):
        if isinstance(source.get(name), int):
            return TimestampValue(source[name], per_second, zoned=True)
    return None


def _times(source: pa.Array | None, count: int) -> tuple[pa.Array, Any]:
    nothing = pa.nulls(count, pa.timestamp("ms", "UTC"))
    if source is None or not pa.types.is_struct(source.type):
        return nothing, np.zeros(count, np.bool_)
    members = dict(zip(source.type.names, source.flatten(), strict=True))
    finer, coarser = (members.get(name) for name in ("ts_us", "ts_ms"))
    if finer is not None and pa.types.is_int64(finer.type) and finer.null_count < count:
        unsure = mask_of(pc.and_(finer.is_null(), source.is_valid()))
        return finer.view(pa.timestamp("us", "UTC")), unsure
    if coarser is None or not pa.types.is_int64(coarser.type):
        return nothing, mask_of(source.is_valid())
    return coarser.view(pa.timestamp("ms", "UTC")), np.zeros(count, np.bool_)


def _text(source: Any) -> str | None:
    if source is None:
        return None
    return json.dumps(source, separators=(",", ":"), ensure_ascii=False, default=_shown)


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.count if isinstance(value, Temporal) else str(value)


def _texts(source: pa.Array | None, count: int) -> tuple[pa.Array, Any]:
    if source is None or pa.types.is_null(source.type):
        return pa.nulls(count, pa.string()), np.zeros(count, np.bool_)
    if not pa.types.is_struct(source.type) or not all(map(_is_plain, source.type)):
        return pa.nulls(count, pa.string()), np.ones(count, np.bool_)
    texts = [_text(each) for each in source.to_pylist()]
    return pa.array(texts, pa.string()), np.zeros(count, np.bool_)


def _is_plain(field: pa.Field) -> bool:
    tests = pa.types.is_string, pa.types.is_integer, pa.types.is_boolean
    return any(test(field.type) for test in tests)
