"""The tables of the store, the same in every database, and the version that guards them.

Invariants:
- a database of another program is never touched, one of a newer version never half understood;
- version and tables are written in one transaction: a database has all of them or none; but for
  those that came `LATER`: they are added to a database without them when that is next written. A
  version of penstock that does not know them ignores them (docs/design/0246).
"""

from __future__ import annotations

import sqlalchemy as sql

from penstock.core.errors import InvalidError

VERSION = 1
APPLICATION_ID = 0x50454E53  # "PENS", in the file's header (sqlite.org/fileformat2.html 1.3)
SCHEMA = "penstock"
"""The schema of the tables in PostgreSQL: other programs may use the same database."""

PENDING, COMMITTED, ABORTED = "PENDING", "COMMITTED", "ABORTED"

# SQLite counts only what is declared INTEGER by itself, and needs no other width.
WHOLE = sql.BigInteger().with_variant(sql.Integer(), "sqlite")

_metadata = sql.MetaData()

pipelines = sql.Table(
    "pipelines",
    _metadata,
    sql.Column("pipeline", sql.String, primary_key=True),
    sql.Column("generation", WHOLE, nullable=False),
    sql.Column("owner", sql.String, nullable=False),
    sql.Column("host", sql.String, nullable=False),
    sql.Column("pid", WHOLE, nullable=False),
    sql.Column("started_ms", WHOLE, nullable=False),
    sql.Column("alive_until_ms", WHOLE, nullable=False),
)

commits = sql.Table(
    "commits",
    _metadata,
    sql.Column("number", WHOLE, primary_key=True),
    sql.Column("pipeline", sql.String, nullable=False),
    sql.Column("chain", sql.String, nullable=False),
    sql.Column("table", sql.String, nullable=False),
    sql.Column("commit_id", sql.String, nullable=False),
    sql.Column("attempt", sql.String, nullable=False),
    sql.Column("epoch", WHOLE, nullable=False),
    sql.Column("state", sql.String, nullable=False),
    sql.Column("reason", sql.Text, nullable=False),
    sql.Column("body", sql.Text, nullable=False),
    sql.UniqueConstraint("pipeline", "chain", "table", "commit_id", "attempt"),
    sql.Index("commits_by_state", "pipeline", "state", "epoch", "number"),
    sqlite_autoincrement=True,
)

examined = sql.Table(
    "examined",
    _metadata,
    sql.Column("pipeline", sql.String, primary_key=True),
    sql.Column("table", sql.String, primary_key=True),
    sql.Column("body", sql.Text, nullable=False),
)

rules = sql.Table(
    "rules",
    _metadata,
    sql.Column("pipeline", sql.String, primary_key=True),
    sql.Column("rules_hash", sql.String, primary_key=True),
    sql.Column("text", sql.Text, nullable=False),
)

pauses = sql.Table(
    "pauses",
    _metadata,
    sql.Column("pipeline", sql.String, primary_key=True),
    sql.Column("table", sql.String, primary_key=True),
    sql.Column("begun_ms", WHOLE, nullable=False),
    sql.Column("until_ms", WHOLE, nullable=False),
    sql.Column("seen_by", WHOLE, nullable=False),
)

members = sql.Table(
    "members",
    _metadata,
    sql.Column("pipeline", sql.String, primary_key=True),
    sql.Column("id", sql.String, primary_key=True),
    sql.Column("host", sql.String, nullable=False),
    sql.Column("pid", WHOLE, nullable=False),
    sql.Column("role", sql.String, nullable=False),
    sql.Column("trouble", sql.Text, nullable=False),
    sql.Column("version", sql.String, nullable=False),
    sql.Column("rules", sql.String, nullable=False),
    sql.Column("offered_to", sql.String, nullable=False),
    sql.Column("asked", sql.String, nullable=False),
    sql.Column("is_locked", sql.Boolean, nullable=False),
    sql.Column("backend", WHOLE, nullable=False),
    sql.Column("began_ms", WHOLE, nullable=False),
    sql.Column("server_began_ms", WHOLE, nullable=False),
    sql.Column("seen_ms", WHOLE, nullable=False),
)

servers = sql.Table(
    "servers",
    _metadata,
    sql.Column("pipeline", sql.String, primary_key=True),
    sql.Column("generation", WHOLE, nullable=False),
    sql.Column("server", sql.String, nullable=False),
)
"""On which server the newest claim of a pipeline was made."""

LATER = (pauses, members, servers)

_layout = sql.Table("layout", sql.MetaData(), sql.Column("version", WHOLE, nullable=False))
_TABLES_OF_SCHEMA = sql.text(
    "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = :schema AND c.relkind = 'r'"
).bindparams(schema=SCHEMA)


def prepare_file(connection: sql.Connection, place: str) -> None:
    """Create the tables in an empty SQLite file, or check its version, within a transaction.

    Raises InvalidError: P505 for a newer version, P507 for a file of another program.
    """
    if is_in_file(connection, place):
        add_later(connection)
        return
    _metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")


def is_in_file(connection: sql.Connection, place: str) -> bool:
    """Return whether a SQLite file holds the tables, but for `LATER` ones; False of an empty file.

    Raises InvalidError: P505 for a newer version, P507 for a file of another program.
    """
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if application == APPLICATION_ID and version == VERSION:
        return True
    if application == APPLICATION_ID and version > VERSION:
        raise _newer(place, version)
    if connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one() != 0:
        raise _foreign(place)
    return False


def is_in_schema(connection: sql.Connection, place: str) -> bool:
    """Return whether the schema of a PostgreSQL database holds the tables, but for `LATER` ones.

    Raises InvalidError: P505 for a newer version, P507 for a schema of another program.
    """
    names = set(connection.execute(_TABLES_OF_SCHEMA).scalars())
    if not names:
        return False
    if _layout.name not in names:
        raise _foreign(f"the schema {SCHEMA} of {place}")
    version = connection.execute(_layout.select()).scalar_one()
    if version > VERSION:
        raise _newer(place, version)
    return True


def create_in_schema(connection: sql.Connection) -> None:
    """Create the tables in PostgreSQL, and the schema if missing, within a transaction."""
    known = connection.exec_driver_sql(f"SELECT to_regnamespace('{SCHEMA}') IS NOT NULL")
    if not known.scalar_one():  # where it is, the right to make one is not needed
        connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
    for metadata in (_metadata, _layout.metadata):
        metadata.create_all(connection, checkfirst=False)
    connection.execute(_layout.insert().values(version=VERSION))


def has_later(connection: sql.Connection, *tables: sql.Table) -> bool:
    """Return whether a database holds some of the tables that came `LATER`; of none named, all."""
    return tables_there(connection, *(tables or LATER))


def missing(connection: sql.Connection) -> tuple[str, ...]:
    """Return the names of the tables that came `LATER` and are not in a database."""
    return tuple(each.name for each in LATER if not tables_there(connection, each))


def tables_there(connection: sql.Connection, *tables: sql.Table) -> bool:
    """Return whether a database holds some tables."""
    schemas = connection.get_execution_options().get("schema_translate_map", {})
    inspected = sql.inspect(connection)
    return {each.name for each in tables} <= {*inspected.get_table_names(schema=schemas.get(None))}


def add_later(connection: sql.Connection) -> None:
    """Create the tables that came `LATER` where they are missing, within a transaction."""
    for table in LATER:
        table.create(connection, checkfirst=True)


def _newer(place: str, version: int) -> InvalidError:
    return InvalidError(
        f"the pending store {place} has version {version}, and this penstock knows {VERSION}",
        code="P505",
        hint="use the newer penstock that wrote it, or upgrade this one",
    )


def _foreign(place: str) -> InvalidError:
    return InvalidError(
        f"{place} is a database of another program",
        code="P507",
        hint="name another place at pending.store in the spec",
    )
