"""The chain of a task's receipts: epoch after epoch, each from where the one before ended.

What is found is a sentence each, for `audit` and for a start that asks whether its ledger is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.core.audit import Break
from penstock.core.positions import Position, SourcePartition
from penstock.core.receipts import LedgerRecord, PublishedTotals, Receipt, counted


@dataclass(frozen=True, slots=True)
class Sought:
    """A position that was another before a transaction than the one before had left it at.

    `epoch` and `segment` are that transaction's; epoch 0: none has followed yet. Without `to` the
    source partition began anew.
    """

    epoch: int
    segment: int
    of: SourcePartition
    start: Position
    to: Position | None


def positions_sought(
    receipts: Sequence[Receipt], segment: int, stands: Mapping[SourcePartition, Position]
) -> Iterator[Sought]:
    """Yield what new segments changed: a seek, or a start that accepted a gap.

    `receipts` are those of all tasks, `segment` the ledgers', `stands` the positions of now.
    """
    last: dict[SourcePartition, tuple[int, Position]] = {}
    for receipt in sorted(receipts, key=lambda each: (each.segment, each.epoch)):
        for of, move in receipt.moves.items():
            former, start = last.get(of, (receipt.segment, move.start))
            if former != receipt.segment and start is not None and start != move.start:
                yield Sought(receipt.epoch, receipt.segment, of, start, move.start)
            last[of] = receipt.segment, move.stop
    for of, (former, start) in last.items():
        if former < segment and of in stands and stands[of] != start:
            yield Sought(0, segment, of, start, stands[of])


def receipt_breaks(
    receipts: Sequence[Receipt],
    ledger: LedgerRecord,
    stands: Mapping[SourcePartition, Position],
) -> Iterator[Break]:
    """Check the receipts of one task, oldest first, against each other, its ledger and positions.

    Source partitions that other tasks have now are compared among the receipts alone.
    """
    if counted(stands) != ledger.positions:
        yield Break("positions", "ledger", f"{len(stands)} positions are not those it counts")
    epochs = [0 if not receipts else receipts[0].epoch - 1, *(each.epoch for each in receipts)]
    for former, epoch in pairwise(epochs):
        if epoch != former + 1:
            yield Break("epoch", f"epoch {epoch}", f"the one before it is {former}")
    if epochs[-1] != ledger.epoch:
        yield Break("epoch", "ledger", f"it is at {ledger.epoch}, the last receipt {epochs[-1]}")
    yield from _breaks_of_moves(receipts, ledger, stands)
    yield from _breaks_of_sums(receipts, ledger)


def _breaks_of_moves(
    receipts: Sequence[Receipt],
    ledger: LedgerRecord,
    stands: Mapping[SourcePartition, Position],
) -> Iterator[Break]:
    """Follow each source partition; a new segment may begin it anywhere."""
    last: dict[SourcePartition, Position] = {}
    segment = receipts[0].segment if receipts else ledger.segment
    for receipt in receipts:
        where = f"epoch {receipt.epoch}"
        if receipt.uuid != ledger.uuid:
            yield Break("uuid", where, f"it is of the ledger {receipt.uuid}, not {ledger.uuid}")
        if not segment <= receipt.segment <= ledger.segment:
            yield Break("segment", where, f"segment {receipt.segment} follows {segment}")
        if receipt.segment != segment:
            last, segment = {}, receipt.segment
        for at, move in receipt.moves.items():
            if last.get(at, move.start) != move.start:
                yield Break("gap", where, f"{at} begins at {move.start}, not at {last[at]}")
            last[at] = move.stop
    if segment == ledger.segment:
        for at, position in last.items():
            if stands.get(at, position) != position:
                yield Break("position", at, f"it is {stands[at]}, the last receipt says {position}")


def _breaks_of_sums(receipts: Sequence[Receipt], ledger: LedgerRecord) -> Iterator[Break]:
    """Compare sums; where the segment's first receipts are gone, they may only be lower."""
    total = PublishedTotals()
    for receipt in receipts:
        if receipt.segment == ledger.segment:
            total = total.plus(receipt.totals)
    whole = not receipts or receipts[0].epoch == 1 or receipts[0].segment < ledger.segment
    for name in PublishedTotals.__slots__:
        summed, said = getattr(total, name), getattr(ledger.totals, name)
        if summed > said or (whole and summed != said):
            yield Break("totals", "ledger", f"{said} rows {name}, the receipts say {summed}")
