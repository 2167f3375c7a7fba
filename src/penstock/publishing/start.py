"""How a publication starts, and how it goes on after anything odd: fence, look, begin.

Invariants:
- a ledger counts only as it is read after the fence of its transactional id: until then a
  predecessor may end another transaction;
- what is found is decided on by `core/resuming.py` alone;
- `begin` is always one transaction: it proves that the id is still ours, and has the coordinator
  remember an end, by which the next start knows that no other commit exists;
- start positions are in the ledger before anything is read;
- where there are several tasks, or were, id 0 is the lock: its claim is announced before the other
  ids are fenced, each up to the largest number that was announced, and tasks start after `begin`.

Source: docs/design/0274, 0297; PublishTasks.tla.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.commit import transactions
from penstock.core.claims import Claim, Generation
from penstock.core.commits import CommitId
from penstock.core.errors import DecisionNeededError, InvalidError, UnavailableError
from penstock.core.offsets import TopicPartition
from penstock.core.positions import OffsetKey, Position, SourcePartition
from penstock.core.receipts import Batches, LedgerRecord, PublishedTotals, counted
from penstock.core.resuming import Resume
from penstock.core.store_errors import ALIVE
from penstock.core.tasks_record import TasksRecord
from penstock.ownership.claim import PipelineClaim
from penstock.ports.producers import PROTOCOL_2, Refused, Term
from penstock.ports.sources import Source, Stands
from penstock.publishing.deciding import Noticed, accepted_ends, decided, ends_of
from penstock.publishing.preflight import preflight
from penstock.publishing.record import (
    FIRST,
    PublicationRecord,
    entries_of,
    read_record,
    share_of,
    standing_record,
)
from penstock.publishing.settings import (
    Publication,
    PublicationPorts,
    PublishingEnvironment,
    claim_context,
)
from penstock.publishing.stops import alive, fenced, hanging

STARTS_MAX = 5
"""How often a start begins from the top before it gives up: another run may do the same."""
SECONDS_BETWEEN_STARTS = 0.5


@dataclass(frozen=True, slots=True)
class PublicationState:
    """Where a publication stands, the term of its next transaction, the ids of what it writes.

    `ledgers` are those of its tasks; a task that ends a transaction of its own knows its own alone.
    `claim` is what its begin wrote. `batch_bytes_max` is how large a batch may be, where the topic
    takes smaller ones than usual.
    """

    term: Term
    ledgers: tuple[LedgerRecord, ...]
    stands: Mapping[SourcePartition, Position]
    keys: Mapping[SourcePartition, OffsetKey]
    topic_ids: frozenset[str]
    claim: TasksRecord
    batch_bytes_max: int | None = None

    @property
    def ledger(self) -> LedgerRecord:
        """Return the ledger of the first task."""
        return self.ledgers[FIRST]

    @property
    def epoch(self) -> int:
        """Return how many transactions its tasks have ended."""
        return sum(each.epoch for each in self.ledgers)

    @property
    def totals(self) -> PublishedTotals:
        """Return what its tasks have published."""
        totals = PublishedTotals()
        for each in self.ledgers:
            totals = totals.plus(each.totals)
        return totals


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


def claims_in(record: PublicationRecord) -> list[Claim]:
    """Return the claims that an offsets topic knows of."""
    known = (*record.ledgers, record.claim)
    return [Claim(each.generation, each.owner) for each in known if each is not None]


def claimed(
    publication: Publication,
    environment: PublishingEnvironment,
    *,
    takeover: bool,
    former: Claim | None = None,
) -> PipelineClaim:
    """Claim a publication, above all that its offsets topic knows of.

    `former` is this run's own. Raises FencedError (P804): one is newer; UnavailableError (P510):
    another run is alive; InvalidError: Kafka does not serve; and what `preflight` raises.
    """
    producers = environment.ports.producers
    producers.terms.check()
    standing = standing_record(publication.name, producers.ledger)
    creates = preflight(publication, environment.ports, standing)
    producers.ledger.prepare()
    for topic, new in creates.items():
        producers.topics.prepare(topic, new)
    claim = PipelineClaim(claim_context(publication, environment))
    seen = claims_in(read_record(publication.name, producers.ledger.look()))
    if former is not None:
        held = environment.store.holding(claim.context.pipeline)
        for each in [*seen, *([held.claim] if held else [])]:
            if each.generation > former.generation:
                raise fenced(publication.name, f"generation {each.generation}, {each.owner}")
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
    if environment.ports.producers.terms.protocol < PROTOCOL_2:
        return start(run)  # nothing is renewed there
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
    return replace(
        state,
        term=term,
        ledgers=(ledger,),
        stands=record.stands,
        keys=record.keys,
        batch_bytes_max=None,
    )


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
class _Found:
    """What a start found; `noticed` by task, of the ids that it took; `ends` of the targets."""

    term: Term
    record: PublicationRecord
    decision: Resume
    topic_ids: frozenset[str]
    noticed: Mapping[int, Noticed]
    ends: Mapping[TopicPartition, int]


def _fence_and_look(run: Run) -> _Found | None:
    """Take the ids of all tasks and decide on what is there; None where a rival is at it."""
    ports, publication = run.environment.ports, run.publication
    noticed = {FIRST: _taken(run, FIRST)}
    term, record = noticed[FIRST].fenced, run.look()
    announced = record.claim.count if record.claim else 1
    tasks = max(announced, len(record.ledgers), publication.tasks)
    if tasks > 1:
        _require_ours(run, record)
        if not record.ledgers:
            _require_new(run, record, noticed[FIRST], tasks)
        claim = _claim(run, tasks, begun=record.claim is not None and record.claim.begun)
        if not _announced(run, noticed[FIRST], claim):
            return None
        noticed |= {task: _taken(run, task) for task in range(1, tasks)}
        term = ports.producers.terms.take(publication.transactional_id)
        record = run.look()
        if record.claim != claim:
            return None
    assert term is not None, "the first id is taken"
    if record.undecided:
        now = ports.producers.terms.remembered(publication.transactional_id)
        if now is None or now.term != term:
            return None
        raise hanging(publication)
    topic_ids, ends = _topic_ids(ports), ends_of(ports, record)
    try:
        decision = decided(publication, ports, run.generation, record, noticed, ends=ends)
    except (DecisionNeededError, InvalidError):
        _require_ours(run, run.look())  # who fenced us has published between two of our looks
        raise
    return _Found(term, record, decision, topic_ids, noticed, ends)


def _require_new(run: Run, record: PublicationRecord, noticed: Noticed, tasks: int) -> None:
    """Raise where a publication without a ledger is known to have published.

    A claim that is announced says that nothing was known before it.
    """
    ports, publication = run.environment.ports, run.publication
    remembered = ports.producers.terms.remembered
    others = {task: Noticed(remembered(publication.id_of(task))) for task in range(1, tasks)}
    known = {FIRST: noticed, **others}
    decided(publication, ports, run.generation, record, known, ends=ends_of(ports, record))


def _taken(run: Run, task: int) -> Noticed:
    """Take the id of a task, and say what its coordinator knew of it."""
    terms, id_ = run.environment.ports.producers.terms, run.publication.id_of(task)
    remembered = terms.remembered(id_)
    return Noticed(remembered, terms.take(id_))


def _claim(run: Run, count: int, *, begun: bool) -> TasksRecord:
    return TasksRecord(
        count=count,
        generation=run.generation,
        owner=run.claim.claim.owner,
        start=run.environment.token(),
        begun=begun,
    )


def _announced(run: Run, noticed: Noticed, claim: TasksRecord) -> bool:
    """Say under id 0 whose the ids of all tasks are; return whether it was said."""
    assert noticed.fenced is not None, "it was taken"
    entries = entries_of(run.publication.name, {}, claim=claim)
    id_, context = run.publication.transactional_id, run.environment.transactions
    return not isinstance(transactions.end(id_, noticed.fenced, entries, context), Refused)


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
    claim = _claim(run, publication.tasks, begun=True)
    are_dealt_anew = len(record.ledgers) not in {0, publication.tasks}
    changed = bool(moved or gone or are_dealt_anew)
    uuid = record.ledger.uuid if record.ledger else environment.token()
    ledgers = tuple(
        _ledger(
            run, found, task, share_of(stands, task, publication.tasks), uuid, new_segment=changed
        )
        for task in range(publication.tasks)
    )
    no_more = dict.fromkeys(range(publication.tasks, len(record.ledgers)))
    entries = entries_of(
        publication.name,
        {**dict(enumerate(ledgers)), **no_more},
        claim=claim,
        moved=moved,
        gone=gone,
        keys=record.keys,
    )
    term = transactions.end(
        publication.transactional_id, found.term, entries, environment.transactions
    )
    if isinstance(term, Refused):
        return None
    return PublicationState(term, ledgers, stands, record.keys, found.topic_ids, claim)


def _ledger(
    run: Run, found: _Found, task: int, stands: Stands, uuid: str, *, new_segment: bool
) -> LedgerRecord:
    """Return the ledger that a task begins with: a new one follows all segments that were."""
    publication, formers = run.publication, found.record.ledgers
    former = formers[task] if task < len(formers) else None
    term = found.noticed[task].fenced if task != FIRST else found.term
    assert term is not None, "its id is taken"
    own = LedgerRecord(
        uuid=former.uuid if former else uuid,
        group=publication.group,
        generation=run.generation,
        owner=run.claim.claim.owner,
        epoch=former.epoch if former else 0,
        commit=former.commit if former else CommitId(""),
        segment=max((each.segment for each in formers), default=0),
        rules_hash=publication.rules_hash,
        producer_id=term.producer_id,
        producer_epoch=term.epoch,
        positions=counted(stands),
        totals=former.totals if former else PublishedTotals(),
        protocol=run.environment.ports.producers.terms.protocol,
        accepted_ends=accepted_ends(publication, found.record, task, found.ends),
    )
    if formers and new_segment:
        return replace(own, segment=own.segment + 1, totals=PublishedTotals())
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
