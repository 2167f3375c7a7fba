"""Phase one: an epoch's commits into the pending store in one act, then on to be committed.

Invariants: nothing is handed to the commit line that is not in the store; a track moves only with
what was prepared for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.core.commits import Committable, EpochNumber
from penstock.core.crash_points import CrashPoint
from penstock.core.events import FilesWritten, RecordsFiltered, RecordsQuarantined
from penstock.core.offsets import TopicPartition, stops
from penstock.core.planning import Bounds
from penstock.landing.epoch.commit_queue import CommitBatch, CommitQueue
from penstock.landing.epoch.trigger import EpochTrigger
from penstock.landing.ownership.claim import PipelineClaim
from penstock.landing.settings import Environment, Settings
from penstock.landing.tables.progress import (
    CommitLabels,
    TableProgress,
    advance,
    anchor_for,
    commits_for,
    retention_gap,
    update_valid_through,
)
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.results import TableResult
from penstock.ports.tables import Table

Listed = Mapping[TopicPartition, Bounds]
_NONE_YET = EpochNumber(0)


@dataclass(slots=True)
class Preparer:
    """Prepares commits for the tables of a run; `epoch` labels them."""

    settings: Settings
    environment: Environment
    tables: TableSet
    claim: PipelineClaim
    commits: CommitQueue
    trigger: EpochTrigger
    epoch: EpochNumber = _NONE_YET

    def prepare(self, found: Mapping[str, TableResult], listed: Listed) -> None:
        """Prepare what an epoch found, for every table that takes part.

        Raises FencedError when another owner took over, UnavailableError when the store is gone.
        """
        issue = self._labels()
        made: dict[str, list[Committable]] = {}
        for name, track in self.tables.active.items():
            if name in found:
                update_valid_through(track, found[name], listed, self.trigger.listed_at_ms)
                made[name] = commits_for(track, found[name], issue)
                advance(track, made[name], found[name])
                self._report(name, found[name])
        self._put(made)

    def anchor(self, tracks: Iterable[TableProgress]) -> None:
        """Bring the ledgers of trailing tables level with what was examined."""
        issue = self._labels()
        trailing = [track for track in tracks if track.trailing]
        if trailing:
            self._anchor({track.name: anchor_for(track, issue) for track in trailing})

    def record_gap(self, track: TableProgress, bounds: Listed) -> None:
        """Go on behind records that retention took, by a human's leave, and book them."""
        found = retention_gap(track, bounds)
        advance(track, [], found)
        if track.position is not None:
            self._anchor({track.name: anchor_for(track, self._labels(), found.tallies)})

    def _anchor(self, anchors: Mapping[str, Committable]) -> None:
        """Prepare anchors; a table whose anchor is not in the store trails on, and gets another."""
        self._put({name: [anchor] for name, anchor in anchors.items()})
        for name, anchor in anchors.items():
            track = self.tables.tracks[name]
            assert track.position is not None, "only a table can be anchored"
            track.position.expected = {**track.position.expected, **stops(anchor.progress)}
            track.commits_in_flight += 1

    def _put(self, made: Mapping[str, list[Committable]]) -> None:
        observer = self.environment.observer
        commits = [commit for each in made.values() for commit in each]
        observer.passed(CrashPoint.PREPARE_BEFORE)
        self.environment.store.prepare(
            self.settings.pipeline, self.claim.claim, commits, self.tables.examined()
        )
        observer.passed(CrashPoint.PREPARE_AFTER)
        for name, each in made.items():
            if each:
                self.commits.submit(
                    CommitBatch(name, tuple((c, self._table_of(name, c)) for c in each))
                )

    def _table_of(self, name: str, commit: Committable) -> Table:
        track = self.tables.tracks[name]
        standing = track.quarantine if commit.chain.is_quarantine else track.position
        assert standing is not None, "a commit has a table"
        return standing.table

    def _labels(self) -> CommitLabels:
        return CommitLabels(
            self.claim.claim,
            self.environment.cluster_id,
            self.epoch,
            self.settings.rules_hash,
            self.environment.token(),
        )

    def _report(self, name: str, found: TableResult) -> None:
        total = found.total
        if total.quarantined_total:
            self.environment.observer(RecordsQuarantined(self.epoch, name, dict(total.quarantined)))
        if total.filtered_total:
            self.environment.observer(RecordsFiltered(self.epoch, name, dict(total.filtered)))
        if found.files:
            files, size = len(found.files), sum(file.size_bytes for file in found.files)
            self.environment.observer(FilesWritten(self.epoch, name, files, total.landed, size))
