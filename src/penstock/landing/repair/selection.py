"""Which quarantined records a person means, read back as what became of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from penstock.core.offsets import TopicPartition
from penstock.landing.repair.reconvert import Record
from penstock.landing.tables.progress import TableProgress
from penstock.ports.tables import Table
from penstock.rows.quarantine.rows import OPEN
from penstock.rows.quarantine.status import READ, status_of
from penstock.rows.reject_codes import RejectCode

ROUND_RECORDS = 20_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which open records: those of some codes, or one alone when a spot is given.

    A `spot` is topic, partition and offset.
    """

    codes: tuple[str, ...] = ()
    spot: tuple[str, int, int] | None = None


def read_quarantine_status(quarantine: Table, progress: TableProgress) -> pa.Table:
    """Read what became of all that was refused for a table or a route."""
    return status_of(quarantine.read_quarantine(progress.quarantine.chain, READ))


def selected(statuses: pa.Table, choice: Selection) -> pa.Table:
    """Return the open records that a choice means."""
    wanted = pc.equal(statuses["status"], OPEN)
    if choice.codes:
        wanted = pc.and_(wanted, pc.is_in(statuses["code"], value_set=pa.array(choice.codes)))
    if choice.spot is not None:
        for name, value in zip(("topic", "partition", "offset"), choice.spot, strict=True):
            wanted = pc.and_(wanted, pc.equal(statuses[name], value))
    return statuses.filter(wanted)


def retryable(statuses: pa.Table, choice: Selection) -> pa.Table:
    """Return the open records to be tried: those that kill their reader only when they are named.

    They are named by their code or by their spot.
    """
    found = selected(statuses, choice)
    if choice.codes or choice.spot:
        return found
    return found.filter(pc.not_equal(found["code"], str(RejectCode.POISON)))


def batches(statuses: pa.Table) -> Iterator[list[Record]]:
    """Yield the records of rows in lots that fit into memory."""
    return batched(records_in(statuses))


def batched(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield records in lots that fit into memory."""
    while batch := list(islice(records, ROUND_RECORDS)):
        yield batch


def records_in(statuses: pa.Table) -> Iterator[Record]:
    """Yield the records of rows, in their order."""
    partitions: dict[tuple[str, int], TopicPartition] = {}
    for batch in statuses.to_batches():
        for row in batch.to_pylist():
            place = (row["topic_id"], row["partition"])
            at = partitions.setdefault(place, TopicPartition(*place, row["topic"]))
            stamped = row["timestamp"] is not None
            yield Record(at, row["offset"], row["code"], stamped, row["closing"])
