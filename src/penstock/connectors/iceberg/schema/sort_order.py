"""What a new Iceberg table says of its rows besides partitioning: who is who, and in which order.

Invariants:
- identifier columns are required, as are the structs they stand in;
- the order is for those who rewrite files: files of ours are recorded as unsorted, as the format
  lets every writer do.

Source: Apache Iceberg table specification, "Identifier Field IDs", "Sorting".
"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder

from penstock.connectors.iceberg.schema.partition_spec import parse_term, source_of
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Schema, Struct


def identifiers_of(schema: IcebergSchema) -> tuple[str, ...]:
    """Return the identifier columns of a table, by dotted path."""
    return tuple(sorted(schema.identifier_field_names()))


def with_required(schema: Schema, columns: Sequence[str]) -> Schema:
    """Make columns required, by dotted path, and the structs they stand in."""
    for path in columns:
        schema = _with_required(schema, path)
    return schema


def identifier_ids(schema: IcebergSchema, columns: Sequence[str]) -> list[int]:
    """Return the ids of identifier columns. Raises InvalidError (P434) that names the column."""
    return [_identifier(schema, path) for path in columns]


def sort_order(texts: Sequence[str], schema: IcebergSchema) -> SortOrder:
    """Read `day(ts) desc` and the like. Raises InvalidError (P434) that names the text."""
    return SortOrder(*(_sort_field(text, schema) for text in texts))


def _with_required(struct: Struct, path: str) -> Struct:
    name, _, rest = path.partition(".")
    fields = []
    for field in struct.fields:
        if field.name != name:
            fields.append(field)
            continue
        inner = field.type
        if rest and isinstance(inner, Struct):
            inner = _with_required(inner, rest)
        fields.append(Field(name, inner, required=True))
    return Struct(tuple(fields))


def _identifier(schema: IcebergSchema, path: str) -> int:
    try:
        kind = schema.find_type(path)
    except ValueError as error:
        raise _unusable(path, "there is no such column") from error
    if not isinstance(kind, iceberg.PrimitiveType):
        raise _unusable(path, f"a {kind} cannot identify rows")
    if isinstance(kind, (iceberg.FloatType, iceberg.DoubleType)):
        raise _unusable(path, f"values of the type {kind} are not exact")
    return schema.find_field(path).field_id


def _sort_field(text: str, schema: IcebergSchema) -> SortField:
    term_text, _, direction = text.strip().rpartition(" ")
    falls = direction.lower() == "desc"
    term = parse_term(term_text if falls or direction.lower() == "asc" else text)
    source = source_of(text, term, schema)
    return SortField(
        source_id=source.field_id,
        transform=term.transform,
        direction=SortDirection.DESC if falls else SortDirection.ASC,
        null_order=NullOrder.NULLS_LAST if falls else NullOrder.NULLS_FIRST,
    )


def _unusable(path: str, why: str) -> InvalidError:
    return InvalidError(
        f"{path[:80]!r} cannot be an identifier field: {why}",
        code="P434",
        hint="name columns of exact types that records show, or that schema.hints declares",
    )
