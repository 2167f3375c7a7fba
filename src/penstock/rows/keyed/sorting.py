"""Records of one partition, sorted by what they do to a keyed table.

Theory of operation: records are converted once, as for a table of appends whose key is required,
with their operation and former key in columns that no table has. A delete needs its key alone: one
that does not fit as a whole row is read once more, for its key. So verdicts on upserts are those of
appends, but for what is said of keys and operations.

Invariants:
- each record is an upsert, a delete, rejected, or filtered;
- a key has no null;
- the verdict on a record does not depend on the records next to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.errors import DecisionNeededError
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.schema import Field, Schema, Struct
from penstock.rows.arrow_arrays import Mask, mask_of
from penstock.rows.convert.batch import ConvertedBatch, Reject, convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.decode.envelope.former_keys import WITH_FORMER_ROWS
from penstock.rows.keyed.key_rows import KeyRows
from penstock.rows.keyed.message_keys import message_keys
from penstock.rows.keyed.operations import (
    DELETE,
    TRUNCATE,
    UNKNOWN,
    UPSERT,
    OperationColumn,
)
from penstock.rows.options import FORMER_KEY, KeyedOptions, RowOptions
from penstock.rows.reject_codes import CODE_INFO, RejectCode, RejectError, Stage

_OF_COLUMNS = frozenset(
    str(code)
    for code, info in CODE_INFO.items()
    if info.stage is Stage.CONVERT or code is RejectCode.NOT_AVAILABLE
)
"""Codes of what a column holds: another look at a record, for fewer columns, may not find it."""
_UNKNOWN = "the record's operation is not known"
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SortedRecords:
    """Rows to upsert, with the books of all records; keys to delete; and keys that upserts change.

    `former` holds, by the offset of an upsert, what its row had before where its key is, if that is
    something else; null may be in it. `gone` are the offsets of upserts that are the last image of
    a deleted row, where deletes leave one.
    """

    upserts: ConvertedBatch
    deletes: KeyRows
    former: KeyRows
    gone: Offsets


def sort_records(
    batch: pa.RecordBatch,
    *,
    at: TopicPartition,
    schema: Schema,
    options: RowOptions,
    readers: ReaderCache,
) -> SortedRecords:
    """Sort the records of one partition; `schema` are the columns that are not computed.

    Raises DecisionNeededError (P488) for a truncate that is not ignored, and what `convert_batch`
    raises.
    """
    keyed = options.keyed
    assert keyed is not None, "the table has keys"
    if own := tuple(name for name in keyed.keys if name in schema.names):
        keyed = replace(keyed, keys=own)
    return _Sorting(batch, at, schema, replace(options, keyed=keyed), keyed, readers).sorted()


@dataclass(frozen=True, slots=True)
class _Sorting:
    batch: pa.RecordBatch
    at: TopicPartition
    schema: Schema
    options: RowOptions
    keyed: KeyedOptions
    readers: ReaderCache

    @property
    def keys(self) -> Struct:
        """Return the columns of the key that are not computed, each required."""
        fields = map(self.schema.field, self.keyed.keys)
        return Struct(tuple(replace(f, required=True) for f in fields if f is not None))

    def sorted(self) -> SortedRecords:
        operation = OperationColumn.of(self.schema, self.options)
        made = self._converted(operation)
        done = np.full(len(made.offsets), UPSERT, np.int8)
        if operation is not None:
            done = operation.numbers(made.rows)
        rejects, filtered = {each.offset: each for each in made.rejects}, Counter(made.filtered)
        more_deletes, more_truncates = self._done_by_rejected(rejects, operation)
        gone, is_upsert = made.offsets[:0], done == UPSERT
        if self.keyed.soft:  # an image of a deleted row is a row, or rejected, as others are
            gone, is_upsert = made.offsets[done == DELETE], is_upsert | (done == DELETE)
            more_deletes = more_deletes[:0]
        truncates = np.concatenate([made.offsets[done == TRUNCATE], more_truncates])
        self._count_truncates(truncates, filtered)
        for offset in truncates.tolist():
            rejects.pop(offset, None)
        if operation is not None:
            rejects |= _unknown(made.offsets[done == UNKNOWN], operation)
        is_delete = (done == DELETE) & ~is_upsert
        deletes = self._deletes(made, is_delete, more_deletes, rejects, filtered)
        upserts, former = self._upserts(made, is_upsert)
        books = replace(
            upserts,
            rejects=tuple(sorted(rejects.values(), key=lambda each: each.offset)),
            filtered=dict(filtered),
        )
        return SortedRecords(books, deletes, former, gone)

    def _converted(self, operation: OperationColumn | None) -> ConvertedBatch:
        keys = self.keys
        fields = list(with_required(self.schema, (*keys.names, *self.keyed.sequence)).fields)
        options = self.options if operation is None else operation.options
        if operation is not None and operation.field.name not in self.schema.names:
            fields.append(operation.field)
        inside = _inside(keys, options)
        if options.envelope in WITH_FORMER_ROWS and inside:
            fields.append(Field(FORMER_KEY, Struct(inside)))
            changed = {**options.change_columns, FORMER_KEY: FORMER_KEY}
            options = replace(options, change_columns=changed)
        if options.tombstones == "delete":
            options = replace(options, tombstones="quarantine")
        return self._read(self.batch, Struct(tuple(fields)), options)

    def _read(self, batch: pa.RecordBatch, schema: Schema, options: RowOptions) -> ConvertedBatch:
        return convert_batch(
            batch, at=self.at, schema=schema, options=options, readers=self.readers
        )

    def _done_by_rejected(
        self, rejects: Mapping[int, Reject], operation: OperationColumn | None
    ) -> tuple[Offsets, Offsets]:
        """Return which records delete and which truncate, of those whose rows do not fit."""
        nothing = np.zeros(0, np.int64)
        if operation is None or operation.upserts_only:
            return nothing, nothing
        asked = [offset for offset, each in rejects.items() if each.code in _OF_COLUMNS]
        if not asked:
            return nothing, nothing
        schema = Struct((replace(operation.field, required=False),))
        options = replace(operation.options, columns="drop_value", types="quarantine")
        read = self._read(self._of(asked), schema, _with_own_columns(options, schema))
        done = operation.numbers(read.rows)
        return read.offsets[done == DELETE], read.offsets[done == TRUNCATE]

    def _deletes(
        self,
        made: ConvertedBatch,
        deletes: Mask,
        more: Offsets,
        rejects: dict[int, Reject],
        filtered: Counter[str],
    ) -> KeyRows:
        """Return the keys to delete; their records leave the rejects, but for those without one."""
        keys = self.keys
        tombstones: list[int] = []
        if self.options.tombstones == "delete":
            code = str(RejectCode.TOMBSTONE)
            tombstones = [offset for offset, each in rejects.items() if each.code == code]
        for offset in (*more.tolist(), *tombstones):
            del rejects[offset]
        if self.keyed.ignores_deletes:
            filtered["delete"] += int(deletes.sum()) + len(more) + len(tombstones)
            if not filtered["delete"]:
                del filtered["delete"]
            deletes, more, tombstones = np.zeros_like(deletes), more[:0], []
        columns = {name: made.rows.column(name) for name in keys.names}
        parts = [KeyRows(columns, made.offsets).filter(deletes)]
        if len(more):
            options = replace(self.options, columns="drop_value", types="quarantine")
            read = self._read(self._of(more.tolist()), keys, replace(options, change_columns={}))
            rejects |= {each.offset: each for each in read.rejects}
            held = dict(zip(keys.names, read.rows.columns, strict=True))
            parts.append(KeyRows(held, read.offsets))
        if tombstones:
            found, refused = message_keys(
                self._of(tombstones),
                at=self.at,
                keys=keys,
                options=self.options,
                readers=self.readers,
            )
            rejects |= {each.offset: each for each in refused}
            parts.append(found)
        return KeyRows.concat(parts)

    def _upserts(self, made: ConvertedBatch, upserts: Mask) -> tuple[ConvertedBatch, KeyRows]:
        rows, offsets, keys = made.rows, made.offsets, self.keys
        if not upserts.all():
            rows, offsets = rows.filter(pa.array(upserts)), offsets[upserts]
        own = {name: rows.column(name) for name in keys.names}
        former = KeyRows(own, offsets)
        if FORMER_KEY in rows.schema.names and not self.keyed.keeps_all_rows:
            former = _changed(former, rows.column(FORMER_KEY))
        else:
            former = former.filter(np.zeros(len(offsets), np.bool_))
        if len(rows.schema.names) > len(self.schema.fields):
            rows = rows.select([*self.schema.names])
        return replace(made, rows=rows, offsets=offsets), former

    def _of(self, offsets: Collection[int]) -> pa.RecordBatch:
        own = self.batch.column("offset").to_numpy()
        places = np.searchsorted(own, np.sort(np.array([*offsets], np.int64)))
        return self.batch.take(pa.array(places))

    def _count_truncates(self, offsets: Offsets, filtered: Counter[str]) -> None:
        """Count ignored truncates as filtered. Raises DecisionNeededError (P488) for others."""
        if self.keyed.ignores_truncates:
            filtered["truncate"] += len(offsets)
        elif filtered["truncate"] or len(offsets):
            first = [*offsets.tolist()]
            if filtered["truncate"]:
                first.append(self._first_truncate())
            error = DecisionNeededError(
                f"the source truncated the table, at {self.at} offset {min(first)}",
                code="P488",
                hint="let another table begin after it, or keep the rows:  truncates: ignore",
            )
            error.at = (self.at, Offset(min(first)))
            raise error
        if not filtered["truncate"]:
            del filtered["truncate"]

    def _first_truncate(self) -> int:
        """Find the first record that is filtered as a truncate; there is one."""
        part = self.batch
        nothing = Struct(())
        options = _with_own_columns(replace(self.options, columns="drop_value"), nothing)
        while len(part) > 1:
            middle = len(part) // 2
            read = self._read(part.slice(0, middle), nothing, options)
            part = part.slice(0, middle) if read.filtered.get("truncate") else part.slice(middle)
        return int(part.column("offset")[0].as_py())


def with_required(schema: Schema, names: Collection[str]) -> Struct:
    """Return a schema in which some columns are required."""
    fields = schema.fields
    return Struct(tuple(replace(f, required=f.required or f.name in names) for f in fields))


def _inside(keys: Struct, options: RowOptions) -> tuple[Field, ...]:
    inside = (field for field in keys.fields if field.name in options.key_in_rows)
    return tuple(replace(field, required=False) for field in inside)


def _with_own_columns(options: RowOptions, schema: Schema) -> RowOptions:
    """Return options that read, next to a record's value, the columns of a schema alone."""
    headers = {n: header for n, header in options.header_columns.items() if n in schema.names}
    return replace(options, source_columns={}, header_columns=headers, key_format="bytes")


def _unknown(offsets: Offsets, operation: OperationColumn) -> dict[int, Reject]:
    error = RejectError(RejectCode.UNKNOWN_OPERATION, _UNKNOWN, operation.shown)
    return {each: Reject.of(each, error.code, error.message) for each in offsets.tolist()}


def _changed(own: KeyRows, former: pa.StructArray) -> KeyRows:
    """Return the former keys that are told and are not those of the rows; null may be in them."""
    was = dict(zip(former.type.names, former.flatten(), strict=True))
    differs, told = np.zeros(len(former), np.bool_), mask_of(former.is_valid())
    for name, column in was.items():
        differs |= mask_of(pc.not_equal(column, own.columns[name]).fill_null(True))
    return KeyRows({**own.columns, **was}, own.offsets).filter(differs & told)
