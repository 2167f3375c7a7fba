"""Deletes that leave a row: it says that its key was deleted, and when (docs/design/0250).

Theory of operation: an event with an image of the row is converted as others are. Of a record
without a value, and of the former key of a row that got another one, the key alone is known: its
row has the key, what stands next to a record's value, and null in all other columns.

Invariant: where such a row would need a value that is not known, its record is rejected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Schema, Struct
from penstock.rows.arrow_arrays import mask_of
from penstock.rows.arrow_types import arrow_schema, arrow_type
from penstock.rows.convert import source_columns
from penstock.rows.convert.batch import ConvertedBatch, Reject
from penstock.rows.convert.keys_and_headers import key_and_header_columns
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.keyed.key_rows import KeyRows
from penstock.rows.keyed.net import Changes
from penstock.rows.keyed.sorting import SortedRecords
from penstock.rows.options import SOFT_TYPES, RowOptions
from penstock.rows.reject_codes import CODE_INFO, RejectCode, RejectError

Offsets = npt.NDArray[np.int64]
_KEY_ALONE = "the column is required, and of the deleted row the record brings the key alone"


def without_soft_columns(schema: Schema, options: RowOptions) -> Struct:
    """Return the columns but for those of a deleted row's flag and time."""
    own = {field.name for field in options.soft_columns}
    return Struct(tuple(field for field in schema.fields if field.name not in own))


@dataclass(frozen=True, slots=True)
class SoftDeletes:
    """Makes rows of deleted keys, of the records of one batch."""

    batch: pa.RecordBatch
    at: TopicPartition
    schema: Schema
    options: RowOptions
    readers: ReaderCache

    def landed(self, found: SortedRecords) -> SortedRecords:
        """Put the rows of deleted keys among the others; what needs more than a key is rejected.

        `schema` has not the columns of flag and time. Raises what `Registry.find` raises.
        """
        deleted, refused = self._of_keys(found.deletes)
        former, more = self._of_former(found.former, found.upserts)
        upserts = found.upserts
        if len(more):
            upserts = _filtered(upserts, ~np.isin(upserts.offsets, [each.offset for each in more]))
        rejects = sorted((*upserts.rejects, *refused, *more), key=lambda each: each.offset)
        if len(deleted.offsets):
            own = dict(zip(upserts.rows.schema.names, upserts.rows.columns, strict=True))
            parts = [KeyRows(own, upserts.offsets), deleted]
            offsets = np.concatenate([each.offsets for each in parts])
            order = np.argsort(offsets)
            rows = pa.concat_batches(map(self._rows, parts)).take(pa.array(order))
            upserts = replace(upserts, rows=rows, offsets=offsets[order])
        return SortedRecords(
            replace(upserts, rejects=tuple(rejects)),
            former.filter(np.zeros(len(former.offsets), np.bool_)),
            former,
            np.concatenate([found.gone, deleted.offsets]),
        )

    def flagged(self, changes: Changes, gone: Offsets, schema: Schema) -> Changes:
        """Let each change bring a row, with flag and time in it; `gone` are offsets of deletes."""
        is_gone = ~changes.upsert | np.isin(changes.offset, gone)
        flag, time = self.options.soft_columns
        stamps = self.batch.column("timestamp").take(pa.array(self._places(changes.offset)))
        stamps = stamps.cast(pa.timestamp("ms", "UTC"))
        shown = pa.array(is_gone & ~source_columns.beyond(stamps))
        columns = dict(zip(changes.rows.schema.names, changes.rows.columns, strict=True))
        columns[flag.name] = pa.array(is_gone)
        none = pa.scalar(None, stamps.type)
        columns[time.name] = pc.if_else(shown, stamps, none).cast(arrow_type(time.type))
        arrays = [columns[name] for name in schema.names]
        rows = pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))
        return replace(changes, rows=rows, upsert=np.ones_like(changes.upsert))

    def _of_keys(self, keys: KeyRows) -> tuple[KeyRows, list[Reject]]:
        """Add to keys what stands next to the value of their records."""
        records = self.batch.take(pa.array(self._places(keys.offsets)))
        schema, options = self.schema, self.options
        more, refused = key_and_header_columns(records, schema, options, self.readers)
        more |= source_columns.columns(records, at=self.at, schema=schema, options=options)
        refused |= source_columns.rejects(records, schema, options)
        columns = {**more, **keys.columns}
        if lacking := self._lacking(columns):
            refused = dict.fromkeys(range(len(records)), lacking) | refused
        for name in options.sequence:
            if name in columns:
                unknown = np.flatnonzero(mask_of(columns[name].is_null()))
                refused = dict.fromkeys(unknown.tolist(), _without_sequence(name)) | refused
        kept = np.ones(len(records), np.bool_)
        kept[list(refused)] = False
        rejects = _rejects((int(keys.offsets[place]), refused[place]) for place in refused)
        return KeyRows(columns, keys.offsets).filter(kept), rejects

    def _of_former(self, keys: KeyRows, upserts: ConvertedBatch) -> tuple[KeyRows, list[Reject]]:
        """Add to former keys what the row of the same record has next to its value."""
        options = self.options
        keys = keys.filter(np.isin(keys.offsets, upserts.offsets))
        names = options.beside_value.union(options.sequence) - {*keys.columns}
        taken = pa.array(np.searchsorted(upserts.offsets, keys.offsets))
        own = upserts.rows.schema.names
        more = {name: upserts.rows.column(name).take(taken) for name in own if name in names}
        columns = {**more, **keys.columns}
        if lacking := self._lacking(columns):
            rejects = _rejects((offset, lacking) for offset in keys.offsets.tolist())
            return KeyRows(columns, keys.offsets).filter(np.zeros(len(keys.offsets), bool)), rejects
        return KeyRows(columns, keys.offsets), []

    def _lacking(self, known: Collection[str]) -> RejectError | None:
        """Return that a column of the sequence or a required one has no value, if there is one."""
        for name in self.options.sequence:
            if name not in known:
                return _without_sequence(name)
        for field in self.schema.fields:
            if field.required and field.name not in known:
                return RejectError(RejectCode.KEY_ALONE, _KEY_ALONE, field.name)
        return None

    def _rows(self, keys: KeyRows) -> pa.RecordBatch:
        """Return rows with null in the columns that are not known."""
        count, columns = len(keys.offsets), keys.columns
        fields = self.schema.fields
        arrays = [columns.get(f.name, pa.nulls(count, arrow_type(f.type))) for f in fields]
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(self.schema))

    def _places(self, offsets: Offsets) -> Offsets:
        own = self.batch.column("offset").to_numpy()
        places: Offsets = np.searchsorted(own, offsets).astype(np.int64)
        return places


def are_until(times: pa.Array, through_ms: int | None) -> npt.NDArray[np.bool_]:
    """Return which times of deletes are not after a moment; none without one, nor a null."""
    if through_ms is None:
        return np.zeros(len(times), np.bool_)
    kind = arrow_type(SOFT_TYPES[1])
    through = pa.scalar(through_ms, pa.timestamp("ms", "UTC")).cast(kind)
    return mask_of(pc.less_equal(times.cast(kind), through).fill_null(False))


def _without_sequence(name: str) -> RejectError:
    code = RejectCode.SEQUENCE_MISSING
    return RejectError(code, CODE_INFO[code].fact, name)


def _rejects(errors: Iterable[tuple[int, RejectError]]) -> list[Reject]:
    return [Reject.of(offset, error.code, error.message) for offset, error in errors]


def _filtered(converted: ConvertedBatch, kept: npt.NDArray[np.bool_]) -> ConvertedBatch:
    rows = converted.rows.filter(pa.array(kept))
    return replace(converted, rows=rows, offsets=converted.offsets[kept])
