"""Phase one: an epoch's commits into the pending store in one act, then on to be committed.

Invariants: nothing is handed to the commit queue that is not in the store; a table's progress moves
only with what was prepared for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.commit.chain_position import NO_EPOCH, CommitLabels
from penstock.core.commits import Committable, EpochNumber
from penstock.core.crash_points import CrashPoint
from penstock.core.events import FilesWritten, RecordsFiltered, RecordsQuarantined
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds
from penstock.landing.epoch.commit_queue import CommitBatch, CommitQueue
from penstock.landing.tables.commits import anchor_for, commits_for
from penstock.landing.tables.pipeline_run import Run
from penstock.landing.tables.progress import (
    TableProgress,
    advance,
    retention_gap,
    update_valid_through,
)
from penstock.landing.task.results import TableResult
from penstock.ownership.claim import PipelineClaim
from penstock.ports.tables import Table


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing of the log found: the bounds of partitions, and when it began."""

    bounds: Mapping[TopicPartition, Bounds]
    at_ms: int


@dataclass(slots=True)
class Preparer:
    """Prepares commits for the tables of a run; `epoch` labels them."""

    run: Run
    claim: PipelineClaim
    queue: CommitQueue
    epoch: EpochNumber = NO_EPOCH

    def prepare(self, found: Mapping[str, TableResult], listing: Listing) -> None:
        """Prepare what an epoch found, for every table that takes part.

        Raises FencedError when another owner took over, UnavailableError when the store is gone.
        """
        labels = self._labels()
        made: dict[str, list[Committable]] = {}
        for name, table in self.run.tables.active.items():
            if name in found:
                each = found[name]
                seen = update_valid_through(table, each, listing.bounds, listing.at_ms)
                made[name] = commits_for(seen, each, labels)
                self.run.tables.update(advance(seen, made[name], each))
                self._report(name, each)
        self._put(made)

    def anchor(self, names: Iterable[str]) -> None:
        """Bring the ledgers of trailing tables level with what was examined."""
        labels = self._labels()
        trailing = [each for name in names if (each := self.run.tables.progress[name]).trailing]
        if trailing:
            self._anchor({each.name: anchor_for(each, labels) for each in trailing})

    def record_gap(self, table: TableProgress, bounds: Mapping[TopicPartition, Bounds]) -> None:
        """Go on behind records that retention took, by a human's leave, and book them."""
        found = retention_gap(table, bounds)
        beyond = advance(table, [], found)
        self.run.tables.update(beyond)
        if beyond.position is not None:
            self._anchor({beyond.name: anchor_for(beyond, self._labels(), found.tallies)})

    def _anchor(self, anchors: Mapping[str, Committable]) -> None:
        """Prepare anchors; a table whose anchor is not in the store trails on, and gets another."""
        self._put({name: [anchor] for name, anchor in anchors.items()})
        tables = self.run.tables
        for name, anchor in anchors.items():
            tables.update(tables.progress[name].after(anchor).in_flight(1))

    def _put(self, made: Mapping[str, Sequence[Committable]]) -> None:
        environment, tables = self.run.environment, self.run.tables
        commits = [commit for each in made.values() for commit in each]
        environment.observer.passed(CrashPoint.PREPARE_BEFORE)
        environment.store.prepare(
            self.run.settings.pipeline, self.claim.claim, commits, tables.examined()
        )
        environment.observer.passed(CrashPoint.PREPARE_AFTER)
        for name, each in made.items():
            if each:
                work = tuple((commit, self._table_of(name, commit)) for commit in each)
                self.queue.submit(CommitBatch(name, work))

    def _table_of(self, name: str, commit: Committable) -> Table:
        positions = self.run.tables.progress[name].positions
        return next(each.table for each in positions if each.chain == commit.chain)

    def _labels(self) -> CommitLabels:
        environment = self.run.environment
        return CommitLabels(
            self.claim.claim,
            environment.cluster_id,
            self.epoch,
            self.run.settings.rules_hash,
            environment.token(),
        )

    def _report(self, name: str, found: TableResult) -> None:
        total, observer = found.total, self.run.environment.observer
        if total.quarantined_total:
            observer(RecordsQuarantined(self.epoch, name, dict(total.quarantined)))
        if total.filtered_total:
            observer(RecordsFiltered(self.epoch, name, dict(total.filtered)))
        if found.files:
            files, size = len(found.files), sum(file.size_bytes for file in found.files)
            observer(FilesWritten(self.epoch, name, files, total.landed, size))
