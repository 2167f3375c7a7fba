"""Transactions of a cluster that have not ended: what they hold up, and how one is aborted.

Invariants:
- a transaction is looked for in partitions first: a coordinator does not know of those that hang;
- HANGING is said only where the coordinators were asked, all of them, by a user who may see every
  id, and the partition still held the same transaction afterwards.

Source: KIP-664.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

NAMED_MAX = 3
STUCK_AFTER_MS = 60_000
"""As long as producers' transactions may take by default."""


class TransactionState(StrEnum):
    """Whether something will end a transaction.

    An `open` one its producer ends, or its timeout; an `ending` one its coordinator, now; a
    `hanging` one nobody. `unknown`: we may not ask, or a broker did not answer.
    """

    OPEN = "open"
    ENDING = "ending"
    HANGING = "hanging"
    UNKNOWN = "unknown"


class Scope(StrEnum):
    """Which topics are looked through: those of the spec, or all."""

    SPEC = "spec"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, order=True)
class HeldPartition:
    """Where a transaction is open: readers of committed records stop at `first_offset`.

    `held_records` counts the positions from there to the end of the log.
    """

    topic: str
    partition: int
    first_offset: int
    held_records: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One transaction that has not ended. Times are epoch milliseconds, None where not known.

    `transactional_id` is empty where no coordinator shows one. `began_ms` is by the coordinator's
    clock, `timeout_ms` from there on.
    """

    transactional_id: str
    state: TransactionState
    producer_id: int
    epoch: int
    began_ms: int | None
    timeout_ms: int | None
    partitions: tuple[HeldPartition, ...]

    @property
    def name(self) -> str:
        """Return its transactional id, else its producer id: what `--abort` takes."""
        return self.transactional_id or str(self.producer_id)

    @property
    def held_records(self) -> int:
        """Return how many positions wait for its end."""
        return sum(each.held_records for each in self.partitions)

    @property
    def held(self) -> str:
        """Say what waits for its end: how many records, of which partitions."""
        first = ", ".join(f"{each.topic}[{each.partition}]" for each in self.partitions[:NAMED_MAX])
        more = len(self.partitions) - NAMED_MAX
        count = self.held_records
        records = "1 record" if count == 1 else f"{count:,} records"
        return f"{records} of {first}{f' and {more:,} more' if more > 0 else ''}"

    def is_stuck(self, now_ms: int) -> bool:
        """Return whether it hangs, or is open for so long that a person should know of it."""
        if self.state is TransactionState.HANGING:
            return True
        return self.began_ms is not None and now_ms - self.began_ms > STUCK_AFTER_MS


class Transactions(Protocol):
    """Lists and aborts the open transactions of a cluster; in one thread."""

    def listed(self, scope: Scope) -> Sequence[OpenTransaction]:
        """List what is open in partitions, the longest first.

        Raises InvalidError: a permission is missing (P204), the brokers are too old (P282);
        UnavailableError when they do not answer (P280).
        """

    def abort(self, found: OpenTransaction) -> None:
        """Abort a transaction that is open or hanging; return when readers can pass.

        The producer of an open one is fenced. Raises InvalidError: a permission is missing (P281);
        UnavailableError when the brokers do not answer, or it is still there (P280).
        """

    def close(self) -> None:
        """Let go of connections."""
