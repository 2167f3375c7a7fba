"""The pending store in SQL: prepared commits between the two phases, guarded by the generation.

Invariants (protocol.md 6, I10):
- each call is one transaction; a write asserts in it that the claim is the newest;
- a commit goes PENDING to COMMITTED or ABORTED, once;
- losing the database loses prepared, uncommitted work only; a run that notices ends with P502.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sql

from penstock.connectors.sql.examined_json import examined_from_json, examined_to_json
from penstock.connectors.sql.file import StoreFile
from penstock.connectors.sql.layout import (
    ABORTED,
    COMMITTED,
    PENDING,
    commits,
    examined,
    has_later,
    pauses,
    pipelines,
    rules,
    servers,
)
from penstock.connectors.sql.owners import has_ended
from penstock.connectors.sql.server import StoreServer
from penstock.core.claims import Claim, Generation
from penstock.core.commits import Committable
from penstock.core.errors import FencedError, UnavailableError
from penstock.core.serialization import (
    committable_from_json,
    committable_to_json,
)
from penstock.core.store_errors import fenced, settled_otherwise
from penstock.ports.store import ClaimRecord, Examined, Owner, Pause


class SqlStore:
    """Implements `ports.store.PendingStore` on a database.

    A writing transaction of it is alone with its pipeline: what it read cannot change beneath it.
    It is durable when its block was left without an error.
    """

    def __init__(self, database: StoreFile | StoreServer) -> None:
        self._database = database

    def claim(
        self,
        pipeline: str,
        owner: Owner,
        *,
        above: Generation,
        now_ms: int,
        alive_until_ms: int,
        takeover: bool,
    ) -> Claim:
        """Claim `max(stored, above) + 1`; an owner on this host is dead if its process ended."""
        with self._database.creating(pipeline) as connection:
            held = _holding(connection, pipeline)
            if held is not None and not takeover:
                _refuse_alive(pipeline, held, owner, now_ms)
            stored = 0 if held is None else held.claim.generation
            claim = Claim(Generation(max(stored, above) + 1), owner.id)
            values = {
                "generation": claim.generation,
                "owner": owner.id,
                "host": owner.host,
                "pid": owner.pid,
                "started_ms": owner.started_ms,
                "alive_until_ms": alive_until_ms,
            }
            _put(connection, pipelines, {"pipeline": pipeline}, values)
            at = {"generation": claim.generation, "server": self._database.server(connection)}
            _put(connection, servers, {"pipeline": pipeline}, at)
        return claim

    def require_free(self, pipeline: str, owner: Owner, *, now_ms: int) -> None:
        """Raise UnavailableError (P510) while another owner is alive."""
        held = self.holding(pipeline)
        if held is not None:
            _refuse_alive(pipeline, held, owner, now_ms)

    def heartbeat(self, pipeline: str, claim: Claim, *, alive_until_ms: int) -> Sequence[Pause]:
        """Record that the owner is alive; return the pauses of its pipeline."""
        with self._database.writing(pipeline) as connection:
            self._check(connection, pipeline, claim)
            _set_alive(connection, pipeline, alive_until_ms)
            return _pauses(connection, pipeline)

    def release(self, pipeline: str, claim: Claim) -> None:
        """Record that the owner has ended; a no-op when fenced, and when the store is lost."""
        try:
            with self._database.writing(pipeline) as connection:
                self._check(connection, pipeline, claim)
                _set_alive(connection, pipeline, 0)
        except FencedError:
            return
        except UnavailableError as error:
            if error.code != "P502":
                raise

    def holding(self, pipeline: str) -> ClaimRecord | None:
        """Return the owner of the pipeline, dead or alive."""
        with self._database.reading() as connection:
            held = None if connection is None else _holding(connection, pipeline)
            if connection is None or held is None or not has_later(connection, servers):
                return held
            return replace(held, elsewhere=self._is_elsewhere(connection, pipeline, held))

    def prepare(
        self,
        pipeline: str,
        claim: Claim,
        commits: Sequence[Committable],
        examined: Mapping[str, Examined],
    ) -> None:
        """Insert commits as PENDING; an existing one must be equal (P750). All or nothing."""
        with self._database.writing(pipeline) as connection:
            self._check(connection, pipeline, claim)
            _insert(connection, pipeline, commits)
            _put_examined(connection, pipeline, examined)

    def pending(self, pipeline: str) -> Sequence[Committable]:
        """List PENDING commits, oldest epoch first, in the order they were prepared."""
        with self._database.reading() as connection:
            if connection is None:
                return []
            bodies = connection.execute(
                sql.select(commits.c.body)
                .where(commits.c.pipeline == pipeline, commits.c.state == PENDING)
                .order_by(commits.c.epoch, commits.c.number)
            ).scalars()
            return [committable_from_json(body) for body in bodies]

    def settle(
        self, pipeline: str, claim: Claim, commit: Committable, *, landed: bool, reason: str
    ) -> None:
        """Move a commit to COMMITTED or ABORTED, once (P750); a missing one was pruned."""
        wanted = COMMITTED if landed else ABORTED
        with self._database.writing(pipeline) as connection:
            self._check(connection, pipeline, claim)
            row = _find(connection, pipeline, commit)
            if row is None or row.state == wanted:
                return
            if row.state != PENDING:
                raise settled_otherwise(commit, row.state, wanted)
            connection.execute(
                sql.update(commits)
                .where(commits.c.number == row.number)
                .values(state=wanted, reason=reason.replace("\0", ""))
            )
            _prune(connection, pipeline, commit)

    def examined(self, pipeline: str, *tables: str) -> Mapping[str, Examined]:
        """Return the offsets examined by table, of all or of those named. Advisory."""
        named = examined.c.table.in_(tables) if tables else sql.true()
        with self._database.reading() as connection:
            if connection is None:
                return {}
            rows = connection.execute(
                sql.select(examined.c.table, examined.c.body)
                .where(examined.c.pipeline == pipeline, named)
                .order_by(examined.c.table)
            )
            found = {table: examined_from_json(body) for table, body in rows}
            return {table: noted for table, noted in found.items() if noted is not None}

    def keep_rules(self, pipeline: str, rules_hash: str, text: str) -> None:
        """Keep the text of a spec by its hash."""
        with self._database.creating(pipeline) as connection:
            key = {"pipeline": pipeline, "rules_hash": rules_hash}
            _put(connection, rules, key, {"text": text})

    def rules(self, pipeline: str, rules_hash: str) -> str | None:
        """Return the text of a spec kept before."""
        with self._database.reading() as connection:
            if connection is None:
                return None
            return connection.execute(
                sql.select(rules.c.text).where(
                    rules.c.pipeline == pipeline, rules.c.rules_hash == rules_hash
                )
            ).scalar_one_or_none()

    def pause(self, pipeline: str, pause: Pause) -> None:
        """Pause a table, in place of a pause it has."""
        values = {
            "begun_ms": pause.begun_ms,
            "until_ms": pause.until_ms,
            "seen_by": pause.seen_by,
        }
        with self._database.creating(pipeline) as connection:
            _put(connection, pauses, {"pipeline": pipeline, "table": pause.table}, values)

    def resume(self, pipeline: str, table: str) -> bool:
        """End the pause of a table; return whether it had one."""
        if not self.pauses(pipeline):  # there may be no database yet
            return False
        with self._database.creating(pipeline) as connection:
            ended = connection.execute(
                sql.delete(pauses).where(pauses.c.pipeline == pipeline, pauses.c.table == table)
            )
            return ended.rowcount > 0

    def pauses(self, pipeline: str) -> Sequence[Pause]:
        """List the pauses by table, also those that are over by their time."""
        with self._database.reading() as connection:
            known = connection is not None and has_later(connection, pauses)
            return _pauses(connection, pipeline) if connection is not None and known else []

    def confirm_pause(self, pipeline: str, claim: Claim, pause: Pause) -> None:
        """Record that the owner makes no attempt on a table while this very pause lasts."""
        with self._database.writing(pipeline) as connection:
            self._check(connection, pipeline, claim)
            connection.execute(
                sql.update(pauses)
                .where(
                    pauses.c.pipeline == pipeline,
                    pauses.c.table == pause.table,
                    pauses.c.begun_ms == pause.begun_ms,
                    pauses.c.until_ms == pause.until_ms,
                )
                .values(seen_by=claim.generation)
            )

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _check(self, connection: sql.Connection, pipeline: str, claim: Claim) -> None:
        """Assert that the claim is the newest: FencedError (P501), or UnavailableError (P502)."""
        held = _holding(connection, pipeline)
        if held is None or held.claim.generation < claim.generation:
            raise self._database.lost()
        if held.claim != claim:
            raise fenced(pipeline, held.claim.generation, held.owner.host, held.owner.pid)
        if self._is_elsewhere(connection, pipeline, held):
            raise self._database.lost()

    def _is_elsewhere(self, connection: sql.Connection, pipeline: str, held: ClaimRecord) -> bool:
        """Return whether a claim was made on another server, or on another timeline of this one."""
        here = self._database.server(connection)
        if not here:
            return False
        made_at = connection.execute(
            sql.select(servers.c.server).where(
                servers.c.pipeline == pipeline, servers.c.generation == held.claim.generation
            )
        ).scalar_one_or_none()
        return bool(made_at) and made_at != here


def _holding(connection: sql.Connection, pipeline: str) -> ClaimRecord | None:
    row = connection.execute(
        sql.select(pipelines).where(pipelines.c.pipeline == pipeline)
    ).one_or_none()
    if row is None:
        return None
    owner = Owner(row.owner, row.host, row.pid, row.started_ms)
    return ClaimRecord(Claim(Generation(row.generation), row.owner), owner, row.alive_until_ms)


def _refuse_alive(pipeline: str, held: ClaimRecord, owner: Owner, now_ms: int) -> None:
    if held.owner.id == owner.id or held.alive_until_ms <= now_ms or has_ended(held.owner):
        return
    until = datetime.fromtimestamp(held.alive_until_ms / 1000, UTC)
    raise UnavailableError(
        f"pipeline {pipeline} is run on host {held.owner.host}, pid {held.owner.pid}, which said "
        f"to be alive until {until:%Y-%m-%d %H:%M:%S} UTC",
        code="P510",
        hint="stop it there, or take over:  penstock run --takeover",
    )


def _set_alive(connection: sql.Connection, pipeline: str, alive_until_ms: int) -> None:
    connection.execute(
        sql.update(pipelines)
        .where(pipelines.c.pipeline == pipeline)
        .values(alive_until_ms=alive_until_ms)
    )


def _pauses(connection: sql.Connection, pipeline: str) -> list[Pause]:
    columns = (pauses.c.table, pauses.c.begun_ms, pauses.c.until_ms, pauses.c.seen_by)
    rows = connection.execute(
        sql.select(*columns).where(pauses.c.pipeline == pipeline).order_by(pauses.c.table)
    )
    return [Pause(table, begun, until, Generation(seen)) for table, begun, until, seen in rows]


def _insert(connection: sql.Connection, pipeline: str, prepared: Sequence[Committable]) -> None:
    key = (commits.c.chain, commits.c.table, commits.c.commit_id, commits.c.attempt)
    ids = commits.c.commit_id.in_([commit.commit_id for commit in prepared])
    found = connection.execute(
        sql.select(*key, commits.c.state, commits.c.body).where(commits.c.pipeline == pipeline, ids)
    )
    stored: dict[tuple[str, str, str, str], tuple[str, str]] = {
        (chain, table, commit_id, attempt): (state, body)
        for chain, table, commit_id, attempt, state, body in found
    }
    rows = []
    for commit in prepared:
        chain, table, body = commit.chain.name, commit.chain.table, committable_to_json(commit)
        own = (chain, table, commit.commit_id, commit.attempt)
        state, same = stored.get(own, (PENDING, body))
        if (state, same) != (PENDING, body):
            raise settled_otherwise(commit, state, PENDING)
        if own not in stored:
            stored[own] = (PENDING, body)
            rows.append(
                {
                    "pipeline": pipeline,
                    "chain": chain,
                    "table": table,
                    "commit_id": commit.commit_id,
                    "attempt": commit.attempt,
                    "epoch": commit.epoch,
                    "state": PENDING,
                    "reason": "",
                    "body": body,
                }
            )
    if rows:
        connection.execute(sql.insert(commits), rows)


def _find(
    connection: sql.Connection, pipeline: str, commit: Committable
) -> sql.Row[*tuple[object, ...]] | None:
    return connection.execute(
        sql.select(commits.c.number, commits.c.state, commits.c.body).where(
            commits.c.pipeline == pipeline,
            commits.c.chain == commit.chain.name,
            commits.c.table == commit.chain.table,
            commits.c.commit_id == commit.commit_id,
            commits.c.attempt == commit.attempt,
        )
    ).one_or_none()


def _put(
    connection: sql.Connection, table: sql.Table, key: Mapping[str, str], values: Mapping[str, Any]
) -> None:
    """Replace a row, or insert it: a writing transaction is alone with its pipeline."""
    same = sql.and_(*(table.c[name] == value for name, value in key.items()))
    if connection.execute(sql.update(table).where(same).values(**values)).rowcount == 0:
        connection.execute(sql.insert(table).values(**key, **values))


def _put_examined(connection: sql.Connection, pipeline: str, noted: Mapping[str, Examined]) -> None:
    """Replace the rows of tables: a writing transaction is alone with its pipeline."""
    if not noted:
        return
    former = sql.delete(examined).where(
        examined.c.pipeline == pipeline, examined.c.table.in_(list(noted))
    )
    connection.execute(former)
    rows = [
        {"pipeline": pipeline, "table": table, "body": examined_to_json(each)}
        for table, each in noted.items()
    ]
    connection.execute(sql.insert(examined), rows)


def _prune(connection: sql.Connection, pipeline: str, commit: Committable) -> None:
    """Delete the settled rows of a chain but its newest."""
    settled = sql.and_(
        commits.c.pipeline == pipeline,
        commits.c.chain == commit.chain.name,
        commits.c.table == commit.chain.table,
        commits.c.state != PENDING,
    )
    newest = sql.select(sql.func.max(commits.c.number)).where(settled).scalar_subquery()
    connection.execute(sql.delete(commits).where(settled, commits.c.number < newest))
