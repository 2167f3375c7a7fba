"""What an epoch's results amount to: how far each table came, its files and its books.

Invariants:
- completion is set equality over slices: a result too many, twice or missing is a bug, never
  counted (failure-modes.md C8);
- a part of a split range counts only if the parts before it reached their stop; its slice holds
  nothing else, so dropping the result drops exactly its files (protocol.md 2);
- the books of what counts add up, per table and partition.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.core import accounting
from penstock.core.accounting import Tally
from penstock.core.commits import DataFile
from penstock.core.errors import BugError, DecisionNeededError, PenstockError
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Epoch, Lane
from penstock.core.schema import Schema
from penstock.core.schema_join import united
from penstock.landing.task.messages import LaneResult, TaskResult

REJECTS_MIN = 100
REASONS_SHOWN = 3
FLOODED = (
    "raise quarantine.stop_above to quarantine them, or change table or spec, and drop it where it "
    "is still empty: the run creates it anew; then run again, and where P189 asks:  "
    "penstock run --accept rules"
)


@dataclass(frozen=True, slots=True)
class TableResult:
    """What one table got from an epoch; `reached` holds every partition that was examined.

    `leader_epochs` are those of the log before what was reached; None where it is not known.
    `reasons` counts rejects by what was said of them.
    """

    reached: Mapping[TopicPartition, Offset]
    files: tuple[DataFile, ...]
    rejects: tuple[DataFile, ...]
    tallies: Mapping[TopicPartition, Tally]
    newest_ms: Mapping[TopicPartition, int]
    leader_epochs: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> Tally:
        """Add the books of all partitions up."""
        return accounting.total(self.tallies.values())


@dataclass(slots=True)
class _Accumulator:
    reached: dict[TopicPartition, Offset] = field(default_factory=dict)
    files: list[DataFile] = field(default_factory=list)
    rejects: list[DataFile] = field(default_factory=list)
    tallies: dict[TopicPartition, Tally] = field(default_factory=dict)
    newest_ms: dict[TopicPartition, int] = field(default_factory=dict)
    leader_epochs: dict[TopicPartition, int | None] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)


def valid_results(epoch: Epoch, results: Sequence[TaskResult]) -> list[TaskResult]:
    """Return the results that count, in slice order. Raises BugError when the sets differ."""
    planned = {part.number for part in epoch.slices}
    got = [result.number for result in results]
    if sorted(got) != sorted(planned):
        raise BugError(
            f"epoch {epoch.number}: slices {sorted(planned)} were planned, results came for "
            f"{sorted(got)}",
            code="P702",
            hint="nothing was committed for this epoch; please report this",
        )
    short = _unread_slices(epoch, {result.number: result for result in results})
    return [result for result in results if result.number not in short]


def _unread_slices(epoch: Epoch, results: Mapping[int, TaskResult]) -> set[int]:
    """List the slices that hold a part of a range behind a part that stopped early."""
    parts: dict[tuple[TopicPartition, tuple[str, ...]], list[tuple[Lane, int]]] = defaultdict(list)
    for part in epoch.slices:
        for lane in part.lanes:
            parts[lane.at, lane.tables].append((lane, part.number))
    short: set[int] = set()
    for group in parts.values():
        broken = False
        for lane, number in sorted(group, key=lambda each: each[0].covered):
            if broken:
                short.add(number)
            broken = broken or _reached(results[number], lane) < lane.covered.stop
    return short


def _reached(result: TaskResult, lane: Lane) -> Offset:
    found = [each.reached for each in result.lanes if each.lane == lane]
    if len(found) != 1 or not lane.covered.start <= found[0] <= lane.covered.stop:
        raise BugError(
            f"slice {result.number} says {found} of {lane.at}{lane.covered}",
            code="P703",
            hint="nothing was committed for this epoch; please report this",
        )
    return found[0]


def failures(results: Sequence[TaskResult]) -> dict[str, PenstockError]:
    """Return the first error of every table that failed somewhere in the epoch."""
    found: dict[str, PenstockError] = {}
    for result in results:
        for table, error in result.failed.items():
            found.setdefault(table, error)
    return found


def unresponsive_partitions(results: Sequence[TaskResult]) -> dict[str, TopicPartition]:
    """Name a partition that gave nothing of what it should, for every table that waits for it."""
    return {
        table: lane.lane.at
        for result in results
        for lane in result.lanes
        if lane.unresponsive
        for table in lane.lane.tables
    }


def _starved(results: Sequence[TaskResult]) -> set[str]:
    """Name the tables of lanes whose turn never came, because silent ones took the time."""
    return {
        table
        for result in results
        if any(lane.unresponsive for lane in result.lanes)
        for lane in result.lanes
        if lane.reached == lane.lane.covered.start
        for table in lane.lane.tables
    }


def aggregate(results: Sequence[TaskResult]) -> dict[str, TableResult]:
    """Add results up by table, without those that failed anywhere: they get nothing at all.

    Raises BugError when the books of a table do not balance.
    """
    found: dict[str, _Accumulator] = defaultdict(_Accumulator)
    for result in results:
        for lane in result.lanes:
            _add_lane(found, lane)
        for table, files in result.files.items():
            found[table].files += files
        for table, files in result.rejects.items():
            found[table].rejects += files
        for table, tallies in result.tallies.items():
            for at, tally in tallies.items():
                tally.check(f"{table} {at}")
                books = found[table].tallies
                books[at] = books.get(at, Tally()) + tally
        for table, reasons in result.reasons.items():
            found[table].reasons.update(reasons)
    failed = failures(results)
    return {table: _checked(table, each) for table, each in found.items() if table not in failed}


def too_many_rejects(books: Tally, share_max: float) -> bool:
    """Return whether a table's books of one epoch trip the breaker (docs/design/0010).

    `share_max` is `quarantine.stop_above` in 0..1. Handfuls do not count: one bad record among
    three says nothing about a source.
    """
    rejected = books.quarantined_total
    return rejected >= REJECTS_MIN and rejected > share_max * books.examined


def tables_over_reject_limit(
    found: Mapping[str, TableResult], share_max: float
) -> dict[str, DecisionNeededError]:
    """Break the circuit of each table of which too much is rejected: give the reason (P345).

    Nothing of the epoch may be prepared for such a table. Each is judged by its own books alone.
    """
    return {
        table: _over_reject_limit(table, each, share_max)
        for table, each in sorted(found.items())
        if too_many_rejects(each.total, share_max)
    }


def _over_reject_limit(table: str, found: TableResult, share_max: float) -> DecisionNeededError:
    books = found.total
    codes = ", ".join(f"{code} {count}" for code, count in sorted(books.quarantined.items()))
    most = Counter(found.reasons).most_common(REASONS_SHOWN)
    reasons = "; ".join(f"{message}, {count} times" for message, count in most)
    return DecisionNeededError(
        f"{table}: {books.quarantined_total} of {books.examined} records do not fit ({codes}), "
        f"more than quarantine.stop_above allows ({share_max:.1%}): {reasons}",
        code="P345",
        hint=FLOODED,
    )


def _add_lane(found: dict[str, _Accumulator], result: LaneResult) -> None:
    for table in result.lane.tables:
        each, at = found[table], result.lane.at
        each.reached[at] = max(each.reached.get(at, result.reached), result.reached)
        if result.lane.covered.start < result.reached == each.reached[at]:
            each.leader_epochs[at] = result.leader_epoch
        if result.timestamp_max_ms is not None:
            newest = each.newest_ms.get(at, result.timestamp_max_ms)
            each.newest_ms[at] = max(newest, result.timestamp_max_ms)


def _checked(table: str, each: _Accumulator) -> TableResult:
    total = TableResult(
        each.reached,
        tuple(each.files),
        tuple(each.rejects),
        each.tallies,
        each.newest_ms,
        each.leader_epochs,
        each.reasons,
    )
    landed = sum(file.record_count for file in total.files)
    refused = sum(file.record_count for file in total.rejects)
    books = total.total
    if (landed, refused) != (books.landed, books.quarantined_total):
        raise BugError(
            f"{table}: files hold {landed} rows and {refused} rejects, the counts say "
            f"{books.landed} and {books.quarantined_total}",
            code="P704",
            hint="nothing was committed for this epoch; please report this",
        )
    return total


def joined_schemas(results: Sequence[TaskResult]) -> dict[str, Schema]:
    """Join what the tasks of a survey found, by table, in slice order.

    A table whose records could not be looked at is left out: it is not born of a part of them.
    What there was no time for does not count, for there might be none the next time either.
    """
    found: dict[str, list[Schema]] = defaultdict(list)
    failed = {*failures(results), *unresponsive_partitions(results), *_starved(results)}
    for result in results:
        for table, schema in result.schemas.items():
            if table in failed:
                continue
            found[table].append(schema)
    return {table: united(schemas) for table, schemas in found.items()}
