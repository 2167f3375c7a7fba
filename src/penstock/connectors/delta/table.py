"""One Delta table on the driver: its newest version examined, and the next one committed.

Invariants:
- a state commits once at most, as exactly the version after its own; what is read is the log's
  newest version each time (tail.py);
- whatever took that version, a stranger's append too, is a conflict: the table is examined again;
- the log entry a state was read at must still be there when it is committed to: a table dropped and
  made again takes no old commit;
- what a commit landed as is read back from the log and, on a local disk, synced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as Handle
from deltalake.transaction import PostCommitHookProperties
from pyarrow import fs

from penstock.connectors.delta.errors import reading
from penstock.connectors.delta.files.file_metadata import Addition, Shape, additions, relative
from penstock.connectors.delta.locations import StorageRoot, storage_path
from penstock.connectors.delta.log import ledger
from penstock.connectors.delta.log.commit_file import (
    CommitActions,
    Removal,
    entry_of,
    put_if_absent,
)
from penstock.connectors.delta.log.reader import Entry
from penstock.connectors.delta.log.state import ExaminedState, examined
from penstock.connectors.delta.log.tail import LogTail, LogView
from penstock.connectors.delta.read import scan as readers
from penstock.connectors.delta.read.file_sources import removals, sources_of
from penstock.connectors.delta.read.metadata_values import stated_files
from penstock.connectors.delta.schema.features import demanded_by
from penstock.connectors.delta.schema.schema_change import schema_entry
from penstock.core import table_errors
from penstock.core.commits import (
    Chain,
    CommitKind,
    Committable,
    DataFile,
    Landed,
    first_ledger,
    landed_after,
)
from penstock.core.errors import BugError, OutcomeUnknownError
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.schema import Schema
from penstock.core.serialization import progress_from_json
from penstock.core.statistics import Mismatch
from penstock.files import ParquetOptions
from penstock.files.errors import told
from penstock.files.storage import Storage, missing_paths
from penstock.ports import tables as ports

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

_CHECKPOINT_EVERY = 100


@dataclass(slots=True)
class DeltaTable:
    """One table; cheap to make, opens its log when it is first examined, and then follows it."""

    name: str
    root: StorageRoot
    options: ParquetOptions = field(default_factory=ParquetOptions)
    _following: LogTail = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._following = LogTail(self.name, self.root, self.options)

    @property
    def location(self) -> str:
        """Return the table's directory."""
        return self.root.location(self.name)

    def state(self, chain: Chain) -> ports.TableState:
        """Read the newest version. Raises UnavailableError, InvalidError (P435, P436, P438)."""
        return examined(self.name, self._following, chain)

    def commit(self, state: ports.TableState, commit: Committable, *, retain: int) -> str:
        """Land files, progress and ledger as the next version; `retain` does nothing here."""
        del retain
        found: ExaminedState = state.handle
        view = found.view
        if commit.table_uuid != state.uuid:
            raise table_errors.moved(self.name, "it was created again")
        form = view.form
        shape = Shape(self.name, self.location, form.stored.schema, form.stored_partitions)
        added = additions(commit.files, shape)
        version = view.version + 1
        gone: Sequence[Removal] = ()
        if commit.removes:
            gone = removals(self.name, self._following.handle(view), view.form, commit.removes)
        body = entry_of(_words(state, commit, added, version), added, gone)
        try:
            self._put(found, body)
        except OutcomeUnknownError:
            self._following.forget()
            raise
        return str(version)

    def evolve(self, state: ports.TableState, schema: Schema) -> None:
        """Add columns as the version after the one examined."""
        found: ExaminedState = state.handle
        view = found.view
        handle = self._following.handle(view)
        with reading(self.name):
            body = schema_entry(self.name, handle, state.schema, schema)
        try:
            self._put(found, body)
        finally:
            self._following.forget()

    def missing_files(self, files: Sequence[DataFile]) -> Sequence[str]:
        """List the paths that are not on storage with the size described."""
        storage = self.root.filesystem()

        def size(file: DataFile) -> int | None:
            (info,) = storage.get_file_info([storage_path(file.path)])
            return info.size if info.type is fs.FileType.File else None

        with reading(self.name):
            missing = {*missing_paths(files, size)}
        return [
            file.path
            for file in files
            if file.path in missing or not relative(file.path, self.location)
        ]

    def history(self, chain: Chain, state: ports.TableState | None = None) -> ports.History:
        """Return the chain's commits from the log entries that still exist."""
        log, handle = self._following.log, self._at(state)
        newest = int(handle.version())
        with reading(self.name):
            paths = handle.file_uris()
            versions = [version for version in log.versions() if version <= newest]
            entries = [entry for version in versions if (entry := log.entry(version))]
        return ports.History(
            commits=[
                _record(entry, mark)
                for entry in entries
                if (mark := entry.mark(chain.name)) and mark["kind"] != ledger.CREATED
            ],
            complete=versions == list(range(len(versions))),
            paths=[path.removeprefix("file://") for path in paths],
            foreign_commits=sum(not entry.marks for entry in entries),
            began=_began(entries, chain) if versions == list(range(len(versions))) else {},
        )

    def quarantined(
        self, chain: Chain, ranges: Sequence[Sequence[Any]]
    ) -> Sequence[tuple[str, int, int]]:
        """Find the coordinates that are in quarantine for the chain's table."""
        return readers.quarantined(self._open(), self.name, chain, ranges)

    def read_quarantine(
        self,
        chain: Chain,
        columns: Sequence[str],
        ranges: Sequence[Sequence[Any]] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read rows of the quarantine. Raises UnavailableError, InvalidError."""
        return readers.refused(self._open(), self.name, chain, columns, ranges)

    def row_coordinates(
        self,
        columns: Mapping[str, str],
        state: ports.TableState | None = None,
        offsets: pa.Array | None = None,
    ) -> pa.Table:
        """Read every live row's source coordinates, or those at some offsets."""
        return readers.coordinates(self._at(state), self.name, columns, offsets)

    def file_sources(
        self,
        state: ports.TableState,
        columns: Mapping[str, str],
        ends: Mapping[tuple[str, int], int],
    ) -> Sequence[ports.FileSource]:
        """Read the source columns of files. Raises InvalidError (P436): deletion vectors."""
        found: ExaminedState = state.handle
        handle = self._following.handle(found.view)
        with reading(self.name):
            return sources_of(self.name, handle, self.root, columns, ends)

    def stated(self) -> Iterator[ports.StatedFile | Mismatch]:
        """Yield what the log says about live data files."""
        with reading(self.name):
            yield from stated_files(self.name, self._open(), self._following.log, self.root)

    def ledgers(self, state: ports.TableState) -> Sequence[Landed]:
        """Read the ledgers of all chains from the transactions of a state."""
        found: ExaminedState = state.handle
        return ledger.ledgers_in(found.view.transactions)

    def describe(self) -> ports.TableFacts:
        """Return format, features, versions since the last checkpoint. Raises UnavailableError."""
        view = self._following.view()
        handle = self._following.handle(view)
        with reading(self.name):
            version, features = demanded_by(handle)
            (info,) = self.root.filesystem().get_file_info([self._following.log.path(view.version)])
            rows = None if "deletionVectors" in features else _rows_in(handle)
        words = [f"Delta, writer version {version}", *features]
        if view.form.partition_by:
            words.append("partitioned by " + ", ".join(view.form.partition_by))
        stored_ms = info.mtime_ns // 1_000_000 if info.mtime_ns else None
        kept = view.version - view.checkpointed
        what = "versions since the last checkpoint"
        return ports.TableFacts(", ".join(words), kept, what, stored_ms, rows)

    def housekeep(self) -> None:
        """Write a checkpoint and clean up the log as the table's own properties say."""
        view = self._following.last()
        interval = view.form.configuration.get("delta.checkpointInterval", "")
        every = int(interval) if interval.isdecimal() else _CHECKPOINT_EVERY
        if view.version - view.checkpointed < max(every, 1):
            return
        handle = self._following.handle(view)
        with reading(self.name):
            handle.create_checkpoint()
            cleans = view.form.configuration.get("delta.enableExpiredLogCleanup", "true")
            if cleans.lower() == "true":
                handle.cleanup_metadata()

    def application_version(self, app_id: str) -> int | None:
        """Return the newest version that another application recorded with a commit, or None."""
        with reading(self.name):
            found: int | None = self._open().transaction_version(app_id)
            return found

    def _at(self, state: ports.TableState | None) -> Handle:
        """Open the version that was examined, or the newest one."""
        if state is None:
            return self._open()
        found: ExaminedState = state.handle
        return self._following.handle(found.view)

    def _open(self) -> Handle:
        with reading(self.name):
            return Handle(self.location, storage_options=dict(self.root.options))

    def _put(self, state: ExaminedState, body: bytes) -> None:
        """Put an entry behind the version that was examined, and read it back."""
        view = state.view
        state.consume(self.name)
        with reading(self.name):
            self._require_last(view)
        created = put_if_absent(self.root, self.name, view.version + 1, body)
        self._require_there(view, body, created=created)

    def _require_last(self, view: LogView) -> None:
        """Raise ConflictError unless the log is the one examined, and ends where it ended then."""
        log = self._following.log
        (head_entry, behind), checkpointed = log.looks(view.version, view.version + 2)
        if head_entry != view.head_entry:
            if log.is_there():
                raise table_errors.moved(self.name, "its log is another one")
            raise table_errors.missing(self.name)
        if checkpointed > view.version or behind is not None:
            self._following.forget()
            raise table_errors.moved(self.name, f"its log went on behind version {view.version}")

    def _require_there(self, view: LogView, body: bytes, *, created: bool) -> None:
        """Read the version after a view back and, where it is on a local disk, sync it.

        Raises ConflictError (another's), OutcomeUnknownError (nobody's, or below a checkpoint: it
        was cleaned away before, so ours does not count).
        """
        log, version = self._following.log, view.version + 1
        try:
            (found, before), checkpointed = log.looks(version, view.version)
            if found is not None and found != body:
                raise table_errors.moved(self.name, f"version {version} is another commit")
            if found is None or checkpointed >= version:
                made = "was made" if created else "was there"
                raise table_errors.in_doubt(
                    self.name, f"version {version} {made}, and the log does not say"
                )
            storage = Storage(self.root.filesystem())
            storage.sync(log.path(version))
            storage.sync_directories()
        except OSError as error:
            raise table_errors.in_doubt(self.name, told(error)) from error
        if before == view.head_entry:
            self._following.landed(view, body, checkpointed)


def _rows_in(handle: Handle) -> int | None:
    """Count the rows of a table by what its files' entries tell; None where one does not."""
    counts = pa.table(handle.get_add_actions(flatten=True))["num_records"]
    return None if counts.null_count else sum(counts.to_pylist())


def _words(
    state: ports.TableState, commit: Committable, added: Sequence[Addition], sequence: int
) -> CommitActions:
    """Return the transactions and the commit info of a commit on a state."""
    if state.verdict is ports.Verdict.ROLLED_BACK and commit.kind is CommitKind.FENCE:
        if state.landed is None:
            raise BugError(f"{commit.chain} is rolled back without a ledger", code="P702")
        mark = ledger.mark_of_commit(commit, state.landed, sequence, state.evidence)
        return CommitActions(ledger.fence_transactions(state.landed, sequence), mark)
    before = state.landed or first_ledger(
        commit.chain,
        commit.claim,
        commit.cluster_id,
        commit.rules_hash,
        commit.origins,
    )
    landed = landed_after(before, commit)
    paths = [each.path for each in added]
    transactions = ledger.transactions_of(landed, state.landed, sequence, paths)
    return CommitActions(transactions, ledger.mark_of_commit(commit, landed, sequence, ""))


def _began(entries: Sequence[Entry], chain: Chain) -> dict[TopicPartition, Offset]:
    """Return first positions by everything recorded of a chain since the first version."""
    began: dict[TopicPartition, Offset] = {}
    for mark in (mark for entry in entries if (mark := entry.mark(chain.name))):
        landed = ledger.landed_in(mark)
        moved = progress_from_json(mark.get("progress", []))
        known = {} if landed is None else landed.offsets
        began = {**known, **{at: covered.start for at, covered in moved.items()}, **began}
    return began


def _record(entry: Entry, mark: Mapping[str, Any]) -> ports.CommitRecord:
    return ports.CommitRecord(
        commit_id=str(mark.get("commit", "")),
        snapshot=str(entry.version),
        timestamp_ms=entry.timestamp_ms,
        kind=str(mark["kind"]),
        progress=list(mark.get("progress", [])),
        rows=int(mark.get("rows", 0)),
        files=int(mark.get("files", 0)),
    )
