"""One Delta table on the driver: its newest version examined, and committed to from a handle of it.

Invariants:
- a state commits once at most, from a handle at exactly its version; what is read is the log's
  newest version each time (following.py);
- every commit of ours bears the chain's `generation` transaction, so of two commits from one state
  the log takes one, files or not; what strangers append in between is rebased over;
- the log entry a state was read at must still be there when it is committed to: a table dropped and
  made again takes no old commit;
- what a commit landed as is read back from the log and, on a local disk, synced.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
from penstock.connectors.delta.following import Following, Held, View
from penstock.connectors.delta.ledger import (
    CREATED,
    commit_info,
    fence_transactions,
    mark_of_commit,
    transactions_of,
)
from penstock.connectors.delta.log import Entry
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
from penstock.core.errors import BugError, OutcomeUnknownError, PenstockError
from penstock.files.storage import Storage
from penstock.ports.tables import CommitRecord, History, TableState, Verdict

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

_CHECKPOINT_EVERY_MIN = 20
_CHECKPOINT_EVERY_MAX = 200
_PIECE_SECONDS = 0.0001
_REBASES_MAX = 15
_STATS_AT_ONCE = 16


@dataclass(slots=True)
class DeltaTable:
    """One table; cheap to make, opens its log when it is first examined, and then follows it."""

    name: str
    root: Root
    sizes: Sizes = field(default_factory=Sizes)
    _following: Following = field(init=False, repr=False, compare=False)
    _checkpoint_seconds: float = field(default=0.0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._following = Following(self.name, self.root, self.sizes)

    @property
    def location(self) -> str:
        """Give the table's directory."""
        return self.root.location(self.name)

    def state(self, chain: Chain) -> TableState:
        """Read the newest version. Raises UnavailableError, InvalidError (P435, P436, P438)."""
        return examined(self.name, self._following, chain)

    def commit(self, state: TableState, commit: Committable, *, retain: int) -> str:
        """Land files, progress and ledger in one transaction from the examined handle.

        `retain` does nothing here: the table's own properties say how long its log is kept.
        """
        del retain
        found: Examined = state.handle
        view = found.view
        if commit.table_uuid != state.uuid:
            raise moved(self.name, "it was created again")
        shape = Shape(self.name, self.location, state.schema, view.form.partition_by)
        added = additions(commit.files, shape)
        transactions, mark = _words(state, commit, added, view.version + 1)
        found.use(self.name)
        held = self._taken(view)
        with reading(self.name):
            self._require_same_log(view)
        try:
            self._send(held, added, transactions, mark)
            version = self._landed_at(view.version + 1, commit)
        except OutcomeUnknownError:
            self._following.forget()
            raise
        self._following.give_back(replace(held, tried=True))
        return str(version)

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
        log = self._following.log
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

        When is the table's to say, `delta.checkpointInterval`, or `checkpoint_every`; so is what is
        cleaned up: `delta.logRetentionDuration`, `delta.enableExpiredLogCleanup`. Then the handle
        is made ready for the next commit. Raises what `state` raises; nothing depends on it, but
        readers have more entries to read.
        """
        view = self._following.view()
        interval = view.form.configuration.get("delta.checkpointInterval", "")
        every = (
            int(interval) if interval.isdecimal() else checkpoint_every(self._checkpoint_seconds)
        )
        if view.version - view.checkpointed >= max(every, 1):
            self._checkpoint(view)
            view = self._following.view()
        self._following.keep_up(view)

    def _checkpoint(self, view: View) -> None:
        held = self._following.take(view)
        began = time.monotonic()
        with reading(self.name):
            held.handle.create_checkpoint()
            self._checkpoint_seconds = time.monotonic() - began
            cleans = view.form.configuration.get("delta.enableExpiredLogCleanup", "true")
            if cleans.lower() == "true":
                held.handle.cleanup_metadata()
        self._following.give_back(held)

    def _send(
        self,
        held: Held,
        added: Sequence[Addition],
        transactions: Mapping[str, int],
        mark: Mapping[str, Any],
    ) -> None:
        handle, form = held.handle, held.opened.form
        with sending(self.name):
            handle.create_write_transaction(
                actions=[_action(each) for each in added],
                mode="append",
                schema=handle.schema(),
                partition_by=list(form.partition_by),
                commit_properties=CommitProperties(
                    custom_metadata=commit_info([mark]),
                    max_commit_retries=_REBASES_MAX,
                    app_transactions=[Transaction(*each) for each in transactions.items()],
                ),
                post_commithook_properties=NO_HOOKS,
            )

    def _open(self) -> Handle:
        with reading(self.name):
            return Handle(self.location, storage_options=dict(self.root.options))

    def _taken(self, view: View) -> Held:
        """Take a handle for a commit; nothing was sent when there is none for that version."""
        try:
            return self._following.take(view)
        except PenstockError as error:
            raise moved(self.name, f"version {view.version} cannot be opened") from error

    def _require_same_log(self, view: View) -> None:
        log = self._following.log
        if log.raw(view.version) == view.head_entry:
            return
        raise moved(self.name, "its log is another one") if log.is_there() else not_there(self.name)

    def _landed_at(self, version: int, commit: Committable) -> int:
        """Find the version the commit landed as: the one examined from, or later by rebasing."""
        log = self._following.log
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


def checkpoint_every(seconds: float) -> int:
    """Give the number of versions between checkpoints when one takes some seconds.

    A checkpoint costs as much as the table has files; each version since makes every commit about
    0.1 ms dearer. At this distance both cost the same, and together the least.
    """
    best = round(math.sqrt(seconds / _PIECE_SECONDS))
    return min(max(best, _CHECKPOINT_EVERY_MIN), _CHECKPOINT_EVERY_MAX)


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
