"""Change events of formats with types become rows: Debezium's, whole or flattened.

The counterpart of json_envelopes.py for readers of columns and trees. The row's members keep their
types; what the envelope says of the change stands beside them under the table's change columns.

Invariant: both ways give the same row, and an event that is not plain is left to the single one.

Source: Debezium, "Change events" and "New record state extraction".
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.schema import Struct
from penstock.rows.arrow_arrays import mask_of, struct_array
from penstock.rows.decode.envelope.json_envelopes import (
    DEBEZIUM_OPERATIONS,
    DEBEZIUM_WITHOUT_ROW,
    NoRow,
)
from penstock.rows.decode.format_reader import DecodedBlock, FormatReader, NoRowError
from penstock.rows.decode.logical_types import MS, US, Temporal, TimestampValue
from penstock.rows.options import Envelope
from penstock.rows.reject_codes import RejectCode, RejectError

_IMAGES = ("before", "after")


def event_reader(
    reader: FormatReader, envelope: Envelope, changes: Mapping[str, str]
) -> FormatReader | NoRow:
    """Return the reader of events by one schema, or why none of them has a row.

    Raises RejectError when the schema is no such event's.
    """
    if envelope == "flattened":
        return FlattenedReader(reader, changes)
    if envelope != "debezium":
        raise _no_envelope(f"a format with types has no envelope {envelope}")
    names = reader.type.names
    if "op" not in names and {"ddl", "databaseName"} & set(names):
        return NoRow("schema change")
    after = reader.type.field("after")
    if "op" not in names or after is None or not isinstance(after.type, Struct):
        raise _no_envelope("the schema has no 'op' or no row 'after'")
    return DebeziumReader(reader, changes)


@dataclass(frozen=True, slots=True)
class DebeziumReader:
    """Reads the rows of change events with before, after, op and source."""

    inner: FormatReader
    changes: Mapping[str, str]

    @property
    def type(self) -> Struct:
        """Return the columns of the row."""
        after = self.inner.type.field("after")
        assert after is not None, "event_reader looked at it"
        assert isinstance(after.type, Struct), "event_reader looked at it"
        return after.type

    def record(self, value: bytes) -> dict[str, Any]:
        """Read one event's row. Raises RejectError, and NoRowError."""
        event = self.inner.record(value)
        op = event["op"]
        if isinstance(op, str) and op in DEBEZIUM_WITHOUT_ROW:
            raise NoRowError(DEBEZIUM_WITHOUT_ROW[op])
        operation = _operation(op, "event")
        row = event.get("before" if operation == "delete" else "after")
        if row is None:
            raise RejectError(RejectCode.IMAGE_MISSING, f"the event of {operation} holds no row")
        if not isinstance(row, dict):
            raise _no_envelope("the row is not an object")
        source = event.get("source")
        said = {"operation": operation, "timestamp": _time(source), "source": _text(source)}
        return _beside(row, said, self.changes)

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Read the rows of events; what is not plain is uncertain."""
        decoded = self.inner.block(values)
        members = dict(zip(decoded.array.type.names, decoded.array.flatten(), strict=True))
        before, after = (members.get(name) for name in _IMAGES)
        op, source = members["op"], members.get("source")
        if after is None or not pa.types.is_struct(after.type) or not pa.types.is_string(op.type):
            return _all_doubtful(decoded)
        if before is None or before.type != after.type:
            before = pa.nulls(len(values), after.type)
        deleted = pc.equal(op, "d").fill_null(False).to_numpy(zero_copy_only=False)
        index = np.arange(len(values)) + np.where(deleted, len(values), 0)
        rows = pa.concat_arrays([after, before]).take(pa.array(index))
        operation = _operations(op)
        uncertain = decoded.uncertain | mask_of(operation.is_null()) | mask_of(rows.is_null())
        said = {"operation": operation}
        if "timestamp" in self.changes:
            said["timestamp"], unsure = _times(source, len(values))
            uncertain |= unsure
        if "source" in self.changes:
            said["source"], unsure = _texts(source, len(values))
            uncertain |= unsure
        return _joined(rows, said, self.changes, uncertain)


@dataclass(frozen=True, slots=True)
class FlattenedReader:
    """Reads rows that stand alone, with what they were in members that begin with `__`."""

    inner: FormatReader
    changes: Mapping[str, str]

    @property
    def type(self) -> Struct:
        """Return the columns of the row."""
        return self.inner.type

    def record(self, value: bytes) -> dict[str, Any]:
        """Read one row. Raises RejectError."""
        row = self.inner.record(value)
        operation, op = None, row.get("__op")
        if op is not None:
            operation = _operation(op, "row")
        elif row.get("__deleted") in ("true", True):
            operation = "delete"
        time = row.get("__source_ts_ms")
        at = TimestampValue(time, MS, zoned=True) if isinstance(time, int) else None
        return _beside(row, {"operation": operation, "timestamp": at}, self.changes)

    def block(self, values: pa.BinaryArray) -> DecodedBlock:
        """Read rows; what is not plain is uncertain."""
        decoded = self.inner.block(values)
        members = dict(zip(decoded.array.type.names, decoded.array.flatten(), strict=True))
        nothing = pa.nulls(len(values), pa.string())
        op, deleted = members.get("__op", nothing), members.get("__deleted", nothing)
        time = members.get("__source_ts_ms", pa.nulls(len(values), pa.int64()))
        plain = pa.types.is_string(op.type) and pa.types.is_int64(time.type)
        if not plain or not pa.types.is_string(deleted.type):
            return _all_doubtful(decoded)
        operation = _operations(op)
        uncertain = decoded.uncertain | mask_of(pc.and_(operation.is_null(), op.is_valid()))
        gone = pc.and_(pc.equal(deleted, "true").fill_null(False), op.is_null())
        operation = pc.if_else(gone, "delete", operation)
        said = {"operation": operation, "timestamp": time.view(pa.timestamp("ms", "UTC"))}
        return _joined(decoded.array, said, self.changes, uncertain)


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


def _operation(op: Any, whose: str) -> str:
    if not isinstance(op, str) or op not in DEBEZIUM_OPERATIONS:
        raise RejectError(RejectCode.UNKNOWN_OPERATION, f"the {whose}'s operation is not known")
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
    type_ = field.type
    plain = pa.types.is_string, pa.types.is_integer, pa.types.is_boolean
    return any(test(type_) for test in plain)


def _all_doubtful(decoded: DecodedBlock) -> DecodedBlock:
    return DecodedBlock(decoded.array, np.ones(len(decoded.array), np.bool_))


def _no_envelope(reason: str) -> RejectError:
    return RejectError(RejectCode.NO_ENVELOPE, reason)
