"""Prove from Kafka alone that a publication lost and doubled nothing. Writes nothing.

1. Receipts: each begins where the one before ended, and the last where the positions are.
2. Targets: every committed batch of our transactions is in one receipt, whose counts, offsets and
   checksums agree with what stands there.
3. With `rows`: the source is read again, and compared record by record with what was published;
   rows of a table are made messages of again (row_audit.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from penstock.app.assembly import publishing
from penstock.app.assembly.connectors import connector_of
from penstock.app.assembly.table_readers import kept_table_reader
from penstock.app.inspect.publications import in_words
from penstock.app.inspect.row_audit import FOREVER, RowComparison
from penstock.app.publish import rules_named
from penstock.core.audit import Break
from penstock.core.errors import PenstockError, gravest
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.core.planning import Bounds
from penstock.core.receipt_chain import receipt_breaks
from penstock.core.receipts import Batches, Receipt
from penstock.ports.connectors import LogConnector
from penstock.ports.log import RangeReader
from penstock.ports.producers import BatchHead, Term
from penstock.ports.sources import MESSAGES, RowReader, SourceReader, Stretch
from penstock.publishing.epoch import plan_deliveries
from penstock.publishing.record import receipts_of, standing_record
from penstock.publishing.settings import Publication, PublicationPorts
from penstock.publishing.topic_source import TopicReader
from penstock.spec.publications import Publications
from penstock.spec.secrets import ProcessSecrets

BREAK = 4
BREAKS_MAX = 20


@dataclass(frozen=True, slots=True)
class PublicationAudit:
    """What an audit of one publication found.

    `transactions` have their receipts, of `epoch` in all; `stands` says where it stands in a
    table; `rows` were compared one by one, None where they were not asked for. `not_compared` says
    what could not be looked at, and why.
    """

    publication: str
    epoch: int = 0
    transactions: int = 0
    batches: int = 0
    records: int = 0
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
    """Audit the named publications, or all. Raises InvalidError (P825)."""
    found = []
    for rule in rules_named(spec, names):
        publication = publishing.publication_of(spec, rule)
        with ExitStack() as stack:
            ports = publishing.open_ports(publication, stack)
            readers = _readers(publication, stack) if rows else None
            found.append(audit_publication(publication, ports, readers))
    return found


def exit_code(found: Sequence[PublicationAudit]) -> int:
    """Return the exit code of an audit of several publications."""
    return gravest(each.exit_code for each in found)


Readers = tuple[SourceReader | RowReader, RangeReader]
"""What reads the source, and what reads the target."""


def audit_publication(
    publication: Publication, ports: PublicationPorts, readers: Readers | None = None
) -> PublicationAudit:
    """Audit one publication; with readers row by row, too."""
    name = publication.name
    try:
        record = standing_record(name, ports.producers.ledger)
        if record.ledger is None:
            return PublicationAudit(name, not_compared=("nothing was published yet",))
        receipts = receipts_of(name, record.entries, record.ledger)
        breaks = [*receipt_breaks(receipts, record.ledger, record.stands)]
        heads = _heads(ports, receipts)
        codec = publication.target.get("compression", "none")
        breaks += _breaks_of_batches(receipts, heads, codec)
        skipped = [*_not_there(ports, receipts), *_written_anew(heads, codec)]
        rows = None
        if readers is not None:
            compared = _compare(publication, ports, receipts, heads, readers)
            rows, skipped = compared.rows, [*skipped, *compared.not_compared]
            breaks += compared.breaks
    except PenstockError as error:
        return PublicationAudit(name, problem=error)
    return PublicationAudit(
        publication=name,
        epoch=record.ledger.epoch,
        transactions=len(receipts),
        batches=sum(len(each) for each in heads.values()),
        records=sum(each.published for each in receipts),
        stands=in_words(publication, record.stands),
        rows=rows,
        breaks=tuple(breaks[:BREAKS_MAX]),
        not_compared=tuple(skipped),
    )


Heads = Mapping[TopicPartition, Sequence[BatchHead]]


def _heads(ports: PublicationPorts, receipts: Sequence[Receipt]) -> Heads:
    """Read our batches in the targets, from the first receipt's on."""
    producers = {each.producer_id for each in receipts}
    first: dict[TopicPartition, int] = {}
    for receipt in receipts[::-1]:
        first |= {at: batches.first for at, batches in receipt.targets.items()}
    there = {*ports.targets.partitions()}
    return {
        at: [
            head
            for head in ports.producers.heads.committed(at, begin)
            if head.term.producer_id in producers
        ]
        for at, begin in first.items()
        if at in there
    }


def _is_anew(head: BatchHead, codec: str) -> bool:
    """Return whether the brokers wrote a batch anew: its checksum is not the one that was sent."""
    return head.is_stamped or head.codec != codec


def _written_anew(heads: Heads, codec: str) -> Iterator[str]:
    for at, found in sorted(heads.items()):
        if count := sum(_is_anew(head, codec) for head in found):
            yield (
                f"{at}: the checksums of {count} of {len(found)} batches, which the brokers wrote"
                " anew, as compression.type or message.timestamp.type have it"
            )


def _breaks_of_batches(receipts: Sequence[Receipt], heads: Heads, codec: str) -> Iterator[Break]:
    """Compare batches with the receipts of their terms."""
    for at, found in heads.items():
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
            elif own and (problem := _differs(own, said, codec)):
                yield Break("batches", where, problem)
            elif not own and said.first >= start and found:
                yield Break("lost", where, f"{said.records} records are not there")
        for term, own in by_term.items():
            where = f"{at}, offset {own[0].first}"
            yield Break("batches", where, f"{len(own)} batches of the term {term} have no receipt")


def _differs(own: Sequence[BatchHead], said: Batches, codec: str) -> str:
    records = sum(head.records for head in own)
    if records != said.records:
        return f"{records} records are there, the receipt says {said.records}"
    if (own[0].first, own[-1].last) != (said.first, said.last):
        return (
            f"they are at {own[0].first} to {own[-1].last}, the receipt says"
            f" {said.first} to {said.last}"
        )
    if any(_is_anew(head, codec) for head in own):
        return ""
    sums = [head.crc for head in own if head.crc is not None]
    if said.crc_sum is not None and sums and sum(sums) != said.crc_sum:
        return "the checksums are not those of the receipt"
    return ""


def _not_there(ports: PublicationPorts, receipts: Sequence[Receipt]) -> Iterator[str]:
    """Say which targets are another topic now, or no longer begin before the first receipt."""
    wanted: dict[TopicPartition, int] = {}
    for receipt in receipts[::-1]:
        wanted |= {at: batches.first for at, batches in receipt.targets.items()}
    bounds = ports.targets.bounds(ports.targets.partitions())
    for at, first in sorted(wanted.items()):
        if at not in bounds:
            yield f"{at}: the topic was created again"
        elif bounds[at].start > first:
            yield f"{at}: offsets {first} to {bounds[at].start} were deleted"


@dataclass(slots=True)
class _Compared:
    rows: int = 0
    breaks: list[Break] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)


def _compare(
    publication: Publication,
    ports: PublicationPorts,
    receipts: Sequence[Receipt],
    heads: Heads,
    readers: Readers,
) -> _Compared | RowComparison:
    """Read each stretch of the receipts again, and compare it with what stands in the target."""
    source, target = readers
    if publication.messages is not None:
        rows = RowComparison(ports.source, cast("RowReader", source), publication.messages)
        bounds = ports.targets.bounds(ports.targets.partitions())
        for receipt in receipts:
            if any(_is_gone(receipt, at, bounds) for at in receipt.targets):
                rows.not_compared.append(f"transaction {receipt.epoch}: its records are gone")
                continue
            term = Term(receipt.producer_id, receipt.producer_epoch)
            own = [(at, each) for at, of in heads.items() for each in of if each.term == term]
            there = [batch for at, head in own for batch in _read(target, at, head)]
            rows.compare(receipt, there, stamped=any(head.is_stamped for _, head in own))
        return rows
    return _compare_messages(
        publication, ports, receipts, heads, (cast("SourceReader", source), target)
    )


def _compare_messages(
    publication: Publication,
    ports: PublicationPorts,
    receipts: Sequence[Receipt],
    heads: Heads,
    readers: tuple[SourceReader, RangeReader],
) -> _Compared:
    """Compare the messages of mirrors; say what is gone from the source or the target."""
    source, target = readers
    found, gone = _Compared(), dict[str, int]()
    begun, targets = ports.source.starts("earliest"), ports.targets.partitions()
    bounds = ports.targets.bounds(targets)
    for receipt in receipts:
        term = Term(receipt.producer_id, receipt.producer_epoch)
        for of, move in receipt.moves.items():
            start = move.start or begun.get(of)
            if start is None or of not in begun or ports.source.count({of: start}, {of: begun[of]}):
                gone[f"of {of}"] = receipt.epoch
                continue
            stretch = Stretch(of, start, move.stop, 0)
            (delivery,) = plan_deliveries([stretch], targets, publication)
            into = delivery.into
            if _is_gone(receipt, into, bounds):
                gone[f"in {into}"] = receipt.epoch
                continue
            own = [each for each in heads.get(into, ()) if each.term == term]
            columns = _compared_columns(own)
            read = [each.messages for each in source.read(stretch, deadline=FOREVER)]
            sent = _rows(read, columns)
            there = _rows([each for head in own for each in _read(target, into, head)], columns)
            found.rows += len(sent)
            if sent != there:
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


def _readers(publication: Publication, stack: ExitStack) -> Readers:
    target = _open_reader(publication.target, stack)
    if publication.reads_table:
        return kept_table_reader(publication.source["connector"]), target
    return TopicReader(_open_reader(publication.source, stack)), target


def _open_reader(settings: Mapping[str, Any], stack: ExitStack) -> RangeReader:
    opening = connector_of(LogConnector, settings["connector"]).open_reader
    return stack.enter_context(closing(opening(settings, ProcessSecrets())))
