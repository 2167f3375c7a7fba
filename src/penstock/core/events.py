"""Everything that a pipeline reports, as frozen data: log, metrics, display and status listen.

Names are `<Noun><PastVerb>` (interface.md 5). Durations are seconds, sizes bytes, times epoch
milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ASKED, GAVE_WAY = "asked to stop", "handed over"
"""Why a run ended that nothing was the matter with, and that was not through."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a pipeline."""


@dataclass(frozen=True, slots=True)
class PipelineStarted(Event):
    """A coordinator has the claim and starts recovery."""

    pipeline: str
    generation: int
    owner: str
    tables: int
    pending: int


@dataclass(frozen=True, slots=True)
class WaitBegan(Event):
    """The run waits for `what`, before its first epoch or while an epoch is read."""

    what: str


@dataclass(frozen=True, slots=True)
class WaitLasted(Event):
    """The run still waits for the same after `seconds`; reported from time to time."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class BacklogCounted(Event):
    """The backlog is known for the first time in this run: records per topic (`lag`), per table
    (`table_lag`) and per partition (`partition_lag`).
    """

    lag: Mapping[str, int]
    table_lag: Mapping[str, int]
    partition_lag: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class TableAbsent(Event):
    """A table is not there, and this pipeline has read for it before. The next record that fits
    creates it; it holds no rows of records before `begin`, of the topics' partitions.
    """

    table: str
    begin: str


@dataclass(frozen=True, slots=True)
class TableCreated(Event):
    """A table was created, with its ledger."""

    table: str
    columns: int


@dataclass(frozen=True, slots=True)
class EpochPlanned(Event):
    """An epoch was planned. `lag` is the backlog in records per topic, `table_lag` per table,
    `partition_lag` per partition, all before this epoch.
    """

    epoch: int
    slices: int
    records: int
    lag: Mapping[str, int] = field(default_factory=dict)
    table_lag: Mapping[str, int] = field(default_factory=dict)
    partition_lag: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SliceRead(Event):
    """A task returned what it read; `topics` counts its records by topic."""

    epoch: int
    slice: int
    records: int
    size_bytes: int
    seconds: float
    topics: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExchangeGivenUp(Event):
    """Rows could not be exchanged in an epoch: it is read again, and each task writes its own."""

    epoch: int
    reason: str
    code: str


@dataclass(frozen=True, slots=True)
class FilesWritten(Event):
    """An epoch's files for one table are in storage, not yet visible."""

    epoch: int
    table: str
    files: int
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class EpochPrepared(Event):
    """All commits of an epoch are in the pending store; the next epoch can start."""

    epoch: int
    records: int
    tables: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TableCommitted(Event):
    """Files and progress became visible in one table.

    `changes` counts what a row delta did: keys inserted, updated, deleted, absent, late; rows
    healed, which are further rows of one key; and records superseded by later ones of the commit.
    `rewritten_bytes` is the size of the files that were written again for it.
    """

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
    changes: Mapping[str, int] = field(default_factory=dict)
    rewritten_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KeysAcrossPartitions(Event):
    """A commit changed `keys` keys in two partitions, or replaced `rows` rows of other partitions:
    which change is the last is by their order in the commit, or that of commits.
    """

    table: str
    keys: int
    rows: int


@dataclass(frozen=True, slots=True)
class CommitEvent(Event):
    """Something that happened to one commit of a table."""

    table: str
    chain: str
    commit_id: str


@dataclass(frozen=True, slots=True)
class CommitFoundLanded(CommitEvent):
    """A commit of an earlier attempt was found in the table and not repeated. `as_prepared` is
    false when it landed with other files than those prepared.
    """

    as_prepared: bool


@dataclass(frozen=True, slots=True)
class CommitConflicted(CommitEvent):
    """The table changed during the commit; everything is read and decided again."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class CommitLeftInDoubt(CommitEvent):
    """The answer to a commit was lost; the next turn finds out whether it landed."""

    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class CommitAborted(CommitEvent):
    """A prepared commit can never land; its range is read again where needed."""

    reason: str


@dataclass(frozen=True, slots=True)
class TableParked(Event):
    """One table is parked with a reason; the other tables continue."""

    table: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class TableResumed(Event):
    """A parked table has resumed and catches up by ranges of its own."""

    table: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TableAbandoned(Event):
    """A run no longer waits for a parked table: its topics were deleted. Pending commits stay."""

    table: str


@dataclass(frozen=True, slots=True)
class PauseBegan(Event):
    """The run commits nothing to a table until `until_ms`: somebody paused it."""

    table: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class PauseEnded(Event):
    """The pause of a table is over, by its time or by `penstock resume`; its commits go on."""

    table: str


@dataclass(frozen=True, slots=True)
class RecordsQuarantined(Event):
    """Records of an epoch were rejected; `codes` counts them by reason."""

    epoch: int
    table: str
    codes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PoisonFound(Event):
    """This record kills the process that reads it. It is rejected; the others are read."""

    epoch: int
    partition: str
    offset: int


@dataclass(frozen=True, slots=True)
class ConcurrencyLowered(Event):
    """`slices` slices killed a worker together, and none of them alone: they need more memory than
    the workers have. At most `concurrency_max` run together now; more are tried again after some
    epochs.
    """

    epoch: int
    slices: int
    concurrency_max: int


@dataclass(frozen=True, slots=True)
class RecordsFiltered(Event):
    """Records of an epoch were filtered out of a table; `reasons` counts them by reason."""

    epoch: int
    table: str
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ReplayProgressed(Event):
    """A replay or load has read `offsets_read` of its `offsets` offsets so far."""

    table: str
    offsets_read: int
    offsets: int


@dataclass(frozen=True, slots=True)
class CommitsStalled(Event):
    """Records were consumed and not committed for two commit intervals: in `tables`, in the epoch
    that is being read (`reading`), or because Kafka does not answer (`kafka`). `since_ms` is when
    it began.
    """

    tables: tuple[str, ...]
    reading: int | None
    kafka: bool
    since_ms: int


@dataclass(frozen=True, slots=True)
class CommitsResumed(Event):
    """Commits resumed after a stall."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ClassArchiveBegun(Event):
    """A background process caches Java's classes at `path`; later starts take half the time."""

    path: str


@dataclass(frozen=True, slots=True)
class SchemaChanged(Event):
    """The coordinator changed a table's schema."""

    table: str
    kind: str
    change: str


@dataclass(frozen=True, slots=True)
class CoordinatorFenced(Event):
    """A newer owner has taken over."""

    generation: int
    by_generation: int
    by_owner: str


@dataclass(frozen=True, slots=True)
class GapFound(CommitEvent):
    """A prepared commit starts after the table's position; the range between is planned again."""


@dataclass(frozen=True, slots=True)
class PartitionStalled(Event):
    """A partition could not be read in this epoch; the other partitions are not delayed."""

    partition: str
    reason: str


@dataclass(frozen=True, slots=True)
class KafkaAnswered(Event):
    """Brokers answer again, after a silence of `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HousekeepingFailed(Event):
    """Harmless work after a commit failed: a checkpoint, or the removal of old metadata."""

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class TopicsGrew(Event):
    """Topics of a keyed table were given partitions: what they had before is read first."""

    table: str
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicUnrouted(Event):
    """No rule writes a topic to a table, so its records are not read. `reason` is set when the
    topic appeared after start and its target table conflicts with another rule.
    """

    topic: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PipelineStopped(Event):
    """The coordinator stopped. `clean` is true when all chains are level and nothing is pending;
    `code` is that of the error that stopped it, empty when it was asked to stop.
    """

    pipeline: str
    reason: str
    clean: bool
    code: str = ""
