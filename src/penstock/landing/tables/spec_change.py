"""A changed spec takes effect only where all tables are level (protocol.md 2).

Otherwise a record between two tables' positions could be decided on by two sets of rules and land
in both or in neither. Trailing tables are first brought level under the rules they were fed with.

Invariants:
- a table trails only in topics that those rules give it: what they do not, it was never owed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

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
    """Return what lags under other rules than the present ones; None when these may count, also
    because a person decided so.

    A table that no former rules have fed, since it only begins now, reads its history under the
    present ones; so it does in a topic that its former rules did not give it. Raises
    UnavailableError.
    """
    if "rules" in settings.accept:
        return None
    there = [each for each in tables if each.position is not None]
    fed = [each for each in there if former_rules([each], settings.rules_hash)]
    reached = _end_positions(there)

    @cache
    def routes_by(rules_hash: str) -> Routes | None:
        text = store.rules(settings.pipeline, rules_hash)
        return None if text is None else settings.former_routes(text)

    def was_fed(table: TableProgress, topic: str) -> bool:
        """Return whether a table was given a topic, or that is not known: catching up says why."""
        (rules_hash,) = former_rules([table], settings.rules_hash)
        try:
            routes = routes_by(rules_hash)
            targets = None if routes is None else routes([topic]).get(topic, ())
        except InvalidError:
            return True
        return targets is None or any(may_own(each, table.target.location) for each in targets)

    ranges: dict[str, Progress] = {}
    for each in fed:
        backlog = {
            at: OffsetRange(offset, reached[at])
            for at, offset in each.expected.items()
            if offset < reached[at]
        }
        given = {topic for topic in {at.topic for at in backlog} if was_fed(each, topic)}
        if owed := {at: covered for at, covered in backlog.items() if at.topic in given}:
            ranges[each.name] = owed
    if not ranges:
        return None
    hashes = former_rules([each for each in fed if each.name in ranges], settings.rules_hash)
    return CatchUp(tuple(sorted(hashes)), ranges, _with_former_ends(_end_positions(tables), tables))


def former_rules(tables: Iterable[TableProgress], rules_hash: str) -> set[str]:
    """List the hashes of other rules that tables were fed with."""
    ledgers = [each.state.landed for each in tables if each.state and each.state.landed]
    return {ledger.rules_hash for ledger in ledgers} - {"", rules_hash}


def _with_former_ends(
    ends: Positions, tables: Iterable[TableProgress]
) -> dict[TopicPartition, Offset]:
    """Let former partitions be read as far as new ones wait for them."""
    found = dict(ends)
    for at, end in (each for table in tables for grown in table.grown for each in grown.items()):
        found[at] = max(found.get(at, end), end)
    return found


def _end_positions(tables: Iterable[TableProgress]) -> dict[TopicPartition, Offset]:
    ends: dict[TopicPartition, Offset] = {}
    for position in (position for each in tables for position in each.positions):
        for at, offset in position.expected.items():
            ends[at] = max(ends.get(at, offset), offset)
    return ends
