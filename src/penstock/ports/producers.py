"""Transactions of producers: the right to write under an id, what was written last, and their ends.

Invariants:
- a term is one transaction's: the next begins under the term that ended the one before;
- what is not known to have happened is `Refused`: the caller renews, looks, and goes on from what
  it finds; it never decides from the reason;
- nothing is aborted and gone on from: there is no request for it, a renewal aborts what is open.

Source: KIP-98, KIP-890; docs/design/0274.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.core.offsets import TopicPartition
from penstock.core.receipts import Batches

if TYPE_CHECKING:
    import pyarrow as pa

NO_ANSWER = -1
FORGOTTEN = 49
"""Kafka's number for a term whose id and producer the coordinator does not know together."""
EPOCHS_BEFORE_THE_NEXT_PRODUCER = 32_760
"""Epochs are 16 bits: a producer id is replaced when they run out, and not long before."""


@dataclass(frozen=True, slots=True)
class Term:
    """The right to write under one transactional id: producer id and epoch."""

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}/{self.epoch}"


def of_the_same_id(former: Term, renewed: Term) -> Term | Refused:
    """Return a renewed term, or that the id had been forgotten.

    A coordinator that knows nothing of an id gives a new producer id and compares nothing, so that
    a run that was replaced long ago would take the id back.
    """
    replaced = former.producer_id != renewed.producer_id
    if replaced and former.epoch < EPOCHS_BEFORE_THE_NEXT_PRODUCER:
        return Refused(FORGOTTEN, f"the coordinator has forgotten the term {former}")
    return renewed


@dataclass(frozen=True, slots=True)
class Refused:
    """It was not done, or nobody knows: `error` is Kafka's number, or NO_ANSWER."""

    error: int
    reason: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the coordinator of an id knows of it: its term, and whether something is open."""

    term: Term
    is_open: bool
    state: str


class Terms(Protocol):
    """Takes, renews and ends terms; on the driver, in one thread."""

    def check(self) -> None:
        """Check that the cluster has protocol 2, which terms rest on.

        Raises InvalidError (P282), UnavailableError (P280), or as connecting does.
        """

    def remembered(self, transactional_id: str) -> Remembered | None:
        """Return what the coordinator knows of an id, or None; a term that is taken erases it.

        Raises as `take` does.
        """

    def take(self, transactional_id: str) -> Term:
        """Fence whoever has an id, abort what is open under it, and return a term of our own.

        Raises InvalidError: not allowed (P281), a timeout above the cluster's (P283);
        UnavailableError when no coordinator answers in time (P280).
        """

    def renew(self, transactional_id: str, term: Term) -> Term | Refused:
        """Return the next term after ours, and abort what is open under it.

        Under protocol 2 this compares and sets: it succeeds unless another took the id since, or
        the coordinator forgot it. After an end without an answer it returns the term that the end
        gave. Raises InvalidError (P281), UnavailableError (P280).
        """

    def end(self, transactional_id: str, term: Term) -> Term | Refused:
        """Commit the open transaction and return the next term.

        The same request is repeated for a while when no answer comes. Any refusal leaves in doubt
        whether the transaction ended: renew, then look. Raises InvalidError (P281).
        """

    def close(self) -> None:
        """Let go of connections; what is open stays open."""


Entry = tuple[bytes, bytes | None]
"""Key and value as they are in the topic; no value: a tombstone."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a ledger holds: the last committed value of each key.

    `undecided` are keys in transactions that have not ended: of others that write, or of ours if
    one hangs.
    """

    entries: Mapping[bytes, bytes]
    undecided: frozenset[bytes] = frozenset()


class Ledger(Protocol):
    """The offsets topic of a publication; on the driver, in one thread."""

    def prepare(self) -> None:
        """Create the topic if it is missing, and check that it is compacted, and nothing else.

        Raises InvalidError (P204, P800).
        """

    def exists(self) -> bool:
        """Return whether the topic is there. Raises UnavailableError (P280)."""

    def look(self) -> Look:
        """Read from the beginning up to the high watermark of now, whoever's transactions are open.

        A fence that was answered before lets nothing appear behind it. Raises UnavailableError
        (P280), InvalidError (P204).
        """

    def append(self, transactional_id: str, term: Term, entries: Sequence[Entry]) -> Refused | None:
        """Write entries into the term's transaction, which begins with them if none is open.

        Called once for a term. Raises InvalidError (P204, P281), and UnavailableError (P280) before
        anything was sent.
        """

    def close(self) -> None:
        """Let go of connections."""


class Sender(Protocol):
    """Sends messages into the transaction of a term; on a worker, which ends no transaction."""

    def send(
        self,
        transactional_id: str,
        term: Term,
        at: TopicPartition,
        messages: Iterable[pa.RecordBatch],
    ) -> Batches | Refused | None:
        """Send all messages of a partition, and return the batches; None where there are none.

        Called once for a term and a partition, whose first batch has the sequence number 0.
        `messages` have the columns of `ports.sources.MESSAGES`. What is not answered is sent again:
        the same bytes. Nothing is sent to a topic of another id. Raises InvalidError (P204, P281),
        UnavailableError (P280) before anything was sent, and what reading `messages` raises.
        """

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class BatchHead:
    """A committed batch of a transaction, without its records; offsets are inclusive."""

    term: Term
    first: int
    last: int
    records: int
    crc: int | None
    size_bytes: int


class Heads(Protocol):
    """Reads the heads of batches in the topics that are written; on the driver."""

    def committed(self, at: TopicPartition, begin: int) -> Iterator[BatchHead]:
        """Yield the committed batches of transactions from an offset on, up to the high watermark.

        In the order of their markers, whoever's transactions are open. Raises InvalidError (P204,
        P205), UnavailableError (P280).
        """

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True)
class Producers:
    """What the driver of a publication needs of the cluster that is written."""

    terms: Terms
    ledger: Ledger
    heads: Heads

    def close(self) -> None:
        """Let go of connections; what is open stays open."""
        for each in (self.terms, self.ledger, self.heads):
            each.close()
