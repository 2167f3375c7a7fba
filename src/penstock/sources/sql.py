"""Rows of a query as a source: those behind a cursor, of one or two columns that only rise.

A position is the cursor of the last row that was read. The end is the highest cursor below which no
row can come any more: it was seen, and since then every transaction has ended that was open.

Invariants:
- rows are read in the order of the cursor, up to an end, a bounded number at a time, each in a
  transaction of its own: none stays open between two of them;
- rows with equal cursors are never parted;
- in SQLite, where a column may hold values of several types, the cursor's are of one.

Source: SQLite, "Datatypes In SQLite", 4.1: how values of several types are ordered.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from sqlalchemy import text

from penstock.core.errors import DecisionNeededError
from penstock.core.positions import Scalar
from penstock.core.schema import Field, Struct
from penstock.core.type_text import parse_type
from penstock.ports.own_sources import Batch, OwnSource, Place, Replay
from penstock.rows.arrow_types import arrow_schema
from penstock.sources.databases import (
    POSTGRESQL,
    OpenTransactions,
    connected,
    held_up,
    open_transactions,
    opened,
)

BATCH_ROWS = 10_000
EQUAL_ROWS_MAX = 1_000_000
"""How many rows may have one cursor."""
PATIENCE_SECONDS = 5.0
"""How long a first end is waited for."""
SEEN_MAX = 1000
"""How many ends are remembered that are not safe yet."""
KINDS = "(kinds)"
"""The member of a position that says what its values are: int, text, time or date."""
_OTHER_TYPE = {int: "{0} >= ''", str: "({0} < '' OR {0} >= x'')"}
"""How SQLite finds, by an index, what is ordered before or behind all numbers, or all texts."""
_TYPES = {int: "a number", str: "text"}


@dataclass(frozen=True, slots=True)
class Seen:
    """The highest cursor there was, and the time of the database just behind that look."""

    cursor: tuple[Any, ...]
    at: dt.datetime


class QuerySource(OwnSource):
    """The rows of a query. Options are those of the spec's block."""

    def __init__(
        self,
        *,
        query: str,
        database: str,
        password: str | None,
        cursor: Sequence[str],
        columns: Mapping[str, str],
        settle_seconds: float,
        append_only: bool,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self.replay: Replay = "range" if append_only else "resume"
        self._cursor, self._settle = tuple(cursor), dt.timedelta(seconds=settle_seconds)
        self._append_only, self._batch_rows = append_only, batch_rows
        self._columns = Struct(tuple(Field(name, parse_type(t)) for name, t in columns.items()))
        # behind q., for SQLite takes a bare "name" of no column as a text
        self._names = ", ".join(f"q.{_quoted(each)}" for each in cursor)
        self._query = query.strip().rstrip(";").replace(":", r"\:")
        self._engine = opened(database, password)
        self._seen: list[Seen] = []
        self._safe: tuple[Any, ...] | None = None
        self._has_looked = False
        self._open: OpenTransactions | None = None

    def end(self, part: Place) -> Place | None:
        """Return the highest cursor that is safe; None where there are no rows.

        Raises InvalidError: the database does not let us in or does not say which transactions are
        open (P858), or refuses the query (P893); DecisionNeededError (P857): rows have no cursor at
        the first look, which no later one would find, or one of another type; UnavailableError
        (P894): a transaction has been open since then.
        """
        del part
        patience = time.monotonic() + PATIENCE_SECONDS
        while True:
            if not self._look():
                return None
            if self._safe is not None:
                return _place(self._cursor, self._safe)
            if self._open is not None and time.monotonic() >= patience:
                raise held_up(self._open)
            time.sleep(0.05)

    def columns(self) -> pa.Schema | None:
        """Return the columns that the spec says."""
        return arrow_schema(self._columns) if self._columns.fields else None

    def read(self, part: Place, at: Place | None, until: Place | None) -> Iterator[Batch]:
        """Yield rows in the order of their cursors, up to an end that is safe.

        Raises DecisionNeededError (P857) where rows have no cursor, or too many have the same.
        """
        stop = self._values(until or self.end(part))
        behind = self._values(at)
        if at is None:
            self._require_cursors()
        while stop is not None:
            found = self._rows(behind, stop)
            if not found:
                return
            for rows in self._parted(found):
                behind = self._cursor_of(rows[-1])
                yield Batch(rows, _place(self._cursor, behind))

    def close(self) -> None:
        """Let go of connections."""
        self._engine.dispose()

    def _look(self) -> bool:
        """Note the highest cursor, and which of those seen before is safe; say if there are any."""
        order = ", ".join(f"q.{_quoted(each)} DESC" for each in self._cursor)
        highest = f"SELECT {self._names} FROM ({self._query}) q WHERE {self._known()}"  # noqa: S608
        with connected(self._engine) as connection:
            row = connection.execute(text(f"{highest} ORDER BY {order} LIMIT 1")).first()
        if not self._has_looked:  # once in each process: without an index it reads all rows
            self._require_cursors()
            self._has_looked = True
        if row is None:
            return self._safe is not None
        if self._engine.dialect.name != POSTGRESQL:  # of SQLite's writers one is open at a time
            self._require_one_type(row)
            self._safe = tuple(row)
            return True
        self._open = open_transactions(self._engine)
        now, oldest = self._open.now, self._open.since
        self._seen.append(Seen(tuple(row), now))
        if len(self._seen) > SEEN_MAX:  # a transaction has been open for long: fewer ends will do
            del self._seen[1::2]
        if oldest is None or self._seen[0].at < oldest:
            latest = now - self._settle if oldest is None else min(oldest, now - self._settle)
            safe = [each for each in self._seen if each.at <= latest]
            if oldest is not None:
                safe = [each for each in safe if each.at < oldest]
            if safe:
                self._safe = safe[-1].cursor
                self._seen = [each for each in self._seen if each.at > safe[-1].at]
        return True

    def _parted(self, rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
        """Yield as many rows as a transaction may have, or more where they have one cursor."""
        part: list[dict[str, Any]] = []
        for _, found in groupby(rows, self._cursor_of):
            equal = [*found]
            if part and len(part) + len(equal) > self._batch_rows:
                yield part
                part = []
            part += equal
        if part:
            yield part

    def _rows(self, behind: tuple[Any, ...] | None, stop: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Read the next rows; those whose cursors are equal to the last one's are all there."""
        count = BATCH_ROWS
        while count <= EQUAL_ROWS_MAX:
            found = self._fetch(behind, stop, count)
            if len(found) < count:
                return found
            last = self._cursor_of(found[-1])
            whole = [row for row in found if self._cursor_of(row) != last]
            if whole:
                return whole
            count *= 10
        raise self._unreadable(f"more than {EQUAL_ROWS_MAX:,} rows have one cursor")

    def _fetch(
        self, behind: tuple[Any, ...] | None, stop: tuple[Any, ...], count: int
    ) -> list[dict[str, Any]]:
        given = {f"s{number}": each for number, each in enumerate(stop)}
        conditions = [f"({self._names}) <= ({', '.join(f':{name}' for name in given)})"]
        if behind is not None:
            before = {f"b{number}": each for number, each in enumerate(behind)}
            conditions.append(f"({self._names}) > ({', '.join(f':{name}' for name in before)})")
            given |= before
        statement = (
            f"SELECT * FROM ({self._query}) q WHERE {' AND '.join(conditions)}"  # noqa: S608
            f" ORDER BY {self._names} LIMIT {count}"
        )
        with connected(self._engine) as connection:
            found = connection.execute(text(statement), given).mappings()
            return [{name: _plain(value) for name, value in row.items()} for row in found]

    def _require_cursors(self) -> None:
        nulls = " OR ".join(f"q.{_quoted(each)} IS NULL" for each in self._cursor)
        asked = f"SELECT 1 FROM ({self._query}) q WHERE {nulls} LIMIT 1"  # noqa: S608
        with connected(self._engine) as connection:
            if connection.execute(text(asked)).first() is not None:
                raise self._unreadable(
                    "there are rows whose cursor is null",
                    hint="give them one, or leave them out in the query:  WHERE "
                    + " AND ".join(f"{each} IS NOT NULL" for each in self._cursor),
                )

    def _require_one_type(self, highest: Sequence[Any]) -> None:
        """Raise DecisionNeededError (P857) for rows that are not in the order of their cursors."""
        for each, value in zip(self._cursor, highest, strict=True):
            if type(value) not in _OTHER_TYPE:
                continue
            other = _OTHER_TYPE[type(value)].format(f"q.{_quoted(each)}")
            asked = f"SELECT 1 FROM ({self._query}) q WHERE {other} LIMIT 1"  # noqa: S608
            with connected(self._engine) as connection:
                if connection.execute(text(asked)).first() is not None:
                    kind = _TYPES[type(value)]
                    raise self._unreadable(
                        f"{each} is {kind} in some rows and not in others, which come in no order",
                        hint=f"cast it in the query:  CAST({each} AS TEXT)",
                    )

    def _values(self, at: Place | None) -> tuple[Any, ...] | None:
        """Read a position. Raises DecisionNeededError (P857) for one of another cursor."""
        if at is None:
            return None
        if at.keys() != {*self._cursor, KINDS}:
            raise self._unreadable(f"the position {dict(at)} is of another cursor")
        kinds = zip(self._cursor, str(at[KINDS]).split(","), strict=True)
        return tuple(_value(kind, at[name]) for name, kind in kinds)

    def _known(self) -> str:
        return " AND ".join(f"q.{_quoted(each)} IS NOT NULL" for each in self._cursor)

    def _cursor_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(row[each] for each in self._cursor)

    def _unreadable(
        self,
        fact: str,
        hint: str = "correct  from.query  or  from.cursor  in the spec, then:  penstock publish",
    ) -> DecisionNeededError:
        return DecisionNeededError(
            f"the rows of a query cannot be read by the cursor {', '.join(self._cursor)}: {fact}",
            code="P857",
            hint=hint,
        )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""').replace(":", r"\:") + '"'


def _plain(value: Any) -> Any:
    """Return a value that Arrow takes: an id as its text."""
    return str(value) if type(value).__name__ == "UUID" else value


def _place(names: Sequence[str], values: tuple[Any, ...]) -> Place:
    """Write a cursor as a position."""
    kinds, found = list[str](), dict[str, Scalar]()
    for name, value in zip(names, values, strict=True):
        match _plain(value):
            case bool() | float():
                break
            case int() | str() as plain:
                found[name] = plain
                kinds.append("int" if isinstance(plain, int) else "text")
            case dt.datetime() as moment:
                found[name] = moment.isoformat()
                kinds.append("time")
            case dt.date() as day:
                found[name] = day.isoformat()
                kinds.append("date")
            case _:
                break
    if len(found) < len(values):
        raise DecisionNeededError(
            f"the cursor {names[len(found)]} is a {type(values[len(found)]).__name__}",
            code="P857",
            hint="name under  from.cursor  a column of whole numbers, text, dates or times; or cast"
            " it in  from.query",
        )
    return {**found, KINDS: ",".join(kinds)}


def _value(kind: str, value: Scalar) -> Any:
    match kind:
        case "time":
            return dt.datetime.fromisoformat(str(value))
        case "date":
            return dt.date.fromisoformat(str(value))
        case _:
            return value
