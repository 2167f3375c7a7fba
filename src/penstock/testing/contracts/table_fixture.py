"""The workbench of the table contract: what a connector's author gives, and the acts tests share.

A subclass of `TableContract` gives the hooks below; none of them is a mock: rows are read by the
format's own reader, foreign commits made by its own writer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pytest

from penstock.core.commits import Chain, Committable, DataFile, Landed
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import ConflictError, PenstockError
from penstock.core.schema import Schema
from penstock.observe.fanout import Observers
from penstock.ports.increments import FileRows
from penstock.ports.tables import Table, TableDefinition, TableFormat, TableState
from penstock.ports.writers import WriterFactory
from penstock.rows.arrow_types import arrow_schema
from penstock.testing.prepared import ORDERS, QUARANTINE, fence, orders, origin, prepared, rejects

RETAIN = 25
COLUMNS = {"topic": "_kafka_topic", "partition": "_kafka_partition", "offset": "_kafka_offset"}

Ranges = Mapping[int, tuple[int, int]]
Quiet = Observers
"""An observer of nothing: one made of none."""


class Meanwhile(Quiet):
    """An observer that lets something happen, once, when the first request is about to go out."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__()
        self._acts = [act]

    def passed(self, point: CrashPoint) -> None:
        """Act, if it is the point before a commit, and nothing has been done yet."""
        if point is CrashPoint.COMMIT_BEFORE and self._acts:
            self._acts.pop()()


class StillClock:
    """A clock that stands still: nothing waits."""

    def now_ms(self) -> int:
        """Return the beginning of 1970."""
        return 0

    def monotonic(self) -> float:
        """Return the same each time."""
        return 0.0

    def wait(self, seconds: float) -> None:
        """Go on at once."""
        del seconds


class TableBench:
    """The hooks a subclass gives, and the acts built on them."""

    name: ClassVar[str] = "bronze.orders"
    quarantine_name: ClassVar[str] = "ops.quarantine"
    chain: ClassVar[Chain] = Chain("shop", "lake.bronze.orders")
    trims: ClassVar[bool] = True
    """Whether the format removes own snapshots beyond `retain` in the commit."""
    refused: ClassVar[tuple[type[PenstockError], ...]] = (ConflictError,)
    """What a commit on a stale state raises. A catalog over a network adds OutcomeUnknownError:
    its refusal may be the answer to an earlier delivery of the same request (protocol.md 5)."""

    layouts: ClassVar[tuple[TableDefinition, ...]] = (
        TableDefinition(ORDERS),
        TableDefinition(ORDERS, partition_by=("name",)),
    )
    """Definitions of tables that differ in what decides which records fit."""

    # Hooks, to be given by the subclass.

    def open_catalog(self, place: Path) -> TableFormat:
        """Open the catalog in a directory; opened twice, both see the same tables."""
        raise NotImplementedError

    def open_writer(self) -> WriterFactory:
        """Return the connector's own factory of writers."""
        raise NotImplementedError

    def open_file_rows(self) -> FileRows:
        """Return what the connector's workers read files with."""
        raise NotImplementedError

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Read all live rows by the format's own reader, not through the port."""
        raise NotImplementedError

    def foreign_append(self, table: Table) -> None:
        """Append `foreign_row()` by the format's own writer, as another writer would."""
        raise NotImplementedError

    def roll_back(self, table: Table, snapshot: str) -> None:
        """Make `snapshot`, as `Table.commit` named it, current again by the format's own means."""
        raise NotImplementedError

    def drop(self, catalog: TableFormat, name: str) -> None:
        """Drop a table with its data, as another writer would."""
        raise NotImplementedError

    def snapshots(self, table: Table) -> list[str]:
        """List the ids of snapshots that can still be read; only asked for where `trims`."""
        raise NotImplementedError

    def local_path(self, table: Table, path: str) -> Path:
        """Find a data file on this machine; override where paths are not absolute or `file:`."""
        del table
        return Path(unquote(urlparse(path).path) if path.startswith("file:") else path)

    def remove_file(self, table: Table, path: str) -> None:
        """Remove a data file without the table's knowledge."""
        self.local_path(table, path).unlink()

    def truncate_file(self, table: Table, path: str) -> None:
        """Cut a data file to half without the table's knowledge."""
        local = self.local_path(table, path)
        os.truncate(local, local.stat().st_size // 2)

    # What the tests are given.

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        """Return the directory the test's catalog lives in."""
        return tmp_path

    @pytest.fixture
    def catalog(self, place: Path) -> Iterator[TableFormat]:
        """Open a fresh catalog."""
        opened = self.open_catalog(place)
        yield opened
        opened.close()

    @pytest.fixture
    def table(self, catalog: TableFormat) -> Table:
        """Create a table with a ledger that starts at 0 in two partitions."""
        return self.create(catalog, origin(self.chain, {0: 0, 1: 0}))

    # Acts.

    def create(self, catalog: TableFormat, *ledgers: Landed) -> Table:
        """Create the table of orders with its ledgers."""
        return catalog.create(self.name, TableDefinition(ORDERS), ledgers)

    def create_quarantine(self, catalog: TableFormat, *ledgers: Landed) -> Table:
        """Create the quarantine table with the ledgers of its chains."""
        return catalog.create(self.quarantine_name, TableDefinition(QUARANTINE), ledgers)

    def found(self, catalog: TableFormat, name: str = "") -> Table:
        """Load a table that is there."""
        table = catalog.load(name or self.name)
        assert table is not None
        return table

    def landed(self, table: Table, chain: Chain | None = None) -> Landed:
        """Read the ledger of a chain that has one."""
        landed = table.state(chain or self.chain).landed
        assert landed is not None
        return landed

    def write(self, state: TableState, rows: Sequence[Mapping[str, Any]]) -> tuple[DataFile, ...]:
        """Write rows through the connector's own writer."""
        writer = self.open_writer()(state.target, prefix="shop-1-0-0c0ffee0", observer=Quiet())
        writer.write(batch_of(state.schema, rows))
        return tuple(writer.close())

    def append(self, state: TableState, ranges: Ranges, **given: Any) -> Committable:
        """Write one row for each offset of the ranges and prepare their commit."""
        files = self.write(state, orders(ranges))
        return self.prepare(state, ranges, files=files, **given)

    def prepare(self, state: TableState, ranges: Ranges, **given: Any) -> Committable:
        """Prepare a commit for the state's table; an anchor when it has no files."""
        chain = given.pop("chain", self.chain)
        return prepared(chain, ranges, uuid=state.uuid, schema_id=state.schema_id, **given)

    def fence(self, state: TableState, **given: Any) -> Committable:
        """Prepare a fence for the state's table."""
        return fence(given.pop("chain", self.chain), uuid=state.uuid, **given)

    def land(self, table: Table, *ranges: Ranges, retain: int = RETAIN, **given: Any) -> str:
        """Write, prepare and commit one after another on fresh states; give the last snapshot."""
        snapshot = ""
        for each in ranges:
            state = table.state(self.chain)
            snapshot = table.commit(state, self.append(state, each, **given), retain=retain)
        return snapshot

    def anchor(self, table: Table, ranges: Ranges, chain: Chain | None = None, **given: Any) -> str:
        """Prepare and commit on a fresh state of a chain, without files unless some are given."""
        chain = chain or self.chain
        state = table.state(chain)
        return table.commit(state, self.prepare(state, ranges, chain=chain, **given), retain=RETAIN)

    def reject(self, table: Table, chain: Chain, coordinates: Sequence[tuple[int, int]]) -> str:
        """Land quarantine rows of a chain from offset 0 to 10 of partition 0."""
        files = self.write(table.state(chain), rejects(chain, coordinates))
        return self.anchor(table, {0: (0, 10)}, chain, files=files)

    def rolled_back(self, table: Table) -> None:
        """Land offsets 0 to 2, then up to 5, and take the latter back as another writer would."""
        first = self.land(table, {0: (0, 2)})
        self.land(table, {0: (2, 5)})
        self.roll_back(table, first)

    def ids(self, table: Table) -> list[int]:
        """List the ids of all live rows, ascending."""
        return sorted(row["id"] for row in self.rows(table))


def foreign_row() -> dict[str, Any]:
    """Return the row that another writer appends: the id -1 and no source columns."""
    return {**dict.fromkeys(ORDERS.names), "id": -1, "name": "foreign"}


def batch_of(schema: Schema, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return rows as a batch with the schema's columns; a column that a row lacks is null."""
    return pa.RecordBatch.from_pylist([dict(row) for row in rows], schema=arrow_schema(schema))
