"""Topics that are given partitions later: which records come before which others then.

A topic that gets more partitions moves keys, to the new ones and between the former ones. So in a
keyed table all that a topic had when the partitions were found comes before all that it has behind
that (docs/design/0266).

Invariants:
- where all partitions ended then is in the ledger before anything of the new ones is read;
- nothing behind these ends is read before all that lies before them has been;
- records on one side of them are in no order: a producer that has not heard writes behind them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.core.offsets import Offset, Positions, TopicPartition

FormerEnds = Sequence[Positions]
"""The ends of former partitions, each time that topics were given further ones."""


def former_partitions(
    known: Iterable[TopicPartition], added: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """List the known partitions of the topics that partitions are added to."""
    topics = {at.topic_id for at in added}
    return sorted(at for at in known if at.topic_id in topics)


def end_in(ends: Positions, at: TopicPartition) -> Offset | None:
    """Return where a partition ended when its topic grew, 0 for one that was added; None where it
    was not this topic that grew.
    """
    grew = any(at.topic_id == each.topic_id for each in ends)
    return ends.get(at, Offset(0)) if grew else None


def not_level(grown: FormerEnds, examined: Positions, highs: Positions) -> Iterator[Positions]:
    """Yield the ends that are not all reached; `highs` are the ends of the log now, where listed:
    what it has lost is not waited for.
    """
    for ends in grown:
        if any(
            examined.get(at, Offset(0)) < min(end, highs.get(at, end)) for at, end in ends.items()
        ):
            yield ends


def waiting(grown: FormerEnds, examined: Positions, highs: Positions) -> set[TopicPartition]:
    """Return the partitions of which nothing is to be read yet, as others have not come so far."""
    return {
        at
        for ends in not_level(grown, examined, highs)
        for at, offset in examined.items()
        if (end := end_in(ends, at)) is not None and offset >= end
    }
