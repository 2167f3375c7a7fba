"""Reads what an Iceberg table demands of what is written: defaults of columns (`write-default`).

A default for files that lack the column (`initial-default`) is for readers, and PyIceberg fills it
in.

Invariant: a default that cannot be filled in is refused by the column's name.

Source: Apache Iceberg table specification, "Default values".
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal as Exact
from typing import Any

from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from penstock.core.demands import Default, Demands
from penstock.core.expressions.tree import Constant
from penstock.core.schema import Schema, Type
from penstock.core.table_errors import unsupported


def demands_of(schema: IcebergSchema, columns: Schema, name: str) -> Demands:
    """Return the defaults of a table's columns; `columns` are those of the schema.

    Raises InvalidError (P436) for a default within a column, or of a type without constants.
    """
    defaults = []
    for field, column in zip(schema.fields, columns.fields, strict=True):
        if inner := _written_default(field.field_type):
            raise _refused(name, f"{field.name}.{inner}", "it is within a column")
        if field.write_default is not None:
            value = _literal(field.write_default, column.type)
            if value is None:
                raise _refused(name, field.name, f"constants of {column.type} are not supported")
            defaults.append(Default(field.name, value))
    return Demands(defaults=tuple(defaults))


def _literal(value: Any, type_: Type) -> Constant | None:
    match value:
        case bool():
            return Constant(str(value).lower(), type_)
        case int() | Exact() | str():
            return Constant(str(value), type_)
        case float():
            return Constant(repr(value), type_)
        case dt.date():  # and a datetime
            return Constant(value.isoformat(), type_)
        case _:
            return None


def _refused(name: str, path: str, why: str) -> Exception:
    return unsupported(name, f"a default for what is written into the column {path}", why)


def _written_default(kind: IcebergType) -> str:
    """Return the path of the first default within a type; "" for none."""
    match kind:
        case StructType():
            columns = kind.fields
        case ListType():
            columns = (kind.element_field,)
        case MapType():
            columns = (kind.key_field, kind.value_field)
        case _:
            return ""
    for each in columns:
        if each.write_default is not None:
            return each.name
        if inner := _written_default(each.field_type):
            return f"{each.name}.{inner}"
    return ""
