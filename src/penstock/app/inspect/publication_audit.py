"""Prove from Kafka alone that a publication lost and doubled nothing. Writes nothing.

1. Receipts: each begins where the one before ended, and the last where the positions are.
2. Targets: every committed batch of our transactions is in one receipt, whose counts, offsets and
   checksums agree with what stands there.
3. With `rows`: the source is read again, and compared record by record with what was published;
   rows of a table are made messages of again (row_audit.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa

from penstock.app.assembly import publishing
from penstock.app.assembly.publishing_worker import Readers, readers_of
from penstock.app.inspect.publications import decision_on, in_words
from penstock.app.inspect.row_audit import FOREVER, RowComparison, agree
from penstock.app.publish import rules_named
from penstock.core.audit import Break
from penstock.core.errors import InvalidError, PenstockError, gravest
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.core.planning import Bounds
from penstock.core.receipt_chain import receipt_breaks
from penstock.core.receipts import Batches, Receipt
from penstock.ports.log import RangeReader
from penstock.ports.producers import BatchHead, Term
from penstock.ports.sources import MESSAGES, RowReader, Source, SourceReader, Stretch
from penstock.publishing.epoch import plan_deliveries
from penstock.publishing.new_topics import topics_to_create
from penstock.publishing.record import receipts_of, standing_record
from penstock.publishing.settings import Publication, PublicationPorts
from penstock.spec.publications import Publications

BREAK = 4
BREAKS_MAX = 20
UNREADABLE = "P868"
"""The code of a topic whose settings may not be read."""


@dataclass(frozen=True, slots=True)
class PublicationAudit:
    """What an audit of one publication found.

    `transactions` have their receipts, of `epoch` in all, with so many `records` and `rejected`
    rows; `stands` says where it stands in a table; `rows` were compared one by one, None where they
    were not asked for. `not_compared` says what could not be looked at, and why.
    """

    publication: str
    epoch: int = 0
    transactions: int = 0
    batches: int = 0
    records: int = 0
    rejected: int = 0
    stands: str = ""
    rows: int | None = None
    breaks: tuple[Break, ...] = ()
    not_compared: tuple[str, ...] = ()
    problem: PenstockError | None = None

    @property
    def exit_code(self) -> int:
        """Return 4 for a break, else that of the problem."""
        if self.breaks:
            return BREAK
        return self.problem.exit_code if self.problem else 0


def audit_publications(
    spec: Publications, names: Collection[str] = (), *, rows: bool = False
) -> list[PublicationAudit]:
    """Audit the named publications, or all; what cannot be opened is a `problem`, too.

    Raises InvalidError (P825).
    """
    found = []
    for rule in rules_named(spec, names):
        publication = publishing.publication_of(spec, rule)
        with ExitStack() as stack:
            try:
                ports = publishing.open_ports(publication, stack)
                readers = readers_of(publication, stack) if rows else None
            except PenstockError as error:
                found.append(PublicationAudit(publication.name, problem=error))
                continue
            found.append(audit_publication(publication, ports, readers))
    return found


def exit_code(found: Sequence[PublicationAudit]) -> int:
    """Return the exit code of an audit of several publications."""
    return gravest(each.exit_code for each in found)


def audit_publication(
    publication: Publication, ports: PublicationPorts, readers: Readers | None = None
) -> PublicationAudit:
    """Audit one publication; with readers row by row, too."""
    name = publication.name
    try:
        record = standing_record(name, ports.producers.ledger)
        if record.ledger is None:
            if publication.into not in topics_to_create(publication, ports):
                decision_on(publication, ports, record)  # raises where its ledger is gone
            return PublicationAudit(name, not_compared=("nothing was published yet",))
        receipts, breaks = list[Receipt](), list[Break]()
        for task, ledger in enumerate(record.ledgers):
            own = receipts_of(name, record, task)
            breaks += receipt_breaks(own, ledger, record.stands_of(task))
            receipts += own
        target = _target(publication, ports, receipts)
        breaks += _breaks_of_batches(receipts, target)
        skipped = [*_not_there(receipts, target), *_written_anew(target)]
        skipped += _compacted_away(publication, receipts, target)
        rows = None
        if readers is not None:
            compared = _compare(publication, ports, receipts, target, readers)
            rows, skipped = compared.rows, [*skipped, *compared.not_compared]
            breaks += compared.breaks
    except PenstockError as error:
        return PublicationAudit(name, problem=error)
    return PublicationAudit(
        publication=name,
        epoch=sum(each.epoch for each in record.ledgers),
        transactions=len(receipts),
        batches=sum(len(each) for each in target.heads.values()),
        records=sum(each.published for each in receipts),
        rejected=sum(each.totals.rejected for each in receipts),
        stands=in_words(publication, record.stands),
        rows=rows,
        breaks=tuple(breaks[:BREAKS_MAX]),
        not_compared=tuple(skipped),
    )


@dataclass(frozen=True, slots=True)
class _Target:
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
        term = Term(receipt.producer_id, receipt.producer_epoch)
        return [(at, each) for at, of in self.heads.items() for each in of if each.term == term]


def _target(
    publication: Publication, ports: PublicationPorts, receipts: Sequence[Receipt]
) -> _Target:
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
        return _Target(heads, bounds, codec, ports.producers.topics.is_compacted(publication.into))
    except InvalidError as error:
        if error.code != UNREADABLE:
            raise
        said = f"what is missing in the target: {error.message}"
        return _Target(heads, bounds, codec, is_compacted=True, unknown=said)


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


def _written_anew(target: _Target) -> Iterator[str]:
    for at, found in sorted(target.heads.items()):
        if count := sum(_is_anew(head, target.codec) for head in found):
            yield (
                f"{at}: the checksums of {count} of {len(found)} batches, which the brokers wrote"
                " anew, as compression.type or message.timestamp.type have it"
            )


def _compacted_away(
    publication: Publication, receipts: Sequence[Receipt], target: _Target
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


def _breaks_of_batches(receipts: Sequence[Receipt], target: _Target) -> Iterator[Break]:
    """Compare batches with the receipts of their terms."""
    for at, found in target.heads.items():
        by_term: dict[Term, list[BatchHead]] = {}
        for head in found:
            by_term.setdefault(head.term, []).append(head)
        start = min((head.first for head in found), default=0)
        for receipt in receipts:
            term = Term(receipt.producer_id, receipt.producer_epoch)
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


def _differs(own: Sequence[BatchHead], said: Batches, target: _Target) -> str:
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


def _not_there(receipts: Sequence[Receipt], target: _Target) -> Iterator[str]:
    """Say which targets are another topic now, or no longer begin before the first receipt."""
    for at, first in sorted(_begins(receipts).items()):
        if at not in target.bounds:
            yield f"{at}: the topic was created again"
        elif (start := target.bounds[at].start) > first:
            yield f"{at}: offsets {first} to {start} were deleted"


@dataclass(slots=True)
class _Compared:
    rows: int = 0
    breaks: list[Break] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)


def _compare(
    publication: Publication,
    ports: PublicationPorts,
    receipts: Sequence[Receipt],
    target: _Target,
    readers: Readers,
) -> _Compared:
    """Read each stretch of the receipts again, and compare it with what stands in the target."""
    reader, target_reader = readers
    if publication.messages is None:
        read = cast("SourceReader", reader), target_reader
        return _compare_messages(publication, ports.source, receipts, target, read)
    rules, named = publication.messages, publication.rules_hash
    rows = RowComparison(ports.source, cast("RowReader", reader), rules, ports.registries, named)
    for receipt in receipts:
        own = [(at, each) for at, each in target.of(receipt) if at.topic == publication.into]
        messages = [at for at in receipt.targets if at.topic == publication.into]
        if any(_is_gone(receipt, at, target.bounds) for at in messages):
            rows.skip(receipt, "its records are gone")
            continue
        there = [batch for at, head in own for batch in _read(target_reader, at, head)]
        stamped = any(head.is_stamped for _, head in own)
        rows.compare(receipt, there, stamped=stamped, compacted=target.is_compacted)
    return _Compared(rows.rows, rows.breaks, rows.not_compared())


def _compare_messages(
    publication: Publication,
    source: Source,
    receipts: Sequence[Receipt],
    target: _Target,
    readers: tuple[SourceReader, RangeReader],
) -> _Compared:
    """Compare the messages of mirrors; say what is gone from the source or the target."""
    found, gone = _Compared(), dict[str, int]()
    begun = source.starts("earliest")
    for receipt in receipts:
        for of, move in receipt.moves.items():
            start = move.start or begun.get(of)
            if start is None or of not in begun or source.count({of: start}, {of: begun[of]}):
                gone[f"of {of}"] = receipt.epoch
                continue
            stretch = Stretch(of, start, move.stop, 0)
            (delivery,) = plan_deliveries([stretch], target.partitions, publication)
            into = delivery.into
            if _is_gone(receipt, into, target.bounds):
                gone[f"in {into}"] = receipt.epoch
                continue
            own = [head for at, head in target.of(receipt) if at == into]
            columns = _compared_columns(own)
            read = [each.messages for each in readers[0].read(stretch, deadline=FOREVER)]
            sent = _rows(read, columns)
            there = _rows([each for one in own for each in _read(readers[1], into, one)], columns)
            found.rows += len(sent)
            if not agree(sent, there, compacted=target.is_compacted):
                where = f"transaction {receipt.epoch}, {into}"
                found.breaks.append(Break("rows", where, _first_difference(sent, there)))
    found.not_compared += [
        f"records {what} up to transaction {to}: they are gone" for what, to in gone.items()
    ]
    return found


def _is_gone(
    receipt: Receipt, into: TopicPartition, bounds: Mapping[TopicPartition, Bounds]
) -> bool:
    """Return whether what a receipt has in a partition was deleted, or its topic made again."""
    for at, said in receipt.targets.items():
        if (at.topic, at.partition) == (into.topic, into.partition):
            return at != into or into not in bounds or said.first < bounds[into].start
    return False


def _compared_columns(heads: Sequence[BatchHead]) -> list[str]:
    """Return what of records is compared: their times where brokers do not replace them."""
    stamped = any(head.is_stamped for head in heads)
    return [name for name in MESSAGES.names if not (stamped and name == "timestamp")]


def _first_difference(sent: Sequence[object], there: Sequence[object]) -> str:
    for number, (one, other) in enumerate(zip(sent, there, strict=False)):
        if one != other:
            return f"record {number} of it is another than in the source"
    return f"the source has {len(sent)} records, the target {len(there)}"


def _rows(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> list[dict[str, object]]:
    return [row for each in batches for row in each.select(columns).to_pylist()]


def _read(reader: RangeReader, at: TopicPartition, head: BatchHead) -> Iterator[pa.RecordBatch]:
    covered = OffsetRange(Offset(head.first), Offset(head.last + 1))
    for each in reader.read(at, covered, deadline=FOREVER, headers=True):
        yield each.batch.select(MESSAGES.names)
