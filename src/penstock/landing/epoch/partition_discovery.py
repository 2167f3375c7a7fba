"""List topics and their bounds each turn, and find what that means for which table.

Invariants: the run waits, within bounds, for brokers that do not answer, and decides nothing
meanwhile; it passes records that retention deleted only if a person agreed, and counts them.
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
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Bounds
from penstock.landing.epoch.prepare import Listing, Preparer
from penstock.landing.tables import log_checks
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.table_set import TableSet
from penstock.landing.task.messages import TaskResult
from penstock.landing.task.results import failures

BROKER_PATIENCE_SECONDS = 120.0
PARTITION_PATIENCE_SECONDS = 10.0
LOGIN_REJECTED = frozenset({"P202", "P203"})
"""Brokers also reject our login when their own user directory is unavailable."""

_SILENT, _LEADERLESS, _UNRESPONSIVE = "silent", "leaderless", "unresponsive"
Returned = TypeVar("Returned")


@dataclass(slots=True)
class PartitionDiscovery:
    """Lists topics for a run; `endless` ones wait for partitions without an end.

    `unresponsive`: partitions that returned nothing when they were read last, longest-waiting
    first. `stops` are records that a table may be landed up to, and no epoch reads past.
    """

    tables: TableSet
    preparer: Preparer
    endless: bool
    unresponsive: tuple[TopicPartition, ...] = ()
    stops: dict[TopicPartition, set[Offset]] = field(default_factory=dict)
    _unrouted: set[str] = field(default_factory=set)
    _since: dict[str, float] = field(default_factory=dict)

    def poll(self, begin: Callable[[], None]) -> Listing | None:
        """List topics and bounds; None while no broker answers.

        `begin` writes start positions of what was found new. Raises UnavailableError when that
        lasts, or when the store does not answer.
        """
        environment = self.tables.environment
        partitions = self._ask_brokers(self._list_topics)
        if partitions is None:
            return None
        begin()  # a store that fails there is no broker that is silent
        listed_at_ms = environment.clock.now_ms()
        bounds = self._ask_brokers(partial(environment.log.bounds, partitions))
        if bounds is None:
            return None
        if not self._absent(bounds):
            self._since.pop(_LEADERLESS, None)
        silent_since = self._since.pop(_SILENT, None)
        if silent_since is not None:
            environment.observer(KafkaAnswered(environment.clock.monotonic() - silent_since))
        for table in self.tables.active.values():
            self._handle_truncated(table, bounds)
        return Listing(bounds, listed_at_ms)

    def _list_topics(self) -> Sequence[TopicPartition]:
        """List the partitions of this shard, without later topics that conflict with the tables of
        others.
        """
        listing = self.tables.environment.log.partitions()
        kept = set(self.tables.topics)
        for topic in sorted({at.topic for at in listing} - kept):
            try:
                self.tables.settings.routes(sorted({*kept, topic}))
            except InvalidError as error:
                if topic not in self._unrouted:
                    self.tables.environment.observer(TopicUnrouted(topic, error.message))
                self._unrouted.add(topic)
            else:
                kept.add(topic)
        listing = [at for at in listing if at.topic in kept]
        self.tables.list_topics(listing)
        return [*filter(self.tables.settings.shard.takes, listing)]

    def _ask_brokers(self, ask: Callable[[], Returned]) -> Returned | None:
        """Ask brokers; None while they do not answer, or reject a login that worked before."""
        try:
            return ask()
        except (UnavailableError, InvalidError) as error:
            if isinstance(error, InvalidError) and error.code not in LOGIN_REJECTED:
                raise
            if self._lasts(_SILENT, BROKER_PATIENCE_SECONDS):
                raise
            self.tables.environment.observer(PartitionStalled("all", error.message))
            return None

    def _lasts(self, trouble: str, patience_seconds: float) -> bool:
        """Return whether a trouble lasts for longer than we wait; it begins when first asked."""
        now = self.tables.environment.clock.monotonic()
        return now - self._since.setdefault(trouble, now) > patience_seconds

    def leaderless(self, listing: Listing) -> bool:
        """Return whether a partition cannot be listed. Raises UnavailableError when that lasts."""
        absent = self._absent(listing.bounds)
        if not absent:
            return False
        if self._lasts(_LEADERLESS, PARTITION_PATIENCE_SECONDS):
            raise no_leader(absent)
        return True

    def _absent(self, bounds: Mapping[TopicPartition, Bounds]) -> list[TopicPartition]:
        wanted = {at for table in self.tables.active.values() for at in table.wanted}
        return sorted(wanted - set(bounds))

    def made_progress(self, results: Sequence[TaskResult]) -> bool:
        """Return whether an epoch read anything at all; note which partitions returned nothing.

        Raises UnavailableError when only those are left for long, in a run that ends by itself.
        """
        lanes = [lane for result in results for lane in result.lanes]
        silent = {lane.lane.at for lane in lanes if lane.unresponsive}
        responsive = [
            result
            for result in results
            if any(lane.reached > lane.lane.covered.start for lane in result.lanes)
        ]
        # Those in a task with one that returned something had no time: it is their turn again.
        well = {lane.lane.at for each in responsive for lane in each.lanes} - silent
        before = (at for at in self.unresponsive if at not in well | silent)
        self.unresponsive = (*before, *sorted(silent))
        if responsive or not silent:
            self._since.pop(_UNRESPONSIVE, None)
            return bool(lanes)
        asked = all(lane.lane.at in self.unresponsive for lane in lanes)
        lasting = self._lasts(_UNRESPONSIVE, PARTITION_PATIENCE_SECONDS)
        if asked and not self.endless and lasting:
            raise no_records_returned(self.unresponsive)
        return False

    def recheck_failed(self, results: Sequence[TaskResult]) -> bool:
        """Park tables that failed in an epoch; False when it is to be read again later.

        One that may be landed up to a record is not parked before it has come there: the epoch is
        read again, up to it.

        Raises DecisionNeededError when a topic was re-created meanwhile.
        """
        failed = failures(results)
        lost = any(isinstance(each, DecisionNeededError) for each in failed.values())
        listing = self._ask_brokers(self._list_topics)
        if listing is None:
            return False
        log = self.tables.environment.log
        bounds = self._ask_brokers(partial(log.bounds, listing)) if lost else {}
        if bounds is None:
            return False
        again = False
        for name, failure in failed.items():
            table = self.tables.progress[name]
            if self._handle_truncated(table, bounds):
                continue
            if self._stops_later(table, failure):
                again = True
            else:
                self.tables.parked.park(name, failure)
        return not again

    def _stops_later(self, table: TableProgress, failure: PenstockError) -> bool:
        """Return whether there is something to land before the record that a failure is about; if
        so, no epoch reads past it from then on.
        """
        if not isinstance(failure, DecisionNeededError) or failure.at is None:
            return False
        at, offset = failure.at
        if table.examined.get(at, offset) >= offset:
            return False
        self.stops.setdefault(at, set()).add(offset)
        return True

    def _handle_truncated(
        self, table: TableProgress, bounds: Mapping[TopicPartition, Bounds]
    ) -> bool:
        """Park a table if its log was truncated, or pass the gap if allowed; else return False."""
        error = log_checks.check_truncated(table, bounds)
        if error is None:
            return False
        if "gap" in self.tables.settings.accept and error.code == log_checks.RETENTION:
            self.preparer.record_gap(table, bounds)
        else:
            self.tables.parked.park(table.name, error)
        return True


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
