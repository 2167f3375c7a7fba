"""A changed spec takes effect only where all tables are level (protocol.md 2).

Otherwise a record between two tables' positions could be judged by two sets of rules and land in
both or in neither. Trailing tables are first brought level under the rules they were fed with.

Invariants:
- a table trails only in topics that those rules give it: what they do not, it was never owed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.core.errors import InvalidError
from penstock.core.offsets import Offset, OffsetRange, Positions, Progress, TopicPartition
from penstock.landing.settings import Routes, Settings
from penstock.landing.tables.progress import TableProgress
from penstock.landing.tables.route_tables import may_own
from penstock.ports.store import PendingStore


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What to land under former rules (their hashes) before the present ones may count.

    `ranges` are, by table and partition, from where to where it trails; `ends` bounds what may be
    read meanwhile.
    """

    rules_hashes: tuple[str, ...]
    ranges: Mapping[str, Progress]
    ends: Positions


def catch_up_needed(
    tables: Sequence[TableProgress], settings: Settings, store: PendingStore
) -> CatchUp | None:
    """Return what trails under other rules than the present ones; None when these may count, be it
    because a human said so.

    A table that no former rules have fed, since it only begins now, reads its history under the
    present ones; so it does in a topic that its former rules did not give it. Raises
    UnavailableError.
    """
    if "rules" in settings.accept:
        return None
    fed = [each for each in tables if former_rules([each], settings.rules_hash)]
    found, former = ranges_behind(tables), _FormerSpecs(settings, store)
    owed = {each.name: former.owed(each, found.get(each.name, {})) for each in fed}
    ranges = {name: covered for name, covered in owed.items() if covered}
    if not ranges:
        return None
    hashes = former_rules([each for each in fed if each.name in ranges], settings.rules_hash)
    return CatchUp(tuple(sorted(hashes)), ranges, _end_positions(tables))


@dataclass(frozen=True, slots=True)
class _FormerSpecs:
    """Returns what former rules gave a table, by their text alone: a topic may be gone by now."""

    settings: Settings
    store: PendingStore
    _routes: dict[str, Routes | None] = field(default_factory=dict)

    def owed(self, table: TableProgress, ranges: Progress) -> Progress:
        """Leave out ranges of topics that the rules in a table's ledger did not give it."""
        given = {topic for topic in {at.topic for at in ranges} if self._fed(table, topic)}
        return {at: covered for at, covered in ranges.items() if at.topic in given}

    def _fed(self, table: TableProgress, topic: str) -> bool:
        """Return whether a table was given a topic, or that is not known: catching up says why."""
        (rules_hash,) = former_rules([table], self.settings.rules_hash)
        try:
            routes = self._routes_by(rules_hash)
            targets = None if routes is None else routes([topic]).get(topic, ())
        except InvalidError:
            return True
        return targets is None or any(may_own(each, table.target.location) for each in targets)

    def _routes_by(self, rules_hash: str) -> Routes | None:
        if rules_hash not in self._routes:
            text = self.store.rules(self.settings.pipeline, rules_hash)
            self._routes[rules_hash] = None if text is None else self.settings.former_routes(text)
        return self._routes[rules_hash]


def former_rules(tables: Iterable[TableProgress], rules_hash: str) -> set[str]:
    """List the hashes of other rules that tables were fed with."""
    ledgers = [each.state.landed for each in tables if each.state and each.state.landed]
    return {ledger.rules_hash for ledger in ledgers} - {"", rules_hash}


def ranges_behind(tables: Iterable[TableProgress]) -> dict[str, Progress]:
    """Return, by table, the ranges between where it stands and where the furthest chain does."""
    known = [each for each in tables if each.position is not None]
    ends = _end_positions(known)
    return {
        each.name: {
            at: OffsetRange(offset, ends[at])
            for at, offset in each.expected.items()
            if offset < ends[at]
        }
        for each in known
    }


def _end_positions(tables: Iterable[TableProgress]) -> dict[TopicPartition, Offset]:
    """Return the furthest position of any chain on each partition."""
    ends: dict[TopicPartition, Offset] = {}
    for position in (position for each in tables for position in each.positions):
        for at, offset in position.expected.items():
            ends[at] = max(ends.get(at, offset), offset)
    return ends
