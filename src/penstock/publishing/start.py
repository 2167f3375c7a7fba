"""How a publication starts, and how it goes on after anything odd: fence, look, begin.

Invariants:
- a ledger counts only as it is read after the fence of its transactional id: until then a
  predecessor may end another transaction;
- what is found is decided on by `core/resuming.py` alone;
- `begin` is always one transaction: it proves that the id is still ours, and has the coordinator
  remember an end, by which the next start knows that no other commit exists;
- start positions are in the ledger before anything is read.

Source: docs/design/0274; the specification of publishing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace

from penstock.commit import transactions
from penstock.core.claims import Claim, Generation
from penstock.core.commits import CommitId
from penstock.core.errors import (
    DecisionNeededError,
    UnavailableError,
)
from penstock.core.offsets import TopicPartition
from penstock.core.positions import OffsetKey, Position, SourcePartition
from penstock.core.receipts import Batches, LedgerRecord, PublishedTotals, TasksRecord, counted
from penstock.core.resuming import (
    TAIL_BYTES_MAX,
    FoundOfTask,
    Resume,
    Stopped,
    Tail,
    resume,
)
from penstock.ownership.claim import PipelineClaim
from penstock.ports.producers import Refused, Remembered, Term
from penstock.ports.sources import Source, Stands
from penstock.publishing.record import PublicationRecord, entries_of, read_record, receipts_of
from penstock.publishing.settings import (
    Publication,
    PublicationPorts,
    PublishingEnvironment,
    claim_context,
)
from penstock.publishing.stops import ALIVE, alive, fenced, stopped
from penstock.rows.encode.encoder import require_fit

STARTS_MAX = 5
"""How often a start begins from the top before it gives up: another run may do the same."""
SECONDS_BETWEEN_STARTS = 0.5


@dataclass(frozen=True, slots=True)
class PublicationState:
    """Where a publication stands, the term of its next transaction, the ids of what it writes.

    `batch_bytes_max` is how large a batch may be, where the topic takes smaller ones than usual.
    """

    term: Term
    ledger: LedgerRecord
    stands: Mapping[SourcePartition, Position]
    keys: Mapping[SourcePartition, OffsetKey]
    topic_ids: frozenset[str]
    batch_bytes_max: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one publication."""

    publication: Publication
    environment: PublishingEnvironment
    claim: PipelineClaim

    @property
    def generation(self) -> Generation:
        """Return the generation of its claim."""
        return self.claim.claim.generation

    def look(self) -> PublicationRecord:
        """Read what the offsets topic says."""
        return read_record(self.publication.name, self.environment.ports.producers.ledger.look())


def require_messages(publication: Publication, source: Source) -> None:
    """Raise InvalidError where no row becomes a message (P838, P839, P870 to P872)."""
    columns = source.columns()
    if publication.messages is not None and columns is not None:
        require_fit(columns, publication.messages)


def claims_in(record: PublicationRecord) -> list[Claim]:
    """Return the claims that an offsets topic knows of."""
    known = (record.ledger, record.claim)
    return [Claim(each.generation, each.owner) for each in known if each is not None]


def claimed(
    publication: Publication, environment: PublishingEnvironment, *, takeover: bool
) -> PipelineClaim:
    """Claim a publication, above all that its offsets topic knows of.

    Raises UnavailableError (P510) while another run is alive, InvalidError where the cluster or the
    offsets topic does not serve, or no row becomes a message (`require_messages`).
    """
    producers = environment.ports.producers
    producers.terms.check()
    require_messages(publication, environment.ports.source)
    producers.ledger.prepare()
    for topic, new in publication.created_topics.items():
        producers.topics.prepare(topic, new)
    claim = PipelineClaim(claim_context(publication, environment))
    seen = claims_in(read_record(publication.name, producers.ledger.look()))
    try:
        claim.acquire([replace(each, owner="") for each in seen], takeover=takeover)
    except UnavailableError as error:
        if error.code != ALIVE:
            raise
        raise alive(error.message) from error
    return claim


def start(run: Run) -> PublicationState:
    """Fence, look, decide, and begin; return where the publication stands.

    Raises FencedError (P804) when a newer run has it, DecisionNeededError and InvalidError where
    its ledger is not the whole story (P806 to P813), UnavailableError (P805).
    """
    for attempt in range(STARTS_MAX):
        if attempt:
            run.environment.clock.wait(SECONDS_BETWEEN_STARTS * (1 + run.environment.jitter()))
        found = _fence_and_look(run)
        if isinstance(found, _Found):
            begun = _begin(run, found)
            if isinstance(begun, PublicationState):
                return begun
        _require_ours(run, run.look())
    raise UnavailableError(
        f"transactions of the publication {run.publication.name} were refused {STARTS_MAX} times",
        code="P805",
        hint="another run may have the same name and group:  penstock status",
    )


def renew_and_look(
    run: Run, state: PublicationState, sent: Mapping[TopicPartition, Batches]
) -> PublicationState:
    """Go on after anything odd: what was open is aborted, what had ended is found.

    `sent` are the batches of an end that was asked for. Raises what `start` raises.
    """
    environment, id_ = run.environment, run.publication.transactional_id
    term = environment.ports.producers.terms.renew(id_, state.term)
    if isinstance(term, Refused):
        _require_ours(run, run.look())
        return start(run)
    record = run.look()
    ledger = record.ledger
    if (
        ledger is None
        or record.undecided
        or ledger.uuid != state.ledger.uuid
        or ledger.epoch - state.ledger.epoch not in (0, 1)
        or not record.is_whole
        or _topic_ids(environment.ports) != state.topic_ids
        or (ledger.epoch == state.ledger.epoch and _ended(environment.ports, state.term, sent))
    ):
        return start(run)
    return PublicationState(term, ledger, record.stands, record.keys, state.topic_ids)


def _topic_ids(ports: PublicationPorts) -> frozenset[str]:
    return frozenset(at.topic_id for at in ports.targets.partitions())


def _ended(ports: PublicationPorts, term: Term, sent: Mapping[TopicPartition, Batches]) -> bool:
    """Return whether batches of a term are committed, whatever the ledger says."""
    return any(
        head.term == term
        for at, batches in sent.items()
        for head in ports.producers.heads.committed(at, batches.first)
    )


@dataclass(frozen=True, slots=True)
class Noticed:
    """What the coordinator remembered before a fence, and the term that the fence gave, if any."""

    remembered: Remembered | None
    fenced: Term | None = None

    @property
    def producers(self) -> set[int]:
        """Return the producer ids of the two."""
        terms = [self.fenced, self.remembered.term if self.remembered else None]
        return {each.producer_id for each in terms if each is not None}


@dataclass(frozen=True, slots=True)
class _Found:
    term: Term
    record: PublicationRecord
    decision: Resume
    topic_ids: frozenset[str]


def _fence_and_look(run: Run) -> _Found | None:
    """Take the id and decide on what is there; None where a rival's transaction is open."""
    environment, id_ = run.environment, run.publication.transactional_id
    remembered = environment.ports.producers.terms.remembered(id_)
    term = environment.ports.producers.terms.take(id_)
    record = run.look()
    if record.undecided:
        now = environment.ports.producers.terms.remembered(id_)
        if now is None or now.term != term:
            return None
        raise DecisionNeededError(
            f"a transaction of the publication {run.publication.name} hangs in its offsets topic"
            f" {run.publication.offsets_topic}",
            code="P803",
            hint="find it, and end it:  penstock transactions --cluster",
        )
    noticed, topic_ids = Noticed(remembered, term), _topic_ids(environment.ports)
    decision = decided(run.publication, environment.ports, run.generation, record, noticed)
    return _Found(term, record, decision, topic_ids)


def decided(
    publication: Publication,
    ports: PublicationPorts,
    generation: Generation,
    record: PublicationRecord,
    noticed: Noticed,
) -> Resume:
    """Decide whether a publication goes on from its record, or begins.

    Raises what `start` raises where it does neither.
    """

    def decide(found: FoundOfTask) -> Resume | Stopped:
        return resume(
            found, group=publication.group, generation=generation, accepted=publication.accept
        )

    found = _found_of(publication, ports, record, noticed)
    decision = decide(found)
    if decision is Resume.READ_TAIL:
        decision = decide(replace(found, tail=_tail(publication, ports, record, noticed)))
    if isinstance(decision, Stopped):
        raise stopped(publication, decision)
    return decision


def _found_of(
    publication: Publication,
    ports: PublicationPorts,
    record: PublicationRecord,
    noticed: Noticed,
) -> FoundOfTask:
    targets = ports.targets.partitions()
    ends = {at: int(each.high) for at, each in ports.targets.bounds(targets).items()}
    ledger, remembered = record.ledger, noticed.remembered
    return FoundOfTask(
        ledger=ledger,
        claim=record.claim,
        stands=record.stands,
        last=record.last,
        ends=ends,
        remembered=astuple(remembered.term) if remembered else None,
        fenced=astuple(noticed.fenced) if noticed.fenced else None,
        following=(ledger.producer_id, ledger.producer_epoch + 1) if ledger else None,
        witness=_witness(remembered) if ledger is None else "",
        source="" if publication.accept_gap else ports.source.fault(record.stands),
    )


def _witness(remembered: Remembered | None) -> str:
    """Say whether the coordinator remembers that a transaction of the id was committed."""
    if remembered is not None and "Commit" in remembered.state:
        return "the coordinator of transactions"
    return ""


def _tail(
    publication: Publication,
    ports: PublicationPorts,
    record: PublicationRecord,
    noticed: Noticed,
) -> Tail:
    """Count what our producers committed behind the receipts, in the partitions that we write."""
    producers, written = noticed.producers, dict[TopicPartition, int]()
    if record.ledger is not None:
        producers.add(record.ledger.producer_id)
        for receipt in receipts_of(publication.name, record.entries, record.ledger):
            written |= {at: batches.last + 1 for at, batches in receipt.targets.items()}
    largest = ours = 0
    for at in ports.targets.partitions():
        size = 0
        for head in ports.producers.heads.committed(at, written.get(at, 0)):
            size += head.size_bytes
            ours += head.term.producer_id in producers
            if size > TAIL_BYTES_MAX:
                break
        largest = max(largest, size)
    return Tail(largest, ours)


def begun_from(
    publication: Publication, source: Source, record: PublicationRecord, decision: Resume
) -> Stands:
    """Return the positions that a run begins with: those of its record, and starts where it begins.

    Positions whose rows are gone are moved to what is there, where a person accepted that; those
    that a person named are taken as they are.
    """
    stands = source.readable(record.stands) if publication.accept_gap else record.stands
    if decision is Resume.BEGIN:
        stands = {**source.starts(publication.start), **stands}
    return {**stands, **publication.places}


def _begin(run: Run, found: _Found) -> PublicationState | None:
    """End the first transaction of a run: claim, ledger, and start positions where they are new."""
    publication, environment, record = run.publication, run.environment, found.record
    stands = begun_from(publication, environment.ports.source, record, found.decision)
    moved = {at: to for at, to in stands.items() if record.stands.get(at) != to}
    gone = record.stands.keys() - stands.keys()
    claim = TasksRecord(
        count=1,
        generation=run.generation,
        owner=run.claim.claim.owner,
        start=environment.token(),
        begun=True,
    )
    ledger = _ledger(run, found, stands, new_segment=bool(moved or gone))
    entries = entries_of(
        publication.name, ledger, claim=claim, moved=moved, gone=gone, keys=record.keys
    )
    term = transactions.end(
        publication.transactional_id, found.term, entries, environment.transactions
    )
    if isinstance(term, Refused):
        return None
    return PublicationState(term, ledger, stands, record.keys, found.topic_ids)


def _ledger(
    run: Run,
    found: _Found,
    stands: Mapping[SourcePartition, Position],
    *,
    new_segment: bool,
) -> LedgerRecord:
    publication, former = run.publication, found.record.ledger
    own = LedgerRecord(
        uuid=former.uuid if former else run.environment.token(),
        group=publication.group,
        generation=run.generation,
        owner=run.claim.claim.owner,
        epoch=former.epoch if former else 0,
        commit=former.commit if former else CommitId(""),
        segment=former.segment if former else 0,
        rules_hash=publication.rules_hash,
        producer_id=found.term.producer_id,
        producer_epoch=found.term.epoch,
        positions=counted(stands),
        totals=former.totals if former else PublishedTotals(),
    )
    if former is not None and new_segment:
        return replace(own, segment=former.segment + 1, totals=PublishedTotals())
    return own


def _require_ours(run: Run, record: PublicationRecord) -> None:
    """Raise FencedError (P804) where another run has begun with the publication since."""
    run.claim.check()
    mine = run.claim.claim
    for claim in claims_in(record):
        if claim.generation >= mine.generation and claim.owner != mine.owner:
            found = f"generation {claim.generation}, {claim.owner}"
            error = fenced(run.publication.name, found)
            error.by = claim
            raise error
