"""List topics and their bounds each turn, and find what that means for which table.

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
from penstock.landing.epoch.prepare import Listing, Preparer
from penstock.landing.tables import log_checks
from penstock.landing.tables.pipeline_run import Run
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.messages import TaskResult
from penstock.landing.task.results import failures

BROKER_PATIENCE_SECONDS = 120.0
PARTITION_PATIENCE_SECONDS = 10.0
LOGIN_REJECTED = frozenset({"P202", "P203"})
"""Brokers whose own directory of users is away reject us, too."""

Returned = TypeVar("Returned")


@dataclass(slots=True)
class PartitionDiscovery:
    """Lists topics for a run; `endless` ones wait for partitions without an end.

    `unresponsive`: partitions that returned nothing when they were read last, longest-waiting
    first.
    """

    run: Run
    preparer: Preparer
    endless: bool
    unresponsive: tuple[TopicPartition, ...] = ()
    _unrouted: set[str] = field(default_factory=set)
    _silent_since: float | None = None
    _absent_since: float | None = None
    _unresponsive_since: float | None = None

    def poll(self, begin: Callable[[], None]) -> Listing | None:
        """List topics and bounds; None while no broker answers.

        `begin` writes start positions of what was found new. Raises UnavailableError when that
        lasts, or when the store is gone.
        """
        environment = self.run.environment
        partitions = self._ask_brokers(self._list_topics)
        if partitions is None:
            return None
        begin()  # a store that fails there is no broker that is silent
        listed_at_ms = environment.clock.now_ms()
        bounds = self._ask_brokers(partial(environment.log.bounds, partitions))
        if bounds is None:
            return None
        if not self._absent(bounds):
            self._absent_since = None
        if self._silent_since is not None:
            seconds = environment.clock.monotonic() - self._silent_since
            environment.observer(KafkaAnswered(seconds))
            self._silent_since = None
        for table in self.run.tables.active.values():
            found = log_checks.check_truncated(table, bounds)
            if found is not None:
                self._handle_truncated(table, bounds, found)
        return Listing(bounds, listed_at_ms)

    def _list_topics(self) -> Sequence[TopicPartition]:
        """List topics, but for those that came later and cannot be routed beside the others."""
        listing = self.run.environment.log.partitions()
        kept = set(self.run.tables.topics)
        for topic in sorted({at.topic for at in listing} - kept):
            try:
                self.run.settings.routes(sorted({*kept, topic}))
            except InvalidError as error:
                if topic not in self._unrouted:
                    self.run.environment.observer(TopicUnrouted(topic, error.message))
                self._unrouted.add(topic)
            else:
                kept.add(topic)
        listing = [at for at in listing if at.topic in kept]
        self.run.tables.list_topics(listing)
        return listing

    def _ask_brokers(self, ask: Callable[[], Returned]) -> Returned | None:
        """Ask brokers; None while they do not answer, or reject us, whom they let in before."""
        try:
            return ask()
        except UnavailableError as error:
            self._wait_for_brokers(error)
        except InvalidError as error:
            if error.code not in LOGIN_REJECTED:
                raise
            self._wait_for_brokers(error)
        return None

    def _wait_for_brokers(self, error: PenstockError) -> None:
        """Wait for brokers that do not answer. Raises the error when that lasts."""
        now = self.run.environment.clock.monotonic()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since > BROKER_PATIENCE_SECONDS:
            raise error
        self.run.environment.observer(PartitionStalled("all", error.message))

    def leaderless(self, listing: Listing) -> bool:
        """Return whether a partition cannot be listed. Raises UnavailableError when that lasts."""
        absent = self._absent(listing.bounds)
        if not absent:
            return False
        now = self.run.environment.clock.monotonic()
        self._absent_since = now if self._absent_since is None else self._absent_since
        if now - self._absent_since > PARTITION_PATIENCE_SECONDS:
            raise no_leader(absent)
        return True

    def _absent(self, bounds: Mapping[TopicPartition, Bounds]) -> list[TopicPartition]:
        wanted = {at for table in self.run.tables.active.values() for at in table.wanted}
        return sorted(wanted - set(bounds))

    def made_progress(self, results: Sequence[TaskResult]) -> bool:
        """Return whether an epoch read anything at all; note which partitions returned nothing.

        Raises UnavailableError when only those are left for long, in a run that ends by itself.
        """
        now = self.run.environment.clock.monotonic()
        lanes = [lane for result in results for lane in result.lanes]
        silent = {lane.lane.at for lane in lanes if lane.unresponsive}
        responsive = [each for each in results if _returned_records(each)]
        # Those beside one that returned something had no time: it is their turn again.
        well = {lane.lane.at for each in responsive for lane in each.lanes} - silent
        before = (at for at in self.unresponsive if at not in well | silent)
        self.unresponsive = (*before, *sorted(silent))
        if responsive or not silent:
            self._unresponsive_since = None
            return bool(lanes)
        if self._unresponsive_since is None:
            self._unresponsive_since = now
        asked = all(lane.lane.at in self.unresponsive for lane in lanes)
        lasting = now - self._unresponsive_since > PARTITION_PATIENCE_SECONDS
        if asked and not self.endless and lasting:
            raise no_records_returned(self.unresponsive)
        return False

    def recheck_failed(self, results: Sequence[TaskResult]) -> bool:
        """Park tables that failed in an epoch; False when it is to be read again later.

        Raises DecisionNeededError when a topic was re-created meanwhile.
        """
        failed = failures(results)
        lost = any(isinstance(each, DecisionNeededError) for each in failed.values())
        listing = self._ask_brokers(self._list_topics)
        if listing is None:
            return False
        log = self.run.environment.log
        bounds = self._ask_brokers(partial(log.bounds, listing)) if lost else {}
        if bounds is None:
            return False
        for name, failure in failed.items():
            table = self.run.tables.progress[name]
            found = log_checks.check_truncated(table, bounds)
            if found is None:
                self.run.tables.parked.park(name, failure)
            else:
                self._handle_truncated(table, bounds, found)
        return True

    def _handle_truncated(
        self,
        table: TableProgress,
        bounds: Mapping[TopicPartition, Bounds],
        error: DecisionNeededError,
    ) -> None:
        if "gap" not in self.run.settings.accept or error.code != log_checks.RETENTION:
            self.run.tables.parked.park(table.name, error)
            return
        self.preparer.record_gap(table, bounds)


def no_leader(partitions: Collection[TopicPartition]) -> UnavailableError:
    """Build the error for partitions that cannot be listed."""
    return UnavailableError(
        f"{', '.join(map(str, sorted(partitions)[:3]))} cannot be read: no leader",
        code="P254",
        hint="bring the partition's broker back, then run again; the rest has landed",
    )


def no_records_returned(partitions: Collection[TopicPartition]) -> UnavailableError:
    """Build the error for partitions that have records, and return none."""
    return UnavailableError(
        f"{', '.join(map(str, sorted(partitions)[:3]))} cannot be read: there are records, and "
        "none came",
        code="P254",
        hint="see whether Spark's machines reach its broker; the rest has landed",
    )


def _returned_records(result: TaskResult) -> bool:
    return any(lane.reached > lane.lane.covered.start for lane in result.lanes)
