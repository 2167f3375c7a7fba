"""The departure board: the newest state of each flight, as a database would report its changes.

Each day its flights are inserted as they are scheduled, then updated with their delays; those that
were cancelled are deleted, and one flight gets another number, its key.

Invariant: what the tables must hold is folded from the events alone, and what they hold is read by
PyIceberg and deltalake in a process without Penstock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.core.errors import UnavailableError

BOARD = "nyc.board"
FLIGHTS = 8_000
RENUMBERED = 17
COLUMNS = ("id", "month", "day", "carrier", "flight", "origin", "dest", "dep_delay", "arr_delay")
BATCH_ROWS = 20_000

Row = Mapping[str, Any]
Event = Mapping[str, Any]

_SOURCE = {"connector": "postgresql", "schema": "nyc", "table": "board", "snapshot": "false"}
_READ = """
import json, sys
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog

home, name, columns = sys.argv[1:]
lake = load_catalog("lake", uri=f"sqlite:///{home}/lake/catalog.db").load_table(name)
delta = DeltaTable(f"{home}/delta/{name.replace('.', '/')}")
query = QueryBuilder().register("board", delta).execute(f"select {columns} from board")
rows = {"lake": lake.scan().to_arrow(), "delta": __import__("pyarrow").table(query.read_all())}
print(json.dumps({at: each.select(columns.split(",")).to_pylist() for at, each in rows.items()}))
"""


def events(flights: pa.Table) -> list[Event]:
    """Return the changes of the first flights in their order, in Debezium's envelope."""
    rows = [{"id": at, **row} for at, row in enumerate(flights.slice(0, FLIGHTS).to_pylist())]
    days = groupby(rows, key=lambda row: (row["month"], row["day"]))
    return [event for _, day in days for event in _of_a_day([*day])]


def records(changes: Sequence[Event]) -> Iterator[list[bytes]]:
    """Yield events as JSON, some at a time."""
    for start in range(0, len(changes), BATCH_ROWS):
        yield [json.dumps(each).encode() for each in changes[start : start + BATCH_ROWS]]


def folded(changes: Sequence[Event]) -> list[Row]:
    """Return the rows that are left, by their key."""
    rows: dict[int, Row] = {}
    for event in changes:
        if event["before"] is not None:
            del rows[event["before"]["id"]]
        if event["after"] is not None:
            rows[event["after"]["id"]] = event["after"]
    return [rows[key] for key in sorted(rows)]


def read(home: Path) -> dict[str, list[Row]]:
    """Read both tables, by their key. Raises UnavailableError where a library cannot."""
    command = [sys.executable, "-c", _READ, str(home), BOARD, ",".join(COLUMNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  ours
    if done.returncode:
        raise UnavailableError(
            f"the tables of the demo could not be read: {done.stderr.strip().splitlines()[-1]}",
            code="P641",
            hint="run the demo again; if it persists, please report the lines above",
        )
    found = json.loads(done.stdout)
    return {at: sorted(rows, key=lambda row: row["id"]) for at, rows in found.items()}


def _of_a_day(rows: list[Row]) -> Iterator[Event]:
    scheduled = [{**_shown(row), "dep_delay": None, "arr_delay": None} for row in rows]
    for before in scheduled:
        yield _event("c", None, before)
    for before, row in zip(scheduled, rows, strict=True):
        if row["dep_time"] is None:
            yield _event("d", before, None)
        elif row["id"] == RENUMBERED:
            yield _event("u", before, {**_shown(row), "id": FLIGHTS + RENUMBERED})
        else:
            yield _event("u", before, _shown(row))


def _shown(row: Row) -> Row:
    return {name: row[name] for name in COLUMNS}


def _event(operation: str, before: Row | None, after: Row | None) -> Event:
    return {"before": before, "after": after, "source": _SOURCE, "op": operation}
