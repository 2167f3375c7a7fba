"""Through where all tables have landed, for who follows.

Invariants:
- a partition is through where the last of its tables is: what is read and not yet committed does
  not count, nor what a parked table has not landed;
- while it is not known of some table, nobody is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from penstock.commit.two_phase import Work
from penstock.core.offsets import Offset, Positions, TopicPartition
from penstock.landing.tables.table_set import TableSet
from penstock.ports.groups import Follower


@dataclass(slots=True)
class LandedOffsets:
    """What each table has landed in this run, and who wants to know it of all of them."""

    tables: TableSet
    follower: Follower | None
    _landed: dict[str, Positions] = field(default_factory=dict)

    def note(self, name: str, work: Sequence[Work]) -> None:
        """Note that commits of a table landed."""
        if self.follower is not None:
            ends = ends_of(work)
            self._landed[name] = {**self._landed.get(name, {}), **ends}

    def tell(self, *, at_once: bool = False) -> None:
        """Tell who follows, when it is time or `at_once`."""
        if self.follower is None or not (at_once or self.follower.is_due):
            return
        for name, table in self.tables.active.items():
            if table.commits_in_flight == 0:
                self._landed[name] = {at: table.examined[at] for at in table.wanted}
        progress, parked = self.tables.progress, self.tables.parked
        known = progress.keys() | parked.keys()
        if known <= self._landed.keys():
            wanted = {at for table in progress.values() for at in table.wanted}
            least = least_of(self._landed[name] for name in known)
            self.follower.offer({at: to for at, to in least.items() if at in wanted})


def ends_of(work: Sequence[Work]) -> dict[TopicPartition, Offset]:
    """Return where the ranges of commits end: the farther one, where two are of a partition."""
    ends: dict[TopicPartition, Offset] = {}
    for commit, _ in work:
        for at, covered in commit.progress.items():
            ends[at] = max(ends.get(at, covered.stop), covered.stop)
    return ends


def least_of(landed: Iterable[Positions]) -> dict[TopicPartition, Offset]:
    """Return for each partition the least of what tables have landed of it."""
    found: dict[TopicPartition, list[Offset]] = defaultdict(list)
    for positions in landed:
        for at, offset in positions.items():
            found[at].append(offset)
    return {at: min(offsets) for at, offsets in found.items()}
