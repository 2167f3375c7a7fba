"""One Delta table on the driver: examined on a fresh handle, committed from that very handle.

Invariants:
- a handle that was examined commits once at most; every reading opens a new one;
- every commit of ours bears the chain's `generation` transaction, so of two commits from one state
  the log takes one, files or not; what strangers append in between is rebased over;
- the log entry a state was read at must still be there when it is committed to: a table dropped and
  made again takes no old commit;
- what a commit landed as is read back from the log and, on a local disk, synced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable as Handle
from deltalake.transaction import (
    AddAction,
    CommitProperties,
    PostCommitHookProperties,
    Transaction,
)
from pyarrow import fs

from penstock.connectors.delta import reading as readers
from penstock.connectors.delta.descriptions import Addition, Shape, additions, relative
from penstock.connectors.delta.examining import Examined, examined
from penstock.connectors.delta.faults import in_doubt, moved, not_there, reading, sending, told
from penstock.connectors.delta.ledger import (
    CREATED,
    commit_info,
    fence_transactions,
    mark_of_commit,
    transactions_of,
)
from penstock.connectors.delta.log import Entry, Log
from penstock.connectors.delta.places import Root, storage_path
from penstock.connectors.delta.target import Sizes
from penstock.core.commits import (
    Chain,
    Claim,
    CommitKind,
    Committable,
    DataFile,
    first_ledger,
    landed_after,
)
from penstock.core.errors import BugError, PenstockError
from penstock.files.storage import Storage
from penstock.ports.tables import CommitRecord, History, TableState, Verdict

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
CHECKPOINT_EVERY = 20

_REBASES_MAX = 15
_STATS_AT_ONCE = 16


@dataclass(slots=True)
class DeltaTable:
    """One table; cheap to make, opens the log with every reading."""

    name: str
    root: Root
    sizes: Sizes = field(default_factory=Sizes)
    _checkpoint_every: int = field(default=1, init=False, repr=False)

    @property
    def location(self) -> str:
        """Give the table's directory."""
        return self.root.location(self.name)

    def state(self, chain: Chain) -> TableState:
        """Read the table afresh. Raises UnavailableError, InvalidError (P435, P436, P438)."""
        return examined(self.name, self.location, self.root, self.sizes, chain)

    def commit(self, state: TableState, commit: Committable, *, retain: int) -> str:
        """Land files, progress and ledger in one transaction from the examined handle.

        `retain` does nothing here: the table's own properties say how long its log is kept.
        """
        del retain
        handle: Examined = state.handle
        if commit.table_uuid != state.uuid:
            raise moved(self.name, "it was created again")
        shape = Shape(self.name, self.location, state.schema, handle.partition_by)
        added = additions(commit.files, shape)
        transactions, mark = _words(state, commit, added, handle.version + 1)
        with reading(self.name):
            self._require_same_log(handle)
        handle.use(self.name)
        with sending(self.name):
            handle.table.create_write_transaction(
                actions=[_action(each) for each in added],
                mode="append",
                schema=handle.table.schema(),
                partition_by=list(handle.partition_by),
                commit_properties=CommitProperties(
                    custom_metadata=commit_info([mark]),
                    max_commit_retries=_REBASES_MAX,
                    app_transactions=[Transaction(*each) for each in transactions.items()],
                ),
                post_commithook_properties=NO_HOOKS,
            )
        return str(self._landed_at(handle.version + 1, commit))

    def missing(self, files: Sequence[DataFile]) -> Sequence[str]:
        """List the paths that are not on storage with the size described."""
        storage = self.root.filesystem()

        def size(file: DataFile) -> int | None:
            (info,) = storage.get_file_info([storage_path(file.path)])
            return info.size if info.type is fs.FileType.File else None

        with reading(self.name), ThreadPoolExecutor(_STATS_AT_ONCE) as pool:
            sizes = list(pool.map(size, files))
        return [
            file.path
            for file, found in zip(files, sizes, strict=True)
            if found != file.size_bytes or not relative(file.path, self.location)
        ]

    def history(self, chain: Chain) -> History:
        """Tell the chain's commits from the log entries that are still there."""
        log = self._log()
        with reading(self.name):
            paths = Handle(self.location, storage_options=dict(self.root.options)).file_uris()
            versions = log.versions()
            entries = [entry for version in versions if (entry := log.entry(version))]
        return History(
            commits=[
                _record(entry, mark)
                for entry in entries
                if (mark := entry.mark(chain.name)) and mark["kind"] != CREATED
            ],
            complete=versions == list(range(len(versions))),
            paths=[path.removeprefix("file://") for path in paths],
            foreign_commits=sum(not entry.marks for entry in entries),
        )

    def quarantined(
        self, chain: Chain, ranges: Sequence[Sequence[Any]]
    ) -> Sequence[tuple[str, int, int]]:
        """Find the coordinates that are in quarantine for the chain's table."""
        return readers.quarantined(self._open(), self.name, chain, ranges)

    def coordinates(self, columns: Mapping[str, str]) -> pa.Table:
        """Read every live row's source coordinates."""
        return readers.coordinates(self._open(), self.name, columns)

    def housekeep(self) -> None:
        """Write a checkpoint when enough versions came since the last, and clean up the log.

        What is cleaned up is the table's to say: `delta.logRetentionDuration`,
        `delta.enableExpiredLogCleanup`. Raises UnavailableError; nothing depends on it.
        """
        with reading(self.name):
            log = self._log()
            versions = log.versions()
            since = max(versions, default=-1) - log.checkpointed()
        if since < self._checkpoint_every:
            return
        handle = self._open()
        with reading(self.name):
            configuration = handle.metadata().configuration
            every = configuration.get("delta.checkpointInterval", "")
            self._checkpoint_every = int(every) if every.isdecimal() else CHECKPOINT_EVERY
            if since < self._checkpoint_every:
                return
            handle.create_checkpoint()
            if configuration.get("delta.enableExpiredLogCleanup", "true").lower() == "true":
                handle.cleanup_metadata()

    def _log(self) -> Log:
        return Log(self.root.filesystem(), self.location)

    def _open(self) -> Handle:
        with reading(self.name):
            return Handle(self.location, storage_options=dict(self.root.options))

    def _require_same_log(self, handle: Examined) -> None:
        log = self._log()
        if log.raw(handle.version) == handle.head_entry:
            return
        raise moved(self.name, "its log is another one") if log.is_there() else not_there(self.name)

    def _landed_at(self, version: int, commit: Committable) -> int:
        """Find the version the commit landed as: the one examined from, or later by rebasing."""
        log = self._log()
        try:
            while (entry := log.entry(version)) is not None:
                mark = entry.mark(commit.chain.name)
                if mark is not None and mark.get("commit") == commit.commit_id:
                    storage = Storage(self.root.filesystem())
                    storage.sync(log.path(version))
                    storage.sync_directories()
                    return version
                version += 1
        except (OSError, ValueError, PenstockError) as error:
            raise in_doubt(self.name, told(error)) from error
        raise in_doubt(self.name, "the log does not show it")


def _words(
    state: TableState, commit: Committable, added: Sequence[Addition], sequence: int
) -> tuple[dict[str, int], Mapping[str, Any]]:
    """Give the transactions and the commit info of a commit on a state."""
    if state.verdict is Verdict.ROLLED_BACK and commit.kind is CommitKind.FENCE:
        if state.landed is None:
            raise BugError(f"{commit.chain} is rolled back without a ledger", code="P702")
        mark = mark_of_commit(commit, state.landed, sequence, state.evidence)
        return fence_transactions(state.landed, sequence), mark
    before = state.landed or first_ledger(
        commit.chain,
        Claim(commit.generation, commit.owner),
        commit.cluster_id,
        commit.rules_hash,
        commit.origins,
    )
    landed = landed_after(before, commit)
    paths = [each.path for each in added]
    transactions = transactions_of(landed, state.landed, sequence, paths)
    return transactions, mark_of_commit(commit, landed, sequence, "")


def _action(added: Addition) -> AddAction:
    return AddAction(
        path=added.path,
        size=added.size_bytes,
        partition_values=added.partition,
        modification_time=added.modified_ms,
        data_change=True,
        stats=added.statistics,
    )


def _record(entry: Entry, mark: Mapping[str, Any]) -> CommitRecord:
    return CommitRecord(
        commit_id=str(mark.get("commit", "")),
        snapshot=str(entry.version),
        timestamp_ms=entry.timestamp_ms,
        kind=str(mark["kind"]),
        progress=list(mark.get("progress", [])),
        rows=int(mark.get("rows", 0)),
        files=int(mark.get("files", 0)),
    )
