"""`penstock peek`: single records on their way: raw bytes, decoded, route, row, would-be reject.

Invariants: nothing is written (app/inspect/read_only_world.py); each record goes through the
workers' own code alone, so its outcome is what a run would decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from penstock.app.assembly.functions import function_at
from penstock.app.assembly.schema_readers import schema_readers
from penstock.app.inspect.plan.sample_outcome import sampled_for
from penstock.app.inspect.plan.starts import TableStart
from penstock.app.inspect.read_only_world import QUARANTINE, ReadOnlyWorld, open_world
from penstock.app.inspect.row_effects import RowChange, effects
from penstock.app.inspect.sample.backlog import Piece
from penstock.app.inspect.sample.sampling import read_range
from penstock.app.inspect.sample.trial import TrialResult, create_tables, widen
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.events import WaitBegan
from penstock.core.offsets import Offset, OffsetRange, TopicPartition, span
from penstock.core.planning import Lane
from penstock.landing.epoch.runner import table_job
from penstock.landing.tables import opening
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.convert import convert_records
from penstock.landing.task.messages import TaskResult
from penstock.observe.fanout import UNHEARD
from penstock.ports.runtime import Observer
from penstock.rows.keyed.changes import ChangeBatch
from penstock.rows.keyed.touched import TouchedRows, touched_from_bytes
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import no_topic

READ_SECONDS = 10.0
RECORDS_MAX = 1000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """What a run would do with one record for one table.

    `outcome` is landed, quarantined, filtered, parked, or table requested; `detail` is the reason,
    the table requested, and the message of a reject next to its `code`. `create`: a run creates
    the table. Of a landed record `dropped` are the paths of values that its row does not have, and
    `rescued` those that the row keeps in its column of rescued values; `changes` say what it does
    to the rows of a keyed table: one that lands without a row deletes one.
    """

    table: str
    outcome: str
    rows: tuple[Row, ...] = ()
    code: str = ""
    detail: str = ""
    create: bool = False
    dropped: tuple[str, ...] = ()
    rescued: tuple[str, ...] = ()
    changes: tuple[RowChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Peeked:
    """One record: its place, its bytes, what they say as JSON if they do, and its outcomes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    decoded: Any = None
    outcomes: tuple[TableOutcome, ...] = ()


class Spot(NamedTuple):
    """Name one record."""

    topic: str
    partition: int
    offset: int


def spot(text: str) -> Spot:
    """Read `topic:partition:offset`. Raises InvalidError (P162)."""
    topic, _, rest = text.partition(":")
    partition, _, offset = rest.partition(":")
    if not topic or not partition.isdecimal() or not offset.isdecimal():
        raise InvalidError(
            f"{text[:80]!r} is not a record", code="P162", hint="write  --at orders:0:1234"
        )
    return Spot(topic, int(partition), int(offset))


def peek(
    pipeline: Pipeline,
    topic: str,
    *,
    count: int = 5,
    at: Spot | None = None,
    unanswered: Callable[[TopicPartition], object] = str,
    observer: Observer = UNHEARD,
) -> tuple[Peeked, ...]:
    """Show the newest `count` records of a topic, or those from one on.

    `unanswered` is given each partition that returned nothing in time, and `observer` what
    is waited for.

    Raises InvalidError (P161 unknown topic, P163 no such record), UnavailableError.
    """
    count = min(max(count, 1), RECORDS_MAX)
    with open_world(pipeline, observer=observer) as world:
        partitions = [each for each in world.listing if each.topic == topic]
        if not partitions:
            known = {at.topic for at in world.listing}
            if topic.partition(":")[0] in known:
                says = f"{topic[:80]!r} is a record, not a topic"
                raise InvalidError(says, code="P161", hint=f"penstock peek --at {topic[:80]}")
            raise no_topic(topic, known, {*world.table_set.progress, *world.table_set.parked})
        observer(WaitBegan(f"records of {topic}"))
        deadline = world.environment.clock.monotonic() + READ_SECONDS
        if at is None:
            found = _answered(_newest(world, partitions, count, deadline), unanswered)
        else:
            found = _from(world, partitions, at, count=count, deadline=deadline)
        peeked = _followed(world, found)
    newest = sorted(peeked, key=lambda each: (each.timestamp_ms or 0, each.partition, each.offset))
    return tuple(newest[-count:] if at is None else peeked[:count])


def _newest(
    world: ReadOnlyWorld, partitions: opening.Listing, count: int, deadline: float
) -> dict[TopicPartition, pa.RecordBatch | None]:
    ranges = {
        at: OffsetRange(Offset(max(bounds.start, bounds.stop - count)), bounds.stop)
        for at in partitions
        if (bounds := world.bounds.get(at)) is not None
    }
    asked = {at: each for at, each in ranges.items() if each.count}
    found = {}
    for left, (at, each) in zip(range(len(asked), 0, -1), asked.items(), strict=True):
        now = world.environment.clock.monotonic()
        share = (deadline - now) / left  # a silent one takes no more, and others theirs
        read = read_range(world.reader, at, each, now + share)
        found[at] = None if read is None else read.batch
    return found


def _answered(
    found: Mapping[TopicPartition, pa.RecordBatch | None],
    unanswered: Callable[[TopicPartition], object],
) -> dict[TopicPartition, pa.RecordBatch]:
    answered = {at: batch for at, batch in found.items() if batch is not None}
    silent = sorted(found.keys() - answered.keys())
    if silent and not answered:
        raise _silent(silent[0])
    for at in silent:
        unanswered(at)
    return answered


def _from(
    world: ReadOnlyWorld,
    partitions: opening.Listing,
    wanted: Spot,
    *,
    count: int,
    deadline: float,
) -> dict[TopicPartition, pa.RecordBatch]:
    where = f"there is no record at {wanted.topic}:{wanted.partition}:{wanted.offset}"
    at = next((each for each in partitions if each.partition == wanted.partition), None)
    bounds = None if at is None else world.bounds.get(at)
    if at is None or bounds is None:
        raise _no_record(
            "P163",
            f"topic {wanted.topic} has no partition {wanted.partition} that can be read",
            f"its partitions are 0 to {len(partitions) - 1}",
        )
    if not bounds.start <= wanted.offset < bounds.stop:
        holds = f"the partition holds offsets {bounds.start} to {bounds.stop - 1}"
        raise _no_record("P163", where, holds)
    covered = span(wanted.offset, min(wanted.offset + count, bounds.stop))
    read = read_range(world.reader, at, covered, deadline)
    if read is None:
        raise _silent(at)
    if not read.batch.num_rows:
        hint = "the offset holds a transaction marker or a compacted record; use -n for more"
        raise _no_record("P163", where, hint)
    return {at: read.batch}


def _no_record(code: str, message: str, hint: str) -> InvalidError:
    return InvalidError(message, code=code, hint=hint)


def _silent(at: TopicPartition) -> UnavailableError:
    return UnavailableError(
        f"{at} returned nothing in {READ_SECONDS:.0f} seconds",
        code="P250",
        hint="check its leading broker:  penstock doctor",
    )


def _followed(world: ReadOnlyWorld, found: Mapping[TopicPartition, pa.RecordBatch]) -> list[Peeked]:
    tables = world.table_set
    concerned = {
        n for n in (*tables.progress, *tables.parked) if {*tables.partitions_of(n)} & {*found}
    }
    active = {name: each for name, each in tables.active.items() if name in concerned}
    parked = {name: each.error for name, each in tables.parked.items() if name in concerned}
    absent = {name: each for name, each in active.items() if each.position is None}
    created = _as_created(world, absent, found)
    follower = _Follower(
        world, {**active, **created.active}, frozenset(absent), {**parked, **created.failed}
    )
    world.dry_run.batches = found
    records = ((at, record) for at, batch in found.items() for record in records_of(batch))
    peeked = [follower.follow(at, n, record) for n, (at, record) in enumerate(records)]
    for name, touched in follower.touched.items():
        changed = effects(follower.tables[name], [*touched.values()])
        for place, changes in zip(touched, changed, strict=True):
            peeked[place] = _with_changes(peeked[place], name, tuple(changes))
    return peeked


def _with_changes(each: Peeked, table: str, changes: tuple[RowChange, ...]) -> Peeked:
    outcomes = (
        replace(one, changes=changes) if one.table == table else one for one in each.outcomes
    )
    return replace(each, outcomes=tuple(outcomes))


def _as_created(
    world: ReadOnlyWorld,
    absent: Mapping[str, TableProgress],
    found: Mapping[TopicPartition, pa.RecordBatch],
) -> TrialResult:
    """Think of tables as a run would create them: for its first epoch, as `plan` does."""
    created = TrialResult(dict(absent))
    if not absent:
        return created
    starts = {
        n: TableStart(each, world.table_set.partitions_of(n), world) for n, each in absent.items()
    }
    for start in starts.values():
        start.begin()
    backlog, sample = sampled_for(world, {n: d for n, d in starts.items() if not d.stops})
    for at, batch in found.items():
        if batch.num_rows:
            offsets, names = batch.column("offset"), tuple(absent)
            covered = span(offsets[0].as_py(), offsets[-1].as_py() + 1)
            first = frozenset(n for n in names if backlog.covers_first(n, at, covered))
            sample.add(Piece(at, covered, covered, names, first), batch)
    world.dry_run.batches = sample.batches
    create_tables(world, created, sample.pieces)
    return created


def records_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return records as dicts; a timestamp stays a number: Python may know no such date."""
    at = batch.schema.get_field_index("timestamp")
    counted = batch.column(at).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    found: list[dict[str, Any]] = batch.set_column(at, "timestamp", counted).to_pylist()
    return found


@dataclass(frozen=True, slots=True)
class _Follower:
    """Follows records one by one. `parked` are tables that cannot be read, with their errors;
    `touched` are, by table and number of a record, the keys that it changes.
    """

    world: ReadOnlyWorld
    tables: Mapping[str, TableProgress]
    absent: frozenset[str]
    parked: Mapping[str, PenstockError]
    touched: dict[str, dict[int, TouchedRows]] = field(default_factory=lambda: defaultdict(dict))

    def follow(self, at: TopicPartition, number: int, record: Mapping[str, Any]) -> Peeked:
        """Send one record the way a run would, and return what became of it in each table."""
        offset = Offset(record["offset"])
        lane = Lane(at, OffsetRange(offset, Offset(offset + 1)), tuple(self.tables))
        outcomes = [_waits(name, error) for name, error in self.parked.items()]
        outcomes += self._outcomes(lane, number) if self.tables else []
        return Peeked(
            at.topic,
            at.partition,
            offset,
            record["timestamp"],
            record["key"],
            record["value"],
            tuple((each["key"], each["value"]) for each in record.get("headers") or ()),
            decoded(record["value"]),
            tuple(sorted(outcomes, key=lambda each: each.table)),
        )

    def _outcomes(self, lane: Lane, number: int) -> Iterator[TableOutcome]:
        result, progress = self._attempt(lane)
        for name, parts in result.touched.items():
            self.touched[name][number] = touched_from_bytes(parts[0])  # of one record there is one
        rows = self.world.dry_run.rows
        rejects = {row["table"]: row for row in rows.pop(QUARANTINE, [])}
        for name in self.tables:
            found = partial(TableOutcome, name, create=name in self.absent)
            tally = result.tallies.get(name, {}).get(lane.at)
            if name in result.failed:
                yield _waits(name, result.failed[name])
            elif name in result.requested:
                asked = ", ".join(sorted(result.requested[name]))
                yield TableOutcome(name, "table requested", detail=asked, create=True)
            elif reject := rejects.get(name):
                yield found("quarantined", code=reject["code"], detail=reject["message"])
            elif rows.get(name):
                dropped, rescued = self._without(progress[name], lane)
                landed = partial(found, "landed", rows=tuple(rows[name]))
                yield landed(dropped=dropped, rescued=rescued)
            elif tally and tally.landed:
                yield found("landed", detail="it deletes the row of its key")
            elif tally and tally.filtered:
                yield found("filtered", detail=", ".join(tally.filtered))
            else:
                yield found("quarantined", detail="it is in the quarantine already")

    def _without(
        self, progress: TableProgress, lane: Lane
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the paths of values that a landed row lacks: dropped, and rescued."""
        job, batch = table_job(progress, (lane,)), self.world.dry_run.batches[lane.at]
        record = batch.filter(pc.equal(batch.column("offset"), lane.covered.start))
        schemas = schema_readers(job.registry)
        made = convert_records(job, record, lane.at, schemas, function_at, lane=0)
        rows = made.changes.rows if isinstance(made, ChangeBatch) else made.rows
        column = job.options.rescued_column
        texts = rows.column(column).to_pylist() if column in rows.schema.names else []
        kept = (msgspec.json.decode(text) for text in texts if text)
        return tuple(sorted(made.dropped)), tuple(sorted({path for each in kept for path in each}))

    def _attempt(self, lane: Lane) -> tuple[TaskResult, Mapping[str, TableProgress]]:
        """Run one record, and again once tables have the columns that it asks for."""
        (result,) = self.world.attempt((lane,), self.tables)
        wide = TrialResult({name: replace(each) for name, each in self.tables.items()})
        if widen(wide, [result]):
            (result,) = self.world.attempt((lane,), wide.active)
        return result, wide.progress


def _waits(name: str, error: PenstockError) -> TableOutcome:
    return TableOutcome(name, "parked", code=error.code, detail=error.message)


def decoded(value: bytes | None) -> Any:
    """Return what the bytes say as JSON, None when they are none or nested too deep to show."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
