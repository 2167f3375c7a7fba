"""Which columns can be the key of a table's rows, or say which change of a key is the later one.

Invariant: two values of them are equal or not for whoever compares, so they are neither floats nor
nested.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import InvalidError
from penstock.core.schema import Kind, List, Map, Schema, Struct, Type

COLUMNS_NAMED_MAX = 12


def is_inexact(type_: Type) -> bool:
    """Return whether two values of a type may be equal for one reader and not for another."""
    return type_ in {Kind.FLOAT, Kind.DOUBLE}


def is_nested(type_: Type) -> bool:
    """Return whether a value of a type holds several."""
    return isinstance(type_, Struct | List | Map)


def compares_exactly(type_: Type) -> bool:
    """Return whether a column of a type can be of a key, or of a sequence."""
    return not (is_inexact(type_) or is_nested(type_) or type_ is Kind.UNKNOWN)


def require_key_columns(table: str, schema: Schema, keys: Sequence[str]) -> None:
    """Raise InvalidError (P434) for a column that a table has not, or that cannot be of a key."""
    _require(table, schema, keys, "key", "keys")


def require_sequence_columns(table: str, schema: Schema, sequence: Sequence[str]) -> None:
    """Raise InvalidError (P434) for a column that a table has not, or by which none is later."""
    _require(table, schema, sequence, "sequence", "sequence_by")


def _require(table: str, schema: Schema, names: Sequence[str], what: str, setting: str) -> None:
    for name in names:
        field = schema.field(name)
        if field is None:
            raise InvalidError(
                f"{table} has no column {name}, which is of its {what}",
                code="P434",
                hint="add the column, declare it under  schema.hints  where no record has it yet, "
                f"or write other  {setting}; the table has {_some(schema)}",
            )
        if not compares_exactly(field.type):
            raise InvalidError(
                f"the column {name} of {table} cannot be of its {what}: it is a {field.type}",
                code="P434",
                hint=f"write {setting} of columns with exact, single values, or declare it as "
                "long, decimal(p,s) or string under  schema.hints",
            )


def _some(schema: Schema) -> str:
    names = [field.name for field in schema.fields]
    more = ", …" if len(names) > COLUMNS_NAMED_MAX else ""
    return ", ".join(names[:COLUMNS_NAMED_MAX]) + more if names else "no columns"
