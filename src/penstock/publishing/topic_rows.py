"""Records of a topic as rows: opened as landing opens them, in the order of their offsets.

Invariants:
- each record that is read is a row, or bad with its offset and landing's code, or left out and
  counted;
- a record without a value is a row, too, where it is to delete its key: it has its coordinates,
  says that it deletes, and its other columns are null;
- coordinates are those of the record, never of its value;
- a stretch ends early where its rows have more bytes than a transaction has for it: records may be
  a thousand times as large as they were estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.offsets import TopicPartition
from penstock.core.positions import Position
from penstock.core.schema import SOURCE_PREFIX, Struct, schema_from_json, type_to_json
from penstock.ports.log import RangeReader
from penstock.ports.sources import MESSAGES, NO_ROWS, BadRow, Rows, Stretch
from penstock.publishing.rejects import RECORD_VALUE
from penstock.publishing.topic_source import fetched_of, place_of
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.convert.absent_fields import AbsentFields, absent_fields
from penstock.rows.convert.batch import Reject, convert_batch
from penstock.rows.decode.decoder import ReaderCache
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode

DELETED = f"{SOURCE_PREFIX}deleted"
"""The column that says whether a record has no value, and deletes its key."""
COORDINATES: Mapping[str, pa.DataType] = {
    f"{SOURCE_PREFIX}topic": pa.string(),
    f"{SOURCE_PREFIX}partition": pa.int32(),
    f"{SOURCE_PREFIX}offset": pa.int64(),
    f"{SOURCE_PREFIX}timestamp": MESSAGES.field("timestamp").type,
    f"{SOURCE_PREFIX}key": pa.binary(),
    f"{SOURCE_PREFIX}value": pa.binary(),
    f"{SOURCE_PREFIX}headers": MESSAGES.field("headers").type,
}
"""What a row may have besides its fields, as the record has it."""
HEADERS = f"{SOURCE_PREFIX}headers"
SAMPLE_RECORDS_MAX = 1000
_SAMPLE_PARTS_MAX = 8


@dataclass(frozen=True, slots=True)
class RecordRules:
    """How records become rows: their fields, with types, and which coordinates are asked for.

    `options` are those of `RowOptions` that say how values are written. Where it `deletes`, a
    record without a value is a row that deletes its key.
    """

    fields: Struct
    coordinates: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    deletes: bool = True

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of its rows."""
        own = [pa.field(name, COORDINATES[name]) for name in self.coordinates]
        deleted = [pa.field(DELETED, pa.bool_())] if self.deletes else []
        return pa.schema([*arrow_schema(self.fields), *own, *deleted])

    @property
    def row_options(self) -> RowOptions:
        """Return how landing's converter is to read values."""
        given: dict[str, Any] = {**self.options}
        return RowOptions(source_columns={}, columns="drop_value", **given)

    @property
    def needs_headers(self) -> bool:
        """Return whether headers have to be read."""
        return HEADERS in self.coordinates or self.options.get("schema_id") == "headers"


def record_rules_to_data(rules: RecordRules) -> dict[str, Any]:
    """Return the plain form."""
    return {
        "fields": type_to_json(rules.fields),
        "coordinates": list(rules.coordinates),
        "options": dict(rules.options),
        "deletes": rules.deletes,
    }


def record_rules_from_data(data: Mapping[str, Any]) -> RecordRules:
    """Read the plain form."""
    fields, coordinates = schema_from_json(data["fields"]), tuple(data["coordinates"])
    return RecordRules(fields, coordinates, data["options"], data["deletes"])


@dataclass(frozen=True, slots=True)
class TopicRowReader:
    """Implements `ports.sources.RowReader` over a reader of ranges.

    With `keeps_headers` records come with theirs, whether or not a row needs them.
    """

    reader: RangeReader
    rules: RecordRules
    schemas: ReaderCache = field(default_factory=ReaderCache)
    keeps_headers: bool = False

    def read(self, stretch: Stretch, *, deadline: float) -> Iterator[Rows]:
        """Yield the records of a stretch as rows.

        Raises what the reader and the registry of schemas raise.
        """
        at, needed = place_of(stretch.of), self.keeps_headers or self.rules.needs_headers
        bytes_left = int(stretch.work) if stretch.work else None
        for fetched, reached in fetched_of(self.reader, stretch, deadline=deadline, headers=needed):
            if not fetched.batch.num_rows:
                yield Rows(NO_ROWS, reached)
                continue
            rows = rows_of(fetched.batch, reached, at, self.rules, self.schemas)
            yield rows
            if bytes_left is not None:
                bytes_left -= rows.rows.nbytes
                if bytes_left <= 0:
                    return

    def absent_fields(self, stretches: Sequence[Stretch], *, deadline: float) -> AbsentFields:
        """Look for the fields that are asked for in the first records of some stretches.

        Raises what the reader raises.
        """
        if self.rules.options.get("format") != "json":
            return AbsentFields()
        sample = self._sample(stretches, deadline)
        return absent_fields(sample, self.rules.fields.names, self.rules.row_options)

    def _sample(self, stretches: Sequence[Stretch], deadline: float) -> Iterator[pa.RecordBatch]:
        looked_at = stretches[:_SAMPLE_PARTS_MAX]
        for each in looked_at:
            left = SAMPLE_RECORDS_MAX // len(looked_at)
            for fetched, _ in fetched_of(self.reader, each, deadline=deadline, headers=False):
                yield fetched.batch.slice(0, left)
                left -= fetched.batch.num_rows
                if left <= 0:
                    break


def rows_of(
    batch: pa.RecordBatch,
    reached: Position,
    at: TopicPartition,
    rules: RecordRules,
    schemas: ReaderCache,
) -> Rows:
    """Return the rows of a batch of records that ends before a position."""
    made = convert_batch(
        batch, at=at, schema=rules.fields, options=rules.row_options, readers=schemas
    )
    offsets = batch.column("offset").to_numpy()
    rejects, deleting = made.rejects, list[int]()
    if rules.deletes:
        deleting = [each.offset for each in rejects if each.code == RejectCode.TOMBSTONE]
        rejects = tuple(each for each in rejects if each.code != RejectCode.TOMBSTONE)
    values, places, deleted = made.rows, np.searchsorted(offsets, made.offsets), None
    if deleting:
        values, places, deleted = _with_nulls(values, places, np.searchsorted(offsets, deleting))
    records = batch if len(places) == len(batch) else batch.take(pa.array(places))
    columns = [*values.columns, *(_coordinate(each, records, at) for each in rules.coordinates)]
    if rules.deletes:
        none = np.zeros(len(places), np.bool_)
        columns.append(pa.array(none if deleted is None else deleted))
    rows = pa.RecordBatch.from_arrays(columns, rules.columns.names)
    bad = np.array([each.offset for each in rejects], np.int64)
    all_offsets = np.concatenate([offsets[places], bad])
    return Rows(rows, reached, _bad(batch, rejects, offsets), made.filtered, all_offsets, batch)


def _with_nulls(
    rows: pa.RecordBatch, places: npt.NDArray[np.int64], deleting: npt.NDArray[np.int64]
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Put rows of nulls where records delete: rows, the places of all, and which they are."""
    everyone = np.concatenate([places, deleting])
    order = np.argsort(everyone, kind="stable")
    deleted = order >= len(places)
    taken = rows.take(pa.array(np.where(deleted, 0, order), mask=deleted))
    return taken, everyone[order], deleted


def _coordinate(name: str, records: pa.RecordBatch, at: TopicPartition) -> pa.Array:
    match name.removeprefix(SOURCE_PREFIX):
        case "topic":
            return pa.repeat(pa.scalar(at.topic, pa.string()), len(records))
        case "partition":
            return pa.repeat(pa.scalar(at.partition, pa.int32()), len(records))
        case own:
            return records.column(own)


def _bad(
    batch: pa.RecordBatch, rejects: tuple[Reject, ...], offsets: npt.NDArray[np.int64]
) -> list[BadRow]:
    """Return records that are no rows, with landing's codes."""
    keys, found = batch.column("key"), list[BadRow]()
    for each in rejects:
        key = keys[int(np.searchsorted(offsets, each.offset))].as_py()
        found.append(BadRow(RECORD_VALUE, each.message, key, each.code))
    return found
