"""Table formats in memory, with the witnesses of Iceberg: summaries, a property, a tag.

Invariants: those of `ports/tables.py`, proven by the contract suite.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connectors.memory.file_rows import placed, readable
from penstock.connectors.memory.ledger import (
    commits_behind,
    history_of,
    require_vouched,
    trimmed,
    verdict_of,
    with_ledger,
)
from penstock.connectors.memory.row_deletes import (
    delete_state,
    delete_states,
    deleted_of,
    last_maintenance,
    rearranged,
)
from penstock.connectors.memory.upkeep import MemoryUpkeep
from penstock.connectors.memory.warehouse import (
    NAME,
    START_MS,
    Contents,
    Snapshot,
    Warehouse,
    bounds_and_nulls,
    coordinates_of,
    directory_of,
)
from penstock.connectors.memory.writer import MemoryWriter
from penstock.core import table_errors
from penstock.core.commits import Chain, Committable, DataFile, Landed
from penstock.core.key_columns import require_key_columns
from penstock.core.maintenance import Layout, StoredFile
from penstock.core.schema import Schema
from penstock.core.scratch import require_scratch
from penstock.core.serialization import ledger_from_json, ledger_to_json
from penstock.core.statistics import FileStatistics
from penstock.files.sources import is_within, source_of
from penstock.ports import tables as ports
from penstock.ports import writers
from penstock.ports.histories import CommitsBehind, History
from penstock.ports.increments import ReadableFiles
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import (
    LiveFile,
    RowDeleteMode,
    RowDeletes,
    RowPositions,
    Sought,
)
from penstock.ports.runtime import Observer

TARGET_BYTES = 256 << 20


class MemoryTables:
    """One catalog over a warehouse; several may be opened over the same one."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def load(self, name: str) -> MemoryTable | None:
        """Find a table; None when there is none."""
        if self._warehouse.find(name) is None:
            return None
        return MemoryTable(self._warehouse, name)

    def create(
        self, name: str, definition: ports.TableDefinition, ledgers: Sequence[Landed]
    ) -> MemoryTable:
        """Create a table with its ledgers, or return the existing one."""
        self.preview(name, definition)
        texts = {landed.chain: ledger_to_json(landed) for landed in ledgers}
        uuid = f"table-{self._warehouse.number()}"
        self._warehouse.put(name, Contents(uuid, definition.schema, ledgers=texts))
        return MemoryTable(self._warehouse, name)

    def require_properties(self, name: str, properties: Mapping[str, str]) -> None:
        """Take any."""

    def preview(self, name: str, definition: ports.TableDefinition) -> ports.TableState:
        """Take any definition. Raises InvalidError: P404 for a name of other characters, P434 for
        columns that cannot be of a key.
        """
        if not NAME.fullmatch(name):
            raise table_errors.bad_name(name)
        require_key_columns(name, definition.schema, definition.keys)
        return replace(ports.not_created(definition.schema), can_widen=True)

    def names(self, namespace: str) -> Sequence[str]:
        """List the tables in a namespace."""
        above = f"{namespace}."
        return [
            name
            for name in self._warehouse.names()
            if name.startswith(above) and "." not in name.removeprefix(above)
        ]

    def discard(self, name: str) -> None:
        """Drop a scratch table."""
        require_scratch(name)
        if self._warehouse.find(name) is not None:
            self._warehouse.drop(name)

    def check(self) -> None:
        """Answer."""

    def close(self) -> None:
        """Let go of nothing."""

    def open_writer(
        self,
        target: str,
        *,
        prefix: str,
        observer: Observer,
        places: bool = False,
        placing: writers.Placing = writers.AS_THEY_COME,
    ) -> writers.FileWriter:
        """Open a writer of rows kept in memory, which knows their places by itself."""
        del places, placing
        name = json.loads(target)["table"]
        path = f"{directory_of(name)}/{prefix}-{self._warehouse.number():016x}.parquet"
        return MemoryWriter(self._warehouse, path, observer)


class MemoryTable:
    """One table of a warehouse."""

    def __init__(self, warehouse: Warehouse, name: str) -> None:
        self.name = name
        self._warehouse = warehouse

    def state(self, chain: Chain) -> ports.TableState:
        """Read the table and evaluate the witnesses of a chain."""
        contents = self._warehouse.get(self.name).contents
        text = contents.ledgers.get(chain.name)
        landed = None if text is None else ledger_from_json(text)
        verdict, evidence = verdict_of(contents, chain, landed)
        return ports.TableState(
            uuid=contents.uuid,
            head=str(contents.head),
            schema=contents.schema,
            schema_id=contents.schema_id,
            landed=landed,
            verdict=verdict,
            evidence=evidence,
            target=json.dumps({"v": 1, "table": self.name}),
            handle=contents,
            can_widen=True,
        )

    def commit(
        self,
        state: ports.TableState,
        commit: Committable,
        *,
        retain: int,
        row_deletes: Sequence[RowDeletes] = (),
    ) -> str:
        """Land a commit on exactly the contents that were examined."""
        base: Contents = state.handle
        stored = self._warehouse.get(self.name)
        if stored.contents.uuid != base.uuid:
            raise table_errors.moved(self.name, "it was created again")
        if commit.schema_id != base.schema_id and commit.files:
            raise table_errors.moved(self.name, "its schema changed")
        number = self._warehouse.number()
        removed = set(commit.removes)
        if lost := removed - {file.path for file in base.files}:
            raise table_errors.not_live(self.name, min(lost))
        files = (*(file for file in base.files if file.path not in removed), *commit.files)
        deleted = deleted_of(self.name, base, files, row_deletes)
        again = {each.path: each.rewritten for each in row_deletes if each.rewritten is not None}
        files = tuple(
            file
            for file in files
            if file.path not in again and len(deleted[file.path]) < file.record_count
        )
        files = (*files, *itertools.chain.from_iterable(again.values()))
        kept = {file.path: deleted[file.path] for file in files if deleted.get(file.path)}
        snapshot = Snapshot(f"s{number}", base.head, START_MS + number, files, commit, kept)
        changed = trimmed(with_ledger(base, state, commit, snapshot), retain)
        stored.apply(base, changed)
        return snapshot.id

    def require_row_deletes(
        self, state: ports.TableState, mode: RowDeleteMode = RowDeleteMode.AUTO
    ) -> None:
        """Take any."""
        del state, mode

    def live_files(self, state: ports.TableState) -> Sequence[LiveFile]:
        """List the files of a state."""
        contents: Contents = state.handle
        found = ((file, contents.deleted.get(file.path, frozenset())) for file in contents.files)
        return [
            LiveFile(
                file.path,
                file.record_count,
                file.size_bytes,
                len(deleted),
                delete_state(deleted),
                *bounds_and_nulls(self._warehouse.rows_of([file])),
            )
            for file, deleted in found
        ]

    def layout(self, state: ports.TableState) -> Layout:
        """List the files of a state: all are of one partition, and no metadata is on storage."""
        live = self.live_files(state)
        stored = [StoredFile(f.path, "", f.rows, f.size_bytes, f.deleted) for f in live]
        return Layout(stored, TARGET_BYTES, 0, maintained=last_maintenance(state.handle))

    def upkeep(self, state: ports.TableState) -> MemoryUpkeep:
        """Return what keeps the table small."""
        return MemoryUpkeep(self._warehouse, self.name, state.handle)

    def require_rearrangeable(self, state: ports.TableState) -> None:
        """Refuse a table with a chain that was rolled back, or of which nobody can tell (P846)."""
        require_vouched(self.name, state.handle)

    def delete_states(self, state: ports.TableState, paths: Collection[str]) -> Mapping[str, str]:
        """Return which rows of live files are deleted."""
        contents: Contents = state.handle
        return delete_states(contents, paths)

    def deleted_rows(self, state: ports.TableState, path: str) -> RowPositions:
        """Return which rows of a live file are deleted."""
        contents: Contents = state.handle
        return np.array(sorted(contents.deleted.get(path, ())), np.int64)

    def readable(self, state: ports.TableState, paths: Sequence[str]) -> ReadableFiles:
        """Return how workers read live files."""
        contents: Contents = state.handle
        return readable(contents.schema.names, contents.deleted, paths)

    def rearrange(self, state: ports.TableState, rearrangements: Sequence[Rearrangement]) -> str:
        """Put files in the place of others, on exactly the contents that were examined."""
        base: Contents = state.handle
        self.require_rearrangeable(state)
        number = self._warehouse.number()
        changed = rearranged(self.name, base, rearrangements, number)
        self._warehouse.get(self.name).apply(base, changed)
        return str(changed.head)

    def read_live(
        self,
        state: ports.TableState,
        file: LiveFile,
        columns: Sequence[str],
        sought: Sought | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of live rows, with their positions."""
        contents: Contents = state.handle
        if missing := [name for name in columns if contents.schema.field(name) is None]:
            raise table_errors.no_column(self.name, missing[0])
        deleted = contents.deleted.get(file.path, frozenset())
        rows = placed(self._warehouse, file.path, columns)
        if rows:
            written = pa.RecordBatch.from_pylist(rows)
            wanted = range(len(rows)) if sought is None else sought(written).tolist()
            if places := [each for each in wanted if each not in deleted]:
                yield written.take(pa.array(places))

    def read_written(
        self, state: ports.TableState, file: DataFile, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of a file on storage."""
        del state
        yield pa.RecordBatch.from_pylist(placed(self._warehouse, file.path, columns))

    def evolve(self, state: ports.TableState, schema: Schema) -> None:
        """Replace the table's columns, if it is as it was examined."""
        base: Contents = state.handle
        changed = replace(base, schema=schema, schema_id=base.schema_id + 1)
        self._warehouse.get(self.name).apply(base, changed)

    def missing_files(self, files: Sequence[DataFile]) -> Sequence[str]:
        """List the paths that are not on storage with the size described."""
        sizes = [(file, self._warehouse.file_size(file.path)) for file in files]
        return [file.path for file, size in sizes if size != file.size_bytes]

    def history(self, chain: Chain, state: ports.TableState | None = None) -> History:
        """Return the chain's commits on the ancestry of the head."""
        return history_of(self._contents(state), chain)

    def commits(self, chain: Chain, state: ports.TableState, behind: str = "") -> CommitsBehind:
        """Return the chain's commits behind a snapshot."""
        return commits_behind(self._contents(state), chain, behind)

    def quarantined(
        self, chain: Chain, ranges: Sequence[Sequence[Any]]
    ) -> Sequence[tuple[str, int, int]]:
        """Find the coordinates that are in quarantine for the chain's table."""
        pipeline, _, table = chain.name.partition("/")
        return [
            (row["topic_id"], row["partition"], row["offset"])
            for row in self._warehouse.rows(self.name)
            if (row["pipeline"], row["table"]) == (pipeline, table) and is_within(row, ranges)
        ]

    def read_quarantine(
        self,
        chain: Chain,
        columns: Sequence[str],
        ranges: Sequence[Sequence[Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of the rows of a chain's table, or of all tables of a pipeline."""
        pipeline, _, table = chain.name.partition("/")
        rows = [
            {name: row[name] for name in columns}
            for row in self._warehouse.rows(self.name)
            if row["pipeline"] == pipeline
            and table in ("*", row["table"])
            and (ranges is None or is_within(row, ranges))
        ]
        if rows:
            yield pa.RecordBatch.from_pylist(rows)

    def row_coordinates(
        self,
        columns: Mapping[str, str],
        state: ports.TableState | None = None,
        offsets: pa.Array | None = None,
    ) -> pa.Table:
        """Read every live row's source coordinates, or those at some offsets."""
        contents = self._contents(state)
        rows = self._warehouse.rows_of(contents.files, contents.deleted)
        if offsets is not None:
            wanted = {*offsets.to_pylist()}
            rows = [row for row in rows if row[columns["offset"]] in wanted]
        return coordinates_of(rows, columns)

    def file_sources(
        self,
        state: ports.TableState,
        columns: Mapping[str, str],
        ends: Mapping[tuple[str, int], int],
    ) -> Sequence[ports.FileSource]:
        """Read the source columns of all files."""
        del ends
        contents: Contents = state.handle
        return [
            source_of(
                file.path,
                coordinates_of(self._warehouse.rows_of([file], contents.deleted), columns),
                altered=file.path in contents.deleted,
            )
            for file in contents.files
        ]

    def stated(self) -> Iterator[ports.StatedFile]:
        """Yield how many records each file has; opened, it is Parquet."""
        for file in self._warehouse.get(self.name).contents.files:
            opened = partial(self._warehouse.opened, file)
            yield ports.StatedFile(FileStatistics(file.path, file.record_count), opened)

    def ledgers(self, state: ports.TableState) -> Sequence[Landed]:
        """Return all ledgers."""
        contents: Contents = state.handle
        return [ledger_from_json(text) for text in contents.ledgers.values()]

    def describe(self) -> ports.TableFacts:
        """Count the snapshots."""
        contents = self._warehouse.get(self.name).contents
        deleted = sum(map(len, contents.deleted.values()))
        rows = sum(each.record_count for each in contents.files) - deleted
        kept, files = len(contents.snapshots), len(contents.files)
        return ports.TableFacts("in memory", kept, "snapshots", rows=rows, files=files)

    def housekeep(self) -> None:
        """Do nothing: there is nothing to tidy."""

    def _contents(self, state: ports.TableState | None) -> Contents:
        found: Contents = self._warehouse.get(self.name).contents if state is None else state.handle
        return found
