"""The position of one table: what it has landed, what is pending, what was examined.

Invariants:
- `expected` is what the table will have landed once its pending commits are in; a commit begins
  there and nowhere else;
- `examined` is at or ahead of `expected`: what lies between holds nothing for this table;
- the quarantine chain is ahead of or level with the table's own (protocol.md 2).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.commit.chain_position import ChainPosition
from penstock.core.accounting import Tally
from penstock.core.commits import Chain, Committable, target_of
from penstock.core.growth import FormerEnds, not_level, waiting
from penstock.core.offsets import LeaderEpochs, Offset, Positions, TopicPartition, between, without
from penstock.core.planning import Bounds
from penstock.core.schema import Schema
from penstock.landing.settings import Settings, TableTarget
from penstock.landing.tables.quarantined_offsets import EMPTY, QuarantinedOffsets
from penstock.landing.tables.valid_through import ValidThrough
from penstock.landing.task.chosen_offsets import ChosenOffsets
from penstock.landing.task.results import TableResult
from penstock.ports.store import PendingStore
from penstock.ports.tables import TableState


@dataclass(frozen=True, slots=True)
class TableProgress:
    """The progress of one target table in a run.

    `position` is None while the table does not exist; `start_offsets` is then where its ledger will
    begin: what the quarantine chain has durably landed, never what is only pending. A route keeps
    its position in its quarantine chain; `route_tables` are its tables, None until all were listed;
    `foreign_tables` are others of such names, with when to check them again. `capacity_left` is
    for how many more tables there is room; for a table, for how many columns. `pending_schema` is
    the schema it is to get before it is read for again; `wants_tables`: records ask a route for
    tables, which it is given once all is landed that was examined before. Where a person lands
    chosen records again, `only` are their offsets: no others are the table's.
    """

    target: TableTarget
    chain: Chain
    quarantine: ChainPosition
    start_offsets: Positions = field(default_factory=dict)
    position: ChainPosition | None = None
    state: TableState | None = None
    examined: Positions = field(default_factory=dict)
    wanted: tuple[TopicPartition, ...] = ()
    quarantined: QuarantinedOffsets = EMPTY
    leader_epochs: LeaderEpochs = field(default_factory=dict)
    valid_through: ValidThrough = field(default_factory=ValidThrough)
    commits_in_flight: int = 0
    route_tables: frozenset[str] | None = None
    foreign_tables: Mapping[str, float] = field(default_factory=dict)
    capacity_left: int = 0
    pending_schema: Schema | None = None
    wants_tables: bool = False
    committed_at: float = 0.0
    only: ChosenOffsets | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The table's name in the spec."""
        return self.target.location.table

    @property
    def expected(self) -> Positions:
        """What the chain has landed or will have: the table's, or where it is to begin."""
        return (self.position or self.quarantine).expected

    @property
    def grown(self) -> FormerEnds:
        """What its ledger says of partitions that were added to topics."""
        return (self.position or self.quarantine).grown

    @property
    def positions(self) -> list[ChainPosition]:
        """Its chains: the quarantine's, and its own when the table exists."""
        return [self.quarantine, *([self.position] if self.position else [])]

    @property
    def trailing(self) -> bool:
        """Return whether more was examined than the table's ledger will say."""
        return self.position is not None and bool(between(self.position.expected, self.examined))

    @property
    def is_blocked(self) -> bool:
        """Return whether to read on would be to read the same again."""
        return self.pending_schema is not None or (self.wants_tables and self.commits_in_flight > 0)

    @property
    def is_level(self) -> bool:
        """Return whether all that was examined has landed."""
        return not self.trailing and self.commits_in_flight == 0

    def with_chain(self, moved: ChainPosition) -> TableProgress:
        """Return it with one of its chains elsewhere; a route has one for both."""
        own = self.position is not None and self.position.chain == moved.chain
        rejects = moved.chain == self.quarantine.chain
        return replace(
            self,
            quarantine=moved if rejects else self.quarantine,
            position=moved if own else self.position,
        )

    def after(self, commit: Committable) -> TableProgress:
        """Return it as it is expected once a commit of one of its chains is in."""
        position = next((each for each in self.positions if each.chain == commit.chain), None)
        assert position is not None, f"{commit.chain} is no chain of {self.name}"
        return self.with_chain(position.after(commit))

    def excluding(self, coordinates: Collection[tuple[str, int, int]]) -> TableProgress:
        """Return it with further records that are in quarantine and land in it no more."""
        return replace(self, quarantined=self.quarantined | coordinates)

    def in_flight(self, commits: int) -> TableProgress:
        """Return it with so many more commits under way; fewer where negative."""
        return replace(self, commits_in_flight=self.commits_in_flight + commits)


def advance(
    progress: TableProgress, commits: Sequence[Committable], found: TableResult
) -> TableProgress:
    """Advance over an epoch once its commits are in the pending store."""
    for commit in commits:
        progress = progress.after(commit)
    return replace(
        progress,
        examined={**progress.examined, **found.reached},
        leader_epochs=epochs_after(progress, found),
        quarantined=progress.quarantined.beyond(found.reached),
        commits_in_flight=progress.commits_in_flight + bool(commits),
    )


def epochs_after(progress: TableProgress, found: TableResult) -> dict[TopicPartition, int]:
    """Return the leader epochs before the positions reached; what is not known is forgotten."""
    passed = {**progress.leader_epochs, **found.leader_epochs}
    return {at: epoch for at, epoch in passed.items() if epoch is not None}


def update_valid_through(
    progress: TableProgress,
    found: TableResult,
    listed: Mapping[TopicPartition, Bounds],
    listed_at_ms: int,
) -> TableProgress:
    """Work out through what time all records have been read after an epoch."""
    updated = progress.valid_through.updated(
        wanted=progress.wanted,
        examined={**progress.examined, **found.reached},
        newest_ms=found.newest_ms,
        listed=listed,
        listed_at_ms=listed_at_ms,
    )
    return replace(progress, valid_through=updated)


def retention_gap(progress: TableProgress, bounds: Mapping[TopicPartition, Bounds]) -> TableResult:
    """Count positions that retention deleted as filtered, once a person has agreed."""
    reached = {
        at: bounds[at].start
        for at, offset in progress.examined.items()
        if at in bounds and bounds[at].start > offset
    }
    tallies = {}
    for at, start in reached.items():
        lost = start - progress.examined[at]
        tallies[at] = Tally(examined=lost, filtered={"lost to retention": lost})
    return TableResult(reached, tallies=tallies, leader_epochs=dict.fromkeys(reached))


def by_table(pipeline: str, rows: Iterable[Committable]) -> dict[str, list[Committable]]:
    """Sort pending commits by the target table they belong to, in order."""
    found: dict[str, list[Committable]] = defaultdict(list)
    for commit in rows:
        found[target_of(pipeline, commit.chain)].append(commit)
    return dict(found)


def positions_of(
    tables: Iterable[TableProgress], ends: Positions | None
) -> dict[str, dict[TopicPartition, Offset]]:
    """Return what each table has examined, on the partitions it wants; none beyond `ends`."""
    return {
        each.name: {
            at: each.examined[at]
            for at in each.wanted
            if at in each.examined and (ends is None or at in ends)
        }
        for each in tables
    }


def up_to_growths(
    positions: Mapping[str, Positions],
    tables: Iterable[TableProgress],
    bounds: Mapping[TopicPartition, Bounds],
) -> tuple[dict[str, Positions], dict[TopicPartition, set[Offset]]]:
    """Leave out what a table reads when all of a topic has come to where it grew; return also the
    ends up to which it is read before.
    """
    highs = {at: each.high for at, each in bounds.items()}
    found, stops = dict(positions), defaultdict[TopicPartition, set[Offset]](set)
    for each in tables:
        held = waiting(each.grown, each.examined, highs)
        if held and each.name in positions:
            own = positions[each.name]
            found[each.name] = {at: offset for at, offset in own.items() if at not in held}
        for ends in not_level(each.grown, each.examined, highs):
            for at, end in ends.items():
                stops[at].add(end)
    return found, stops


def resume_examined(
    settings: Settings, store: PendingStore, progress: TableProgress
) -> TableProgress:
    """Go on from what was examined by these rules, if the table is unchanged since (advisory).

    The leader epochs before there are unknown.
    """
    known = store.examined(settings.pipeline, progress.name).get(progress.name)
    if known is None or progress.position is None or known.rules_hash != settings.rules_hash:
        return progress
    current = (progress.position.expected, progress.quarantine.expected)
    if (known.basis, known.rejects) != current:
        return progress
    ahead = {at: offset for at, offset in known.reached.items() if offset > progress.examined[at]}
    return replace(
        progress,
        examined={**progress.examined, **ahead},
        leader_epochs=without(progress.leader_epochs, ahead),
        quarantined=progress.quarantined.beyond(ahead),
    )
