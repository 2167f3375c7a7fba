"""`penstock peek` of a publication: the next rows, as a run would send them.

Invariants: nothing is sent, registered or claimed; each row goes through the workers' own code, so
that its outcome is what a run would decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa

from penstock.app.assembly import publishing
from penstock.app.assembly.process import SystemClock
from penstock.app.assembly.publishing_worker import Readers, packer_of, readers_of
from penstock.app.assembly.topic_rows import RECORDS
from penstock.app.inspect.publications import beginning_of, next_absent_fields
from penstock.app.publish import rules_named
from penstock.core.errors import InvalidError
from penstock.core.positions import SourcePartition, values_of
from penstock.observe.formatting import number_of
from penstock.ports.producers import Packer
from penstock.ports.sources import EpochLimit, RowReader, Rows, SourceReader, Stretch
from penstock.publishing.places import part_words, place_words
from penstock.publishing.record import standing_record
from penstock.publishing.rejects import RowsRead, misfits_of
from penstock.publishing.schemas import standing_rules
from penstock.publishing.settings import Publication, PublicationPorts
from penstock.publishing.topic_source import place_of
from penstock.rows.convert.absent_fields import AbsentFields
from penstock.rows.encode.encoder import WHERE, Misfit, cause_of, encode
from penstock.rows.encode.rules import MessageRules
from penstock.spec.publications import Publications

RECORDS_MAX = 1000
PIECE_ROWS = 1000
READ_SECONDS = 10.0
Outcome = Literal["published", "filtered", "rejected"]


@dataclass(frozen=True, slots=True)
class PeekedMessage:
    """One row that waits, and what a run would make of it.

    `place` says where it is in the source; `partition` is None where it is spread, having no key,
    and where the topic is not there yet. `row` is what the row says, where the source has rows;
    `detail` is why it is filtered or rejected, next to the `code` of a reject, which is landing's.
    """

    publication: str
    place: str
    outcome: Outcome
    topic: str = ""
    partition: int | None = None
    timestamp_ms: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    row: Mapping[str, Any] | None = None
    code: str = ""
    detail: str = ""


def peek_publication(
    spec: Publications, name: str, count: int, *, at: str = ""
) -> tuple[PeekedMessage, ...]:
    """Look at the next rows of a publication, or at those from a place of its source on.

    Raises InvalidError (P295, P817, P825), and what a start raises.
    """
    (rule,) = rules_named(spec, [name])
    publication = publishing.publication_of(spec, rule)
    if publication.reads_frames:
        raise InvalidError(
            f"the rows of {name} are in the program that publishes them, and none wait here",
            code="P295",
            hint=f"what is published:  penstock status;  or read the topic {publication.into}",
        )
    with ExitStack() as stack:
        ports = publishing.open_ports(publication, stack)
        readers, packer = readers_of(publication, stack), packer_of(publication.target)
        return peeked(publication, ports, readers, packer, min(max(count, 1), RECORDS_MAX), at=at)


def absent_from(spec: Publications, name: str) -> AbsentFields:
    """Look which fields that a publication reads none of its next records has."""
    (rule,) = rules_named(spec, [name])
    publication = publishing.publication_of(spec, rule)
    if RECORDS not in publication.source:
        return AbsentFields()
    with ExitStack() as stack:
        return next_absent_fields(publication, publishing.open_ports(publication, stack))


def peeked(
    publication: Publication,
    ports: PublicationPorts,
    readers: Readers,
    packer: Packer,
    count: int,
    *,
    at: str = "",
) -> tuple[PeekedMessage, ...]:
    """Return what becomes of the next `count` rows, or of those that are there.

    With `at`, of those from this place of the source on, published or not.
    """
    ports.producers.terms.check()
    record = standing_record(publication.name, ports.producers.ledger)
    begins = beginning_of(publication, ports, record)
    limit = EpochLimit(count, publication.limit.bytes_max)
    stands, ends = begins.stands, ports.source.ends()
    if at:
        stands = ports.source.places([at])
        ends = {of: ends[of] for of in stands}
    stretches = ports.source.plan(stands, ends, limit)
    targets = ports.targets.partitions(without=begins.creates)
    partitions = sum(at.topic == publication.into for at in targets)
    rules = standing_rules(publication, ports)
    if rules is None:
        mirrored = _mirrored(publication, cast("SourceReader", readers[0]), stretches)
        return tuple(islice(mirrored, count))
    encoding = _Encoding(publication, rules, packer, partitions)
    reader = cast("RowReader", readers[0])
    found = (
        message
        for stretch in stretches
        for rows in reader.read(stretch, deadline=_deadline())
        for message in encoding.outcomes(stretch.of, rows)
    )
    return tuple(islice(found, count))


def _mirrored(
    publication: Publication, reader: SourceReader, stretches: Sequence[Stretch]
) -> Iterator[PeekedMessage]:
    """Yield records of a topic: they keep their partition."""
    for stretch in stretches:
        number = values_of(stretch.of)["partition"]
        for read in reader.read(stretch, deadline=_deadline()):
            place = RowsRead(stretch.of, read.reached, read.messages.num_rows)
            for row in range(read.messages.num_rows):
                yield PeekedMessage(
                    publication.name,
                    place.said_of(row),
                    "published",
                    publication.into,
                    int(number or 0),
                    **_fields_of(read.messages, row),
                )


def _fields_of(messages: pa.RecordBatch, number: int) -> dict[str, Any]:
    """Return what a message (MESSAGES) says."""
    (found,) = messages.slice(number, 1).to_pylist()
    time = messages.column("timestamp")[number].value
    headers = tuple((each["key"], each["value"]) for each in found["headers"] or ())
    return {
        "timestamp_ms": time,
        "key": found["key"],
        "value": found["value"],
        "headers": headers,
    }


def _deadline() -> float:
    return SystemClock().monotonic() + READ_SECONDS


@dataclass(frozen=True, slots=True)
class _Encoding:
    """Makes messages of rows, as workers do; the target has so many `partitions`, or none yet."""

    publication: Publication
    rules: MessageRules
    packer: Packer
    partitions: int

    def outcomes(self, of: SourcePartition, rows: Rows) -> Iterator[PeekedMessage]:
        """Yield the outcome of each row, in the order of the source."""
        place, name = RowsRead(of, rows.reached, rows.count, rows.offsets), self.publication.name
        for reason, count in rows.left_out.items():
            where = f"{part_words(of)} before {place_words(rows.reached)}"
            detail = f"{reason}: {number_of(count, 'row')}"
            yield PeekedMessage(name, where, "filtered", detail=detail)
        found = [*self._of_rows(place, rows.rows)]
        found += (self._rejected(bad, place=place.said_of(bad.row)) for bad in misfits_of(rows))
        order = range(len(found)) if rows.offsets is None else np.argsort(rows.offsets)
        yield from (found[number] for number in order)

    def _of_rows(self, place: RowsRead, rows: pa.RecordBatch) -> Iterator[PeekedMessage]:
        """Yield the outcome of each row that could be read."""
        name = self.publication.name
        for begun in range(0, rows.num_rows, PIECE_ROWS):
            piece = rows.slice(begun, PIECE_ROWS)
            found = encode(piece, self.rules, now_ms=SystemClock().now_ms())
            misfits = {each.row: each for each in found.misfits}
            numbers = {int(row): number for number, row in enumerate(found.places)}
            partitions = self._partitions_of(place.of, found.messages)
            for row in range(piece.num_rows):
                said: dict[str, Any] = {
                    "place": place.said_of(begun + row),
                    "row": _row_of(piece, row),
                }
                if row in misfits:
                    cause = cause_of(piece.slice(row, 1), misfits[row], self.rules)
                    yield self._rejected(misfits[row], cause, **said)
                elif row not in numbers:
                    yield PeekedMessage(name, outcome="filtered", detail=WHERE, **said)
                else:
                    number = numbers[row]
                    fields = _fields_of(found.messages, number)
                    into, at = self.publication.into, partitions[number]
                    yield PeekedMessage(
                        name, outcome="published", topic=into, partition=at, **fields, **said
                    )

    def _partitions_of(self, of: SourcePartition, messages: pa.RecordBatch) -> list[int | None]:
        if self.rules.keeps_partition:
            return [place_of(of).partition] * messages.num_rows
        if not self.partitions:
            return [None] * messages.num_rows
        found = self.packer.partitions_of(messages.column("key"), self.partitions)
        return [None if each is None else int(each) for each in found.to_pylist()]

    def _rejected(
        self, misfit: Misfit, cause: str = "", *, place: str, row: Mapping[str, Any] | None = None
    ) -> PeekedMessage:
        rejects = self.publication.rejects
        return PeekedMessage(
            self.publication.name,
            place,
            "rejected",
            rejects.into if rejects else "",
            key=misfit.key,
            row=row,
            code=misfit.code,
            detail=f"{misfit.column}: {misfit.reason}{f' ({cause})' if cause else ''}",
        )


def _row_of(rows: pa.RecordBatch, number: int) -> Mapping[str, Any]:
    """Return a row by the names of its columns."""
    return {name: rows.column(at)[number].as_py() for at, name in enumerate(rows.schema.names)}
