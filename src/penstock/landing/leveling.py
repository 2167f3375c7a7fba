"""A changed spec takes effect only where all tables are level (protocol.md 2).

Otherwise a record between two tables' positions could be judged by two sets of rules and land in
both or in neither. Trailing tables are first brought level under the rules they were fed with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.core.offsets import Offset, OffsetRange, Positions, TopicPartition
from penstock.landing.tracks import Track


@dataclass(frozen=True, slots=True)
class Leveling:
    """What to land under former rules (their hashes) before the present ones may count.

    `stretches` gives, by table and partition, from where to where it trails; `ends` bounds what may
    be read meanwhile.
    """

    rules_hashes: tuple[str, ...]
    stretches: Mapping[str, Mapping[TopicPartition, OffsetRange]]
    ends: Positions


def needed(tracks: Sequence[Track], rules_hash: str) -> Leveling | None:
    """Tell what trails under other rules than the present ones; None when they may count.

    A table that no former rules have fed, since it only begins now, reads its history under the
    present ones.
    """
    fed = {track.name for track in tracks if former_rules([track], rules_hash)}
    stretches = {name: ranges for name, ranges in trailing(tracks).items() if name in fed}
    if not stretches:
        return None
    hashes = former_rules([track for track in tracks if track.name in stretches], rules_hash)
    return Leveling(tuple(sorted(hashes)), stretches, furthest(tracks))


def former_rules(tracks: Iterable[Track], rules_hash: str) -> set[str]:
    """List the hashes of other rules that tables were fed with."""
    ledgers = [track.state.landed for track in tracks if track.state and track.state.landed]
    return {ledger.rules_hash for ledger in ledgers} - {"", rules_hash}


def furthest(tracks: Iterable[Track]) -> dict[TopicPartition, Offset]:
    """Give the furthest position of any chain on each partition."""
    ends: dict[TopicPartition, Offset] = {}
    for positions in _all_positions(tracks):
        for at, offset in positions.items():
            ends[at] = max(ends.get(at, offset), offset)
    return ends


def trailing(tracks: Iterable[Track]) -> dict[str, dict[TopicPartition, OffsetRange]]:
    """Give, by table, the stretches between where it stands and where the furthest chain does."""
    known = [track for track in tracks if track.standing is not None]
    ends = furthest(known)
    found: dict[str, dict[TopicPartition, OffsetRange]] = defaultdict(dict)
    for track in known:
        for at, offset in track.origins.items():
            if offset < ends[at]:
                found[track.name][at] = OffsetRange(offset, ends[at])
    return dict(found)


def _all_positions(tracks: Iterable[Track]) -> list[dict[TopicPartition, Offset]]:
    return [
        standing.expected
        for track in tracks
        for standing in (track.standing, track.rejects)
        if standing is not None
    ]
