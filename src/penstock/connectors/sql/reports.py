"""What runs say of themselves, in SQL: unlogged tables in PostgreSQL, a file of its own in SQLite.

Invariants:
- nothing here waits for a disk, or holds a lock that a commit needs: it may be lost;
- an elder owner never replaces what a younger one wrote;
- ages are by the clock of the database, in a file by that of the host, whose processes share it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sql
from sqlalchemy import Connection

from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.layout import SCHEMA, WHOLE, tables_there
from penstock.connectors.sql.server import StoreServer
from penstock.ports.reports import HAPPENINGS_KEPT, Happening, Report

_metadata = sql.MetaData()

snapshots = sql.Table(
    "snapshots",
    _metadata,
    sql.Column("pipeline", sql.String, primary_key=True),
    sql.Column("generation", WHOLE, nullable=False),
    sql.Column("written_ms", WHOLE, nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
)

happenings = sql.Table(
    "happenings",
    _metadata,
    sql.Column("number", WHOLE, primary_key=True),
    sql.Column("pipeline", sql.String, nullable=False),
    sql.Column("at_ms", WHOLE, nullable=False),
    sql.Column("event", sql.String, nullable=False),
    sql.Column("level", sql.String, nullable=False),
    sql.Column("subject", sql.Text, nullable=False),
    sql.Column("text", sql.Text, nullable=False),
    sql.Index("happenings_by_pipeline", "pipeline", "number"),
    sqlite_autoincrement=True,
)

_NOW = sql.text("SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)")


@dataclass(frozen=True, slots=True)
class ReportDatabase:
    """How to write and read where reports are, each in one transaction, and which time it is there.

    Reading gives None where there is no table.
    """

    writing: Callable[[], AbstractContextManager[Connection]]
    reading: Callable[[], AbstractContextManager[Connection | None]]
    now_ms: Callable[[Connection], int]
    close: Callable[[], None]


def in_file(path: Path) -> ReportDatabase:
    """Keep reports in a SQLite file of their own, which is never synced: no commit waits for it."""
    file = StoreFile(
        path,
        holds=lambda connection, _: _are_there(connection),
        prepare=lambda connection, _: _metadata.create_all(connection, checkfirst=True),
        synchronous="OFF",
    )
    return ReportDatabase(
        lambda: file.creating(""),
        file.reading,
        lambda _: time.time_ns() // 1_000_000,
        file.close,
    )


def in_schema(server: StoreServer) -> ReportDatabase:
    """Keep reports beside the store in PostgreSQL, in unlogged tables."""
    return ReportDatabase(
        lambda: server.noting(_create_in_schema),
        lambda: server.looking(_are_there),
        lambda connection: int(connection.execute(_NOW).scalar_one()),
        server.close,
    )


class SqlReports:
    """Implements `ports.reports.Reports` on a database."""

    def __init__(self, database: ReportDatabase) -> None:
        self._database = database

    def keep(
        self, pipeline: str, generation: int, body: bytes, happened: Sequence[Happening]
    ) -> None:
        """Replace the document, unless a higher generation wrote it, and add what happened."""
        with self._database.writing() as connection:
            written_ms = self._database.now_ms(connection)
            _replace(connection, pipeline, generation, written_ms, body)
            if happened:
                _add(connection, pipeline, happened)

    def newest(self, pipeline: str) -> Report | None:
        """Return the document; None where none was written, or it was lost."""
        with self._database.reading() as connection:
            if connection is None:
                return None
            found = connection.execute(
                sql.select(snapshots.c.body, snapshots.c.written_ms).where(
                    snapshots.c.pipeline == pipeline
                )
            ).one_or_none()
            if found is None:
                return None
            age_ms = self._database.now_ms(connection) - found.written_ms
            return Report(bytes(found.body), age_ms)

    def happenings(self, pipeline: str) -> Sequence[Happening]:
        """List what happened, the newest first."""
        with self._database.reading() as connection:
            if connection is None:
                return []
            kept = (happenings.c[name] for name in ("at_ms", "event", "level", "subject", "text"))
            rows = connection.execute(
                sql.select(*kept)
                .where(happenings.c.pipeline == pipeline)
                .order_by(happenings.c.number.desc())
                .limit(HAPPENINGS_KEPT)
            )
            return [Happening(*row) for row in rows]

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


def _replace(
    connection: Connection, pipeline: str, generation: int, written_ms: int, body: bytes
) -> None:
    own = snapshots.c.pipeline == pipeline
    values = {"generation": generation, "written_ms": written_ms, "body": body}
    changed = connection.execute(
        sql.update(snapshots).where(own, snapshots.c.generation <= generation).values(**values)
    )
    if (
        changed.rowcount == 0
        and not connection.execute(sql.select(sql.exists().where(own))).scalar()
    ):
        connection.execute(sql.insert(snapshots).values(pipeline=pipeline, **values))


def _add(connection: Connection, pipeline: str, happened: Sequence[Happening]) -> None:
    """Add what happened, and forget what is too old."""
    rows = [
        {
            "pipeline": pipeline,
            "at_ms": each.at_ms,
            "event": each.event,
            "level": each.level,
            "subject": _plain(each.subject),
            "text": _plain(each.text),
        }
        for each in happened[-HAPPENINGS_KEPT:]
    ]
    connection.execute(sql.insert(happenings), rows)
    oldest = (
        sql.select(happenings.c.number)
        .where(happenings.c.pipeline == pipeline)
        .order_by(happenings.c.number.desc())
        .offset(HAPPENINGS_KEPT)
        .limit(1)
        .scalar_subquery()
    )
    connection.execute(
        sql.delete(happenings).where(
            happenings.c.pipeline == pipeline, happenings.c.number <= oldest
        )
    )


def _plain(text: str) -> str:
    """Return a text that PostgreSQL takes: it has no NUL, and no halves of characters."""
    return text.replace("\0", "").encode(errors="replace").decode()


def _are_there(connection: Connection) -> bool:
    return tables_there(connection, *_metadata.sorted_tables)


def _create_in_schema(connection: Connection) -> None:
    _metadata.create_all(connection, checkfirst=True)
    for table in _metadata.sorted_tables:
        connection.exec_driver_sql(f"ALTER TABLE {SCHEMA}.{table.name} SET UNLOGGED")
