"""What an epoch's results amount to: how far each table came, its files and its books.

Invariants:
- completion is set equality over slices: a result too many, twice or missing is a bug, never
  counted (failure-modes.md C8);
- a part of a split range counts only if the parts before it reached their stop; its slice holds
  nothing else, so dropping the result drops exactly its files (protocol.md 2);
- the books of what counts add up, per table and partition;
- of a key that several slices of a keyed table touch, the last change in the fold's order stays.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.core.accounting import Tally, too_many_rejects
from penstock.core.commits import DataFile
from penstock.core.errors import BugError, DecisionNeededError, PenstockError
from penstock.core.growth import FormerEnds
from penstock.core.offsets import Offset, TopicPartition
from penstock.core.planning import Epoch, Lane
from penstock.core.schema import Schema
from penstock.core.schema_join import united
from penstock.landing.task.messages import LaneResult, TaskResult
from penstock.rows.keyed.merge import MergedKeys, merge_touched

REASONS_SHOWN = 3
FLOODED = (
    "raise quarantine.stop_above to quarantine them, or change table or spec, and drop it where it "
    "is still empty: the run creates it anew; then run again, and where P189 asks:  "
    "penstock run --accept rules"
)


@dataclass(slots=True)
class TableResult:
    """What one table got from an epoch; `reached` holds every partition that was examined.

    `leader_epochs` are those of the log before what was reached; None where it is not known.
    `reasons` counts rejects by what was said of them. `merged` are the keys that are changed in a
    keyed table; their rows are in the files.
    """

    reached: dict[TopicPartition, Offset] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()
    rejects: tuple[DataFile, ...] = ()
    tallies: dict[TopicPartition, Tally] = field(default_factory=dict)
    newest_ms: dict[TopicPartition, int] = field(default_factory=dict)
    leader_epochs: dict[TopicPartition, int | None] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    merged: MergedKeys | None = None

    @property
    def total(self) -> Tally:
        """Add the books of all partitions up."""
        return sum(self.tallies.values(), Tally())


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
    """List the slices that hold a part of a range after a part that stopped early."""
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
    """Name the tables of lanes that were never read, because silent ones took the time."""
    return {
        table
        for result in results
        if any(lane.unresponsive for lane in result.lanes)
        for lane in result.lanes
        if lane.reached == lane.lane.covered.start
        for table in lane.lane.tables
    }


def aggregate(
    results: Sequence[TaskResult], grown: Mapping[str, FormerEnds] = MappingProxyType({})
) -> dict[str, TableResult]:
    """Add results up by table, without those that failed anywhere: they get nothing at all.

    `grown` is, by table, what is known of the order of partitions that one epoch does not hold.
    Raises BugError when the books of a table do not balance.
    """
    found: dict[str, TableResult] = defaultdict(TableResult)
    parts: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    for result in results:
        for table, touched in result.touched.items():
            before = len(found[table].files)
            parts[table] += [(part, before) for part in touched]
        for lane in result.lanes:
            for table in lane.lane.tables:
                _add_lane(found[table], lane)
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
    for table in failed:
        found.pop(table, None)
    for table, each in found.items():
        if table in parts:
            _merge(each, parts[table], grown.get(table, ()))
        _require_balance(table, each)
    return dict(found)


def tables_over_reject_limit(
    found: Mapping[str, TableResult], share_max: float
) -> dict[str, DecisionNeededError]:
    """Break the circuit of each table of which too much is rejected: give the reason (P345).

    Nothing of the epoch may be prepared for such a table. Each is measured by its own books alone.
    """
    over: dict[str, DecisionNeededError] = {}
    for table, each in sorted(found.items()):
        books = each.total
        if not too_many_rejects(books, share_max):
            continue
        codes = ", ".join(f"{code} {count}" for code, count in sorted(books.quarantined.items()))
        most = each.reasons.most_common(REASONS_SHOWN)
        reasons = "; ".join(f"{message}, {count} times" for message, count in most)
        over[table] = DecisionNeededError(
            f"{table}: {books.quarantined_total} of {books.examined} records do not fit ({codes}), "
            f"more than quarantine.stop_above allows ({share_max:.1%}): {reasons}",
            code="P345",
            hint=FLOODED,
        )
    return over


def _add_lane(found: TableResult, result: LaneResult) -> None:
    at, newest_ms = result.lane.at, result.timestamp_max_ms
    found.reached[at] = max(found.reached.get(at, result.reached), result.reached)
    if result.lane.covered.start < result.reached == found.reached[at]:
        found.leader_epochs[at] = result.leader_epoch
    if newest_ms is not None:
        found.newest_ms[at] = max(found.newest_ms.get(at, newest_ms), newest_ms)


def _merge(found: TableResult, parts: Sequence[tuple[bytes, int]], grown: FormerEnds) -> None:
    """Make one list of the keys that a table's slices touch; with each part comes how many of the
    files come before its own. Files of which no row stays are left over (docs/design/0244).
    """
    rows = [file.record_count for file in found.files]
    merged = found.merged = merge_touched(parts, rows, grown)
    found.files = tuple(found.files[place] for place in merged.files)
    for at, count in merged.superseded.items():
        found.tallies[at] = found.tallies[at].after_merge(count)


def _require_balance(table: str, each: TableResult) -> None:
    rows = sum(file.record_count for file in each.files)
    refused = sum(file.record_count for file in each.rejects)
    merged = each.merged
    landed, wanted = (rows, rows) if merged is None else (merged.landed, merged.rows)
    books = each.total
    if (landed, refused, rows) != (books.landed, books.quarantined_total, wanted):
        short = "" if rows == wanted else f", and {wanted} rows are wanted of them"
        raise BugError(
            f"{table}: files hold {rows} rows and {refused} rejects, of {landed} records; the "
            f"counts say {books.landed} and {books.quarantined_total}{short}",
            code="P704",
            hint="nothing was committed for this epoch; please report this",
        )


def joined_schemas(results: Sequence[TaskResult]) -> dict[str, Schema]:
    """Join what the tasks of a survey found, by table, in slice order.

    A table is left out if some of its records could not be examined: a part of them does not decide
    its schema. What there was no time for does not count: the next time there might be none either.
    """
    found: dict[str, list[Schema]] = defaultdict(list)
    failed = {*failures(results), *unresponsive_partitions(results), *_starved(results)}
    for result in results:
        for table, schema in result.schemas.items():
            if table not in failed:
                found[table].append(schema)
    return {table: united(schemas) for table, schemas in found.items()}
