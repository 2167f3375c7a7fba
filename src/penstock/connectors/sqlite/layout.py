"""The tables of the store file and the version that guards them.

Invariants:
- a file of another program is never touched, one of a newer version never half understood;
- version and tables are written in one transaction: a file has all of them or none.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from penstock.core.errors import InvalidError

VERSION = 1
APPLICATION_ID = 0x50454E53  # "PENS", in the file's header (sqlite.org/fileformat2.html 1.3)

PENDING, COMMITTED, ABORTED = "PENDING", "COMMITTED", "ABORTED"

_metadata = MetaData()

pipelines = Table(
    "pipelines",
    _metadata,
    Column("pipeline", String, primary_key=True),
    Column("generation", Integer, nullable=False),
    Column("owner", String, nullable=False),
    Column("host", String, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started_ms", Integer, nullable=False),
    Column("alive_until_ms", Integer, nullable=False),
)

commits = Table(
    "commits",
    _metadata,
    Column("number", Integer, primary_key=True),
    Column("pipeline", String, nullable=False),
    Column("chain", String, nullable=False),
    Column("table", String, nullable=False),
    Column("commit_id", String, nullable=False),
    Column("attempt", String, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("state", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("pipeline", "chain", "table", "commit_id", "attempt"),
    Index("commits_by_state", "pipeline", "state", "epoch", "number"),
    sqlite_autoincrement=True,
)

examined = Table(
    "examined",
    _metadata,
    Column("pipeline", String, primary_key=True),
    Column("table", String, primary_key=True),
    Column("body", Text, nullable=False),
)

rules = Table(
    "rules",
    _metadata,
    Column("pipeline", String, primary_key=True),
    Column("rules_hash", String, primary_key=True),
    Column("text", Text, nullable=False),
)


def prepare_layout(connection: Connection, path: Path) -> None:
    """Create the tables in an empty file, or check that they are ours.

    Call within a transaction. Raises InvalidError for a newer version (P505) or another program's
    file (P507).
    """
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if application == APPLICATION_ID and version == VERSION:
        return
    if application == APPLICATION_ID and version > VERSION:
        raise InvalidError(
            f"the pending store {path} has version {version}, and this penstock knows {VERSION}",
            code="P505",
            hint="run the newer penstock that wrote it, or upgrade this one",
        )
    if connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one() != 0:
        raise InvalidError(
            f"{path} is a database of another program",
            code="P507",
            hint="name another file at pending.store in the spec",
        )
    _metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version = {VERSION}")
