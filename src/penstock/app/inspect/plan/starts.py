"""Where a run would begin for each table, why there, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.app.inspect.plan.forecast import Beginning
from penstock.app.inspect.read_only_world import ReadOnlyWorld
from penstock.core.commits import Committable, Landed
from penstock.core.errors import DecisionNeededError, PenstockError
from penstock.core.offsets import Offset, Positions, TopicPartition, stops
from penstock.landing.repair.allowed_ranges import of_others
from penstock.landing.tables import log_checks, opening, start_positions
from penstock.landing.tables.parking import table_missing
from penstock.landing.tables.progress import TableProgress


@dataclass(slots=True)
class TableStart:
    """One table of a plan while it is made. `pending` are its commits of an earlier run."""

    progress: TableProgress
    wanted: opening.Listing
    view: ReadOnlyWorld
    pending: Sequence[Committable] = ()
    positions: dict[TopicPartition, Offset] = field(default_factory=dict)
    whys: dict[TopicPartition, str] = field(default_factory=dict)
    destructive: list[PenstockError] = field(default_factory=list)
    problem: PenstockError | None = None

    @property
    def stops(self) -> bool:
        """Return whether a run would not read for this table."""
        return self.problem is not None or bool(self.destructive)

    def reads_from(self, level: Positions) -> dict[TopicPartition, Offset]:
        """Return where records are judged by the present rules: behind what is pending, and behind
        `level`, up to where the table is brought by former ones.
        """
        own = [each.progress for each in self.pending if each.chain == self.progress.chain]
        ahead = [level, *map(stops, own)]
        return {
            at: max(offset, *(each.get(at, offset) for each in ahead))
            for at, offset in self.positions.items()
        }

    @property
    def absent(self) -> list[TopicPartition]:
        """List the partitions that a run would wait for: they have no leader."""
        return [] if self.stops else [at for at in self.positions if at not in self.view.bounds]

    def begin(self) -> None:
        """Find where the table would begin in every partition; note what stands in the way."""
        progress, settings, environment = self.progress, self.view.settings, self.view.environment
        self.positions = {
            at: progress.examined[at] for at in self.wanted if at in progress.examined
        }
        self.whys = {at: self._why_there(at) for at in self.positions}
        fresh = [at for at in self.wanted if at not in progress.expected]
        try:
            if fresh:
                start_positions.require_known_ledger(progress.name, progress.expected, self.wanted)
            if fresh and "topic" not in settings.accept:
                log_checks.check_recreated([progress], fresh)
            chosen = start_positions.start_positions(
                settings, environment, progress.expected, fresh
            )
        except DecisionNeededError as error:
            self.destructive.append(error)
            return
        except PenstockError as error:
            self.problem = error
            return
        topics = {at.topic_id for at in progress.expected}
        others = self._others()
        for at, offset in chosen.items():
            self.positions[at] = offset
            self.whys[at] = _why_new(at, topics, settings.start) + _twice(at, offset, others)
        if progress.position is None and not all(each.chain.is_quarantine for each in self.pending):
            self.problem = table_missing(progress.target.location)
            return
        self._mind_bounds()

    def _others(self) -> list[Landed]:
        """List the ledgers of other pipelines in the table; a run does not mind those that cannot
        be read.
        """
        progress = self.progress
        if progress.position is None or progress.state is None:
            return []
        try:
            found = progress.position.table.ledgers(progress.state)
        except PenstockError:
            return []
        return of_others(progress.position.chain, found)

    def _mind_bounds(self) -> None:
        """See whether the log still reaches back to where the table stands."""
        overtaken = log_checks.check_truncated(self.progress, self.view.bounds)
        if overtaken is None:
            return
        if overtaken.code != log_checks.RETENTION:
            self.problem = overtaken
        elif "gap" not in self.view.settings.accept:
            self.destructive.append(overtaken)
        else:
            for at, bounds in self.view.bounds.items():
                if at in self.positions and self.positions[at] < bounds.start:
                    self.positions[at] = bounds.start
                    self.whys[at] = "behind records that retention took"

    @property
    def beginnings(self) -> tuple[Beginning, ...]:
        """Where it begins in every partition, sorted."""
        return tuple(self._beginning(at) for at in sorted(self.positions))

    def _beginning(self, at: TopicPartition) -> Beginning:
        bounds = self.view.bounds.get(at)
        start = self.positions[at]
        stop = start if bounds is None else max(bounds.stop, start)
        why = self.whys[at] if bounds is not None else "its partition has no leader now"
        return Beginning(at.topic, at.partition, start, stop, why)

    def _why_there(self, at: TopicPartition) -> str:
        if self.progress.position is None:
            return "where its quarantine stands"
        if self.progress.examined[at] > self.progress.position.expected.get(at, Offset(0)):
            return "where it was looked at last; nothing before is for this table"
        return "where the table stands"


def _why_new(at: TopicPartition, topics: set[str], start: object) -> str:
    if at.topic_id in topics:
        return "a new partition of a known topic"
    if topics:
        return "a topic found later: its first record"
    if isinstance(start, str):
        return f"kafka.start: {start}"
    return "kafka.start: its offsets" if isinstance(start, Mapping) else "kafka.start: its time"


def _twice(at: TopicPartition, begin: Offset, others: Sequence[Landed]) -> str:
    """Return which pipelines have landed in the table what a run would land once more."""
    beyond = {each.chain: each.offsets.get(at, Offset(0)) for each in others}
    return "".join(
        f"; pipeline {name} has landed it here up to {stop}: both have rows of it then"
        for name, stop in sorted(beyond.items())
        if stop > begin
    )
