"""The keys of records, as groups for readers: a key is read as a value is.

Invariant: a JSON key is read as the single member `value` of an object, whatever it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa

from penstock.core.schema import Field, Schema
from penstock.rows.arrow_arrays import validity_of
from penstock.rows.decode.decoder import ReaderCache, ReaderGroup, decode_values
from penstock.rows.decode.format_reader import as_member
from penstock.rows.options import RowOptions
from penstock.rows.reject_codes import RejectCode, RejectError

KEY_HEADER = "__key_schema_id"
_ANY = msgspec.json.Decoder(msgspec.Raw)


def key_field(schema: Schema, options: RowOptions) -> Field | None:
    """Return the column of typed keys, when a table has one."""
    column = options.source_columns.get("key")
    if options.key_format == "bytes" or column is None:
        return None
    return schema.field(column)


def key_options(options: RowOptions) -> RowOptions:
    """Return the options by which keys are read."""
    return replace(
        options,
        source_columns={},
        change_columns={},
        header_columns={},
        columns="quarantine",
        types="quarantine",
        format=options.key_format,
        key_format="bytes",
        schema_id_header=KEY_HEADER,
        framing="registry",
        compression="none",
        envelope="none",
        tombstones="quarantine",
    )


def decoded_keys(
    batch: pa.RecordBatch,
    options: RowOptions,
    readers: ReaderCache,
    errors: dict[int, RejectError],
) -> Iterator[ReaderGroup]:
    """Yield the groups of keys; JSON ones as objects with the single member `value`."""
    own = key_options(options)
    given = {"value": batch.column("key")}
    if "headers" in batch.schema.names:
        given["headers"] = batch.column("headers")
    valued = np.flatnonzero(validity_of(batch.column("key")))
    opened = decode_values(pa.record_batch(given), valued, own, readers, {})
    for group in opened.groups:
        if group.reader is None:
            yield _as_members(group, errors)
        elif len(group.positions):
            yield group
    errors |= opened.rejects


def _as_members(group: ReaderGroup, errors: dict[int, RejectError]) -> ReaderGroup:
    texts, positions = [], []
    for position, value in zip(group.positions.tolist(), group.values.to_pylist(), strict=True):
        try:
            _ANY.decode(value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            errors[position] = RejectError(RejectCode.MALFORMED, "the key is not JSON")
            continue
        texts.append(as_member(value))
        positions.append(position)
    values = pa.array(texts, pa.binary())
    return ReaderGroup(np.array(positions, np.int64), values, None, group.type)
