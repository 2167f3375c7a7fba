"""What a seek, or a start that accepted a gap, did to positions, and to the records between.

Records are counted of topics alone: other positions have no distance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.app.inspect.publication_words import place_in_words
from penstock.core.positions import Position, SourcePartition, values_of
from penstock.core.receipt_chain import positions_sought
from penstock.core.receipts import Receipt
from penstock.observe.formatting import number_of, one_line
from penstock.ports.sources import Stands
from penstock.publishing.places import part_words
from penstock.publishing.record import PublicationRecord, receipts_of
from penstock.publishing.settings import Publication
from penstock.publishing.source_stops import foreign_position


@dataclass(frozen=True, slots=True)
class Consequence:
    """How many records of a topic a new position has published again, or for the first time because
    a former seek had left them out, and how many it leaves out that were never published.
    """

    again: int = 0
    first: int = 0
    left_out: int = 0

    @property
    def words(self) -> str:
        """Say it; "" where nothing comes of it."""
        said = [
            (self.again, "published again"),
            (self.first, "published for the first time"),
            (self.left_out, "not published"),
        ]
        return ", ".join(
            f"{number_of(count, 'record')} {'is' if count == 1 else 'are'} {what}"
            for count, what in said
            if count
        )


def all_receipts(name: str, record: PublicationRecord) -> list[Receipt]:
    """Return the receipts of all tasks of a publication. Raises InvalidError (P190, P191)."""
    tasks = range(len(record.ledgers))
    return [receipt for task in tasks for receipt in receipts_of(name, record, task)]


def consequence(
    receipts: Sequence[Receipt], of: SourcePartition, start: Position, to: Position
) -> Consequence:
    """Return what comes of a new position in a topic, after these receipts.

    Of what was read before the first receipt that is still there, all counts as published.
    """
    low, high = sorted((_offset(start), _offset(to)))
    moves = [each.moves[of] for each in receipts if of in each.moves]
    ranges = sorted(
        (_offset(each.start) if each.start else 0, _offset(each.stop)) for each in moves
    )
    if ranges and min(each.epoch for each in receipts) > 1:
        ranges.insert(0, (0, ranges[0][0]))
    known, reached = 0, low
    for first, last in ranges:
        known += max(min(last, high) - max(first, reached), 0)
        reached = max(reached, last)
    never = high - low - known
    if _offset(to) > low:
        return Consequence(left_out=never)
    return Consequence(again=known, first=never)


def sought_words(
    publication: Publication, receipts: Sequence[Receipt], segment: int, stands: Stands
) -> Iterator[str]:
    """Say where positions were changed between transactions, by the receipts of all tasks.

    `segment` is that of the ledgers, `stands` are the positions of now.
    """
    for each in positions_sought(receipts, segment, stands):
        start, to = (_place(publication, at) for at in (each.start, each.to))
        of = publication.source_name if publication.reads_table else one_line(part_words(each.of))
        where = f"before transaction {each.epoch}" if each.epoch else "after the last transaction"
        text = f"{where}: {of} goes on {to}, not {start}"
        if not publication.reads_topic or each.to is None:
            yield text
            continue
        former = [one for one in receipts if not each.epoch or one.segment < each.segment]
        words = consequence(former, each.of, each.start, each.to).words
        yield f"{text}: {words}" if words else text


def _place(publication: Publication, at: Position | None) -> str:
    return "at the beginning" if at is None else place_in_words(publication, at)


def _offset(position: Position) -> int:
    """Return the offset of a topic's position. Raises InvalidError (P815): it is none."""
    match values_of(position):
        case {"offset": int(offset)}:
            return offset
        case other:
            raise foreign_position(other)
