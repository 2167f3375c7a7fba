"""The schemas that messages were written by, found by the ids that they carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.core.errors import DecisionNeededError
from penstock.ports.registry import Subjects
from penstock.rows.encode.framing import schema_id, with_fields, with_texts
from penstock.rows.encode.rules import PROTOBUF, MessagePart, MessageRules


def with_schemas_of(
    messages: Sequence[pa.RecordBatch],
    rules: MessageRules,
    columns: pa.Schema | None,
    registries: Mapping[MessagePart, Subjects],
) -> MessageRules:
    """Return rules with the schemas of a transaction's messages, which all have the same.

    Where no message says it, it is that of the table's columns. Raises DecisionNeededError (P878)
    where a registry does not have it, and what it raises.
    """
    if not rules.schemas:
        return rules
    if columns is not None:
        rules = with_texts(rules, columns)
    schemas = dict(rules.schemas)
    for part, own in rules.schemas.items():
        number = next(_ids(messages, part), None)
        if number is None:  # there are tombstones alone, or no messages
            continue
        found = registries[part].by_id(number)
        if found is None:
            raise DecisionNeededError(
                f"the registry has no schema {number}, by which its {part}s were written",
                code="P878",
                hint="restore it there, and audit again",
            )
        there = replace(own, name=str(number), text=found.text, is_made=False, id=number)
        schemas[part] = with_fields(there, found) if own.format == PROTOBUF else there
    return rules.with_schemas(schemas)


def _ids(messages: Sequence[pa.RecordBatch], part: MessagePart) -> Iterator[int]:
    for batch in messages:
        for each in batch.column(part):
            number = schema_id(each.as_py())
            if number is not None:
                yield number
