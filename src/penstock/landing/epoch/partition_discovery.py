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
from penstock.landing.epoch.prepare import Preparer
from penstock.landing.epoch.trigger import EpochTrigger
from penstock.landing.settings import Environment, Settings
from penstock.landing.tables import opening
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.messages import TaskResult
from penstock.landing.task.results import failures

BROKER_PATIENCE_SECONDS = 120.0
PARTITION_PATIENCE_SECONDS = 10.0
REFUSED = frozenset({"P202", "P203"})
"""Brokers whose own directory of users is away refuse us, too."""

Listing = Mapping[TopicPartition, Bounds]
Given = TypeVar("Given")


@dataclass(slots=True)
class PartitionDiscovery:
    """Lists topics for a run. `begin` writes start positions of what was found new; `waits` says
    that the run has no end. `mute` are the partitions that gave nothing when they were read last,
    who was asked last behind the others.
    """

    settings: Settings
    environment: Environment
    tables: TableSet
    preparer: Preparer
    trigger: EpochTrigger
    begin: Callable[[], None]
    waits: bool
    unresponsive: tuple[TopicPartition, ...] = ()
    _refused: set[str] = field(default_factory=set)
    _silent_since: float | None = None
    _absent_since: float | None = None
    _unresponsive_since: float | None = None

    def poll(self) -> Listing | None:
        """List topics and bounds; None while no broker answers.

        Raises UnavailableError when that lasts, or when the store is gone.
        """
        listing = self._ask_brokers(self._listing)
        if listing is None:
            return None
        self.begin()  # a store that fails there is no broker that is silent
        self.trigger.listed_at_ms = self.environment.clock.now_ms()
        bounds = self._ask_brokers(partial(self.environment.log.bounds, listing))
        if bounds is None:
            return None
        if not self._absent(bounds):
            self._absent_since = None
        if self._silent_since is not None:
            seconds = self.environment.clock.monotonic() - self._silent_since
            self.environment.observer(KafkaAnswered(seconds))
            self._silent_since = None
        for name, track in self.tables.active.items():
            found = opening.check_truncated(track, bounds)
            if found is not None:
                self._handle_truncated(name, track, bounds, found)
        return bounds

    def _listing(self) -> Sequence[TopicPartition]:
        """List topics, but for those that came later and cannot be routed beside the others."""
        listing = self.environment.log.partitions()
        kept = set(self.tables.topics)
        for topic in sorted({at.topic for at in listing} - kept):
            try:
                self.settings.routes(sorted({*kept, topic}))
            except InvalidError as error:
                if topic not in self._refused:
                    self.environment.observer(TopicUnrouted(topic, error.message))
                self._refused.add(topic)
            else:
                kept.add(topic)
        listing = [at for at in listing if at.topic in kept]
        self.tables.list_topics(listing)
        return listing

    def _ask_brokers(self, ask: Callable[[], Given]) -> Given | None:
        """Ask brokers; None while they do not answer, or refuse us, whom they let in before."""
        try:
            return ask()
        except UnavailableError as error:
            self._wait_for_brokers(error)
        except InvalidError as error:
            if error.code not in REFUSED:
                raise
            self._wait_for_brokers(error)
        return None

    def _wait_for_brokers(self, error: PenstockError) -> None:
        """Wait for brokers that do not answer. Raises the error when that lasts."""
        now = self.environment.clock.monotonic()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since > BROKER_PATIENCE_SECONDS:
            raise error
        self.environment.observer(PartitionStalled("all", error.message))

    def leaderless(self, listed: Listing) -> bool:
        """Return whether a partition cannot be listed. Raises UnavailableError when that lasts."""
        absent = self._absent(listed)
        if not absent:
            return False
        now = self.environment.clock.monotonic()
        self._absent_since = now if self._absent_since is None else self._absent_since
        if now - self._absent_since > PARTITION_PATIENCE_SECONDS:
            raise no_leader(absent)
        return True

    def _absent(self, listed: Listing) -> list[TopicPartition]:
        wanted = {at for track in self.tables.active.values() for at in track.wanted}
        return sorted(wanted - set(listed))

    def made_progress(self, results: Sequence[TaskResult]) -> bool:
        """Return whether an epoch read anything at all, and remember who gave nothing.

        Raises UnavailableError when only those are left for long, in a run that ends by itself.
        """
        now = self.environment.clock.monotonic()
        lanes = [lane for result in results for lane in result.lanes]
        silent = {lane.lane.at for lane in lanes if lane.unresponsive}
        # Those beside one that gave something had no time: it is their turn again.
        well = {
            lane.lane.at for each in results if _returned_records(each) for lane in each.lanes
        } - silent
        before = (at for at in self.unresponsive if at not in well | silent)
        self.unresponsive = (*before, *sorted(silent))
        if any(map(_returned_records, results)) or not silent:
            self._unresponsive_since = None
            return bool(lanes)
        self._unresponsive_since = (
            now if self._unresponsive_since is None else self._unresponsive_since
        )
        asked = all(lane.lane.at in self.unresponsive for lane in lanes)
        if asked and not self.waits and now - self._unresponsive_since > PARTITION_PATIENCE_SECONDS:
            raise no_records_returned(self.unresponsive)
        return False

    def recheck_failed(self, results: Sequence[TaskResult]) -> bool:
        """Park tables that failed in an epoch; False when it is to be read again later.

        Raises DecisionNeededError when a topic was re-created meanwhile.
        """
        failed = failures(results)
        lost = any(isinstance(each, DecisionNeededError) for each in failed.values())
        listing = self._ask_brokers(self._listing)
        if listing is None:
            return False
        bounds = self._ask_brokers(partial(self.environment.log.bounds, listing)) if lost else {}
        if bounds is None:
            return False
        for name, failure in failed.items():
            track = self.tables.tracks[name]
            found = opening.check_truncated(track, bounds)
            if found is None:
                self.tables.park(name, failure)
            else:
                self._handle_truncated(name, track, bounds, found)
        return True

    def _handle_truncated(
        self, name: str, track: TableProgress, bounds: Listing, error: DecisionNeededError
    ) -> None:
        if "gap" not in self.settings.accept or error.code != opening.RETENTION:
            self.tables.park(name, error)
            return
        self.preparer.record_gap(track, bounds)


def no_leader(partitions: Collection[TopicPartition]) -> UnavailableError:
    """Build the error for partitions that cannot be listed."""
    return UnavailableError(
        f"{', '.join(map(str, sorted(partitions)[:3]))} cannot be read: no leader",
        code="P254",
        hint="bring the partition's broker back, then run again; the rest has landed",
    )


def no_records_returned(partitions: Collection[TopicPartition]) -> UnavailableError:
    """Build the error for partitions that have records and return none."""
    return UnavailableError(
        f"{', '.join(map(str, sorted(partitions)[:3]))} cannot be read: there are records, and "
        "none came",
        code="P254",
        hint="see whether Spark's machines reach its broker; the rest has landed",
    )


def _returned_records(result: TaskResult) -> bool:
    return any(lane.reached > lane.lane.covered.start for lane in result.lanes)
