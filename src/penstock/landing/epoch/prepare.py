"""Phase one: an epoch's commits into the pending store in one act, then on to be committed.

Invariants: nothing is handed to the commit queue that is not in the store; a table's progress moves
only with what was prepared for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.commit.chain_position import NO_EPOCH, CommitLabels, commit_at
from penstock.core.accounting import Tally
from penstock.core.commits import CommitKind, Committable, EpochNumber
from penstock.core.crash_points import CrashPoint
from penstock.core.events import FilesWritten, RecordsFiltered, RecordsQuarantined
from penstock.core.offsets import Positions, TopicPartition, between
from penstock.core.planning import Bounds
from penstock.landing.epoch.commit_queue import CommitBatch, CommitQueue
from penstock.landing.tables.progress import (
    TableProgress,
    advance,
    epochs_after,
    retention_gap,
    update_valid_through,
)
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.results import TableResult
from penstock.ownership.claim import PipelineClaim


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing of the log found: the bounds of partitions, and when it began."""

    bounds: Mapping[TopicPartition, Bounds]
    at_ms: int


@dataclass(slots=True)
class Preparer:
    """Prepares commits for the tables of a run; `epoch` labels them."""

    tables: TableSet
    claim: PipelineClaim
    queue: CommitQueue
    epoch: EpochNumber = NO_EPOCH

    def prepare(self, found: Mapping[str, TableResult], listing: Listing) -> None:
        """Prepare what an epoch found, for every table that takes part.

        Raises FencedError when another owner took over, UnavailableError when the store is down.
        """
        labels = self._labels()
        made: dict[str, list[Committable]] = {}
        for name, table in self.tables.active.items():
            if name in found:
                each = found[name]
                seen = update_valid_through(table, each, listing.bounds, listing.at_ms)
                made[name] = commits_for(seen, each, labels)
                self.tables.update(advance(seen, made[name], each))
                self._report(name, each)
        self._put(made)

    def anchor(self, names: Iterable[str]) -> None:
        """Bring the ledgers of trailing tables level with what was examined."""
        labels = self._labels()
        trailing = [each for name in names if (each := self.tables.progress[name]).trailing]
        if trailing:
            self._anchor({each.name: anchor_for(each, labels) for each in trailing})

    def record_gap(self, table: TableProgress, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """Go on after records that retention deleted, once a person has agreed, and count them."""
        found = retention_gap(table, bounds)
        beyond = advance(table, [], found)
        self.tables.update(beyond)
        if beyond.position is not None:
            self._anchor({beyond.name: anchor_for(beyond, self._labels(), found.tallies)})

    def _anchor(self, anchors: Mapping[str, Committable]) -> None:
        """Prepare anchors; a table without its anchor in the store lags on, and gets another."""
        self._put({name: [anchor] for name, anchor in anchors.items()})
        tables = self.tables
        for name, anchor in anchors.items():
            tables.update(tables.progress[name].after(anchor).in_flight(1))

    def _put(self, made: Mapping[str, Sequence[Committable]]) -> None:
        environment, tables = self.tables.environment, self.tables
        commits = [commit for each in made.values() for commit in each]
        environment.observer.passed(CrashPoint.PREPARE_BEFORE)
        environment.store.prepare(
            self.tables.settings.pipeline, self.claim.claim, commits, tables.examined()
        )
        environment.observer.passed(CrashPoint.PREPARE_AFTER)
        for name, each in made.items():
            if each:
                there = {at.chain: at.table for at in tables.progress[name].positions}
                work = tuple((commit, there[commit.chain]) for commit in each)
                self.queue.submit(CommitBatch(name, work))

    def _labels(self) -> CommitLabels:
        environment = self.tables.environment
        return CommitLabels(
            self.claim.claim,
            environment.cluster_id,
            self.epoch,
            self.tables.settings.rules_hash,
            environment.token(),
        )

    def _report(self, name: str, found: TableResult) -> None:
        total, observer = found.total, self.tables.environment.observer
        if total.quarantined_total:
            observer(RecordsQuarantined(self.epoch, name, dict(total.quarantined)))
        if total.filtered_total:
            observer(RecordsFiltered(self.epoch, name, dict(total.filtered)))
        if found.files:
            files, size = len(found.files), sum(file.size_bytes for file in found.files)
            rows = sum(file.record_count for file in found.files)
            observer(FilesWritten(self.epoch, name, files, rows, size))


def commits_for(
    progress: TableProgress, found: TableResult, labels: CommitLabels
) -> list[Committable]:
    """Make the commits of one table for one epoch: its quarantine chain's first, then its own.

    A chain that nothing is for is not touched; its next commit covers the range (protocol.md 2).
    """
    examined = {**progress.examined, **found.reached}
    commits = []
    if found.rejects:
        commits.append(_quarantine_commit(progress, found, examined, labels))
    merged = found.merged
    if found.files or merged is not None:
        assert progress.position is not None, "files are written only for tables that exist"
        covered = between(progress.position.expected, examined)
        assert covered, f"{progress.name}: rows of a range that has landed already"
        commits.append(
            commit_at(
                progress.position,
                covered,
                found.files,
                labels,
                kind=CommitKind.APPEND if merged is None else CommitKind.ROW_DELTA,
                touched=None if merged is None else merged.touched,
                keys=() if merged is None else merged.names,
                sequence=() if merged is None else merged.sequence,
                valid_through_ms=progress.valid_through.at_ms,
                tallies=found.tallies,
                leader_epochs=epochs_after(progress, found),
            )
        )
    return commits


def anchor_for(
    progress: TableProgress,
    labels: CommitLabels,
    tallies: Mapping[TopicPartition, Tally] | None = None,
) -> Committable:
    """Make the commit that brings a trailing table's ledger level: progress, no files."""
    assert progress.position is not None, "only a table can be anchored"
    return commit_at(
        progress.position,
        between(progress.position.expected, progress.examined),
        (),
        labels,
        kind=CommitKind.ANCHOR,
        valid_through_ms=progress.valid_through.at_ms,
        tallies=tallies,
        leader_epochs=progress.leader_epochs,
    )


def _quarantine_commit(
    progress: TableProgress, found: TableResult, examined: Positions, labels: CommitLabels
) -> Committable:
    """Begin the chain at the table's position, on partitions it does not know yet."""
    known = progress.quarantine.expected
    origins = {at: offset for at, offset in progress.expected.items() if at not in known}
    covered = between({**origins, **known}, examined)
    return commit_at(progress.quarantine, covered, found.rejects, labels, origins=origins)
