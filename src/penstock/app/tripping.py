"""Whether a table's breaker would trip, by the sampled records: the run's own rule, on estimates.

The breaker judges whole epochs (docs/design/0010), and a sample says only so much of one: each
piece of it stands for the positions that are nearest to it. Where the sample is the backlog, the
estimate is exact.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.app.backlog import Backlog, Piece
from penstock.core.accounting import Tally
from penstock.core.offsets import OffsetRange
from penstock.landing.adding_up import too_many_rejects


def would_trip(
    source: str, books: Mapping[Piece, Tally], backlog: Backlog, share_max: float
) -> bool:
    """Tell whether the first epoch of a table, or a later one, would trip its breaker.

    `source` is who reads the backlog for it: the table itself, or the route that is to create it.
    """
    first, later = Tally(), Tally()
    for piece, tally in books.items():
        count = _common(piece.stands_for, backlog.first.get(source, {}).get(piece.at))
        first += _scaled(tally, count, piece.covered.count)
        later += _scaled(tally, piece.stands_for.count - count, piece.covered.count)
    an_epoch = _scaled(later, backlog.epoch_records, max(later.examined, backlog.epoch_records))
    return any(too_many_rejects(each, share_max) for each in (first, an_epoch))


def _common(one: OffsetRange, other: OffsetRange | None) -> int:
    """Count the positions that two ranges share."""
    return 0 if other is None else max(min(one.stop, other.stop) - max(one.start, other.start), 0)


def _scaled(books: Tally, positions: int, sampled: int) -> Tally:
    """Take the shares of sampled positions for those of another number."""
    factor = positions / sampled if sampled else 0.0
    quarantined = {code: round(count * factor) for code, count in books.quarantined.items()}
    return Tally(round(books.examined * factor), quarantined=quarantined)
