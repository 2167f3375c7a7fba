"""Whether a start goes on from a publication's ledgers: what is found of each task, and decided.

Invariants:
- `core/resuming.py` alone decides, of each task that has a ledger: a new one has nothing that
  could be lost;
- the tail is read only where that asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, replace

from penstock.core.claims import Generation
from penstock.core.offsets import TopicPartition
from penstock.core.resuming import (
    TAIL_BYTES_MAX,
    Accepted,
    FoundOfTask,
    Resume,
    Stopped,
    Tail,
    lost_ends,
    lost_records,
    resume,
)
from penstock.ports.producers import NO_TRANSACTIONS, Remembered, Term
from penstock.publishing.record import PublicationRecord, receipts_of
from penstock.publishing.settings import Publication, PublicationPorts
from penstock.publishing.source_stops import leaderless
from penstock.publishing.stops import stopped

NOBODY = Term(-1, -1)


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


def decided(
    publication: Publication,
    ports: PublicationPorts,
    generation: Generation,
    record: PublicationRecord,
    noticed: Mapping[int, Noticed],
    *,
    ends: Mapping[TopicPartition, int],
    missing: Collection[str] = (),
) -> Resume:
    """Decide whether a publication goes on from its record, or begins; `ends` are its targets'.

    `missing` are topics that a start creates. Raises what `start` raises where it does neither.
    """
    decision = Resume.BEGIN
    for task in range(max(len(record.ledgers), 1)):
        found = replace(_found_of(publication, ports, record, task, noticed[task]), ends=ends)

        def decide(found: FoundOfTask) -> Resume | Stopped:
            return resume(
                found, group=publication.group, generation=generation, accepted=publication.accept
            )

        of_task = decide(found)
        if of_task is Resume.READ_TAIL:
            tail = _tail(publication, ports, record, task, noticed, missing=missing)
            of_task = decide(replace(found, tail=tail))
        if isinstance(of_task, Stopped):
            raise stopped(publication, of_task)
        decision = of_task
    return decision


def require_target(
    publication: Publication,
    ports: PublicationPorts,
    record: PublicationRecord,
    missing: Collection[str],
) -> None:
    """Raise DecisionNeededError (P808) where a topic is missing, and records of ours with one.

    It is asked before a missing topic is created: a new one would look like the one that was.
    """
    if not missing or not record.ledgers or Accepted.TARGET in publication.accept:
        return
    ends = ends_of(ports, record, without=missing)
    for last, ledger in zip(record.lasts, record.ledgers, strict=True):
        lost = lost_records(last, ledger.accepted_ends, ends)
        if lost is not None:
            raise stopped(publication, lost)


def ends_of(
    ports: PublicationPorts, record: PublicationRecord, *, without: Collection[str] = ()
) -> dict[TopicPartition, int]:
    """Return the high watermarks of what a publication writes, but of the topics `without`.

    Raises UnavailableError (P250) where one that the last receipts name has no leader: what it
    lost is not known.
    """
    listed = ports.targets.partitions(without=without)
    bounds = ports.targets.bounds(listed)
    named = {at for last in record.lasts if last is not None for at in last.targets}
    if unknown := [at for at in listed if at in named and at not in bounds]:
        raise leaderless(unknown)
    return {at: int(each.high) for at, each in bounds.items()}


def accepted_ends(
    publication: Publication,
    record: PublicationRecord,
    task: int,
    ends: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, int]:
    """Return where partitions end that lost records of a task's last receipt, as was accepted."""
    if task >= len(record.ledgers):
        return {}
    known = record.ledgers[task].accepted_ends
    if Accepted.TARGET not in publication.accept:
        return known
    return {**known, **lost_ends(record.lasts[task], known, ends)}


def _found_of(
    publication: Publication,
    ports: PublicationPorts,
    record: PublicationRecord,
    task: int,
    noticed: Noticed,
) -> FoundOfTask:
    remembered = noticed.remembered
    ledger = record.ledgers[task] if record.ledgers else None
    return FoundOfTask(
        ledger=ledger,
        claim=record.claim,
        stands=record.stands_of(task),
        last=record.lasts[task] if record.lasts else None,
        remembered=astuple(remembered.term) if remembered else None,
        fenced=astuple(noticed.fenced) if noticed.fenced else None,
        following=ledger.following if ledger else None,
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
    task: int,
    noticed: Mapping[int, Noticed],
    *,
    missing: Collection[str],
) -> Tail:
    """Count what our producers committed behind the receipts, in the partitions that we write.

    What the ledger's producer sent under its term or an earlier one is not behind. Without a ledger
    those of all tasks are looked for. What is published at least once may be published again:
    nothing is looked for.
    """
    if ports.producers.terms.protocol == NO_TRANSACTIONS:
        return Tail(0, 0)
    written = dict[TopicPartition, int]()
    producers = set[int]().union(*(each.producers for each in noticed.values()))
    known = NOBODY
    if record.ledgers:
        ledger = record.ledgers[task]
        producers = noticed[task].producers
        if ledger.protocol != NO_TRANSACTIONS:
            known = Term(ledger.producer_id, ledger.producer_epoch)
            producers.add(known.producer_id)
        for receipt in receipts_of(publication.name, record, task):
            written |= {at: batches.last + 1 for at, batches in receipt.targets.items()}
    largest = ours = 0
    for at in ports.targets.partitions(without=missing):
        size = 0
        for head in ports.producers.heads.committed(at, written.get(at, 0)):
            size += head.size_bytes
            ours += head.term.producer_id in producers and not (
                head.term.producer_id == known.producer_id and head.term.epoch <= known.epoch
            )
            if size > TAIL_BYTES_MAX:
                break
        largest = max(largest, size)
    return Tail(largest, ours)
