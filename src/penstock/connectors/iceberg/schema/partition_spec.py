"""Reads `partition_by` texts into an Iceberg partition spec.

    day(ts)    bucket(16, id)    truncate(4, name)    identity(country)    country

Names of partition fields are those Iceberg's own builders give: `ts_day`, `id_bucket`,
`name_trunc`, and the column's name for identity; dots of nested columns become underscores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg import transforms
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import FixedType, NestedField, UUIDType

from penstock.core.errors import InvalidError

_CALL = re.compile(r"\s*([A-Za-z_]+)\s*\(\s*(?:(\d{1,9})\s*,\s*)?([^(),]+?)\s*\)\s*")
_BARE = re.compile(r"\s*([^()]+?)\s*")
_PLAIN: dict[str, tuple[Callable[[], transforms.Transform[Any, Any]], str]] = {
    "identity": (transforms.IdentityTransform, ""),
    "year": (transforms.YearTransform, "_year"),
    "month": (transforms.MonthTransform, "_month"),
    "day": (transforms.DayTransform, "_day"),
    "hour": (transforms.HourTransform, "_hour"),
}
_SIZED: dict[str, tuple[Callable[[int], transforms.Transform[Any, Any]], str]] = {
    "bucket": (transforms.BucketTransform, "_bucket"),
    "truncate": (transforms.TruncateTransform, "_trunc"),
}
_MISREAD = (FixedType, UUIDType)
"""Types whose values are no partition values for readers: Iceberg's Java library cannot read the
manifests of the first and orders the second otherwise; PyIceberg finds no equal of the second."""
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
    if call is not None:
        return _called(text, call[1].lower(), call[2], call[3])
    bare = _BARE.fullmatch(text)
    if bare is None:
        raise _unusable(text, "it is neither a column nor transform(column)")
    return Term(bare[1], transforms.IdentityTransform(), "")


def partition_spec(texts: Sequence[str], schema: IcebergSchema) -> PartitionSpec:
    """Return the partition spec of a new table.

    Raises InvalidError (P434) for unknown columns, transforms that do not fit a column's type or
    that readers misread, and names that are taken.
    """
    fields: list[PartitionField] = []
    taken = {field.name: field.field_id for field in schema.fields}
    for number, text in enumerate(texts):
        term = parse_term(text)
        source = source_of(text, term, schema)
        name = term.column.replace(".", "_") + term.suffix
        identity = isinstance(term.transform, transforms.IdentityTransform)
        if identity and isinstance(source.field_type, _MISREAD):
            why = f"readers find no rows by plain values of the type {source.field_type}"
            raise _unusable(text, f"{why}; bucket(16, {term.column[:80]}) they read rightly")
        if taken.get(name, source.field_id if identity else None) != (
            source.field_id if identity else None
        ) or name in {field.name for field in fields}:
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


def _called(text: str, name: str, size: str | None, column: str) -> Term:
    if name in _PLAIN and size is None:
        make, suffix = _PLAIN[name]
        return Term(column, make(), suffix)
    if name in _SIZED and size is not None and int(size) > 0:
        make_sized, suffix = _SIZED[name]
        return Term(column, make_sized(int(size)), suffix)
    known = ", ".join(sorted((*_PLAIN, *_SIZED)))
    if name in _SIZED:
        raise _unusable(text, f"{name} needs a size above 0, as in {name}(16, {column[:80]})")
    if name in _PLAIN:
        raise _unusable(text, f"{name} takes a column alone")
    raise _unusable(text, f"there is no transform {name[:80]!r}; known are {known}")


def source_of(text: str, term: Term, schema: IcebergSchema) -> NestedField:
    """Find the column of a term. Raises InvalidError (P434): unknown, of a type that fits not."""
    try:
        source = schema.find_field(term.column)
    except ValueError as error:
        raise _unusable(text, f"there is no column {term.column[:80]!r}") from error
    inside = schema.find_column_name(source.field_id) or ""
    if not _reachable(schema, inside):
        raise _unusable(text, "a column inside a list or map cannot partition a table")
    if not term.transform.can_transform(source.field_type):
        raise _unusable(text, f"the type {source.field_type} does not fit the transform")
    return source


def _reachable(schema: IcebergSchema, name: str) -> bool:
    """Return whether a column is reached through structs alone."""
    parts = name.split(".")
    parents = [".".join(parts[:end]) for end in range(1, len(parts))]
    return all(schema.find_field(parent).field_type.is_struct for parent in parents)


def _unusable(text: str, why: str) -> InvalidError:
    return InvalidError(
        f"the table cannot be partitioned by {text[:80]!r}: {why}", code="P434", hint=_HINT
    )
