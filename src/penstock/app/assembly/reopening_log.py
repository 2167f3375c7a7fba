"""The log of a run, that lives longer than a password."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.core.offsets import Positions, TopicPartition
from penstock.core.planning import Bounds
from penstock.files.reopening import Reopening
from penstock.ports.log import Log


@dataclass(frozen=True, slots=True)
class ReopeningLog:
    """Asks the log that is open; each listing of topics checks whether secrets have changed."""

    kept: Reopening[Log]

    def cluster_id(self) -> str:
        """Return the cluster's id; see `Log`."""
        return self.kept().cluster_id()

    def partitions(self, *, without: Collection[str] = ()) -> Sequence[TopicPartition]:
        """List partitions; see `Log`."""
        return self.kept().partitions(without=without)

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return what can be read; see `Log`."""
        return self.kept().bounds(partitions)

    def positions_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Positions:
        """Return positions at a time; see `Log`."""
        return self.kept().positions_at(partitions, timestamp_ms)

    def close(self) -> None:
        """Let go of connections."""
        self.kept.close()
