"""What a run would make of the records that a publication reads next: a sample, and its end.

Invariants: nothing is sent; records are judged by the workers' own code, so that what ends a run
ends the sample with the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.core.accounting import Tally
from penstock.core.errors import DecisionNeededError
from penstock.ports.runtime import Clock
from penstock.ports.sources import RowReader, Stretch
from penstock.publishing.rejects import NO_MESSAGE, first_of, reason_of, require_few
from penstock.publishing.row_packing import Judged, judged
from penstock.publishing.settings import Publication
from penstock.rows.encode.rules import MessageRules

READ_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class SampledRejects:
    """Records that are no messages for one cause; `first` says where the first one is, and why."""

    code: str
    count: int
    first: str


@dataclass(frozen=True, slots=True)
class PublicationSample:
    """What becomes of the records that are next, as many as were looked at.

    `ends` is the error with which a run ends that finds them so.
    """

    records: int = 0
    published: int = 0
    filtered: int = 0
    rejected: tuple[SampledRejects, ...] = ()
    ends: DecisionNeededError | None = None


NOTHING_SAMPLED = PublicationSample()


def sampled(
    publication: Publication,
    rules: MessageRules,
    reader: RowReader,
    stretches: Sequence[Stretch],
    clock: Clock,
) -> PublicationSample:
    """Judge the records of some stretches. Raises what reading and encoding raise."""
    deadline, now_ms = clock.monotonic() + READ_SECONDS, clock.now_ms()
    found = [
        judged(stretch.of, rows, rules, now_ms=now_ms)
        for stretch in stretches
        for rows in reader.read(stretch, deadline=deadline)
    ]
    return PublicationSample(
        records=sum(each.read.rows for each in found),
        published=sum(len(each.messages) for each in found),
        filtered=sum(sum(each.filtered.values()) for each in found),
        rejected=_rejected(found),
        ends=_end(publication, found),
    )


def _rejected(found: Sequence[Judged]) -> tuple[SampledRejects, ...]:
    """Return the rejects by their codes, the most frequent first."""
    counts = Counter(each.code for piece in found for each in piece.misfits)
    return tuple(
        SampledRejects(code, count, _first(found, code)) for code, count in counts.most_common()
    )


def _first(found: Sequence[Judged], code: str) -> str:
    for piece in found:
        if own := [each for each in piece.misfits if each.code == code]:
            first = first_of(piece.read, own)
            return f"{piece.read.said_of(first.row)}: {reason_of(first)}"
    raise AssertionError("it was counted")


def _end(publication: Publication, found: Sequence[Judged]) -> DecisionNeededError | None:
    """Return the error with which a run ends: at a reject without a topic, or at too many."""
    wrong = [piece for piece in found if piece.misfits]
    if not wrong:
        return None
    if publication.rejects is None:
        return wrong[0].no_message()
    reasons = Counter(reason_of(each) for piece in wrong for each in piece.misfits)
    books = Tally(
        examined=sum(each.read.rows for each in found),
        quarantined={NO_MESSAGE: sum(reasons.values())},
    )
    try:
        require_few(books, reasons, publication.rejects.stop_above_share)
    except DecisionNeededError as error:
        return error
    return None
