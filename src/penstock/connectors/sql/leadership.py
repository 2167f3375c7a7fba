"""Leadership in PostgreSQL: a lock of a session of its own, and a row for each member.

Invariants:
- the lock is tried, never waited for: a waiting statement would hold up VACUUM for as long;
- no transaction is open between two calls;
- after an error the session is dropped, and its lock with it: the next call begins another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sql
from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from penstock.connectors.sql.layout import members, pipelines
from penstock.connectors.sql.server import StoreServer
from penstock.core.claims import Claim, Generation
from penstock.core.leadership import Member, Role, Roll, Session, Sight, Sign

_LOCK_CLASS = 0x50454E47  # "PENG": a class of its own, beside the store's lock for writing
_KEPT_MS = 24 * 3_600_000
"""So long a member that gave no sign stays listed; the last owner for ever: its rules count."""
_NOW = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)"
_SESSION = sql.text(
    "SELECT pid, CAST(floor(extract(epoch FROM backend_start) * 1000) AS bigint),"
    " CAST(floor(extract(epoch FROM pg_postmaster_start_time()) * 1000) AS bigint)"
    " FROM pg_stat_activity WHERE pid = pg_backend_pid()"
)
_SETTINGS = sql.text(
    "SELECT set_config('application_name', 'penstock-leadership', false),"
    " set_config('statement_timeout', '5000', false),"
    " set_config('tcp_keepalives_idle', '5', false),"
    " set_config('tcp_keepalives_interval', '1', false),"
    " set_config('tcp_keepalives_count', '3', false)"
)
_TRY = sql.text("SELECT pg_try_advisory_lock(:class, hashtext(:name))")
_UNLOCK = sql.text("SELECT pg_advisory_unlock(:class, hashtext(:name))")
_KEY = (members.c.pipeline, members.c.id)
_OWNS = sql.exists().where(
    pipelines.c.pipeline == members.c.pipeline,
    pipelines.c.owner.endswith("/" + members.c.id),
)
_FORGET = sql.delete(members).where(
    members.c.seen_ms < sql.literal_column(f"{_NOW} - {_KEPT_MS}", sql.BigInteger), ~_OWNS
)


class SqlLeadership:
    """Implements `ports.leadership.Leadership` on a PostgreSQL database."""

    def __init__(self, server: StoreServer, pipeline: str) -> None:
        self._server, self._pipeline = server, pipeline
        self._connection: Connection | None = None
        self._session = Session(0, 0, 0)
        self._is_locked = False

    def look(self, me: Member, *, wants_lock: bool) -> Sight:
        """Give a sign of life, try to get the lock if it is wanted, and return what is so."""
        with self._asking() as connection:
            if wants_lock and not self._is_locked:
                self._is_locked = bool(connection.execute(_TRY, self._lock).scalar_one())
            now_ms, asked = self._sign(connection, me)
            claimed = connection.execute(
                sql.select(pipelines).where(pipelines.c.pipeline == self._pipeline)
            ).one_or_none()
            if claimed is None:
                return Sight(now_ms, self._session, self._is_locked, asked=asked)
            claim = Claim(Generation(claimed.generation), claimed.owner)
            signs = self._signs(connection, members.c.id == claim.run)
            return Sight(
                now_ms,
                self._session,
                self._is_locked,
                claim,
                claimed.alive_until_ms,
                next(iter(signs), None),
                asked,
            )

    def unlock(self) -> None:
        """Give the lock back; a no-op without it."""
        if self._is_locked:
            with self._asking() as connection:
                connection.execute(_UNLOCK, self._lock)
                self._is_locked = False

    def ask(self, member: str, host: str) -> None:
        """Ask a member to hand over to a host."""
        one = (members.c.pipeline == self._pipeline, members.c.id == member)
        with self._asking() as connection:
            connection.execute(sql.update(members).where(*one).values(asked=host))

    def roll(self) -> Roll:
        """List the last signs of life of the pipeline's members."""
        with self._asking() as connection:
            now_ms = connection.exec_driver_sql(f"SELECT {_NOW}").scalar_one()
            return Roll(now_ms, self._signs(connection, sql.true()))

    def leave(self, me: Member) -> None:
        """Give the last sign: the member has ended. A stand-by is forgotten."""
        one = (members.c.pipeline == self._pipeline, members.c.id == me.id)
        with self._asking() as connection:
            if me.role is Role.STANDBY:
                connection.execute(sql.delete(members).where(*one))
            else:
                self._sign(connection, me)
                connection.execute(sql.update(members).where(*one).values(asked=""))
        self.unlock()

    def close(self) -> None:
        """Let go of the session, and so of the lock."""
        self._drop()
        self._server.close()

    @property
    def _lock(self) -> dict[str, Any]:
        return {"class": _LOCK_CLASS, "name": f"owner/{self._pipeline}"}

    def _sign(self, connection: Connection, me: Member) -> tuple[int, str]:
        """Write the row of a member; return the server's time, and what the member was asked."""
        values = {
            "host": me.host,
            "pid": me.pid,
            "role": me.role.value,
            "trouble": me.trouble,
            "version": me.version,
            "rules": me.rules,
            "offered_to": me.offered_to,
            "is_locked": self._is_locked,
            "backend": self._session.backend,
            "began_ms": self._session.began_ms,
            "server_began_ms": self._session.server_began_ms,
            "seen_ms": sql.literal_column(_NOW),
        }
        if me.role is Role.STANDBY:  # it has nothing to hand over
            values["asked"] = ""
        row = connection.execute(
            insert(members)
            .values({"pipeline": self._pipeline, "id": me.id, "asked": "", **values})
            .on_conflict_do_update(index_elements=_KEY, set_=values)
            .returning(members.c.seen_ms, members.c.asked)
        ).one()
        return row.seen_ms, row.asked

    def _signs(self, connection: Connection, which: sql.ColumnElement[bool]) -> list[Sign]:
        rows = connection.execute(
            sql.select(members)
            .where(members.c.pipeline == self._pipeline, which)
            .order_by(members.c.seen_ms.desc(), members.c.id)
        )
        return [_sign_of(row) for row in rows]

    @contextmanager
    def _asking(self) -> Iterator[Connection]:
        with self._server.translated():
            try:
                yield self._connection or self._connected()
            except SQLAlchemyError:
                self._drop()
                raise

    def _connected(self) -> Connection:
        with self._server.creating(self._pipeline) as creating:
            creating.execute(_FORGET)
        self._connection = self._server.session()
        self._connection.execute(_SETTINGS)
        self._session = Session(*self._connection.execute(_SESSION).one())
        return self._connection

    def _drop(self) -> None:
        connection, self._connection, self._is_locked = self._connection, None, False
        if connection is not None:
            with suppress(SQLAlchemyError):
                connection.invalidate()
                connection.close()


def _sign_of(row: Any) -> Sign:
    member = Member(
        id=row.id,
        host=row.host,
        pid=row.pid,
        role=Role(row.role),
        trouble=row.trouble,
        version=row.version,
        rules=row.rules,
        offered_to=row.offered_to,
    )
    session = Session(row.backend, row.began_ms, row.server_began_ms)
    return Sign(member, row.seen_ms, session, row.is_locked)
