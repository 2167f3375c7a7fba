"""When the next epoch is due, how much it may hold, and how far a run reads.

Invariant: a run that ends by itself reads what was there when it listed a partition first, else it
would never end (docs/design/0227).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.core.planning import Bounds, Budget, Epoch
from penstock.landing.settings import Settings
from penstock.landing.task.messages import TaskResult
from penstock.ports.runtime import Clock

SMOOTHING = 0.3
NEARLY_FULL_SHARE = 0.98
SURVEYED_RECORDS_MAX = 50_000


@dataclass(slots=True)
class EpochTrigger:
    """Keeps the rhythm: an epoch every so often, or as soon as one is full.

    `commit.or_bytes` counts bytes as written; how many bytes read make one written is learned.
    """

    settings: Settings
    clock: Clock
    every_seconds: float = field(init=False)
    _started_at: float | None = None
    _record_bytes: dict[TopicPartition, float] = field(default_factory=dict)
    _written_per_read: float = 0.5
    _budget: Budget | None = None

    def __post_init__(self) -> None:
        self.every_seconds = self.settings.every_seconds

    def budget(self, capacity: int, *, surveying: bool = False) -> Budget:
        """Bound the next epoch; one that is read twice, for a table that does not exist, more."""
        records_max = self.settings.records_max
        self._budget = Budget(
            records_max=min(records_max, SURVEYED_RECORDS_MAX) if surveying else records_max,
            bytes_max=int(self.settings.bytes_max / self._written_per_read),
            slice_bytes=self.settings.slice_bytes,
            capacity=capacity,
            record_bytes=dict(self._record_bytes),
        )
        return self._budget

    def should_fire(self, epoch: Epoch) -> bool:
        """Return whether the time has come, or the planned epoch is full."""
        if self.wait_seconds() <= 0:
            return True
        budget = self._budget
        assert budget is not None, "an epoch is planned within a budget"
        size = sum(
            lane.covered.count * budget.bytes_of(lane.at)
            for part in epoch.slices
            for lane in part.lanes
        )
        return (
            epoch.records >= NEARLY_FULL_SHARE * budget.records_max
            or size >= NEARLY_FULL_SHARE * budget.bytes_max
        )

    def wait_seconds(self) -> float:
        """Return the time until the next epoch is due by the clock."""
        if self._started_at is None:
            return 0.0
        return self._started_at + self.every_seconds - self.clock.monotonic()

    def started(self) -> None:
        """Note that an epoch begins."""
        self._started_at = self.clock.monotonic()

    def observe_sizes(self, results: Sequence[TaskResult]) -> None:
        """Learn sizes from what an epoch read and wrote."""
        read = 0
        for result in results:
            for lane in result.lanes:
                read += lane.size_bytes
                if lane.records:
                    seen = lane.size_bytes / lane.records
                    known = self._record_bytes.get(lane.lane.at, seen)
                    self._record_bytes[lane.lane.at] = known + SMOOTHING * (seen - known)
        written = sum(f.size_bytes for r in results for files in r.files.values() for f in files)
        if read and written:
            seen = min(max(written / read, 0.001), 10.0)
            self._written_per_read += SMOOTHING * (seen - self._written_per_read)


@dataclass(slots=True)
class StoppingOffsets:
    """Bounds what a run reads: `fixed` are ends to catch up to; `keep_first` keeps those listed
    first: what producers go on to send is the next run's.
    """

    fixed: Positions | None = None
    keep_first: bool = False
    _first: dict[TopicPartition, Offset] = field(default_factory=dict)

    def ends(self, listed: Mapping[TopicPartition, Bounds]) -> dict[TopicPartition, Offset]:
        """Return the end of each partition that is read, of those that are listed now."""
        ends = {at: bounds.stop for at, bounds in listed.items()}
        if self.keep_first:
            self._first = {**ends, **self._first}
            ends = {at: min(end, self._first[at]) for at, end in ends.items()}
        if self.fixed is None:
            return ends
        return {at: min(end, self.fixed[at]) for at, end in ends.items() if at in self.fixed}
