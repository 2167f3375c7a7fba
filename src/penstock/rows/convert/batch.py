"""A batch of records becomes rows of one table, rejects, and counts: nothing else happens to one.

The way of a block: parse it at once (block_parser.py) → cast its columns (json_columns.py). A block
that does not parse, and records of uncertain rows, are read by the types that they show
(bulk_rejects.py), then by the record converter (record_cast.py), which lands or rejects them. A
record for which all that raises an unexpected error is looked for, and rejected (bisection.py).

Invariants:
- examined = rows + rejects + filtered (accounting, protocol.md I2);
- rows and rejects are in the order of their offsets;
- the verdict on a record does not depend on the records around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Schema
from penstock.rows.arrow_arrays import lengths_of, validity_of
from penstock.rows.arrow_types import arrow_schema
from penstock.rows.bisection import BisectResult, bisect_on_error
from penstock.rows.block_result import BlockResult, merged_counts
from penstock.rows.convert import source_columns
from penstock.rows.convert.blocks import ConversionPlan, convert_group
from penstock.rows.convert.keys_and_headers import key_and_header_columns
from penstock.rows.decode.decoder import EMPTY, ReaderCache, decode_values
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import CODE_INFO, OF_TYPES, RejectCode, RejectError


class Reject(NamedTuple):
    """At which offset a record was rejected, at which stage, and why.

    `message` is one bounded, printable line that names the column and holds no value. It is a tuple
    because a storm of bad records makes one for each: a dataclass takes four times as long.
    """

    offset: int
    stage: str
    code: str
    message: str

    @classmethod
    def of(cls, offset: int, code: RejectCode, message: str) -> Reject:
        """Reject a record at the stage of a code."""
        return cls(offset, str(CODE_INFO[code].stage), str(code), message)


@dataclass(frozen=True, slots=True)
class ConvertedBatch:
    """The outcome of every record of a batch.

    `rows` has the columns of the table's schema in order, and `offsets` has the offset of each
    row's record; `filtered` counts by reason. `dropped` counts values of landed records that were
    left out, by column path: values that did not fit under `types: drop_value`, unknown fields
    under `columns: drop_value`, and unknown fields that hold an empty object or array, which are
    no reason to reject a record.
    """

    rows: pa.RecordBatch
    offsets: npt.NDArray[np.int64]
    rejects: tuple[Reject, ...]
    filtered: Mapping[str, int]
    dropped: Mapping[str, int]


def convert_batch(
    batch: pa.RecordBatch,
    *,
    at: TopicPartition,
    schema: Schema,
    options: RowOptions,
    readers: ReaderCache | None = None,
) -> ConvertedBatch:
    """Turn the records of one partition into rows of a table.

    `batch` is as in `ports.log.Fetched`; `readers` may be left out for formats without schemas.
    Raises InvalidError (P399) when a source column of the table has a type that cannot hold it, and
    what `Registry.find` raises.
    """
    made = bisect_on_error(
        batch,
        partial(_convert, at=at, schema=schema, options=options, readers=readers or ReaderCache()),
    )
    if made.errors or len(made.parts) != 1:
        return _joined(batch, made, schema)
    return made.parts[0]


def _joined(
    batch: pa.RecordBatch, made: BisectResult[ConvertedBatch], schema: Schema
) -> ConvertedBatch:
    empty = pa.RecordBatch.from_pylist([], arrow_schema(schema))
    rows = pa.concat_batches([empty, *(each.rows for each in made.parts)])
    if not schema.fields:  # rows without columns have their number alone
        rows = batch.select([]).slice(0, sum(each.rows.num_rows for each in made.parts))
    fact = CODE_INFO[RejectCode.UNEXPECTED].fact
    raising = {
        i: RejectError(RejectCode.UNEXPECTED, f"{fact}: {s}") for i, s in made.errors.items()
    }
    rejects = [reject for each in made.parts for reject in each.rejects]
    return ConvertedBatch(
        rows,
        np.concatenate([np.empty(0, np.int64), *(each.offsets for each in made.parts)]),
        tuple(sorted((*rejects, *_rejects(batch, raising)), key=lambda reject: reject.offset)),
        dict(merged_counts(Counter(each.filtered) for each in made.parts)),
        dict(merged_counts(Counter(each.dropped) for each in made.parts)),
    )


def _convert(
    batch: pa.RecordBatch,
    *,
    at: TopicPartition,
    schema: Schema,
    options: RowOptions,
    readers: ReaderCache,
) -> ConvertedBatch:
    values = batch.column("value")
    errors = _refused_unread(batch, schema, options)
    readable = validity_of(values)
    tombstones = ~readable
    readable[list(errors)] = False
    plan = ConversionPlan.of(schema, options)
    changes = {
        role: column
        for role, column in options.change_columns.items()
        if schema.field(column) is not None
    }
    readable_at = np.flatnonzero(readable)
    opened = decode_values(batch, readable_at, options, readers, changes)
    pieces = [piece for group in opened.groups for piece in convert_group(group, plan)]
    fitted = BlockResult.concat(pieces, plan.payload)
    errors |= opened.rejects | fitted.rejects
    fitted, others = _with_keys_and_headers(batch, fitted, plan, readers)
    errors |= fitted.rejects
    filtered = dict(opened.filtered + fitted.filtered)
    if options.tombstones == "quarantine":
        tombstone = RejectError(RejectCode.TOMBSTONE, "the record has no value")
        errors |= dict.fromkeys(np.flatnonzero(tombstones).tolist(), tombstone)
    elif tombstones.any():
        filtered["tombstone"] = int(tombstones.sum())
    rows = _rows(batch, fitted, others, at=at, plan=plan)
    assert len(rows) + len(errors) + sum(filtered.values()) == len(batch), "none is lost"
    offsets = batch.column("offset").to_numpy()[fitted.positions]
    rejects = _rejects(batch, errors, _nowhere_to_keep(options, plan.options))
    return ConvertedBatch(rows, offsets, rejects, filtered, dict(fitted.dropped))


def _nowhere_to_keep(asked: RowOptions, had: RowOptions) -> Mapping[RejectCode, str]:
    """Say, by code, that a table without the column for it rescues nothing."""
    added = f"; nothing is rescued without a string column {asked.rescued_column} in the table"
    codes = OF_TYPES if asked.types == "rescue" != had.types else frozenset()
    if asked.columns == "rescue" != had.columns:
        codes |= {RejectCode.UNKNOWN_FIELD}
    return dict.fromkeys(codes, added)


def _refused_unread(
    batch: pa.RecordBatch, schema: Schema, options: RowOptions
) -> dict[int, RejectError]:
    """Find records that need not be decoded: empty, too large, with an impossible timestamp."""
    valued = validity_of(batch.column("value"))
    lengths = lengths_of(batch.column("value"))
    reason = f"the value has more than {options.record_bytes_max} bytes"
    errors = source_columns.rejects(batch, schema, options)
    found = {index: error for index, error in errors.items() if valued[index]}
    may_be_empty = options.format in ("text", "bytes") and options.compression == "none"
    empty = [] if may_be_empty else np.flatnonzero(valued & (lengths == 0)).tolist()
    found |= dict.fromkeys(empty, RejectError(RejectCode.EMPTY, EMPTY))
    large = np.flatnonzero(valued & (lengths > options.record_bytes_max)).tolist()
    return found | dict.fromkeys(large, RejectError(RejectCode.TOO_LARGE, reason))


def _with_keys_and_headers(
    batch: pa.RecordBatch, fitted: BlockResult, plan: ConversionPlan, readers: ReaderCache
) -> tuple[BlockResult, Mapping[str, pa.Array]]:
    """Read keys and headers of the records that fit, and leave out the others."""
    if plan.options.key_format == "bytes" and not plan.options.header_columns:
        return fitted, {}
    landed = _landed(batch, fitted)
    columns, rejects = key_and_header_columns(landed, plan.schema, plan.options, readers)
    if not rejects:
        return fitted, columns
    kept = np.ones(len(landed), np.bool_)
    kept[list(rejects)] = False
    mask = pa.array(kept)
    errors = {int(fitted.positions[at]): error for at, error in rejects.items()}
    fewer = replace(
        fitted,
        rows=fitted.rows.filter(mask),
        positions=fitted.positions[kept],
        rejects=fitted.rejects | errors,
    )
    return fewer, {name: column.filter(mask) for name, column in columns.items()}


def _landed(batch: pa.RecordBatch, fitted: BlockResult) -> pa.RecordBatch:
    if len(fitted.positions) == len(batch):
        return batch
    return batch.take(pa.array(fitted.positions))


def _rows(
    batch: pa.RecordBatch,
    fitted: BlockResult,
    others: Mapping[str, pa.Array],
    *,
    at: TopicPartition,
    plan: ConversionPlan,
) -> pa.RecordBatch:
    landed = _landed(batch, fitted)
    columns = dict(zip(plan.payload.names, fitted.rows.flatten(), strict=True))
    columns |= source_columns.columns(landed, at=at, schema=plan.schema, options=plan.options)
    columns |= others
    if plan.options.rescues:
        texts = [fitted.rescued.get(position) for position in fitted.positions.tolist()]
        columns[plan.options.rescued_column] = pa.array(texts, pa.string())
    arrays = [columns[name] for name in plan.schema.names]
    if not arrays:
        return landed.select([])  # made of no arrays it would have no rows
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(plan.schema))


def _rejects(
    batch: pa.RecordBatch,
    errors: Mapping[int, RejectError],
    more: Mapping[RejectCode, str] = MappingProxyType({}),
) -> tuple[Reject, ...]:
    """List rejected records by their offsets; `more` is what a code's message ends with."""
    if not errors:
        return ()
    places = np.array(sorted(errors), np.int64)
    offsets = batch.column("offset").to_numpy()[places].tolist()
    described: dict[int, tuple[str, str, str]] = {}  # records of a storm share few rejects
    rejects = []
    for offset, place in zip(offsets, places.tolist(), strict=True):
        error = errors[place]
        if (what := described.get(id(error))) is None:
            code = error.code
            message = error.message + more.get(code, "")
            what = described[id(error)] = (str(CODE_INFO[code].stage), str(code), message)
        rejects.append(Reject(offset, *what))
    return tuple(rejects)
