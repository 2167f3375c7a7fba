"""What stands in the target of a publication, compared with its receipts batch by batch.

What was sent without transactions has no term by which its batches are known: it is not compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.app.inspect.row_audit import transactions_in_words
from penstock.core.audit import Break
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.planning import Bounds
from penstock.core.receipts import Batches, Receipt
from penstock.ports.producers import BatchHead, Term
from penstock.publishing.settings import Publication, PublicationPorts

UNREADABLE = "P868"
"""The code of a topic whose settings may not be read."""


@dataclass(frozen=True, slots=True)
class Target:
    """What stands in the target: our batches from the first receipt's on, and what there is to it.

    Batches are sent in `codec`, "" where a client library decides on each; where it `is_compacted`,
    brokers take records out of them, and whole batches. Where that is `unknown` nothing that is
    missing is a break.
    """

    heads: Mapping[TopicPartition, Sequence[BatchHead]]
    bounds: Mapping[TopicPartition, Bounds]
    codec: str
    is_compacted: bool
    unknown: str = ""

    @property
    def partitions(self) -> Sequence[TopicPartition]:
        """Return the partitions that are there."""
        return [*self.bounds]

    def of(self, receipt: Receipt) -> list[tuple[TopicPartition, BatchHead]]:
        """Return the batches of a transaction."""
        term = term_of(receipt)
        return [(at, each) for at, of in self.heads.items() for each in of if each.term == term]


def term_of(receipt: Receipt) -> Term:
    """Return the term that the batches of a transaction have."""
    return Term(receipt.producer_id, receipt.producer_epoch)


def terms_of(target: Target) -> set[Term]:
    """Return the terms of all batches."""
    return {each.term for of in target.heads.values() for each in of}


def without_terms(target: Target, terms: Collection[Term]) -> Target:
    """Leave out the batches of some terms."""
    heads = {at: [each for each in of if each.term not in terms] for at, of in target.heads.items()}
    return replace(target, heads=heads)


def target_of(
    publication: Publication, ports: PublicationPorts, receipts: Sequence[Receipt]
) -> Target:
    """Read what stands in the target of these receipts."""
    producers = {each.producer_id for each in receipts}
    bounds = ports.targets.bounds(ports.targets.partitions())
    heads = {
        at: [
            head
            for head in ports.producers.heads.committed(at, begin)
            if head.term.producer_id in producers
        ]
        for at, begin in _begins(receipts).items()
        if at in bounds
    }
    codec = publication.target.get("compression", "none")
    if any(each.crc_sum is None for receipt in receipts for each in receipt.targets.values()):
        codec = ""
    try:
        return Target(heads, bounds, codec, ports.producers.topics.is_compacted(publication.into))
    except InvalidError as error:
        if error.code != UNREADABLE:
            raise
        said = f"what is missing in the target: {error.message}"
        return Target(heads, bounds, codec, is_compacted=True, unknown=said)


def _begins(receipts: Sequence[Receipt]) -> dict[TopicPartition, int]:
    """Return the first offset of the receipts in each partition."""
    found: dict[TopicPartition, int] = {}
    for receipt in receipts:
        for at, batches in receipt.targets.items():
            found[at] = min(batches.first, found.get(at, batches.first))
    return found


def _is_anew(head: BatchHead, codec: str) -> bool:
    """Return whether the brokers wrote a batch anew: its checksum is not the one that was sent."""
    return head.is_stamped or (bool(codec) and head.codec != codec)


def written_anew(target: Target) -> Iterator[str]:
    """Say of how many batches the brokers changed the checksum."""
    for at, found in sorted(target.heads.items()):
        if count := sum(_is_anew(head, target.codec) for head in found):
            yield (
                f"{at}: the checksums of {count} of {len(found)} batches, which the brokers wrote"
                " anew, as compression.type or message.timestamp.type have it"
            )


def compacted_away(
    publication: Publication, receipts: Sequence[Receipt], target: Target
) -> Iterator[str]:
    """Say how many records of a compacted target are not there."""
    if target.unknown:
        yield target.unknown
    if not target.is_compacted or target.unknown:
        return
    said = sum(receipt.published for receipt in receipts)
    there = sum(
        head.records
        for at, of in target.heads.items()
        for head in of
        if at.topic == publication.into
    )
    if said > there:
        yield f"{said - there} records of {publication.into}, from which compaction takes them"


def breaks_of_batches(receipts: Sequence[Receipt], target: Target) -> Iterator[Break]:
    """Compare batches with the receipts of their terms."""
    for at, found in target.heads.items():
        by_term: dict[Term, list[BatchHead]] = {}
        for head in found:
            by_term.setdefault(head.term, []).append(head)
        start = min((head.first for head in found), default=0)
        for receipt in receipts:
            term = term_of(receipt)
            own, said = by_term.pop(term, []), receipt.targets.get(at)
            where = f"transaction {receipt.epoch}, {at}"
            if said is None:
                if own:
                    yield Break("batches", where, f"{len(own)} batches are in no receipt")
            elif own and (problem := _differs(own, said, target)):
                yield Break("batches", where, problem)
            elif not own and said.first >= start and found and not target.is_compacted:
                yield Break("lost", where, f"{said.records} records are not there")
        for term, own in by_term.items():
            where = f"{at}, offset {own[0].first}"
            yield Break("batches", where, f"{len(own)} batches of the term {term} have no receipt")


def _differs(own: Sequence[BatchHead], said: Batches, target: Target) -> str:
    records = sum(head.records for head in own)
    if records > said.records or (records < said.records and not target.is_compacted):
        return f"{records} records are there, the receipt says {said.records}"
    first, last = own[0].first, own[-1].last
    within = said.first <= first and last <= said.last
    if (first, last) != (said.first, said.last) and not (target.is_compacted and within):
        return f"they are at {first} to {last}, the receipt says {said.first} to {said.last}"
    if records < said.records or any(_is_anew(head, target.codec) for head in own):
        return ""
    sums = [head.crc for head in own if head.crc is not None]
    if said.crc_sum is not None and sums and sum(sums) != said.crc_sum:
        return "the checksums are not those of the receipt"
    return ""


def sent_without_transactions(receipts: Sequence[Receipt]) -> Iterator[str]:
    """Say which transactions have no term by which their batches are known."""
    if epochs := [each.epoch for each in receipts if not each.is_transactional]:
        yield f"{transactions_in_words(epochs)}: sent without transactions"


def not_there(
    publication: Publication,
    receipts: Sequence[Receipt],
    target: Target,
    accepted: Collection[TopicPartition] = (),
) -> Iterator[str]:
    """Say which targets are another topic now, or no longer begin before the first receipt.

    Of those `accepted` a person said that it goes on without what they had.
    """
    for at, first in sorted(_begins(receipts).items()):
        if at not in target.bounds:
            yield f"{at}: {_replaced(publication, receipts, at, accepted)}"
        elif (start := target.bounds[at].start) > first:
            yield f"{at}: offsets {first} to {start} were deleted"


def _replaced(
    publication: Publication,
    receipts: Sequence[Receipt],
    gone: TopicPartition,
    accepted: Collection[TopicPartition],
) -> str:
    """Say what became of a topic that is not there, or not written, any more."""
    if gone.topic not in publication.written:
        return "the spec does not name this topic any more; what was published there stays there"
    later = [
        receipt.epoch
        for receipt in receipts
        for at in receipt.targets
        if at.topic == gone.topic and at.topic_id != gone.topic_id
    ]
    if later:
        return f"the topic was created again; the new one has transactions from {min(later)} on"
    if gone in accepted:
        return "the topic was created again, which was accepted; the next transaction goes into it"
    return "the topic was created again"


def is_gone(
    receipt: Receipt, into: TopicPartition, bounds: Mapping[TopicPartition, Bounds]
) -> bool:
    """Return whether what a receipt has in a partition was deleted, or its topic made again."""
    for at, said in receipt.targets.items():
        if (at.topic, at.partition) == (into.topic, into.partition):
            return at != into or into not in bounds or said.first < bounds[into].start
    return False
