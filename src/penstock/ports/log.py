"""The source log: listing on the driver, reading on the workers.

Positions are next-to-read; ends are listed under the isolation level that the reader uses
(protocol.md 7).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.core.offsets import Offset, OffsetRange, Positions, TopicPartition
from penstock.core.planning import Bounds

if TYPE_CHECKING:
    import pyarrow as pa


class Log(Protocol):
    """Lists a cluster's topics; used by the driver only."""

    def cluster_id(self) -> str:
        """Return the cluster's id. Raises UnavailableError."""

    def partitions(self, *, without: Collection[str] = ()) -> Sequence[TopicPartition]:
        """List the partitions of all topics that the spec names or that match a pattern, sorted.

        Those `without` are left out, there or not. Raises InvalidError when an exactly named topic
        does not exist or may not be read, or when topic ids are missing and `identity: name` was
        not chosen; UnavailableError when no broker answers.
        """

    def bounds(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, Bounds]:
        """Return what can be read of each partition now; one without a leader is left out.

        Raises UnavailableError when no broker answers.
        """

    def positions_at(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Positions:
        """Return the first position with a record not older than a time, else the end."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """One batch of records and the position after it.

    `batch` has the columns `offset: int64, timestamp: timestamp[ms, UTC] or null, key: binary,
    value: binary` (null key or value where the record has none), and `headers:
    list<struct<key: string, value: binary>>` only when asked for; offsets ascend. It may have no
    rows: then only the position moved, over transaction markers or compacted offsets. Headers with
    names that are not UTF-8 are a null list. `leader_epoch` is that of the log just before
    `reached`, markers included, or None when not known: an older one would mean a truncated log.
    """

    batch: pa.RecordBatch
    reached: Offset
    leader_epoch: int | None = None


class RangeReader(Protocol):
    """Reads ranges of partitions on a worker; kept and used again over tasks."""

    def read(
        self,
        at: TopicPartition,
        covered: OffsetRange,
        *,
        deadline: float,
        headers: bool = False,
        leader_epoch: int | None = None,
    ) -> Iterator[Fetched]:
        """Yield the committed records of a range in order, ending by position.

        The last `reached` equals `covered.stop` unless `deadline` (monotonic seconds) passed or the
        partition had nothing until then: the range ends early, nothing is lost. Records of aborted
        transactions are left out. With `leader_epoch`, that of the record before the range, it is
        checked that the log is still the one that was read. Raises DecisionNeededError when the
        log now starts above the range's start (retention) or was truncated, UnavailableError when
        the cluster does not answer.
        """

    def close(self) -> None:
        """Let go of connections."""
