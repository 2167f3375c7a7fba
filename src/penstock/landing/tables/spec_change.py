"""A changed spec takes effect only where all tables are level (protocol.md 2).

Otherwise a record between two tables' positions could be judged by two sets of rules and land in
both or in neither. Trailing tables are first brought level under the rules they were fed with.

Invariants:
- a table trails only in topics that those rules give it: what they do not, it was never owed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.commit.land import CommitContext
from penstock.core.errors import InvalidError
from penstock.core.offsets import Offset, OffsetRange, Positions, TopicPartition
from penstock.landing.settings import Routes, Settings
from penstock.landing.tables import opening
from penstock.landing.tables.foreign_errors import COMMIT
from penstock.landing.tables.parking import missed_spec_change
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.route_tables import may_own
from penstock.ports.store import PendingStore

if TYPE_CHECKING:
    from penstock.landing.tables.table_set import TableSet

RangesByTable = Mapping[TopicPartition, OffsetRange]


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What to land under former rules (their hashes) before the present ones may count.

    `stretches` gives, by table and partition, from where to where it trails; `ends` bounds what may
    be read meanwhile.
    """

    rules_hashes: tuple[str, ...]
    ranges: Mapping[str, RangesByTable]
    ends: Positions


def catch_up_needed(
    tracks: Sequence[TableProgress], settings: Settings, store: PendingStore
) -> CatchUp | None:
    """Return what trails under other rules than the present ones; None when these may count, be it
    because a human said so.

    A table that no former rules have fed, since it only begins now, reads its history under the
    present ones; so it does in a topic that its former rules did not give it. Raises
    UnavailableError.
    """
    if "rules" in settings.accept:
        return None
    fed = [track for track in tracks if former_rules([track], settings.rules_hash)]
    found, former = ranges_behind(tracks), _FormerSpecs(settings, store)
    owed = {track.name: former.owed(track, found.get(track.name, {})) for track in fed}
    stretches = {name: ranges for name, ranges in owed.items() if ranges}
    if not stretches:
        return None
    trail = [track for track in fed if track.name in stretches]
    hashes = former_rules(trail, settings.rules_hash)
    return CatchUp(tuple(sorted(hashes)), stretches, end_positions(tracks))


@dataclass(frozen=True, slots=True)
class _FormerSpecs:
    """What former rules gave a table, by their text alone: a topic may be gone by now."""

    settings: Settings
    store: PendingStore
    _routes: dict[str, Routes | None] = field(default_factory=dict)

    def owed(self, track: TableProgress, stretches: RangesByTable) -> RangesByTable:
        """Leave out stretches of topics that the rules in a table's ledger did not give it."""
        given = {topic for topic in {at.topic for at in stretches} if self._fed(track, topic)}
        return {at: covered for at, covered in stretches.items() if at.topic in given}

    def _fed(self, track: TableProgress, topic: str) -> bool:
        """Return whether a table was given a topic, or that cannot be told: leveling says why."""
        (rules_hash,) = former_rules([track], self.settings.rules_hash)
        try:
            routes = self._routes_by(rules_hash)
            targets = None if routes is None else routes([topic]).get(topic, ())
        except InvalidError:
            return True
        return targets is None or any(may_own(each, track.target.location) for each in targets)

    def _routes_by(self, rules_hash: str) -> Routes | None:
        if rules_hash not in self._routes:
            text = self.store.rules(self.settings.pipeline, rules_hash)
            self._routes[rules_hash] = None if text is None else self.settings.former_routes(text)
        return self._routes[rules_hash]


def former_rules(tracks: Iterable[TableProgress], rules_hash: str) -> set[str]:
    """List the hashes of other rules that tables were fed with."""
    ledgers = [track.state.landed for track in tracks if track.state and track.state.landed]
    return {ledger.rules_hash for ledger in ledgers} - {"", rules_hash}


def end_positions(tracks: Iterable[TableProgress]) -> dict[TopicPartition, Offset]:
    """Return the furthest position of any chain on each partition."""
    ends: dict[TopicPartition, Offset] = {}
    for positions in _all_positions(tracks):
        for at, offset in positions.items():
            ends[at] = max(ends.get(at, offset), offset)
    return ends


def ranges_behind(tracks: Iterable[TableProgress]) -> dict[str, dict[TopicPartition, OffsetRange]]:
    """Give, by table, the stretches between where it stands and where the furthest chain does."""
    known = [track for track in tracks if track.position is not None]
    ends = end_positions(known)
    found: dict[str, dict[TopicPartition, OffsetRange]] = defaultdict(dict)
    for track in known:
        for at, offset in track.expected.items():
            if offset < ends[at]:
                found[track.name][at] = OffsetRange(offset, ends[at])
    return dict(found)


def _all_positions(tracks: Iterable[TableProgress]) -> list[dict[TopicPartition, Offset]]:
    return [
        standing.expected
        for track in tracks
        for standing in (track.position, track.quarantine)
        if standing is not None
    ]


def adopt_rules(fleet: TableSet, names: Collection[str], conditions: CommitContext) -> None:
    """Write the present rules into the ledgers of tables that others have fed, and are level.

    One that trails is parked. Raises FencedError when a newer owner has landed.
    """
    tracks, settings = fleet.tracks, fleet.settings
    strange = [name for name in names if former_rules([tracks[name]], settings.rules_hash)]
    leveling = (
        catch_up_needed(list(tracks.values()), settings, fleet.environment.store)
        if strange
        else None
    )
    for name in strange:
        if leveling and name in leveling.ranges:
            fleet.park(name, missed_spec_change(name))
            continue
        with fleet.parking(name, COMMIT):
            opening.adopt_spec(settings, fleet.environment, tracks[name], conditions)
