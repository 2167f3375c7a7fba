"""Prove from Kafka alone that a publication lost and doubled nothing. Writes nothing.

1. Receipts: each begins where the one before ended, and the last where the positions are.
2. Targets: every committed batch of our transactions is in one receipt, whose counts, offsets and
   checksums agree with what stands there.
3. With `rows`: the source is read again, and compared record by record with what was published;
   rows of a table are made messages of again (row_audit.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa

from penstock.app.assembly import publishing
from penstock.app.assembly.publishing_worker import Readers, readers_of
from penstock.app.inspect.batch_audit import (
    Target,
    breaks_of_batches,
    compacted_away,
    is_gone,
    not_there,
    sent_without_transactions,
    target_of,
    term_of,
    terms_of,
    without_terms,
    written_anew,
)
from penstock.app.inspect.publication_words import in_words
from penstock.app.inspect.publications import decision_on, lost_target
from penstock.app.inspect.row_audit import FOREVER, RowComparison, agree, is_trimmed
from penstock.app.inspect.sought import sought_words
from penstock.app.publish import rules_named
from penstock.core.audit import Break
from penstock.core.errors import PenstockError, gravest
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
from penstock.core.positions import Position, SourcePartition
from penstock.core.receipt_chain import receipt_breaks
from penstock.core.receipts import Receipt
from penstock.ports.log import RangeReader
from penstock.ports.producers import BatchHead
from penstock.ports.sources import (
    MESSAGES,
    RowReader,
    Source,
    SourceReader,
    Stands,
    Stretch,
)
from penstock.publishing.deciding import require_target
from penstock.publishing.epoch import plan_deliveries
from penstock.publishing.new_topics import missing_topics, topics_to_create
from penstock.publishing.record import receipts_of, standing_record
from penstock.publishing.settings import Publication, PublicationPorts
from penstock.publishing.stops import naming
from penstock.spec.publications import Publications

BREAK = 4
BREAKS_MAX = 20


@dataclass(frozen=True, slots=True)
class PublicationAudit:
    """What an audit of one publication found.

    `transactions` have their receipts, of `epoch` in all, with so many `records` and `rejected`
    rows; `stands` says where it stands in a table, `sought` where a seek or an accepted gap put it
    to other positions; `rows` were compared one by one, None where they were not asked for.
    `not_compared` says what could not be looked at, and why.
    """

    publication: str
    epoch: int = 0
    transactions: int = 0
    batches: int = 0
    records: int = 0
    rejected: int = 0
    stands: str = ""
    sought: tuple[str, ...] = ()
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
                found.append(PublicationAudit(publication.name, problem=naming(publication, error)))
                continue
            found.append(audit_publication(publication, ports, readers))
    return found


def exit_code(found: Sequence[PublicationAudit]) -> int:
    """Return the exit code of an audit of several publications."""
    return gravest(each.exit_code for each in found)


def is_nothing_compared(found: Sequence[PublicationAudit]) -> bool:
    """Return whether records were to be compared with their source, and none could be in any."""
    return all(each.problem is None and each.rows == 0 for each in found)


def audit_publication(
    publication: Publication, ports: PublicationPorts, readers: Readers | None = None
) -> PublicationAudit:
    """Audit one publication; with readers row by row, too."""
    name = publication.name
    try:
        record = standing_record(name, ports.producers.ledger)
        if record.ledger is None:
            missing = missing_topics(publication, ports)
            topics_to_create(publication, ports, missing)
            decision_on(publication, ports, record, missing=missing)  # raises: its ledger is gone
            rows = None if readers is None else 0
            return PublicationAudit(name, rows=rows, not_compared=("nothing was published yet",))
        require_target(publication, ports, record, missing_topics(publication, ports))
        receipts, breaks = list[Receipt](), list[Break]()
        for task, ledger in enumerate(record.ledgers):
            own = receipts_of(name, record, task)
            breaks += receipt_breaks(own, ledger, record.stands_of(task))
            receipts += own
        sent = [each for each in receipts if each.is_transactional]
        target = _with_receipts(publication, ports, sent, target_of(publication, ports, sent))
        breaks += breaks_of_batches(sent, target)
        accepted = {at for each in record.ledgers for at in each.accepted_ends}
        skipped = [*sent_without_transactions(receipts)]
        skipped += not_there(publication, sent, target, accepted)
        skipped += [*written_anew(target), *compacted_away(publication, sent, target)]
        rows = None
        if readers is not None:
            compared = _compare(publication, ports, sent, target, readers)
            rows, skipped = compared.rows, [*skipped, *compared.not_compared]
            breaks += compared.breaks
        lost = lost_target(publication, ports, record)
        segment = max(each.segment for each in record.ledgers)
        sought = tuple(sought_words(publication, receipts, segment, record.stands))
    except PenstockError as error:
        return PublicationAudit(name, problem=naming(publication, error))
    return PublicationAudit(
        publication=name,
        epoch=sum(each.epoch for each in record.ledgers),
        transactions=len(receipts),
        batches=sum(len(each) for each in target.heads.values()),
        records=sum(each.published for each in receipts),
        rejected=sum(each.totals.rejected for each in receipts),
        stands=in_words(publication, record.stands),
        sought=sought,
        rows=rows,
        breaks=tuple(breaks[:BREAKS_MAX]),
        not_compared=tuple(skipped),
        problem=lost,
    )


def _with_receipts(
    publication: Publication, ports: PublicationPorts, sent: Sequence[Receipt], target: Target
) -> Target:
    """Leave out what a run has published since these receipts were read: it has later ones."""
    if terms_of(target) <= {*map(term_of, sent)}:
        return target
    again = standing_record(publication.name, ports.producers.ledger)
    receipts = [
        each
        for task in range(len(again.ledgers))
        for each in receipts_of(publication.name, again, task)
    ]
    return without_terms(target, {*map(term_of, receipts)} - {*map(term_of, sent)})


@dataclass(slots=True)
class _Compared:
    rows: int = 0
    breaks: list[Break] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)


def _compare(
    publication: Publication,
    ports: PublicationPorts,
    receipts: Sequence[Receipt],
    target: Target,
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
        if any(is_gone(receipt, at, target.bounds) for at in messages):
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
    target: Target,
    readers: tuple[SourceReader, RangeReader],
) -> _Compared:
    """Compare the messages of mirrors; say what is gone from the source or the target."""
    found, gone = _Compared(), dict[str, int]()
    begun = source.starts("earliest")
    for receipt in receipts:
        for of, move in receipt.moves.items():
            start = move.start or begun.get(of)
            is_later = move.start is None and is_trimmed(start)
            if start is None or of not in begun or is_later or _is_before(source, of, start, begun):
                gone[f"of {of}"] = receipt.epoch
                continue
            stretch = Stretch(of, start, move.stop, 0)
            (delivery,) = plan_deliveries([stretch], target.partitions, publication)
            into = delivery.into
            if is_gone(receipt, into, target.bounds):
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


def _is_before(source: Source, of: SourcePartition, start: Position, begun: Stands) -> bool:
    """Return whether a position is before the first record that is still there."""
    return source.count({of: start}, {of: begun[of]}) > 0


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
