"""One epoch of a publication: planned, sent by workers, added up, ended.

Invariants:
- a partition is written by one job of an epoch, in one attempt: rows that go where their keys say
  are the work of one job;
- an epoch ends only where all of it ran once, every row that was read was acknowledged as a message
  or as a reject, or is filtered, and the topics that were written are still the planned ones;
  anything else is `InDoubt`;
- nothing is decided after an end was asked for: what came of it is looked for under a new term.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.commit import transactions
from penstock.core.crash_points import CrashPoint
from penstock.core.offsets import TopicPartition
from penstock.core.positions import SourcePartition, values_of
from penstock.core.receipts import (
    Batches,
    Move,
    Receipt,
    counted,
    transaction_commit_id,
)
from penstock.ports.log import Log
from penstock.ports.producers import Producers, Refused
from penstock.ports.runtime import Engine, JobResult, Observer
from penstock.ports.sources import Stands, Stretch
from penstock.publishing.messages import (
    Delivery,
    Encoding,
    SendJob,
    SendResult,
    job_to_json,
    result_from_json,
)
from penstock.publishing.new_topics import require_partitions
from penstock.publishing.record import FIRST, entries_of
from penstock.publishing.settings import Publication, transactions_of
from penstock.publishing.start import PublicationState


@dataclass(frozen=True, slots=True)
class InDoubt:
    """What kept an epoch from ending, or from being known to; `sent` if its end was asked for.

    `batch_bytes_max` is there where a batch was larger than the target takes; `died` says that the
    process did which read the rows.
    """

    reason: str
    sent: Mapping[TopicPartition, Batches] = field(default_factory=dict)
    batch_bytes_max: int | None = None
    died: bool = False


@dataclass(frozen=True, slots=True)
class Published:
    """Transactions that ended: the state behind them, what each moved and wrote, the bytes sent.

    `doubt` is what is not known of others of the same epoch.
    """

    state: PublicationState
    receipts: tuple[Receipt, ...]
    sent_bytes: int
    doubt: InDoubt | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """The task of a publication that ends a transaction, and what it works with."""

    publication: Publication
    targets: Log
    producers: Producers
    engine: Engine
    observer: Observer
    task: int = FIRST

    @property
    def transactional_id(self) -> str:
        """Return the id of its transactions."""
        return self.publication.id_of(self.task)


def plan_deliveries(
    stretches: Sequence[Stretch], targets: Sequence[TopicPartition], publication: Publication
) -> list[Delivery]:
    """Return which partition each stretch goes into: that of its own number.

    Raises InvalidError (P813) where the target has no such partition.
    """
    by_number = {at.partition: at for at in targets if at.topic == publication.into}
    require_partitions(publication, [each.of for each in stretches], len(by_number))
    deliveries = []
    for stretch in stretches:
        number = values_of(stretch.of)["partition"]
        assert isinstance(number, int), "a topic's partitions have numbers"
        deliveries.append(Delivery(stretch, by_number[number]))
    return deliveries


def plan_jobs(
    stretches: Sequence[Stretch],
    targets: Sequence[TopicPartition],
    share: Share,
    state: PublicationState,
) -> list[SendJob]:
    """Return the jobs of an epoch. Raises what `plan_deliveries` and the engine raise."""
    publication, works = share.publication, list[tuple[Delivery, ...] | Encoding]()
    if publication.messages is None:
        deliveries = plan_deliveries(stretches, targets, publication)
        works += dealt(deliveries, max(share.engine.capacity(), 1))
    else:
        if publication.keeps_partitions:
            plan_deliveries(stretches, targets, publication)  # there is a partition for each
        rejects = publication.rejects
        works.append(
            Encoding(
                tuple(stretches),
                tuple(at for at in targets if at.topic == publication.into),
                publication.messages,
                tuple(at for at in targets if rejects and at.topic == rejects.into),
                rejects.stop_above_share if rejects else 0.0,
            )
        )
    return [
        SendJob(
            number=number,
            transactional_id=share.transactional_id,
            term=state.term,
            source=publication.source,
            target=publication.target,
            work=work,
            timeout_seconds=publication.timeout_seconds / 4,
            batch_bytes_max=state.batch_bytes_max,
        )
        for number, work in enumerate(works)
    ]


def dealt(deliveries: Sequence[Delivery], capacity: int) -> list[tuple[Delivery, ...]]:
    """Deal deliveries to at most `capacity` jobs, the largest first, each partition to one."""
    parts: list[list[Delivery]] = [[] for _ in range(min(capacity, len(deliveries)))]
    for each in sorted(deliveries, key=lambda found: (-found.stretch.rows, found.into)):
        min(parts, key=lambda part: sum(has.stretch.rows for has in part)).append(each)
    return [tuple(part) for part in parts]


def publish_epoch(
    share: Share, state: PublicationState, stretches: Sequence[Stretch]
) -> Published | InDoubt | None:
    """Send what was planned, and end the transaction; None where nothing could be read in time.

    Raises what the engine raises.
    """
    targets = share.targets.partitions()
    if {at.topic_id for at in targets} != state.topic_ids:
        return InDoubt(_made_again(share.publication))
    jobs = plan_jobs(stretches, targets, share, state)
    share.observer.passed(CrashPoint.SEND_BEFORE)
    results = share.engine.run_once([job_to_json(each) for each in jobs])
    share.observer.passed(CrashPoint.SEND_AFTER)
    found = add_up(share.publication, stretches, results)
    if isinstance(found, InDoubt):
        return found
    if {at.topic_id for at in share.targets.partitions()} != state.topic_ids:
        return InDoubt(_made_again(share.publication))
    if not found.moves:
        return None
    return _end(share, state, found)


def _made_again(publication: Publication) -> str:
    return f"a topic that is written was created again: {' or '.join(publication.written)}"


def add_up(
    publication: Publication, stretches: Sequence[Stretch], results: Sequence[JobResult]
) -> _Sent | InDoubt:
    """Add the results of an epoch's jobs up; the books must agree."""
    planned, found = {each.of: each for each in stretches}, _Sent()
    for result in results:
        if not result.ran_once or result.text is None:
            died = result.text is None
            reason = "a worker died" if died else "a task was not seen to run once"
            return InDoubt(reason, died=died)
        read = result_from_json(result.text)
        if read.refused is not None:
            reason = f"{read.refused.reason} (Kafka's error {read.refused.error})"
            return InDoubt(reason, batch_bytes_max=read.batch_bytes_max)
        fault = _books(read, publication) or _add(read, planned, found)
        if fault:
            return InDoubt(fault)
    return found


@dataclass(slots=True)
class _Sent:
    moves: dict[SourcePartition, Move] = field(default_factory=dict)
    targets: dict[TopicPartition, Batches] = field(default_factory=dict)
    filtered: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    bytes: int = 0


def _books(result: SendResult, publication: Publication) -> str:
    """Say what does not agree in what one task read, filtered, packed and sent; "" for nothing."""
    rejected = sum(sum(each.rejected.values()) for each in result.delivered)
    rows = sum(each.rows - sum(each.filtered.values()) for each in result.delivered) - rejected
    packed = {at: count for at, count in result.packed.items() if count}
    messages = sum(count for at, count in packed.items() if at.topic == publication.into)
    others = sum(packed.values()) - messages
    if (rows, rejected) != (messages, others):
        return f"{rows} messages and {rejected} rejects were read, {messages} and {others} packed"
    if missing := packed.keys() ^ result.sent.keys():
        return f"{missing} were packed or sent alone"
    for at, batches in result.sent.items():
        if batches.records != packed[at]:
            return f"{packed[at]} messages were packed for {at}, {batches.records} sent"
    return ""


def _add(result: SendResult, planned: Mapping[SourcePartition, Stretch], found: _Sent) -> str:
    for each in result.delivered:
        stretch = planned.get(each.of)
        if stretch is None or each.of in found.moves:
            return f"{each.of} was read by a job that does not have it"
        found.filtered.update(each.filtered)
        found.rejected.update(each.rejected)
        if each.reached != stretch.start:
            found.moves[each.of] = Move(stretch.start, each.reached)
        elif each.rows:
            return f"{each.rows} rows of {each.of} moved no position"
    if twice := found.targets.keys() & result.sent.keys():
        return f"{twice} were written by two jobs"
    found.targets.update(result.sent)
    found.bytes += result.sent_bytes
    return ""


def _end(share: Share, state: PublicationState, found: _Sent) -> Published | InDoubt:
    publication, ledger = share.publication, state.ledger
    moves = {at: replace(move, start=state.stands.get(at)) for at, move in found.moves.items()}
    moved = {at: move.stop for at, move in moves.items()}
    stands: Stands = {**state.stands, **moved}
    published = sum(
        batches.records for at, batches in found.targets.items() if at.topic == publication.into
    )
    receipt = Receipt(
        uuid=ledger.uuid,
        epoch=ledger.epoch + 1,
        segment=ledger.segment,
        producer_id=state.term.producer_id,
        producer_epoch=state.term.epoch,
        published=published,
        filtered=found.filtered,
        rejected=found.rejected,
        moves=moves,
        targets=found.targets,
        rules_hash=ledger.rules_hash,
    )
    following = replace(
        ledger,
        epoch=receipt.epoch,
        commit=transaction_commit_id(
            publication.group, publication.name, share.task, ledger.segment, moves
        ),
        producer_id=state.term.producer_id,
        producer_epoch=state.term.epoch,
        positions=counted(stands),
        totals=ledger.totals.plus(receipt.totals),
        accepted_ends={},  # they are of the receipt before
    )
    entries = entries_of(
        publication.name,
        {share.task: following},
        moved=moved,
        keys=state.keys,
        receipt=(share.task, receipt),
    )
    context = transactions_of(share.producers, share.observer)
    term = transactions.end(share.transactional_id, state.term, entries, context)
    if isinstance(term, Refused):
        return InDoubt(f"{term.reason} (Kafka's error {term.error})", found.targets)
    after = replace(state, term=term, ledgers=(following,), stands=stands)
    return Published(after, (receipt,), found.bytes)
