"""One Delta table on the driver: its newest version examined, and the next one committed.

Invariants:
- a state commits once at most, as exactly the version after its own; what is read is the log's
  newest version each time (tail.py);
- if anything else took that version, even another writer's append, it is a conflict: the table is
  examined again;
- the log entry a state was read at must still be there when it is committed to: a table dropped and
  made again takes no old commit;
- what a commit landed as is read back from the log and, on a local disk, synced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as Handle

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.files.file_metadata import additions
from penstock.connectors.delta.files.storage_check import missing_in
from penstock.connectors.delta.locations import StorageRoot
from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.beside import words_beside
from penstock.connectors.delta.log.commit_file import entry_of
from penstock.connectors.delta.log.entries import Actions, newest_of, vouchers, words_of
from penstock.connectors.delta.log.judging import judged
from penstock.connectors.delta.log.next_version import put_next
from penstock.connectors.delta.log.table_metadata import texts_among
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.connectors.delta.read.facts import facts_of, layout_of
from penstock.connectors.delta.read.file_sources import removals, sources_of
from penstock.connectors.delta.read.history import commits_behind, history_of
from penstock.connectors.delta.read.live_map import LiveMap
from penstock.connectors.delta.read.live_rows import live_rows, rows_of
from penstock.connectors.delta.read.metadata_values import stated_files
from penstock.connectors.delta.read.scan import coordinates_of, refused_in, scanned
from penstock.connectors.delta.read.table_rows import detail_of, work_of
from penstock.connectors.delta.rearrange import proven, rearrangement
from penstock.connectors.delta.row_deletes import (
    RowDelta,
    entry_of_delta,
    own_files,
    row_delta,
    touched_by,
)
from penstock.connectors.delta.schema.features import (
    WIDENING,
    require_row_deletes,
    widens_types,
)
from penstock.connectors.delta.schema.reserved_names import reserved
from penstock.connectors.delta.schema.schema_change import schema_entry
from penstock.connectors.delta.upkeep import DeltaUpkeep, housekeep
from penstock.connectors.delta.vectors.deleted_rows import DeletedRows
from penstock.core import table_errors
from penstock.core.commits import DELETES_ROWS, Chain, Committable, DataFile, Landed
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import OutcomeUnknownError
from penstock.core.maintenance import Layout
from penstock.core.schema import Schema
from penstock.core.statistics import Mismatch
from penstock.files import FileOptions
from penstock.files.positions import NONE
from penstock.files.sources import COORDINATES, is_within
from penstock.ports import tables as ports
from penstock.ports.histories import CommitsBehind, History
from penstock.ports.increments import ReadableFiles
from penstock.ports.rearrangements import Rearrangement
from penstock.ports.row_deletes import LiveFile, RowDeleteMode, RowDeletes, RowPositions, Sought
from penstock.ports.runtime import Observer


@dataclass(slots=True)
class ExaminedState:
    """The view a state was read from, for one commit."""

    view: LogView = field(repr=False)
    used: bool = False


@dataclass(slots=True)
class DeltaTable:
    """One table; cheap to make, opens its log when it is first examined, and then follows it."""

    name: str
    root: StorageRoot
    observer: Observer = field(repr=False, compare=False)
    options: FileOptions = field(default_factory=FileOptions)
    _following: LogTail = field(init=False, repr=False, compare=False)
    _live: LiveMap = field(init=False, repr=False, compare=False)
    _deleted: DeletedRows = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._following = LogTail(self.name, self.root, self.options)
        self._live = LiveMap(self.name, self.root)
        self._deleted = DeletedRows(self.root, self.name)

    @property
    def location(self) -> str:
        """Return the table's directory."""
        return self.root.location(self.name)

    def state(self, chain: Chain) -> ports.TableState:
        """Read the newest version. Raises UnavailableError, InvalidError (P435, P436, P438)."""
        view = self._following.view()
        with reading(self.name):
            finding, view = judged(
                self._following, view, chain.name, lambda found: self._newest_is_live(found, chain)
            )
        form = view.form
        return ports.TableState(
            uuid=form.uuid,
            head=str(view.version),
            schema=form.target.schema,
            schema_id=form.schema_id,
            landed=finding.landed,
            verdict=finding.verdict,
            evidence=finding.evidence,
            target=form.target_text,
            not_empty=texts_among(form.partition_by, form.target.schema),
            reserved=reserved(form.configuration),
            demands=form.demands,
            can_widen=widens_types(form.configuration, form.features),
            row_ids=form.row_ids,
            handle=ExaminedState(view),
        )

    def commit(
        self,
        state: ports.TableState,
        commit: Committable,
        *,
        retain: int,
        row_deletes: Sequence[RowDeletes] = (),
    ) -> str:
        """Land files, progress and ledger as the next version; `retain` does nothing here."""
        del retain
        found: ExaminedState = state.handle
        view = found.view
        if commit.table_uuid != state.uuid:
            raise table_errors.moved(self.name, "it was created again")
        version = view.version + 1
        added = additions(commit.files, view.form.target)
        if row_deletes:
            delta = self._row_delta(found, commit, added, row_deletes)
            words = words_of(state, commit, newest_of(commit, delta.added, delta.renewed), version)
            actions = entry_of_delta(*words, delta)
        else:
            removed = []
            if commit.removes:
                removed = removals(self.name, view.form, self._live.by_path(view), commit.removes)
            words = words_of(state, commit, newest_of(commit, added), version)
            beside = words_beside(self._following, view, commit, self._newest_is_live)
            actions = entry_of(*words, added, removed, beside=[*beside])
        self._put(found, actions)
        return str(version)

    def require_row_deletes(
        self, state: ports.TableState, mode: RowDeleteMode = RowDeleteMode.AUTO
    ) -> None:
        """Refuse (P436) a table of kept rows, or one that lacks the vectors its mode needs."""
        view: LogView = state.handle.view
        require_row_deletes(self.name, view.form.configuration, view.form.features, mode)

    def live_files(self, state: ports.TableState) -> Sequence[LiveFile]:
        """List the live data files of a state, with the bounds in the log."""
        return [each.file for each in self._live.files(state.handle.view).values()]

    def upkeep(self, state: ports.TableState) -> DeltaUpkeep:
        """Return what finds files that the log does not name."""
        view, put = state.handle.view, partial(self._put, state.handle)
        return DeltaUpkeep(self.name, self.root, self._following, view, put)

    def require_rearrangeable(self, state: ports.TableState) -> None:
        """Refuse a table with a chain that the log does not prove."""
        proven(self._following, state.handle.view)

    def delete_states(self, state: ports.TableState, paths: Collection[str]) -> Mapping[str, str]:
        """Return the vectors of live files."""
        live = self._live.files(state.handle.view)
        return {each: live[each].file.delete_state for each in paths if each in live}

    def deleted_rows(self, state: ports.TableState, path: str) -> RowPositions:
        """Return which rows of a live file are deleted, by its vector."""
        return self._deleted.of(self._live.files(state.handle.view)[path].add)

    def readable(self, state: ports.TableState, paths: Sequence[str]) -> ReadableFiles:
        """Return how workers read live files, by their vectors."""
        view: LogView = state.handle.view
        adds = (self._live.files(view)[each].add for each in paths)
        found = [detail_of(self.root, self.name, add, self._deleted.of(add)) for add in adds]
        return ReadableFiles(work_of(view.form.target_text, view.form.row_ids), tuple(found))

    def rearrange(self, state: ports.TableState, rearrangements: Sequence[Rearrangement]) -> str:
        """Put files in the place of others as the next version, an OPTIMIZE."""
        found: ExaminedState = state.handle
        view = proven(self._following, found.view)
        live = self._live.files(view)
        deleting = partial(self._deleting, found)
        self._put(found, rearrangement(self.name, view, live, rearrangements, deleting))
        return str(view.version + 1)

    def layout(self, state: ports.TableState) -> Layout:
        """List how the live data files of a state lie, by the log."""
        with reading(self.name):
            return layout_of(state.handle.view, self._live, self._following.log)

    def read_live(
        self,
        state: ports.TableState,
        file: LiveFile,
        columns: Sequence[str],
        sought: Sought | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of live rows. Raises UnavailableError, InvalidError (P435 no column)."""
        view: LogView = state.handle.view
        form, add = view.form, self._live.files(view)[file.path].add
        deleted = self._deleted.of(add)
        return live_rows(self.root, self.name, form, add, columns, deleted=deleted, sought=sought)

    def read_written(
        self, state: ports.TableState, file: DataFile, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of a file that is described and has not landed."""
        form = state.handle.view.form
        [add] = additions([file], form.target)
        return live_rows(self.root, self.name, form, add, columns, deleted=NONE)

    def evolve(self, state: ports.TableState, schema: Schema) -> None:
        """Add columns as the version after the one examined."""
        with reading(self.name):
            handle = self._following.handle(state.handle.view)
            change = schema_entry(self.name, handle, state, schema)
        try:
            self._put(state.handle, change)
        finally:
            self._following.forget()

    def missing_files(self, files: Sequence[DataFile]) -> Sequence[str]:
        """List the paths that are not on storage with the size described."""
        with reading(self.name):
            return missing_in(self.root, self.location, files)

    def history(self, chain: Chain, state: ports.TableState | None = None) -> History:
        """Return the chain's commits from the log entries that still exist."""
        with reading(self.name):
            view = self._following.view() if state is None else state.handle.view
            handle, overlooked = self._following.handle(view), self._live.overlooked(view)
            return history_of(self._following.log, handle, chain, overlooked)

    def commits(self, chain: Chain, state: ports.TableState, behind: str = "") -> CommitsBehind:
        """Return commits from the entries of the log behind a version."""
        with reading(self.name):
            return commits_behind(self._following.log, state.handle.view.version, chain, behind)

    def quarantined(
        self, chain: Chain, ranges: Sequence[Sequence[Any]]
    ) -> Sequence[tuple[str, int, int]]:
        """Find the coordinates that are in quarantine for the chain's table."""
        return [
            (row["topic_id"], row["partition"], row["offset"])
            for batch in self.read_quarantine(chain, ("topic_id", "partition", "offset"), ranges)
            for row in batch.to_pylist()
            if is_within(row, ranges)
        ]

    def read_quarantine(
        self,
        chain: Chain,
        columns: Sequence[str],
        ranges: Sequence[Sequence[Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows of the quarantine. Raises UnavailableError, InvalidError."""
        if ranges is not None and not ranges:
            return
        asked = [*dict.fromkeys(("pipeline", "table", "offset", *columns))]
        rows = self._rows(self._following.view(), asked, ranges)
        yield from refused_in(rows, chain.name, columns)

    def row_coordinates(
        self,
        columns: Mapping[str, str],
        state: ports.TableState | None = None,
        offsets: pa.Array | None = None,
    ) -> pa.Table:
        """Read every live row's source coordinates, or those at some offsets."""
        view = self._following.view() if state is None else state.handle.view
        names = [columns[each] for each in COORDINATES.names]
        return coordinates_of(self._rows(view, names), columns, offsets)

    def file_sources(
        self,
        state: ports.TableState,
        columns: Mapping[str, str],
        ends: Mapping[tuple[str, int], int],
    ) -> Sequence[ports.FileSource]:
        """Read the source columns of files. Raises InvalidError (P435, P436), UnavailableError."""
        form = state.handle.view.form
        live = self._live.by_path(state.handle.view)
        with reading(self.name):
            return sources_of(
                self.root, self.name, form, live, deleted=self._deleted, columns=columns, ends=ends
            )

    def stated(self) -> Iterator[ports.StatedFile | Mismatch]:
        """Yield what the log says about live data files."""
        with reading(self.name):
            yield from stated_files(self.name, self._open(), self._following.log, self.root)

    def ledgers(self, state: ports.TableState) -> Sequence[Landed]:
        """Read the ledgers of all chains from the transactions of a state."""
        return ledger.ledgers_in(state.handle.view.transactions)

    def describe(self) -> ports.TableFacts:
        """Return format, features, versions since the last checkpoint. Raises UnavailableError."""
        view = self._following.view()
        with reading(self.name):
            (info,) = self.root.filesystem().get_file_info([self._following.log.path(view.version)])
        return facts_of(view, self._live.adds(view).values(), info.mtime_ns)

    def housekeep(self) -> None:
        """Write a checkpoint and clean up the log as the table's own properties say."""
        housekeep(self._following)

    def application_version(self, app_id: str) -> int | None:
        """Return the newest version that another application recorded with a commit, or None."""
        with reading(self.name):
            found: int | None = self._open().transaction_version(app_id)
            return found

    def _newest_is_live(self, view: LogView, chain: Chain) -> bool | None:
        """Return whether the newest file we landed is live, None where we landed none."""
        landed = view.transactions.get(ledger.app_id(chain.name, ledger.FILE))
        if landed is None:
            return None
        live = self._live.adds(view)
        return any(ledger.file_hash(each) == landed for key in live for each in vouchers(*key))

    def _row_delta(
        self,
        state: ExaminedState,
        commit: Committable,
        added: Sequence[Mapping[str, Any]],
        row_deletes: Sequence[RowDeletes],
    ) -> RowDelta:
        """Check row deletes against a state, and write their vectors."""
        assert commit.kind in DELETES_ROWS, f"a {commit.kind} deletes no rows"
        again = [file for each in row_deletes for file in each.rewritten or ()]
        copies = additions(again, state.view.form.target) if again else []
        delta = self._deleting(state, commit.files, added, row_deletes)
        self.observer.passed(CrashPoint.ROW_DELETES_WRITTEN)
        return replace(delta, added=[*copies, *delta.added])

    def _deleting(
        self,
        state: ExaminedState,
        files: Sequence[DataFile],
        added: Sequence[Mapping[str, Any]],
        row_deletes: Sequence[RowDeletes],
    ) -> RowDelta:
        """Write the vectors of live files, or of files that are about to be added."""
        view = state.view
        rewritten = all(each.rewritten is not None for each in row_deletes)
        mode = RowDeleteMode.REWRITE if rewritten else RowDeleteMode.AUTO
        require_row_deletes(self.name, view.form.configuration, view.form.features, mode)
        own, live = own_files(files, added), self._live.files(view)
        touched = touched_by(self._deleted, self.name, live, own, row_deletes)
        with reading(self.name):
            taken = self._following.log.raw(view.version + 1) is not None
        if taken:  # found out now, no vector has been written for nothing
            raise table_errors.moved(self.name, f"version {view.version + 1} is another commit")
        return row_delta(self.root, self.name, added, touched, self._deleted)

    def _rows(
        self, view: LogView, columns: list[str], ranges: Sequence[Sequence[Any]] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of live rows, by ourselves where the library cannot read the table."""
        if WIDENING not in view.form.features:
            return scanned(self._following.handle(view), self.name, columns, ranges)
        files = self._live.files(view).values()
        return rows_of(self.root, self.name, view.form, files, columns, deleted=self._deleted)

    def _open(self) -> Handle:
        with reading(self.name):
            return Handle(self.location, storage_options=dict(self.root.options))

    def _put(self, state: ExaminedState, actions: Actions) -> None:
        if state.used:
            raise table_errors.moved(self.name, "a commit was tried on this state before")
        state.used = True
        try:
            put_next(self._following, state.view, actions)
        except OutcomeUnknownError:
            self._following.forget()
            raise
