"""Everything that can be told, as frozen data: log lines, metrics, progress and status listen.

Names are `<Noun><PastVerb>` (interface.md 5). Durations are seconds, sizes bytes, times epoch
milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a pipeline."""


@dataclass(frozen=True, slots=True)
class PipelineStarted(Event):
    """A coordinator holds the claim and begins with recovery."""

    pipeline: str
    generation: int
    owner: str
    tables: int
    pending: int


@dataclass(frozen=True, slots=True)
class WaitBegan(Event):
    """What a run waits for from now on, before its first epoch or while one is read: `what` is to
    happen.
    """

    what: str


@dataclass(frozen=True, slots=True)
class WaitLasted(Event):
    """The run still waits for the same, after so long. Told from time to time."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BacklogCounted(Event):
    """What waits in Kafka is known for the first time in this run: records per topic (`lag`), per
    table (`behind`) and per partition (`waiting`).
    """

    lag: Mapping[str, int]
    behind: Mapping[str, int]
    waiting: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TableCreated(Event):
    """A table came into being with its ledger."""

    table: str
    columns: int


@dataclass(frozen=True, slots=True)
class EpochPlanned(Event):
    """An epoch was opened. `lag` is the backlog in records per topic, `behind` the same per table,
    `waiting` per partition, all before this epoch.
    """

    epoch: int
    slices: int
    records: int
    lag: Mapping[str, int] = field(default_factory=dict)
    behind: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SliceRead(Event):
    """A task came back with what it read; `topics` counts its records by topic."""

    epoch: int
    slice: int
    records: int
    size_bytes: int
    seconds: float
    topics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FilesWritten(Event):
    """An epoch's files for one table are on storage, not yet visible."""

    epoch: int
    table: str
    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class EpochPrepared(Event):
    """All committables of an epoch are in the pending store: the next epoch may begin."""

    epoch: int
    records: int
    tables: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TableCommitted(Event):
    """Files and progress became visible in one table."""

    epoch: int
    table: str
    chain: str
    kind: str
    commit_id: str
    snapshot: str
    rows: int
    files: int
    size_bytes: int
    seconds: float
    valid_through_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CommitFoundLanded(Event):
    """A commit of an earlier attempt was found in the table; nothing was done again."""

    table: str
    chain: str
    commit_id: str
    ours: bool


@dataclass(frozen=True, slots=True)
class CommitConflicted(Event):
    """The table moved while we committed; everything is read and decided again."""

    table: str
    chain: str
    commit_id: str
    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class CommitLeftInDoubt(Event):
    """The answer to a commit was lost; the next turn finds out."""

    table: str
    chain: str
    commit_id: str
    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class CommitAborted(Event):
    """A prepared commit was proven unable to land; its range is read again where needed."""

    table: str
    chain: str
    commit_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableParked(Event):
    """One table is parked with its reason; the others go on."""

    table: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableResumed(Event):
    """A parked table is back and catches up by ranges of its own."""

    table: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TableLeft(Event):
    """A parked table is waited for no more: its topics are gone. What is pending for it stays."""

    table: str


@dataclass(frozen=True, slots=True)
class RecordsQuarantined(Event):
    """Records of an epoch did not fit; codes with their counts."""

    epoch: int
    table: str
    codes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PoisonFound(Event):
    """The process that reads this record dies of it: it is refused, and the others are read."""

    epoch: int
    partition: str
    offset: int


@dataclass(frozen=True, slots=True)
class ConcurrencyLowered(Event):
    """So many slices killed a worker together, and none of them by itself: they want more memory
    than there is. At most `at_once` run together now; more are tried again after some epochs.
    """

    epoch: int
    slices: int
    at_once: int


@dataclass(frozen=True, slots=True)
class RecordsFiltered(Event):
    """Records of an epoch were left out of a table on purpose; reasons with their counts."""

    epoch: int
    table: str
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StretchRead(Event):
    """A part of what a replay lands again was read: so many of its positions, so far."""

    table: str
    read: int
    positions: int


@dataclass(frozen=True, slots=True)
class CommitsStalled(Event):
    """Records were consumed and not committed for two commit intervals: by these tables, in this
    epoch's reading, or from Kafka, which does not answer. `since_ms` is when it began.
    """

    tables: tuple[str, ...]
    reading: int | None
    kafka: bool
    since_ms: int


@dataclass(frozen=True, slots=True)
class CommitsResumed(Event):
    """What had stalled goes on."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ClassArchiveBegun(Event):
    """A process of its own archives Java's classes at `path`: later starts take half the time."""

    path: str


@dataclass(frozen=True, slots=True)
class MetricsServed(Event):
    """Metrics can be asked for at this address."""

    url: str


@dataclass(frozen=True, slots=True)
class SchemaChanged(Event):
    """The coordinator changed a table's schema."""

    table: str
    kind: str
    change: str


@dataclass(frozen=True, slots=True)
class CoordinatorFenced(Event):
    """A newer owner was seen."""

    generation: int
    by_generation: int
    by_owner: str


@dataclass(frozen=True, slots=True)
class GapFound(Event):
    """A table stands before a prepared commit; the stretch is planned again."""

    table: str
    chain: str
    commit_id: str


@dataclass(frozen=True, slots=True)
class PartitionStalled(Event):
    """A partition could not be read in this epoch; it holds up nobody else."""

    partition: str
    reason: str


@dataclass(frozen=True, slots=True)
class KafkaAnswered(Event):
    """Brokers answer again, after a silence of so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HousekeepingFailed(Event):
    """What may fail without harm after a commit did: a checkpoint, removal of old metadata."""

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class TopicUnrouted(Event):
    """A topic that the pipeline reads goes to no table; none of its records is read. `reason` when
    it came later, and would go to one that cannot be had beside the others.
    """

    topic: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PipelineStopped(Event):
    """The coordinator ended. `clean` when all chains are level and nothing is pending; `code` is
    that of the error which ended it, empty when it was asked to stop.
    """

    pipeline: str
    reason: str
    clean: bool
    code: str = ""
