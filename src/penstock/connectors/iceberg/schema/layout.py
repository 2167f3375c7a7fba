"""Lays a new Iceberg table out: how it is partitioned, what identifies a row, and its order.

    day(ts)    bucket(16, id)    truncate(4, name)    identity(country)    country    ts desc

Names of partition fields are those of Iceberg's own builders: `ts_day`, `id_bucket`,
`name_trunc`, and the column's name for identity; dots of nested columns become underscores.

Invariants:
- identifier columns are required, as are the structs that hold them;
- a file is recorded as sorted by the sort order only where all of it is (write/row_orders.py).

Source: Apache Iceberg table specification, "Identifier Field IDs", "Sorting".
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg import transforms
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder

from penstock.connectors.iceberg.schema.partition_values import path_of
from penstock.connectors.iceberg.schema.types import NANOS
from penstock.core.errors import InvalidError
from penstock.core.schema import Field, Schema, Struct

_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\(\s*(?:(\d{1,9})\s*,\s*)?([^(),]+?)\s*\)\s*")
_BARE = re.compile(r"\s*([^()]+?)\s*")
_TRANSFORMS: dict[str, tuple[Callable[..., transforms.Transform[Any, Any]], str]] = {
    "identity": (transforms.IdentityTransform, ""),
    "year": (transforms.YearTransform, "_year"),
    "month": (transforms.MonthTransform, "_month"),
    "day": (transforms.DayTransform, "_day"),
    "hour": (transforms.HourTransform, "_hour"),
    "bucket": (transforms.BucketTransform, "_bucket"),
    "truncate": (transforms.TruncateTransform, "_trunc"),
}
_SIZED = {"bucket", "truncate"}
_MISREAD = (iceberg.FixedType, iceberg.UUIDType, *NANOS)
"""Types that readers cannot use as partition values: Iceberg's Java library cannot read the
manifests of the first and orders the second otherwise; PyIceberg finds no equal of the second, and
cannot read the manifests of nanoseconds."""
_HINT = "write day(ts), bucket(16, id), truncate(4, name) or a column's name in partition_by"


@dataclass(frozen=True, slots=True)
class Term:
    """One parsed text: a transform, the column it reads and what its field's name ends in."""

    column: str
    transform: transforms.Transform[Any, Any]
    suffix: str


def parse_term(text: str) -> Term:
    """Read one text. Raises InvalidError (P434) that names it."""
    call = _CALL.fullmatch(text)
    if call is None:
        bare = _BARE.fullmatch(text)
        if bare is None:
            raise _unusable(text, "it is neither a column nor transform(column)")
        return Term(bare[1], transforms.IdentityTransform(), "")
    name, size, column = call[1].lower(), call[2], call[3]
    if name not in _TRANSFORMS:
        known = ", ".join(sorted(_TRANSFORMS))
        raise _unusable(text, f"there is no transform {name[:80]!r}; known are {known}")
    make, suffix = _TRANSFORMS[name]
    if name not in _SIZED:
        if size is not None:
            raise _unusable(text, f"{name} takes a column alone")
        return Term(column, make(), suffix)
    if size is None or not int(size):
        raise _unusable(text, f"{name} needs a size above 0, as in {name}(16, {column[:80]})")
    return Term(column, make(int(size)), suffix)


def partition_spec(texts: Sequence[str], schema: IcebergSchema) -> PartitionSpec:
    """Return the partition spec of a new table.

    Raises InvalidError (P434) for unknown columns, transforms that do not fit a column's type or
    that readers misread, and names that are taken.
    """
    fields: list[PartitionField] = []
    taken = {field.name: field.field_id for field in schema.fields}
    for number, text in enumerate(texts):
        term = parse_term(text)
        source = _source_of(text, term, schema)
        name = term.column.replace(".", "_") + term.suffix
        identity = isinstance(term.transform, transforms.IdentityTransform)
        if identity and isinstance(source.field_type, _MISREAD):
            why = f"readers find no rows by plain values of the type {source.field_type}"
            raise _unusable(text, f"{why}; bucket(16, {term.column[:80]}) they read rightly")
        own = source.field_id if identity else None
        if taken.get(name, own) != own or name in {field.name for field in fields}:
            raise _unusable(text, f"the name {name!r} is taken")
        fields.append(
            PartitionField(
                source_id=source.field_id,
                field_id=PARTITION_FIELD_ID_START + number,
                transform=term.transform,
                name=name,
            )
        )
    return PartitionSpec(*fields)


def _source_of(text: str, term: Term, schema: IcebergSchema) -> iceberg.NestedField:
    """Find the column of a term. Raises InvalidError (P434): unknown, of a type that fits not."""
    try:
        source = schema.find_field(term.column)
    except ValueError as error:
        raise _unusable(text, f"there is no column {term.column[:80]!r}") from error
    if not path_of(schema.fields, source.field_id):
        raise _unusable(text, "a column inside a list or map cannot partition a table")
    if not term.transform.can_transform(source.field_type):
        raise _unusable(text, f"the type {source.field_type} does not fit the transform")
    return source


def _unusable(text: str, why: str) -> InvalidError:
    return InvalidError(
        f"the table cannot be partitioned by {text[:80]!r}: {why}", code="P434", hint=_HINT
    )


def with_required(schema: Schema, columns: Sequence[str]) -> Schema:
    """Make columns required, by dotted path, and the structs that hold them."""
    return functools.reduce(_with_required, columns, schema)


def identifier_ids(schema: IcebergSchema, columns: Sequence[str]) -> list[int]:
    """Return the ids of identifier columns. Raises InvalidError (P434) that names the column."""
    return [_identifier(schema, path) for path in columns]


def sort_order(texts: Sequence[str], schema: IcebergSchema) -> SortOrder:
    """Read `day(ts) desc` and the like. Raises InvalidError (P434) that names the text."""
    return SortOrder(*(_sort_field(text, schema) for text in texts))


def _with_required(struct: Struct, path: str) -> Struct:
    name, _, rest = path.partition(".")

    def changed(field: Field) -> Field:
        if field.name != name:
            return field
        inner = field.type
        inside = _with_required(inner, rest) if rest and isinstance(inner, Struct) else inner
        return Field(name, inside, required=True)

    return Struct(tuple(map(changed, struct.fields)))


def _identifier(schema: IcebergSchema, path: str) -> int:
    try:
        kind = schema.find_type(path)
    except ValueError as error:
        raise _no_identifier(path, "there is no such column") from error
    if not isinstance(kind, iceberg.PrimitiveType):
        raise _no_identifier(path, f"a {kind} cannot identify rows")
    if isinstance(kind, (iceberg.FloatType, iceberg.DoubleType)):
        raise _no_identifier(path, f"values of the type {kind} are not exact")
    return schema.find_field(path).field_id


def _sort_field(text: str, schema: IcebergSchema) -> SortField:
    term_text, _, direction = text.strip().rpartition(" ")
    falls = direction.lower() == "desc"
    term = parse_term(term_text if falls or direction.lower() == "asc" else text)
    source = _source_of(text, term, schema)
    return SortField(
        source_id=source.field_id,
        transform=term.transform,
        direction=SortDirection.DESC if falls else SortDirection.ASC,
        null_order=NullOrder.NULLS_LAST if falls else NullOrder.NULLS_FIRST,
    )


def _no_identifier(path: str, why: str) -> InvalidError:
    return InvalidError(
        f"{path[:80]!r} cannot be an identifier field: {why}",
        code="P434",
        hint="name columns of exact types that records show, or that schema.hints declares",
    )
