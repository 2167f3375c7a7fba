"""Rows become messages, in columns: each row is a message, or filtered, or a misfit.

Invariants:
- rows = messages + filtered + misfits, and messages are in the order of their rows;
- a tombstone is a message with a key and without a value;
- the verdict on a row does not depend on the rows around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import InvalidError
from penstock.ports.sources import MESSAGES
from penstock.rows.arrow_arrays import mask_of, spread
from penstock.rows.encode.columns import (
    StoredRows,
    bytes_of,
    deleted_rows,
    headers,
    undone,
    with_computed,
)
from penstock.rows.encode.conditions import decided, failure_of, no_column
from penstock.rows.encode.extensions import stored
from penstock.rows.encode.framing import framed, with_texts
from penstock.rows.encode.json_texts import is_binary, is_text, millis_of, object_texts
from penstock.rows.encode.nesting import Cause, Misfits, misfits_by_cause, out_of_range
from penstock.rows.encode.rules import KEY, MessageRules
from penstock.rows.reject_codes import RejectCode

WHERE, DELETE_WHEN = "where", "delete_when"
NO_KEY_TO_DELETE = "a record without a value has no key to delete"
PIECE_BYTES_MAX = 16 << 20
"""Of rows that are encoded at once: texts are a few times as large, and Arrow's offsets have 31
bits."""
PIECE_ROWS_MAX = 1 << 16


class Misfit(NamedTuple):
    """A row that is no message: its number in the batch, the column, and why; in words and as code.

    The code is landing's for the same cause. It holds no value but its `key`, where that is none of
    what does not fit.
    """

    row: int
    column: str
    reason: str
    code: str
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Encoded:
    """The outcome of every row of a batch: `places` has the row of each message."""

    messages: pa.RecordBatch
    places: npt.NDArray[np.int64]
    filtered: int
    misfits: tuple[Misfit, ...]


def encode(rows: pa.RecordBatch, rules: MessageRules, *, now_ms: int) -> Encoded:
    """Make messages (MESSAGES) of the rows of a table; `now_ms` is their time without a column.

    Raises InvalidError: rules that do not fit the rows (P838), a type without a form (P839), a
    schema that does not fit (P871, P872); UnavailableError (P876): that of former columns.
    """
    cut = _pieces(stored(rows))
    pieces = [_encode(StoredRows(each, rows.schema), rules, now_ms) for each in cut]
    begins = np.cumsum([0, *(len(each) for each in cut)])[:-1].tolist()
    numbered = [*zip(begins, pieces, strict=True)]
    return Encoded(
        pa.concat_batches([each.messages for each in pieces]),
        np.concatenate([each.places + begin for begin, each in numbered]),
        sum(each.filtered for each in pieces),
        tuple(
            one._replace(row=one.row + begin) for begin, each in numbered for one in each.misfits
        ),
    )


def require_fit(columns: pa.Schema, rules: MessageRules) -> None:
    """Raise InvalidError (P838, P839, P870 to P872) where no row of such columns is a message."""
    nothing = pa.RecordBatch.from_arrays([pa.nulls(0, e.type) for e in columns], schema=columns)
    _require_columns(nothing, rules)
    encode(nothing, with_texts(rules, columns), now_ms=0)


def _require_columns(rows: pa.RecordBatch, rules: MessageRules) -> None:
    """Raise InvalidError (P838) for all columns at once that rules name and rows lack."""
    rows, problems = stored(rows), list[InvalidError]()
    where = _unfit_condition(rows, WHERE, rules.where)
    try:
        made, _ = with_computed(StoredRows(rows, rows.schema), rules)
    except InvalidError as error:
        problems += [*where, error]
    else:
        named = [("key", each) for each in rules.key]
        named += [("value.columns", each) for each in rules.columns]
        named += [("value.column", rules.bytes_of), ("timestamp", rules.timestamp)]
        problems += [
            no_column(made.rows, name, field)
            for field, name in named
            if name and name not in made.kinds.names
        ]
        problems += [*where, *_unfit_condition(made.rows, DELETE_WHEN, rules.delete_when)]
    if len(problems) == 1:
        raise problems[0]
    if problems:
        hints = dict.fromkeys(each.hint for each in problems)
        said = "; ".join(each.message for each in problems)
        raise InvalidError(said, code=problems[0].code, hint="; ".join(hints))


def _unfit_condition(rows: pa.RecordBatch, field: str, sql: str) -> list[InvalidError]:
    """Return why a condition does not fit the columns, if it does not."""
    try:
        if sql:
            decided(stored(rows), sql, field)
    except InvalidError as error:
        return [error]
    return []


def cause_of(row: pa.RecordBatch, misfit: Misfit, rules: MessageRules) -> str:
    """Say why SQL has no answer for a row, which is all of the batch; "" where that is not why."""
    table = StoredRows(stored(row), row.schema)
    if misfit.column == WHERE:
        return failure_of(table.rows, rules.where, WHERE)
    if misfit.column in rules.computed:
        return failure_of(table.rows, rules.computed[misfit.column], misfit.column)
    later = {DELETE_WHEN: rules.delete_when}
    later |= {f"headers.{name}": sql for name, sql in rules.headers.items()}
    if misfit.column not in later:
        return ""
    made, _ = with_computed(table, rules)
    if later[misfit.column] in made.kinds.names:
        return ""
    return failure_of(made.rows, later[misfit.column], misfit.column)


def _pieces(rows: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Cut rows into pieces of a bounded size, by the mean size of a row; one without rows stays."""
    mean = max(rows.nbytes // max(len(rows), 1), 1)
    count = min(max(PIECE_BYTES_MAX // mean, 1), PIECE_ROWS_MAX)
    return [rows.slice(begin, count) for begin in range(0, max(len(rows), 1), count)]


def _encode(table: StoredRows, rules: MessageRules, now_ms: int) -> Encoded:
    rows = table.rows
    kept = np.ones(len(rows), np.bool_)
    misfits: dict[int, Misfit] = {}
    if rules.where:
        asked, deleted = decided(rows, rules.where, WHERE), deleted_rows(table, rules)
        kept = asked.true | deleted
        undecided = {row: why for row, why in asked.undecided.items() if not deleted[row]}
        misfits |= _undecided(table, rules, undecided)
    filtered = len(rows) - int(kept.sum()) - len(misfits)
    places = np.flatnonzero(kept)
    messages, found = _messages(_rows_at(table, places), rules, now_ms)
    keys = messages.column("key")
    for each in found:
        of_key = _is_of_key(each.path, rules)
        for number in np.flatnonzero(each.rows).tolist():
            row, key = int(places[number]), None if of_key else keys[number].as_py()
            misfits.setdefault(row, Misfit(row, each.path, *each.cause, key))
    if found:
        wrong = np.logical_or.reduce([each.rows for each in found])
        messages, places = messages.filter(pa.array(~wrong)), places[~wrong]
    return Encoded(messages, places, filtered, tuple(misfits[row] for row in sorted(misfits)))


def _undecided(
    table: StoredRows, rules: MessageRules, causes: Mapping[int, Cause]
) -> dict[int, Misfit]:
    """Return the misfits of rows for which `where` has no answer, with their keys."""
    keys, of_keys = _keys(_rows_at(table, np.array([*causes], np.int64)), rules)
    wrong = np.logical_or.reduce([np.zeros(len(causes), np.bool_), *(e.rows for e in of_keys)])
    return {
        row: Misfit(row, WHERE, *why, None if wrong[at] else keys[at].as_py())
        for at, (row, why) in enumerate(causes.items())
    }


def _is_of_key(path: str, rules: MessageRules) -> bool:
    """Return whether a path is that of a column of the key, or of what is inside of one."""
    return any(
        path == name or path.startswith((f"{name}.", f"{name}[", f"{name}{{")) for name in rules.key
    )


def _rows_at(table: StoredRows, places: npt.NDArray[np.int64]) -> StoredRows:
    if len(places) == len(table.rows):
        return table
    return StoredRows(table.rows.take(pa.array(places)), table.kinds)


def _messages(
    table: StoredRows, rules: MessageRules, now_ms: int
) -> tuple[pa.RecordBatch, list[Misfits]]:
    """Make a message of each row, and say which do not fit."""
    table, of_computed = with_computed(table, rules)
    rows = table.rows
    keys, of_keys = _keys(table, rules)
    deleted, of_deleted = _deleted(table, rules, keys)
    misfits = [*of_computed, *of_keys, *of_deleted]
    values, of_values = _values(_rows_at(table, np.flatnonzero(~deleted)), rules)
    for each in of_values:
        whole = np.zeros(len(rows), np.bool_)
        whole[~deleted] = each.rows
        misfits.append(each._replace(rows=whole))
    times, of_times = _times(table, rules, now_ms)
    headers_, of_headers = headers(table, rules)
    arrays = [keys, spread(values, ~deleted), times, headers_]
    found = [*misfits, *of_times, *of_headers]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES), found


def _deleted(
    table: StoredRows, rules: MessageRules, keys: pa.BinaryArray
) -> tuple[npt.NDArray[np.bool_], list[Misfits]]:
    """Return which rows delete their key."""
    count, misfits = len(table.rows), list[Misfits]()
    deleted, spared = (deleted_rows(table, rules),) * 2
    if rules.delete_when:
        asked = decided(table.rows, rules.delete_when, DELETE_WHEN)
        deleted = asked.true | spared
        undecided = {row: why for row, why in asked.undecided.items() if not spared[row]}
        misfits += misfits_by_cause(DELETE_WHEN, undecided, count)
    keyless = deleted & mask_of(keys.is_null())
    for rows, why in ((spared, NO_KEY_TO_DELETE), (~spared, "a row that deletes has no key")):
        if (keyless & rows).any():
            cause = Cause(why, RejectCode.KEY_MISSING)
            misfits.append(Misfits(rules.key[0], keyless & rows, cause))
    return deleted, misfits


def _keys(table: StoredRows, rules: MessageRules) -> tuple[pa.BinaryArray, list[Misfits]]:
    if not rules.key:
        return pa.nulls(len(table.rows), pa.binary()), []
    if rules.key_schema is not None:
        columns = [table.column(name, KEY) for name in rules.key]
        return framed(columns, rules.key_schema, rules.form)
    if rules.key_is_object:
        columns = [table.column(name, "key") for name in rules.key]
        made = object_texts(columns, "", rules.form)
        return made.texts.cast(pa.binary()), made.misfits
    (name,) = rules.key
    return bytes_of(table.column(name, "key"), rules.form)


def _values(table: StoredRows, rules: MessageRules) -> tuple[pa.BinaryArray, list[Misfits]]:
    names = rules.columns or table.kinds.names
    if rules.value_schema is not None:
        columns = [table.column(name, "value.columns") for name in names]
        return framed(columns, rules.value_schema, rules.form)
    if not rules.bytes_of:
        columns = [table.column(name, "value.columns") for name in names]
        made = object_texts(columns, "", rules.form)
        return made.texts.cast(pa.binary()), made.misfits
    _, values, kind = undone(table.column(rules.bytes_of, "value.column"))
    if not (is_binary(kind) or is_text(kind)):
        raise InvalidError(
            f"the column {rules.bytes_of} is of the type {kind}, and bytes are of binary or string",
            code="P839",
            hint="publish it with  value: { format: json },  or name another column",
        )
    return values.cast(pa.binary()), []


def _times(
    table: StoredRows, rules: MessageRules, now_ms: int
) -> tuple[pa.TimestampArray, list[Misfits]]:
    kind = MESSAGES.field("timestamp").type
    if not rules.timestamp:
        return pa.repeat(pa.scalar(now_ms, pa.int64()), len(table.rows)).cast(kind), []
    counts = _millis(table, rules.timestamp)
    if rules.deleted_at:
        deleted = pa.array(deleted_rows(table, rules))
        counts = pc.if_else(deleted, _millis(table, rules.deleted_at), counts)
    impossible = mask_of(pc.less(counts, 0).fill_null(True))
    if not impossible.any():
        return counts.view(kind), []
    cause = out_of_range("a message has a time, from 1970 on")
    fitting = pc.if_else(pa.array(impossible), 0, counts)
    return fitting.view(kind), [Misfits(rules.timestamp, impossible, cause)]


def _millis(table: StoredRows, name: str) -> pa.Int64Array:
    """Return a column of times in milliseconds. Raises InvalidError (P838, P839)."""
    values = table.column(name, "timestamp").values
    if not pa.types.is_timestamp(values.type):
        raise InvalidError(
            f"the column {name} is of the type {values.type}, and is no timestamp",
            code="P839",
            hint="name another column under  timestamp",
        )
    return millis_of(values)
