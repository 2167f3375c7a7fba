"""DuckDB in a sandbox: it computes over the data passed to it, and reaches nothing else.

Invariants:
- no file, network, extension, secret or setting can be reached by SQL, whatever the text;
- memory is bounded and nothing is spilled: a text that needs more fails, and nothing else with it;
- zone and threads are fixed, so that equal records give equal answers everywhere.

Source: DuckDB manual, "Securing DuckDB"; data.md 3.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from penstock.core.schema import Decimal, Fixed, Kind, List, Map, Schema, Struct, Type

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "1GB"

_LOCKED_IN = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "python_enable_replacements": "false",
    "threads": "1",
    "memory_limit": MEMORY,
    "temp_directory": "",
}
SQL_TYPES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INT: "INTEGER",
    Kind.LONG: "BIGINT",
    Kind.FLOAT: "FLOAT",
    Kind.DOUBLE: "DOUBLE",
    Kind.STRING: "VARCHAR",
    Kind.BINARY: "BLOB",
    Kind.UUID: "BLOB",
    Kind.DATE: "DATE",
    Kind.TIME: "TIME",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    Kind.TIMESTAMP_NS: "TIMESTAMP_NS",
    Kind.TIMESTAMPTZ_NS: "TIMESTAMPTZ_NS",
    Kind.UNKNOWN: "VARCHAR",
}


def sandbox() -> DuckDBPyConnection:
    """Open a cursor on this process's own DuckDB; use it from one thread."""
    return _database().cursor()


def sandbox_alone() -> DuckDBPyConnection:
    """Open a DuckDB of its own, with memory that is not shared; close it."""
    from duckdb import connect  # noqa: PLC0415  most specs need no SQL, and most commands neither

    database = connect(":memory:", config=dict(_LOCKED_IN))
    database.execute("set global TimeZone = 'UTC'")  # a plain `set` is this session's alone
    database.execute("set lock_configuration = true")
    return database


_database = cache(sandbox_alone)


def sql_type(type_: Type) -> str:
    """Return DuckDB's name of the type in which values of one of our types arrive."""
    match type_:
        case Kind():
            return SQL_TYPES[type_]
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case Fixed():
            return "BLOB"
        case Struct():
            members = (f"{quoted(field.name)} {sql_type(field.type)}" for field in type_.fields)
            return f"STRUCT({', '.join(members)})"
        case List(element):
            return f"{sql_type(element)}[]"
        case Map(key, value):
            return f"MAP({sql_type(key)}, {sql_type(value)})"


def quoted(name: str) -> str:
    """Write a name so that it is a name, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def empty_relation(schema: Schema) -> str:
    """Return the SQL of a relation of a schema without rows, to bind expressions against."""
    columns = ", ".join(
        f"cast(null as {sql_type(field.type)}) as {quoted(field.name)}" for field in schema.fields
    )
    return f"(select {columns} where false)"
