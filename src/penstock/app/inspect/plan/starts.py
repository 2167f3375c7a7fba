"""Where a run would begin for each table, why there, and what prevents it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.app.inspect.plan.forecast import StartRange
from penstock.app.inspect.read_only_world import ReadOnlyWorld
from penstock.commit.errors import keys_across_partitions, ledgers_of_all
from penstock.commit.land import examined_ledger
from penstock.commit.rewriting import require_within
from penstock.commit.row_deltas import RowDeltaResolver
from penstock.core.commits import Committable, Landed
from penstock.core.errors import DecisionNeededError, PenstockError
from penstock.core.growth import waiting
from penstock.core.offsets import Offset, Positions, TopicPartition, stops
from penstock.landing.repair.allowed_ranges import of_others
from penstock.landing.tables import log_checks, opening, start_positions
from penstock.landing.tables.parking import table_missing
from penstock.landing.tables.progress import TableProgress
from penstock.rows.keyed.touched import touched_from_bytes


@dataclass(slots=True)
class TableStart:
    """One table of a plan while it is made. `pending` are its commits of an earlier run."""

    progress: TableProgress
    wanted: opening.Listing
    world: ReadOnlyWorld
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
        """Return where records are treated by the present rules: after what is pending, and after
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
        return [] if self.stops else [at for at in self.positions if at not in self.world.bounds]

    def begin(self) -> None:
        """Find where the table would begin in every partition; note what prevents it."""
        progress, settings, environment = self.progress, self.world.settings, self.world.environment
        self.positions = {
            at: progress.examined[at] for at in self.wanted if at in progress.examined
        }
        self.whys = {at: self._why_there(at) for at in self.positions}
        known = self._known()
        fresh = [at for at in self.wanted if at not in known]
        try:
            if fresh:
                start_positions.require_known_ledger(progress.name, known, self.wanted)
            if fresh and "topic" not in settings.accept:
                log_checks.check_recreated([(progress.name, known)], fresh)
            chosen = start_positions.start_positions(settings, environment, known, fresh)
        except DecisionNeededError as error:
            self.destructive.append(error)
            return
        except PenstockError as error:
            self.problem = error
            return
        if progress.target.options.keys:
            chosen = self._grow(chosen)
        topics = {at.topic_id for at in known}
        others = self._others()
        for at, offset in chosen.items():
            self.positions[at] = offset
            self.whys[at] = _why_new(at, topics, settings.start) + _landed_by_others(
                at, offset, others, keyed=bool(progress.target.options.keys)
            )
        if progress.position is None and not all(each.chain.is_quarantine for each in self.pending):
            self.problem = table_missing(progress.target.location)
            return
        try:
            self._require_what_is_prepared_lands()
        except PenstockError as error:
            self.problem = error
            return
        self._apply_retention()
        self._note_waiting()

    def _known(self) -> Positions:
        """Return the positions in its ledger, and in those of other shards."""
        chain = self.progress.position or self.progress.quarantine
        family = start_positions.family_ledgers(self.world.settings.shard, chain)
        return {**start_positions.family_positions(family), **self.progress.expected}

    def _grow(self, chosen: Positions) -> dict[TopicPartition, Offset]:
        """Let the table know where former partitions end, as a run writes it down."""
        progress = self.progress
        ready, grown = start_positions.with_former_ends(
            self.world.environment.log, progress.expected, chosen
        )
        if grown:
            chain = progress.position or progress.quarantine
            chain = replace(chain, grown=(*chain.grown, grown))
            self.progress = progress.with_chain(chain)
        return ready

    def _note_waiting(self) -> None:
        highs = {at: each.high for at, each in self.world.bounds.items()}
        for at in waiting(self.progress.grown, self.positions, highs):
            self.whys[at] += "; after what all partitions had when some were added"

    def _require_what_is_prepared_lands(self) -> None:
        """Raise what a prepared commit would wait with: the rows of the next one are searched for
        as a run would, later ones say themselves what they change in two partitions.

        Raises DecisionNeededError (P265, P489), InvalidError (P190, P191: what was prepared cannot
        be read), and what reading the table raises.
        """
        progress, settings = self.progress, self.world.settings
        name, position, state = progress.name, progress.position, progress.state
        stopping, rewritten = name in settings.stop_across_partitions, settings.rewritten.get(name)
        if position is None or state is None or not (stopping or rewritten):
            return
        landed = position.expected
        waiting = [
            (commit, commit.touched)
            for commit in self.pending
            if commit.touched is not None
            and any(stop > landed.get(at, 0) for at, stop in stops(commit.progress).items())
        ]
        if not waiting:
            return
        (commit, _), *later = waiting
        ledger = examined_ledger(commit, state)
        found = RowDeltaResolver(commit).resolve(state, position.table, ledger)
        across = (touched_from_bytes(touched).across for _, touched in later)
        keys = next(filter(None, (found.in_two_partitions, *across)), 0)
        if stopping and keys:
            raise keys_across_partitions(name, keys)
        if rewritten:
            require_within(commit, found.row_deletes, found.searched, rewritten.bytes_max)

    def _others(self) -> list[Landed]:
        """List the ledgers of other pipelines in the table."""
        position, state = self.progress.position, self.progress.state
        if position is None or state is None:
            return []
        return of_others(position.chain, ledgers_of_all(position.table, state))

    def _apply_retention(self) -> None:
        begun = replace(self.progress, examined={**self.progress.examined, **self.positions})
        overtaken = log_checks.check_truncated(begun, self.world.bounds)
        if overtaken is None:
            return
        if overtaken.code != log_checks.RETENTION:
            self.problem = overtaken
        elif "gap" not in self.world.settings.accept:
            self.destructive.append(overtaken)
        else:
            for at, bounds in self.world.bounds.items():
                if at in self.positions and self.positions[at] < bounds.start:
                    self.positions[at] = bounds.start
                    self.whys[at] = "after records that retention deleted"

    @property
    def ranges(self) -> tuple[StartRange, ...]:
        """Where it begins in every partition, sorted."""
        found = []
        for at, start in sorted(self.positions.items()):
            bounds = self.world.bounds.get(at)
            stop = start if bounds is None else max(bounds.stop, start)
            why = self.whys[at] if bounds is not None else "its partition has no leader now"
            found.append(StartRange(at.topic, at.partition, start, stop, why))
        return tuple(found)

    def _why_there(self, at: TopicPartition) -> str:
        if self.progress.position is None:
            bounds = self.world.bounds.get(at)
            if bounds is not None and self.progress.examined[at] <= bounds.start:
                return "its first record: nothing of it has been read"
            return "after the records already in quarantine; older rows are not landed again"
        if self.progress.examined[at] > self.progress.position.expected.get(at, Offset(0)):
            return "the end of the last read; nothing before is for this table"
        return "the position of the table"


def _why_new(at: TopicPartition, topics: set[str], start: object) -> str:
    if at.topic_id in topics:
        return "a new partition of a known topic"
    if topics:
        return "a topic found later: its first record"
    if isinstance(start, str):
        return f"kafka.start: {start}"
    return "kafka.start: its offsets" if isinstance(start, Mapping) else "kafka.start: its time"


def _landed_by_others(
    at: TopicPartition, begin: Offset, others: Sequence[Landed], *, keyed: bool
) -> str:
    beyond = {each.chain: each.offsets.get(at, Offset(0)) for each in others}
    then = "these changes are applied again" if keyed else "both have rows of it then"
    return "".join(
        f"; pipeline {name} has landed it here up to {stop}: {then}"
        for name, stop in sorted(beyond.items())
        if stop > begin
    )
