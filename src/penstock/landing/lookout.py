"""Watch the log: list it every turn, and say what was found means for which table.

Invariants: brokers that do not answer are waited for, within bounds, and nothing is misjudged
meanwhile; records that retention took are passed by only with a human's leave, and then booked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock.core.errors import DecisionNeededError, UnavailableError
from penstock.core.events import KafkaAnswered, PartitionStalled
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds
from penstock.landing import opening
from penstock.landing.adding_up import failures
from penstock.landing.fleet import Fleet
from penstock.landing.jobs import Result
from penstock.landing.pace import Pace
from penstock.landing.preparing import Desk
from penstock.landing.settings import Settings, World
from penstock.landing.tracks import Track

BROKER_PATIENCE_SECONDS = 120.0
PARTITION_PATIENCE_SECONDS = 10.0

Listed = Mapping[TopicPartition, Bounds]


@dataclass(slots=True)
class Lookout:
    """Lists topics for a run. `begin` writes start positions of what was found new."""

    settings: Settings
    world: World
    fleet: Fleet
    desk: Desk
    pace: Pace
    begin: Callable[[], None]
    _silent_since: float | None = None
    _absent_since: float | None = None

    def listed(self) -> Listed | None:
        """List topics and bounds; None while no broker answers.

        Raises UnavailableError when that lasts, or when the store is gone.
        """
        now = self.world.clock.monotonic()
        try:
            listing = self.world.log.partitions()
            self.fleet.list_topics(listing)
        except UnavailableError as error:
            self._silent(error, now)
            return None
        self.begin()  # a store that fails there is no broker that is silent
        self.pace.listed_at_ms = self.world.clock.now_ms()
        try:
            bounds = self.world.log.bounds(listing)
        except UnavailableError as error:
            self._silent(error, now)
            return None
        if self._silent_since is not None:
            self.world.observer(KafkaAnswered(now - self._silent_since))
            self._silent_since = None
        for name, track in self.fleet.active.items():
            found = opening.overtaken(track, bounds)
            if found is not None:
                self._overtaken(name, track, bounds, found)
        return bounds

    def _silent(self, error: UnavailableError, now: float) -> None:
        """Wait for brokers that do not answer. Raises the error when that lasts."""
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since > BROKER_PATIENCE_SECONDS:
            raise error
        self.world.observer(PartitionStalled("all", error.message))

    def unlisted(self, listed: Listed) -> bool:
        """Tell whether a partition cannot be listed. Raises UnavailableError when that lasts."""
        wanted = {at for track in self.fleet.active.values() for at in track.wanted}
        absent = sorted(wanted - set(listed))
        if not absent:
            self._absent_since = None
            return False
        now = self.world.clock.monotonic()
        self._absent_since = now if self._absent_since is None else self._absent_since
        if now - self._absent_since > PARTITION_PATIENCE_SECONDS:
            raise UnavailableError(
                f"{', '.join(map(str, absent[:3]))} cannot be read: no leader",
                code="P254",
                hint="bring the partition's broker back, then run again; the rest has landed",
            )
        return True

    def still_there(self, results: Sequence[Result]) -> bool:
        """Set tables aside that failed in an epoch; False when it is to be read again later.

        Raises DecisionNeededError when a topic was re-created meanwhile.
        """
        failed = failures(results)
        lost = any(isinstance(each, DecisionNeededError) for each in failed.values())
        try:
            listing = self.world.log.partitions()
            self.fleet.list_topics(listing)
            bounds = self.world.log.bounds(listing) if lost else {}
        except UnavailableError as error:
            self.world.observer(PartitionStalled("all", error.message))
            return False
        for name, failure in failed.items():
            track = self.fleet.tracks[name]
            found = opening.overtaken(track, bounds)
            if found is None:
                self.fleet.park(name, failure)
            else:
                self._overtaken(name, track, bounds, found)
        return True

    def _overtaken(
        self, name: str, track: Track, bounds: Listed, error: DecisionNeededError
    ) -> None:
        if "gap" not in self.settings.accept or error.code != opening.RETENTION:
            self.fleet.park(name, error)
            return
        self.desk.record_gap(track, bounds)
