"""What a publication is given: settings are data, the outside is ports. Built by the app."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from penstock.commit.transactions import TransactionContext
from penstock.core.claims import publication_claim
from penstock.core.resuming import Accepted
from penstock.ownership.claim import ClaimContext, Heartbeat
from penstock.ports.log import Log
from penstock.ports.producers import NewTopic, Producers
from penstock.ports.registry import Subjects
from penstock.ports.runtime import Clock, Engine, Observer
from penstock.ports.sources import EpochLimit, Source, Stands, Stretch
from penstock.ports.store import Owner, PendingStore
from penstock.publishing.pace import Rate
from penstock.rows.convert.absent_fields import AbsentFields
from penstock.rows.encode.rules import MessagePart, MessageRules

Start = Literal["earliest", "latest"]
Changes = Literal["stop", "skip", "whole"]
"""What is done about a snapshot that removed rows: ask, leave it out, or publish all anew."""
REJECTED_TOPIC = NewTopic()
"""What a topic for rejects is created with: as brokers have it, never compacted by its target."""
UNLIMITED = Rate()
FRAMES = "DataFrames"
DEFAULT_LIMIT = EpochLimit(1_000_000, 256_000_000)


@dataclass(frozen=True, slots=True)
class Rejects:
    """The topic for rows that are no messages, and which share of a transaction they may be."""

    into: str
    stop_above_share: float


@dataclass(frozen=True, slots=True)
class SubjectRule:
    """The subject of a schema, and when a schema that it does not have is registered.

    compatible: where the registry finds it so; missing: only if it has none; never.
    """

    subject: str
    register: Literal["compatible", "missing", "never"] = "compatible"


@dataclass(frozen=True, slots=True)
class Publication:
    """One rule of `publish`. `source` and `target` go into jobs and hold no secret.

    `target` is settings of a log, and `source` too, perhaps with how `records` are read, or the
    connector and the name of a table, whose
    `catalog` stays on the driver, or the kind of DataFrames, or the name of a source of one's own
    and its options; `offsets_topic` is in the target's cluster. `places` are positions that a
    person put it to.

    `tasks` is how many end transactions of their own, each with its part of the source; `target`
    says by which client (docs/design/0297).

    It `polls` where a transaction begins as soon as there is something to publish.

    `messages` says how rows become messages; None where the source gives messages as they are.
    Without `rejects` a row that is no message stops it.
    `subjects` says where its schemas are registered, `registries` are the settings of registries,
    which stay on the driver.
    `new_topic` is what a missing target is created with; None: it is not created.
    """

    name: str
    pipeline: str
    group: str
    into: str
    offsets_topic: str
    rules_hash: str
    start: Start
    source: Mapping[str, Any]
    target: Mapping[str, Any]
    catalog: Mapping[str, Any] = field(default_factory=dict, repr=False)
    changes: Changes = "stop"
    messages: MessageRules | None = None
    rejects: Rejects | None = None
    tasks: int = 1
    subjects: Mapping[MessagePart, SubjectRule] = field(default_factory=dict)
    registries: Mapping[MessagePart, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    new_topic: NewTopic | None = None
    polls: bool = False
    interval_seconds: float = 5.0
    rate: Rate = UNLIMITED
    limit: EpochLimit = DEFAULT_LIMIT
    timeout_seconds: float = 60.0
    accept: frozenset[Accepted] = frozenset()
    accept_gap: bool = False
    places: Stands = field(default_factory=dict)
    heartbeat_seconds: float = 3.0
    alive_seconds: float = 15.0

    @property
    def reads_table(self) -> bool:
        """Return whether its source is a table."""
        return "table" in self.source

    @property
    def reads_quarantine(self) -> bool:
        """Return whether that is the quarantine which a pipeline makes with its first run."""
        return "quarantine" in self.source

    @property
    def reads_frames(self) -> bool:
        """Return whether a program gives it DataFrames."""
        return "dataframe" in self.source

    @property
    def reads_own(self) -> bool:
        """Return whether its source is one of one's own."""
        return "own" in self.source

    @property
    def reads_topic(self) -> bool:
        """Return whether its source is a topic, of messages or of rows."""
        return "topics" in self.source

    @property
    def keeps_partitions(self) -> bool:
        """Return whether a message goes into the partition of its record's number."""
        return self.messages is None or self.messages.keeps_partition

    @property
    def source_name(self) -> str:
        """Return the name of what it publishes: a topic's, a table's, or that of its own source."""
        if self.reads_frames:
            return FRAMES
        if self.reads_own:
            return str(self.source["name"])
        return str(self.source["table"] if self.reads_table else self.source["topics"][0])

    @property
    def written(self) -> tuple[str, ...]:
        """Return the topics that its transactions write: that of its messages first."""
        return (self.into,) if self.rejects is None else (self.into, self.rejects.into)

    @property
    def created_topics(self) -> dict[str, NewTopic]:
        """Return the topics that are created where they are missing, and with what."""
        if self.new_topic is None:
            return {}
        return {**dict.fromkeys(self.written, REJECTED_TOPIC), self.into: self.new_topic}

    @property
    def without_consent(self) -> Publication:
        """Return it as it goes on after a start: what is found later is asked for again."""
        return replace(self, accept=frozenset(), accept_gap=False)

    @property
    def transactional_id(self) -> str:
        """Return the id of its transactions: that of the first task."""
        return self.id_of(0)

    def id_of(self, task: int) -> str:
        """Return the id of a task's transactions: KIP-618's."""
        return f"{self.group}-{self.name}-{task}"

    @property
    def claimed_as(self) -> str:
        """Return the name that its claim has in the pending store."""
        return publication_claim(self.pipeline, self.name)


@dataclass(frozen=True, slots=True)
class PublicationPorts:
    """What a publication reads and writes; `targets` lists the topics that are written.

    `registries` are those of the schemas of keys and values.
    """

    source: Source
    targets: Log
    producers: Producers
    registries: Mapping[MessagePart, Subjects] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PublishingEnvironment:
    """The outside of one publication that runs, as ports."""

    ports: PublicationPorts
    store: PendingStore
    engine: Engine
    observer: Observer
    clock: Clock
    owner: Owner
    jitter: Callable[[], float]
    token: Callable[[], str]
    start_heartbeat: Callable[[Callable[[], bool], float], Heartbeat] = field(default=Heartbeat)
    absent_fields: Callable[[Sequence[Stretch]], AbsentFields] | None = None
    """Looks, where records are read as rows, which fields none of a few of them has."""

    @property
    def transactions(self) -> TransactionContext:
        """Return what ending a transaction needs."""
        return transactions_of(self.ports.producers, self.observer)


def transactions_of(producers: Producers, observer: Observer) -> TransactionContext:
    """Return what ending a transaction needs."""
    return TransactionContext(producers.terms, producers.ledger, observer)


def claim_context(publication: Publication, environment: PublishingEnvironment) -> ClaimContext:
    """Return what a claim on a publication works with."""
    return ClaimContext(
        publication.claimed_as,
        environment.store,
        environment.owner,
        environment.observer,
        environment.clock,
        environment.jitter,
        environment.token,
        environment.start_heartbeat,
        snapshots_kept=0,
        heartbeat_seconds=publication.heartbeat_seconds,
        alive_seconds=publication.alive_seconds,
    )
