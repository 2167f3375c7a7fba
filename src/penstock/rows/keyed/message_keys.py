"""The keys of records without a value become keys of rows to delete.

A key of several columns is an object or record with a member for each; one of a single column may
be its bare value as well. Columns that stand next to a record's value are filled from the record.

Invariant: a key that does not decode, or lacks a column, rejects its record.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa

from penstock.core.offsets import TopicPartition
from penstock.core.schema import Schema, Struct
from penstock.rows.arrow_arrays import validity_of
from penstock.rows.arrow_types import arrow_type
from penstock.rows.block_result import BlockResult
from penstock.rows.convert import source_columns
from penstock.rows.convert.batch import Reject
from penstock.rows.convert.blocks import ConversionPlan, convert_group
from penstock.rows.convert.keys_and_headers import key_and_header_columns
from penstock.rows.decode.decoder import ReaderCache, ReaderGroup, decode_values
from penstock.rows.decode.format_reader import VALUE_COLUMN
from penstock.rows.decode.keys import key_options
from penstock.rows.keyed.key_rows import KeyRows
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import CODE_INFO, RejectCode, RejectError

_ANY = msgspec.json.Decoder(msgspec.Raw)
_NOWHERE = np.zeros(0, np.int64)
_IN_KEY = " (in the record's key)"
_NO_KEY = "the record has neither a value nor a key"
_NULL_KEY = CODE_INFO[RejectCode.KEY_MISSING].fact


def message_keys(
    batch: pa.RecordBatch,
    *,
    at: TopicPartition,
    keys: Schema,
    options: RowOptions,
    readers: ReaderCache,
) -> tuple[KeyRows, list[Reject]]:
    """Return the keys of rows that the records of a batch delete, and those that hold none.

    `keys` are the columns of the table's key, each required. Raises what `Registry.find` raises.
    """
    inside = Struct(tuple(f for f in keys.fields if f.name in options.key_in_rows))
    errors: dict[int, RejectError] = {}
    if inside.fields:
        read = _inside(batch, inside, options, readers)
        positions, errors = read.positions, dict(read.rejects)
        columns = dict(zip(inside.names, read.rows.flatten(), strict=True))
    else:
        positions, columns = np.arange(len(batch)), {}
    landed = batch.take(pa.array(positions))
    more, refused = key_and_header_columns(landed, keys, options, readers)
    columns |= source_columns.columns(landed, at=at, schema=keys, options=options) | more
    refused = source_columns.rejects(landed, keys, options) | refused
    errors |= {int(positions[place]): error for place, error in refused.items()}
    kept = np.array([place not in refused for place in range(len(positions))], np.bool_)
    offsets = batch.column("offset").to_numpy()
    rejects = [_reject(int(offsets[place]), error) for place, error in errors.items()]
    columns = {name: columns[name] for name in keys.names}
    return KeyRows(columns, offsets[positions]).filter(kept), rejects


def _reject(offset: int, error: RejectError) -> Reject:
    if error.code is RejectCode.MISSING:
        error = RejectError(RejectCode.KEY_MISSING, _NULL_KEY, error.path)
    return Reject.of(offset, error.code, f"{error.message}{_IN_KEY}")


def _inside(
    batch: pa.RecordBatch, keys: Struct, options: RowOptions, readers: ReaderCache
) -> BlockResult:
    """Read the columns that a key itself holds."""
    own = replace(key_options(options), columns="drop_value")
    held = batch.column("key")
    given = {"value": held}
    if "headers" in batch.schema.names:
        given["headers"] = batch.column("headers")
    valued = validity_of(held)
    none = RejectError(RejectCode.KEY_MISSING, _NO_KEY)
    refused = dict.fromkeys(np.flatnonzero(~valued).tolist(), none)
    opened = decode_values(pa.record_batch(given), np.flatnonzero(valued), own, readers, {})
    pieces: list[BlockResult] = []
    for group in opened.groups:
        if len(group.positions):
            pieces += _read(group, keys, own)
    read = BlockResult.concat(pieces, keys)
    return replace(read, rejects=refused | opened.rejects | read.rejects)


def _read(group: ReaderGroup, keys: Struct, options: RowOptions) -> Iterator[BlockResult]:
    """Read keys of one schema; the bare value of one is its single column."""
    single = keys.names[0] if len(keys.fields) == 1 else None
    if group.reader is None:
        errors: dict[int, RejectError] = {}
        if single is not None:
            group = _as_objects(group, single, errors)
        yield from convert_group(group, ConversionPlan.of(keys, options))
        yield BlockResult(pa.array([], arrow_type(keys)), _NOWHERE, errors, Counter())
    elif single is None or group.reader.type.names != (VALUE_COLUMN,):
        yield from convert_group(group, ConversionPlan.of(keys, options))
    else:
        bare = Struct((replace(keys.fields[0], name=VALUE_COLUMN),))
        for read in convert_group(group, ConversionPlan.of(bare, options)):
            rows = pa.StructArray.from_arrays(read.rows.flatten(), fields=[*arrow_type(keys)])
            yield replace(read, rows=rows, rejects=_renamed(read.rejects, single))


def _as_objects(group: ReaderGroup, name: str, errors: dict[int, RejectError]) -> ReaderGroup:
    """Make objects of bare values, each of the single member of a name."""
    texts, positions, member = [], [], json.dumps(name).encode()
    for position, value in zip(group.positions.tolist(), group.values.to_pylist(), strict=True):
        try:
            text = value if value.lstrip().startswith(b"{") else _as_object(value, member)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            errors[position] = RejectError(RejectCode.MALFORMED, "the key is not JSON")
            continue
        texts.append(text)
        positions.append(position)
    return replace(
        group, positions=np.array(positions, np.int64), values=pa.array(texts, pa.binary())
    )


def _as_object(value: bytes, member: bytes) -> bytes:
    _ANY.decode(value)  # it has to be a single value
    return b"{%s:%s}" % (member, value)


def _renamed(rejects: Mapping[int, RejectError], name: str) -> dict[int, RejectError]:
    return {
        place: RejectError(error.code, error.reason, name if error.path else "")
        for place, error in rejects.items()
    }
