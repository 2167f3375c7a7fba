"""Phase one: an epoch's commits into the pending store in one act, then on to be committed.

Invariants: nothing is handed to the commit line that is not in the store; a track moves only with
what was prepared for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.core.commits import Committable, EpochNumber
from penstock.core.crash_points import Point
from penstock.core.events import FilesWritten, RecordsFiltered, RecordsQuarantined
from penstock.core.offsets import TopicPartition, stops
from penstock.core.planning import Bounds
from penstock.landing.epoch.commit_queue import Batch, CommitLine
from penstock.landing.epoch.trigger import Pace
from penstock.landing.ownership.claim import Tenure
from penstock.landing.settings import Settings, World
from penstock.landing.tables.progress import (
    Issue,
    Track,
    advance,
    anchor_for,
    commits_for,
    gap_for,
    watch_through,
)
from penstock.landing.tables.table_set import Fleet
from penstock.landing.task.results import TableSum
from penstock.ports.tables import Table

Listed = Mapping[TopicPartition, Bounds]
_NONE_YET = EpochNumber(0)


@dataclass(slots=True)
class Desk:
    """Prepares commits for the tables of a run; `epoch` labels them."""

    settings: Settings
    world: World
    fleet: Fleet
    tenure: Tenure
    line: CommitLine
    pace: Pace
    epoch: EpochNumber = _NONE_YET

    def prepare(self, found: Mapping[str, TableSum], listed: Listed) -> None:
        """Prepare what an epoch found, for every table that takes part.

        Raises FencedError when another owner took over, UnavailableError when the store is gone.
        """
        issue = self._issue()
        made: dict[str, list[Committable]] = {}
        for name, track in self.fleet.active.items():
            if name in found:
                watch_through(track, found[name], listed, self.pace.listed_at_ms)
                made[name] = commits_for(track, found[name], issue)
                advance(track, made[name], found[name])
                self._tell(name, found[name])
        self._put(made)

    def anchor(self, tracks: Iterable[Track]) -> None:
        """Bring the ledgers of trailing tables level with what was examined."""
        issue = self._issue()
        trailing = [track for track in tracks if track.trailing]
        if trailing:
            self._anchor({track.name: anchor_for(track, issue) for track in trailing})

    def record_gap(self, track: Track, bounds: Listed) -> None:
        """Go on behind records that retention took, by a human's leave, and book them."""
        found = gap_for(track, bounds)
        advance(track, [], found)
        if track.standing is not None:
            self._anchor({track.name: anchor_for(track, self._issue(), found.tallies)})

    def _anchor(self, anchors: Mapping[str, Committable]) -> None:
        """Prepare anchors; a table whose anchor is not in the store trails on, and gets another."""
        self._put({name: [anchor] for name, anchor in anchors.items()})
        for name, anchor in anchors.items():
            track = self.fleet.tracks[name]
            assert track.standing is not None, "only a table can be anchored"
            track.standing.expected = {**track.standing.expected, **stops(anchor.progress)}
            track.waiting += 1

    def _put(self, made: Mapping[str, list[Committable]]) -> None:
        observer = self.world.observer
        commits = [commit for each in made.values() for commit in each]
        observer.reached(Point.PREPARE_BEFORE)
        self.world.store.prepare(
            self.settings.pipeline, self.tenure.claim, commits, self.fleet.examined()
        )
        observer.reached(Point.PREPARE_AFTER)
        for name, each in made.items():
            if each:
                self.line.submit(Batch(name, tuple((c, self._table_of(name, c)) for c in each)))

    def _table_of(self, name: str, commit: Committable) -> Table:
        track = self.fleet.tracks[name]
        standing = track.rejects if commit.chain.is_quarantine else track.standing
        assert standing is not None, "a commit has a table"
        return standing.table

    def _issue(self) -> Issue:
        return Issue(
            self.tenure.claim,
            self.world.cluster_id,
            self.epoch,
            self.settings.rules_hash,
            self.world.token(),
        )

    def _tell(self, name: str, found: TableSum) -> None:
        total = found.total
        if total.quarantined_total:
            self.world.observer(RecordsQuarantined(self.epoch, name, dict(total.quarantined)))
        if total.filtered_total:
            self.world.observer(RecordsFiltered(self.epoch, name, dict(total.filtered)))
        if found.files:
            files, size = len(found.files), sum(file.size_bytes for file in found.files)
            self.world.observer(FilesWritten(self.epoch, name, files, total.landed, size))
