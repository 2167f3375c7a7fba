"""Records and objects behind the number of their schema, as readers find it in a registry.

Source: Confluent Schema Registry, "Wire format": a zero, the id in four bytes, then what the
schema is of.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.rows.encode import avro_schema, json_schema
from penstock.rows.encode.avro_datums import AvroWriter
from penstock.rows.encode.json_texts import Column, JsonForm
from penstock.rows.encode.nesting import Misfits
from penstock.rows.encode.rules import (
    JSON_SCHEMA,
    KEY,
    MessagePart,
    MessageRules,
    MessageSchema,
)

_FRAME = struct.Struct(">bI")


def with_texts(rules: MessageRules, columns: pa.Schema) -> MessageRules:
    """Return rules whose schemas have texts: those that are made, of these columns.

    Raises InvalidError (P839, P870).
    """
    return rules.with_schemas(
        {part: _with_text(part, each, rules, columns) for part, each in rules.schemas.items()}
    )


def _with_text(
    part: MessagePart, schema: MessageSchema, rules: MessageRules, columns: pa.Schema
) -> MessageSchema:
    if not schema.is_made:
        return schema
    fields = [each for each in columns if part != KEY or each.name in rules.key]
    if part == KEY:
        fields.sort(key=lambda each: rules.key.index(each.name))
    if schema.format == JSON_SCHEMA:
        return replace(schema, text=json_schema.schema_text(fields, schema.name, rules.form))
    return replace(schema, text=avro_schema.schema_text(pa.schema(fields), schema.name))


def framed(
    columns: Sequence[Column], schema: MessageSchema, form: JsonForm
) -> tuple[pa.BinaryArray, list[Misfits]]:
    """Write each row by a schema. Raises as `AvroWriter.record` and `json_schema.objects`,
    InvalidError (P872).
    """
    if schema.format == JSON_SCHEMA:
        written = json_schema.objects(columns, schema, form)
        data, misfits = written.texts.cast(pa.binary()), written.misfits
    else:
        tree = avro_schema.tree_of(schema.text, schema.name)
        made = AvroWriter(schema).record(columns, tree)
        data, misfits = made.data, made.misfits
    return pc.binary_join_element_wise(_FRAME.pack(0, schema.id), data, b""), misfits


def schema_id(message: bytes | None) -> int | None:
    """Return the number of a message's schema; None of one that has none."""
    if message is None or len(message) < _FRAME.size or message[0]:
        return None
    return int(_FRAME.unpack_from(message)[1])
