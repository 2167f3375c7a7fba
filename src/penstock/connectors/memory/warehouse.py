"""The state of memory tables: snapshots with parents, properties, tags and files, as Iceberg's.

Invariants:
- a table changes by `Stored.apply` only: one compare-and-set on head and schema, under one lock;
- properties survive a rollback, summaries go with their snapshot, a tagged snapshot never expires:
  so the witnesses disagree here in the very ways they do in Iceberg (protocol.md 3).
"""

from __future__ import annotations

import io
import itertools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core import table_errors
from penstock.core.commits import Committable, DataFile
from penstock.core.schema import Schema
from penstock.core.sweeps import StoredObject
from penstock.files.sources import COORDINATES

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}(\.[A-Za-z_][A-Za-z0-9_]{0,127}){1,7}")

START_MS = 1_700_000_000_000

Row = Mapping[str, Any]
NOTHING: Mapping[str, frozenset[int]] = {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table, and the commit that made it: none for a foreign one.

    `deleted` are positions of rows by the paths of their files. One that rearranged files of ours
    `vouches` for the ledgers as they were.
    """

    id: str
    parent: str | None
    timestamp_ms: int
    files: tuple[DataFile, ...]
    commit: Committable | None = None
    deleted: Mapping[str, frozenset[int]] = field(default_factory=dict)
    vouches: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """Everything a table is at one moment; replaced as a whole."""

    uuid: str
    schema: Schema
    schema_id: int = 0
    head: str | None = None
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    ledgers: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    log: tuple[str, ...] = ()
    era: int = 0

    @property
    def files(self) -> tuple[DataFile, ...]:
        """List the live files."""
        return () if self.head is None else self.snapshots[self.head].files

    @property
    def deleted(self) -> Mapping[str, frozenset[int]]:
        """The positions of deleted rows, by the paths of live files."""
        return {} if self.head is None else self.snapshots[self.head].deleted

    def ancestry(self) -> Iterator[Snapshot]:
        """Walk from the head to the oldest snapshot that can still be read."""
        at = self.head
        while at is not None and at in self.snapshots:
            snapshot = self.snapshots[at]
            yield snapshot
            at = snapshot.parent

    @property
    def broken(self) -> bool:
        """Return whether the ancestry ends at an expired snapshot."""
        oldest = list(self.ancestry())[-1:]
        return any(snapshot.parent is not None for snapshot in oldest)

    def with_snapshot(self, snapshot: Snapshot) -> Contents:
        """Add a snapshot and make it the head."""
        return replace(
            self,
            head=snapshot.id,
            snapshots={**self.snapshots, snapshot.id: snapshot},
            log=(*self.log, snapshot.id),
        )


@dataclass(slots=True)
class Stored:
    """One table as the catalog keeps it: the only mutable thing of a table."""

    contents: Contents
    guard: threading.Lock

    def apply(self, base: Contents, changed: Contents) -> None:
        """Put `changed` in place of `base`. Raises ConflictError when the table has moved."""
        with self.guard:
            if self.contents is not base:
                raise table_errors.moved("the table", f"from {base.head} to {self.contents.head}")
            self.contents = changed


class Warehouse:
    """Keep the tables and files of one catalog; shared by all that open it in this process."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._tables: dict[str, Stored] = {}
        self._numbers = itertools.count(1)
        self._files: dict[str, tuple[tuple[Row, ...], int]] = {}
        self._kept_ms: dict[str, int] = {}
        self.waited_ms = 0
        self.notes: dict[tuple[str, str], str] = {}

    def number(self) -> int:
        """Return a number never given before: for ids, and for times that move by a millisecond."""
        return next(self._numbers)

    def names(self) -> list[str]:
        """List the tables that can be found."""
        with self._guard:
            return sorted(name for name in self._tables if self.find(name) is not None)

    def find(self, name: str) -> Stored | None:
        """Find a table by name."""
        with self._guard:
            return self._tables.get(name)

    def put(self, name: str, contents: Contents) -> Stored:
        """Add a table, or return the one that exists."""
        with self._guard:
            return self._tables.setdefault(name, Stored(contents, threading.Lock()))

    def get(self, name: str) -> Stored:
        """Find a table that must be there. Raises UnavailableError."""
        stored = self.find(name)
        if stored is None:
            raise table_errors.missing(name)
        return stored

    def keep_file(self, path: str, rows: Sequence[Row], size_bytes: int) -> None:
        """Put a file on storage."""
        with self._guard:
            self._files[path] = (tuple(rows), size_bytes)
            self._kept_ms[path] = self.now_ms()

    def now_ms(self) -> int:
        """Return the time by the storage's clock: a millisecond a number, and long waits."""
        return START_MS + self.waited_ms + self.number()

    def stored(self, name: str) -> list[StoredObject]:
        """List the files on storage that were written for a table."""
        with self._guard:
            return [
                StoredObject(path, size_bytes, self._kept_ms[path])
                for path, (_, size_bytes) in self._files.items()
                if path.startswith(f"{directory_of(name)}/")
            ]

    def delete_file(self, path: str) -> bool:
        """Remove a file from storage; return whether it was there."""
        with self._guard:
            return self._files.pop(path, None) is not None

    def file_size(self, path: str) -> int | None:
        """Return the size of a file on storage, or None."""
        with self._guard:
            found = self._files.get(path)
            return None if found is None else found[1]

    def rows_of(
        self, files: Sequence[DataFile], deleted: Mapping[str, frozenset[int]] = NOTHING
    ) -> list[Row]:
        """Read live rows of files. Raises UnavailableError when a file is missing."""
        with self._guard:
            missing = [file.path for file in files if file.path not in self._files]
            if missing:
                raise table_errors.file_missing("the table", missing[0])
            return [
                row
                for file in files
                for position, row in enumerate(self._files[file.path][0])
                if position not in deleted.get(file.path, ())
            ]

    def opened(self, file: DataFile) -> io.BytesIO:
        """Open a file as Parquet with as many records. Raises FileNotFoundError."""
        if self.file_size(file.path) is None:
            raise FileNotFoundError(file.path)
        found = io.BytesIO()
        pq.write_table(pa.table({"row": [*range(len(self.rows_of([file])))]}), found)
        return found

    def rows(self, name: str) -> list[Row]:
        """Read all live rows of a table."""
        contents = self.get(name).contents
        return self.rows_of(contents.files, contents.deleted)

    def drop(self, name: str) -> None:
        """Drop a table; its files stay on storage."""
        with self._guard:
            self._tables.pop(name)


def directory_of(name: str) -> str:
    """Return where the files of a table are."""
    return f"memory:///{name}"


def coordinates_of(rows: Sequence[Row], columns: Mapping[str, str]) -> pa.Table:
    """Return the source coordinates of rows; `columns` names the three."""
    named = [{name: row[columns[name]] for name in COORDINATES.names} for row in rows]
    return pa.Table.from_pylist(named, COORDINATES)


def bounds_and_nulls(rows: Sequence[Row]) -> tuple[dict[str, tuple[Any, Any]], dict[str, int]]:
    """Return least and greatest values of numbers and texts, and how many nulls columns have."""
    values = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    known = {name: [v for v in each if v is not None] for name, each in values.items()}
    bounds = {
        name: (min(each), max(each))
        for name, each in known.items()
        if each and isinstance(each[0], int | str)
    }
    return bounds, {name: len(each) - len(known[name]) for name, each in values.items()}
