"""Watch the log: list it every turn, and say what was found means for which table.

Invariants: brokers that do not answer are waited for, within bounds, and nothing is misjudged
meanwhile; records that retention took are passed by only with a human's leave, and then booked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from penstock.core.errors import (
    DecisionNeededError,
    InvalidError,
    PenstockError,
    UnavailableError,
)
from penstock.core.events import KafkaAnswered, PartitionStalled, TopicUnrouted
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds
from penstock.landing.epoch.prepare import Desk
from penstock.landing.epoch.trigger import Pace
from penstock.landing.settings import Settings, World
from penstock.landing.tables import opening
from penstock.landing.tables.progress import Track
from penstock.landing.tables.table_set import Fleet
from penstock.landing.task.messages import Result
from penstock.landing.task.results import failures

BROKER_PATIENCE_SECONDS = 120.0
PARTITION_PATIENCE_SECONDS = 10.0
REFUSED = frozenset({"P202", "P203"})
"""Brokers whose own directory of users is away refuse us, too."""

Listed = Mapping[TopicPartition, Bounds]
Given = TypeVar("Given")


@dataclass(slots=True)
class Lookout:
    """Lists topics for a run. `begin` writes start positions of what was found new; `waits` says
    that the run has no end. `mute` are the partitions that gave nothing when they were read last,
    who was asked last behind the others.
    """

    settings: Settings
    world: World
    fleet: Fleet
    desk: Desk
    pace: Pace
    begin: Callable[[], None]
    waits: bool
    mute: tuple[TopicPartition, ...] = ()
    _refused: set[str] = field(default_factory=set)
    _silent_since: float | None = None
    _absent_since: float | None = None
    _mute_since: float | None = None

    def listed(self) -> Listed | None:
        """List topics and bounds; None while no broker answers.

        Raises UnavailableError when that lasts, or when the store is gone.
        """
        listing = self._answer(self._listing)
        if listing is None:
            return None
        self.begin()  # a store that fails there is no broker that is silent
        self.pace.listed_at_ms = self.world.clock.now_ms()
        bounds = self._answer(partial(self.world.log.bounds, listing))
        if bounds is None:
            return None
        if not self._absent(bounds):
            self._absent_since = None
        if self._silent_since is not None:
            seconds = self.world.clock.monotonic() - self._silent_since
            self.world.observer(KafkaAnswered(seconds))
            self._silent_since = None
        for name, track in self.fleet.active.items():
            found = opening.overtaken(track, bounds)
            if found is not None:
                self._overtaken(name, track, bounds, found)
        return bounds

    def _listing(self) -> Sequence[TopicPartition]:
        """List topics, but for those that came later and cannot be routed beside the others."""
        listing = self.world.log.partitions()
        kept = set(self.fleet.topics)
        for topic in sorted({at.topic for at in listing} - kept):
            try:
                self.settings.routes(sorted({*kept, topic}))
            except InvalidError as error:
                if topic not in self._refused:
                    self.world.observer(TopicUnrouted(topic, error.message))
                self._refused.add(topic)
            else:
                kept.add(topic)
        listing = [at for at in listing if at.topic in kept]
        self.fleet.list_topics(listing)
        return listing

    def _answer(self, ask: Callable[[], Given]) -> Given | None:
        """Ask brokers; None while they do not answer, or refuse us, whom they let in before."""
        try:
            return ask()
        except UnavailableError as error:
            self._silent(error)
        except InvalidError as error:
            if error.code not in REFUSED:
                raise
            self._silent(error)
        return None

    def _silent(self, error: PenstockError) -> None:
        """Wait for brokers that do not answer. Raises the error when that lasts."""
        now = self.world.clock.monotonic()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since > BROKER_PATIENCE_SECONDS:
            raise error
        self.world.observer(PartitionStalled("all", error.message))

    def unlisted(self, listed: Listed) -> bool:
        """Return whether a partition cannot be listed. Raises UnavailableError when that lasts."""
        absent = self._absent(listed)
        if not absent:
            return False
        now = self.world.clock.monotonic()
        self._absent_since = now if self._absent_since is None else self._absent_since
        if now - self._absent_since > PARTITION_PATIENCE_SECONDS:
            raise without_leader(absent)
        return True

    def _absent(self, listed: Listed) -> list[TopicPartition]:
        wanted = {at for track in self.fleet.active.values() for at in track.wanted}
        return sorted(wanted - set(listed))

    def moved(self, results: Sequence[Result]) -> bool:
        """Return whether an epoch read anything at all, and remember who gave nothing.

        Raises UnavailableError when only those are left for long, in a run that ends by itself.
        """
        now = self.world.clock.monotonic()
        lanes = [lane for result in results for lane in result.lanes]
        silent = {lane.lane.at for lane in lanes if lane.silent}
        # Those beside one that gave something had no time: it is their turn again.
        well = {lane.lane.at for each in results if _gave(each) for lane in each.lanes} - silent
        before = (at for at in self.mute if at not in well | silent)
        self.mute = (*before, *sorted(silent))
        if any(map(_gave, results)) or not silent:
            self._mute_since = None
            return bool(lanes)
        self._mute_since = now if self._mute_since is None else self._mute_since
        asked = all(lane.lane.at in self.mute for lane in lanes)
        if asked and not self.waits and now - self._mute_since > PARTITION_PATIENCE_SECONDS:
            raise giving_nothing(self.mute)
        return False

    def still_there(self, results: Sequence[Result]) -> bool:
        """Park tables that failed in an epoch; False when it is to be read again later.

        Raises DecisionNeededError when a topic was re-created meanwhile.
        """
        failed = failures(results)
        lost = any(isinstance(each, DecisionNeededError) for each in failed.values())
        listing = self._answer(self._listing)
        if listing is None:
            return False
        bounds = self._answer(partial(self.world.log.bounds, listing)) if lost else {}
        if bounds is None:
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


def without_leader(partitions: Collection[TopicPartition]) -> UnavailableError:
    """Build the error for partitions that cannot be listed."""
    return UnavailableError(
        f"{', '.join(map(str, sorted(partitions)[:3]))} cannot be read: no leader",
        code="P254",
        hint="bring the partition's broker back, then run again; the rest has landed",
    )


def giving_nothing(partitions: Collection[TopicPartition]) -> UnavailableError:
    """Build the error for partitions that have records and return none."""
    return UnavailableError(
        f"{', '.join(map(str, sorted(partitions)[:3]))} cannot be read: there are records, and "
        "none came",
        code="P254",
        hint="see whether Spark's machines reach its broker; the rest has landed",
    )


def _gave(result: Result) -> bool:
    return any(lane.reached > lane.lane.covered.start for lane in result.lanes)
