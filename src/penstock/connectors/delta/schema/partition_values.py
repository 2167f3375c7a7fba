"""Partition values: rows split by them, and their text in the log.

Invariants:
- the text reads back to the value; what has no such text is refused, never made null: for Delta an
  empty string is null, in columns of any type;
- no partition value becomes part of a path: they are in the log only.

Source: Delta transaction log protocol, "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa

from penstock.core.errors import InvalidError
from penstock.core.schema import Decimal, Kind, Schema
from penstock.files.partitions import split_rows
from penstock.ports.tables import TableDefinition

Texts = tuple[str | None, ...]

_BY_DAY = "let a column of the record hold the day, and partition by it: partition_by: [day]"
_BY_COLUMNS = "partition by columns with few different values, or not at all"

_TYPES = {
    Kind.BOOLEAN,
    Kind.INT,
    Kind.LONG,
    Kind.STRING,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.TIMESTAMPTZ,
}


def require_plain_layout(definition: TableDefinition, table: str) -> None:
    """Refuse what a Delta table has no place for. Raises InvalidError (P434)."""
    for name in ("identifier_fields", "sort_by"):
        if given := getattr(definition, name):
            raise InvalidError(
                f"{table} cannot be created with {name} ({', '.join(given)[:80]})",
                code="P434",
                hint="Delta tables have none: leave it out, or land into an Iceberg catalog",
            )


def require_partitionable(schema: Schema, partition_by: Sequence[str], table: str) -> None:
    """Refuse what Delta cannot partition by. Raises InvalidError (P434) with the alternative."""
    for text in partition_by:
        field = schema.field(text)
        if field is None and "(" in text:
            why = "Delta partitions by plain columns, not by transforms"
            raise _unusable(table, text, why, _BY_DAY)
        if field is None:
            raise _unusable(table, text, "there is no such column")
        if not isinstance(field.type, Decimal) and field.type not in _TYPES:
            raise _unusable(table, text, f"columns of the type {field.type} have no text")
    if len(set(partition_by)) != len(partition_by):
        raise _unusable(table, ", ".join(partition_by), "a column appears twice")
    if len(schema.fields) == len(partition_by):
        raise _unusable(table, ", ".join(partition_by), "one column at least must be left")


def split(
    batch: pa.RecordBatch, partition_by: tuple[str, ...]
) -> Iterator[tuple[Texts, pa.RecordBatch]]:
    """Split rows by partition in order of first appearance of their code, without its columns."""
    rest = batch.drop_columns(list(partition_by))
    if not partition_by:
        yield (), rest
        return
    if not batch.num_rows:
        return
    columns = [batch.column(name).dictionary_encode("encode") for name in partition_by]
    texts = [
        [_text(value, name) for value in column.dictionary.to_pylist()]
        for name, column in zip(partition_by, columns, strict=True)
    ]
    yield from split_rows(rest, columns, texts)


def _text(value: Any, column: str) -> str | None:
    match value:
        case None:
            return None
        case "":
            raise InvalidError(
                f"the partition column {column} holds an empty string, which is null in Delta",
                code="P470",
                hint="partition by another column, or turn empty strings away with  where: …",
            )
        case bool():
            return "true" if value else "false"
        case datetime():
            if value.tzinfo is None:
                return value.isoformat(sep=" ", timespec="microseconds")
            zoneless = value.astimezone(UTC).replace(tzinfo=None)
            return zoneless.isoformat(timespec="microseconds") + "Z"
        case date():
            return value.isoformat()
        case Exact():
            return f"{value:f}"
        case _:
            return str(value)


def _unusable(table: str, text: str, why: str, hint: str = _BY_COLUMNS) -> InvalidError:
    return InvalidError(
        f"{table} cannot be partitioned by {text[:80]!r}: {why}", code="P434", hint=hint
    )
