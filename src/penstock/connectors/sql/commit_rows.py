"""The rows of prepared commits: inserted, and settled, several in one transaction.

Invariant: a commit goes from PENDING to COMMITTED or to ABORTED, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sql

from penstock.connectors.sql.layout import PENDING, commits
from penstock.core.commits import Committable
from penstock.core.serialization import committable_to_json
from penstock.core.store_errors import settled_otherwise

_Key = tuple[str, str, str, str]
"""Of a commit: its chain, table, id and attempt."""

_SETTLE = (
    sql.update(commits)
    .where(commits.c.number == sql.bindparam("at"))
    .values(state=sql.bindparam("to"), reason=sql.bindparam("why"))
)
_SETTLED = sql.and_(
    commits.c.pipeline == sql.bindparam("of"),
    commits.c.chain == sql.bindparam("by"),
    commits.c.table == sql.bindparam("into"),
    commits.c.state != PENDING,
)
_NEWEST = sql.select(sql.func.max(commits.c.number)).where(_SETTLED).scalar_subquery()
_PRUNE = sql.delete(commits).where(_SETTLED, commits.c.number < _NEWEST)


class Settlement(NamedTuple):
    """How a commit ended: the state of its row from now on, and why."""

    commit: Committable
    state: str
    reason: str


def insert(connection: sql.Connection, pipeline: str, prepared: Sequence[Committable]) -> None:
    """Insert commits as PENDING; an existing one must be equal (P750)."""
    stored = {
        key: (row.state, row.body)
        for key, row in _stored(connection, pipeline, prepared, commits.c.body).items()
    }
    rows = []
    for commit in prepared:
        own, body = _key_of(commit), committable_to_json(commit)
        state, same = stored.get(own, (PENDING, body))
        if (state, same) != (PENDING, body):
            raise settled_otherwise(commit, state, PENDING)
        if own not in stored:
            stored[own] = (PENDING, body)
            rows.append(
                {
                    "pipeline": pipeline,
                    "chain": commit.chain.name,
                    "table": commit.chain.table,
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


def settle(connection: sql.Connection, pipeline: str, settlements: Sequence[Settlement]) -> None:
    """Settle commits, each once (P750), and delete the settled rows of their chains but the newest.

    One that is missing was pruned.
    """
    stored = _stored(connection, pipeline, [each.commit for each in settlements])
    changed, chains = [], []
    for commit, state, reason in settlements:
        row = stored.get(_key_of(commit))
        if row is None or row.state == state:
            continue
        if row.state != PENDING:
            raise settled_otherwise(commit, row.state, state)
        changed.append({"at": row.number, "to": state, "why": reason})
        chains.append({"of": pipeline, "by": commit.chain.name, "into": commit.chain.table})
    if changed:
        connection.execute(_SETTLE, changed)
        connection.execute(_PRUNE, chains)


def _key_of(commit: Committable) -> _Key:
    return commit.chain.name, commit.chain.table, commit.commit_id, commit.attempt


def _stored(
    connection: sql.Connection,
    pipeline: str,
    wanted: Sequence[Committable],
    *more: sql.Column[str],
) -> dict[_Key, sql.Row[*tuple[Any, ...]]]:
    """Return the rows of commits that are stored: their numbers, states, and more columns."""
    key = (commits.c.chain, commits.c.table, commits.c.commit_id, commits.c.attempt)
    ids = commits.c.commit_id.in_([commit.commit_id for commit in wanted])
    found = connection.execute(
        sql.select(*key, commits.c.number, commits.c.state, *more).where(
            commits.c.pipeline == pipeline, ids
        )
    )
    return {(row.chain, row.table, row.commit_id, row.attempt): row for row in found}
