"""The JDBC source connector becomes publications of queries, a rule for each table."""

from __future__ import annotations

from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from penstock.app.init.migrate.account import (
    Migrated,
    Options,
    Rules,
    asked,
    milliseconds,
    names_in,
    unknown,
)
from penstock.app.init.migrate.publications import in_publications

_MODES = ("incrementing", "timestamp", "timestamp+incrementing")


def jdbc(found: Migrated, options: Options) -> list[dict[str, Any]]:
    """Translate it. Raises InvalidError (P165) for another database, or a mode without a cursor."""
    mode = options.get("mode", "")
    if mode not in _MODES:
        raise unknown(f"its mode is {mode or 'not set'}, and rows are read on from a cursor")
    address = urlsplit(options.get("connection.url", "").removeprefix("jdbc:"))
    database = _database(found, options, address)
    cursor = [
        options.get(f"{kind}.column.name", "").strip()
        for kind in ("timestamp", "incrementing")
        if kind in mode
    ]
    if not all(cursor) or any("," in each for each in cursor):
        raise unknown("a cursor is one column, or one of time and one that increments")
    found.mapped += [("mode", "publish[].from.cursor")]
    found.mapped += [
        (f"{kind}.column.name", "publish[].from.cursor")
        for kind in ("timestamp", "incrementing")
        if kind in mode
    ]
    prefix = options.get("topic.prefix", "")
    found.mapped.append(("topic.prefix", "publish[].into"))
    shared: dict[str, Any] = {"database": database, "cursor": cursor}
    in_url = "password" in parse_qs(address.query)
    if in_url or "connection.password" in options:
        option = "connection.url" if in_url else "connection.password"
        shared["password"] = found.secret(option, "database_password")
    if options.get("query"):
        found.mapped.append(("query", "publish[].from.query"))
        return [{"from": {"query": options["query"], **shared}, "into": prefix}]
    lists = (options.get(name, "") for name in ("table.whitelist", "table.include.list"))
    tables = names_in(",".join(lists))
    if not tables:
        raise unknown("it reads all tables: name those to publish in  table.whitelist")
    found.mapped.append(("table.whitelist", "publish[].from.query"))
    return [
        {
            "from": {"query": f"SELECT * FROM {table}", **shared},  # noqa: S608  a person's spec
            "into": f"{prefix}{table.rpartition('.')[2]}",
        }
        for table in tables
    ]


def _database(found: Migrated, options: Options, parts: SplitResult) -> str:
    """Write an address of Java's as one of ours, without a password."""
    url = options.get("connection.url", "")
    found.mapped.append(("connection.url", "publish[].from.database"))
    if url.startswith("jdbc:sqlite:"):
        return f"sqlite:///{url.removeprefix('jdbc:sqlite:')}"
    if parts.scheme != "postgresql" or not parts.hostname:
        raise unknown("it reads another database than PostgreSQL or SQLite")
    asked_for = parse_qs(parts.query)
    user = options.get("connection.user") or next(iter(asked_for.get("user", [])), "")
    if "connection.user" in options:
        found.mapped.append(("connection.user", "publish[].from.database"))
    place = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
    return (
        f"postgresql://{user}@{place}{parts.path}" if user else f"postgresql://{place}{parts.path}"
    )


JDBC: Rules = {
    "poll.interval.ms": in_publications("transaction.interval", milliseconds),
    "timestamp.delay.interval.ms": in_publications("from.settle", milliseconds),
    "batch.max.rows": "a transaction holds what  transaction.or_records  says",
    "connection.attempts connection.backoff.ms": "what may pass is tried again by itself",
    "table.poll.interval.ms table.types=table dialect.name": "tables are named in the spec",
    "quote.sql.identifiers validate.non.null=true": "the query says it, and a cursor is never null",
    "validate.non.null": asked("rows whose cursor is null are never read: publish[].from.cursor"),
    "timestamp.initial": asked("where it begins: publish[].from.start, or a WHERE in the query"),
    "numeric.mapping numeric.precision.mapping db.timezone timestamp.granularity": asked(
        "how numbers and times are written: publish[].value.decimals, times; or casts in the query"
    ),
    "transaction.isolation.mode=default": "rows wait for transactions that are open",
}
