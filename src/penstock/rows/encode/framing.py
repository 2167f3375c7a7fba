"""Records and objects behind the number of their schema, as readers find it in a registry.

Source: Confluent Schema Registry, "Wire format": a zero, the id in four bytes, with Protobuf the
indexes of the message, then what the schema is of.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from penstock.ports.registry import RegisteredSchema
from penstock.rows.encode import avro_schema, json_schema, protobuf_schema
from penstock.rows.encode.avro_datums import AvroWriter
from penstock.rows.encode.columns import made_columns
from penstock.rows.encode.json_texts import Column, JsonForm
from penstock.rows.encode.nesting import Misfits
from penstock.rows.encode.protobuf_files import compiled_tree
from penstock.rows.encode.protobuf_messages import ProtobufWriter
from penstock.rows.encode.rules import (
    JSON_SCHEMA,
    KEY,
    PROTOBUF,
    MessagePart,
    MessageRules,
    MessageSchema,
)

_FRAME = struct.Struct(">bI")
_FIRST_MESSAGE = b"\0"
"""Indexes that name the first message of a file."""
NO_FORMER: Mapping[MessagePart, protobuf_schema.Tree] = MappingProxyType({})


def with_texts(
    rules: MessageRules,
    columns: pa.Schema,
    former: Mapping[MessagePart, protobuf_schema.Tree] = NO_FORMER,
) -> MessageRules:
    """Return rules whose schemas have texts: those that are made, of these columns.

    `former` are the messages whose numbers those of Protobuf keep. Raises InvalidError (P272, P839,
    P870).
    """
    made, columns = {}, made_columns(columns, rules)
    for part, schema in rules.schemas.items():
        fields = _fields_of(part, rules, columns)
        made[part] = _with_text(schema, fields, rules, former.get(part))
    return rules.with_schemas(made)


def _fields_of(part: MessagePart, rules: MessageRules, columns: pa.Schema) -> list[pa.Field]:
    """Return the columns of keys or values."""
    named = rules.key if part == KEY else rules.columns or tuple(columns.names)
    among = [each for each in columns if each.name in named]
    return sorted(among, key=lambda each: named.index(each.name))


def _with_text(
    schema: MessageSchema,
    fields: list[pa.Field],
    rules: MessageRules,
    former: protobuf_schema.Tree | None,
) -> MessageSchema:
    if not schema.is_made:
        return schema
    if schema.format == JSON_SCHEMA:
        return replace(schema, text=json_schema.schema_text(fields, schema.name, rules.form))
    if schema.format == PROTOBUF:
        tree = protobuf_schema.made_tree(fields, schema.name, former)
        text = protobuf_schema.schema_text(tree)
        return replace(schema, text=text, fields=protobuf_schema.tree_text(tree))
    return replace(schema, text=avro_schema.schema_text(pa.schema(fields), schema.name))


def with_fields(schema: MessageSchema, found: RegisteredSchema) -> MessageSchema:
    """Return a schema of Protobuf with its message, as it was compiled.

    Raises InvalidError (P872).
    """
    try:
        tree = compiled_tree(found.descriptors, found.fault)
    except ValueError as error:
        raise avro_schema.unreadable(schema.name, str(error)) from error
    return replace(schema, fields=protobuf_schema.tree_text(tree))


def framed(
    columns: Sequence[Column], schema: MessageSchema, form: JsonForm
) -> tuple[pa.BinaryArray, list[Misfits]]:
    """Write each row by a schema. Raises as `AvroWriter.record`, `ProtobufWriter.message` and
    `json_schema.objects`, InvalidError (P872).
    """
    frame = _FRAME.pack(0, schema.id)
    if schema.format == JSON_SCHEMA:
        written = json_schema.objects(columns, schema, form)
        data, misfits = written.texts.cast(pa.binary()), written.misfits
    elif schema.format == PROTOBUF:
        found = ProtobufWriter(schema).message(columns, protobuf_schema.tree_of(schema.fields))
        data, misfits, frame = found.data, found.misfits, frame + _FIRST_MESSAGE
    else:
        tree = avro_schema.tree_of(schema.text, schema.name)
        made = AvroWriter(schema).record(columns, tree)
        data, misfits = made.data, made.misfits
    return pc.binary_join_element_wise(frame, data, b""), misfits


def schema_id(message: bytes | None) -> int | None:
    """Return the number of a message's schema; None of one that has none."""
    if message is None or len(message) < _FRAME.size or message[0]:
        return None
    return int(_FRAME.unpack_from(message)[1])
