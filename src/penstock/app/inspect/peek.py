"""`penstock peek`: single records on their way: raw bytes, decoded, route, row, would-be reject.

Invariants: nothing is written (app/inspect/read_only_world.py); each record goes through the
workers' own code alone, so its fate is told as a run would decide it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.app.inspect.plan.sample_outcome import sampled_for
from penstock.app.inspect.plan.starts import TableStart
from penstock.app.inspect.read_only_world import QUARANTINE, ReadOnlyWorld, open_view
from penstock.app.inspect.sample.backlog import Piece
from penstock.app.inspect.sample.sampling import read_range
from penstock.app.inspect.sample.trial import TrialResult, create_tables, widen
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.events import WaitBegan
from penstock.core.offsets import Offset, OffsetRange, TopicPartition, span
from penstock.core.planning import Lane
from penstock.landing.tables import opening
from penstock.landing.tables.progress import TableProgress
from penstock.landing.task.messages import TaskResult
from penstock.observe.fanout import UNHEARD
from penstock.ports.runtime import Observer
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import no_topic

if TYPE_CHECKING:
    import pyarrow as pa

READ_SECONDS = 10.0
RECORDS_MAX = 1000

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """What a run would do with one record for one table.

    `outcome` is row, quarantine, left out, waits, or asks for a table; `detail` is the reason, the
    table asked for, and the message of a refusal beside its `code`. `unborn` tells that the table
    does not exist yet.
    """

    table: str
    outcome: str
    rows: tuple[Row, ...] = ()
    code: str = ""
    detail: str = ""
    unborn: bool = False


@dataclass(frozen=True, slots=True)
class Peeked:
    """One record: where it stands, its bytes, what they say as JSON if they do, and its fates."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    decoded: Any = None
    fates: tuple[TableOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Spot:
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
    unheard: Callable[[TopicPartition], object] = str,
    observer: Observer = UNHEARD,
) -> tuple[Peeked, ...]:
    """Show the newest `count` records of a topic, or those from one on.

    `unheard` is told each partition that gave nothing in time and is left out, and `observer` what
    is waited for.

    Raises InvalidError (P161 unknown topic, P163 no such record), UnavailableError.
    """
    count = min(max(count, 1), RECORDS_MAX)
    with ExitStack() as stack:
        view = open_view(pipeline, stack, observer=observer)
        partitions = [each for each in view.listing if each.topic == topic]
        if not partitions:
            known = {at.topic for at in view.listing}
            raise no_topic(topic, known, {*view.table_set.progress, *view.table_set.parked})
        observer(WaitBegan(f"records of {topic}"))
        deadline = view.environment.clock.monotonic() + READ_SECONDS
        if at is None:
            found = _heard(_newest(view, partitions, count, deadline), unheard)
        else:
            found = _from(view, partitions, at, count=count, deadline=deadline)
        peeked = _followed(view, found)
    newest = sorted(peeked, key=lambda each: (each.timestamp_ms or 0, each.partition, each.offset))
    return tuple(newest[-count:] if at is None else peeked[:count])


def _newest(
    view: ReadOnlyWorld, partitions: opening.Listing, count: int, deadline: float
) -> dict[TopicPartition, pa.RecordBatch | None]:
    ranges = {
        at: OffsetRange(Offset(max(bounds.start, bounds.stop - count)), bounds.stop)
        for at in partitions
        if (bounds := view.bounds.get(at)) is not None
    }
    asked = {at: each for at, each in ranges.items() if each.count}
    found = {}
    for left, (at, each) in zip(range(len(asked), 0, -1), asked.items(), strict=True):
        now = view.environment.clock.monotonic()
        share = (deadline - now) / left  # a silent one takes no more, and others theirs
        read = read_range(view.reader, at, each, now + share)
        found[at] = None if read is None else read.batch
    return found


def _heard(
    found: Mapping[TopicPartition, pa.RecordBatch | None],
    unheard: Callable[[TopicPartition], object],
) -> dict[TopicPartition, pa.RecordBatch]:
    """Leave out what gave nothing in time. Raises UnavailableError (P250) when that is all."""
    heard = {at: batch for at, batch in found.items() if batch is not None}
    silent = sorted(found.keys() - heard.keys())
    if silent and not heard:
        raise _silent(silent[0])
    for at in silent:
        unheard(at)
    return heard


def _from(
    view: ReadOnlyWorld,
    partitions: opening.Listing,
    wanted: Spot,
    *,
    count: int,
    deadline: float,
) -> dict[TopicPartition, pa.RecordBatch]:
    where = f"there is no record at {wanted.topic}:{wanted.partition}:{wanted.offset}"
    at = next((each for each in partitions if each.partition == wanted.partition), None)
    bounds = None if at is None else view.bounds.get(at)
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
    read = read_range(view.reader, at, covered, deadline)
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
        f"{at} gave nothing in {READ_SECONDS:.0f} seconds",
        code="P250",
        hint="check its leading broker:  penstock doctor",
    )


def _followed(view: ReadOnlyWorld, found: Mapping[TopicPartition, pa.RecordBatch]) -> list[Peeked]:
    tables = view.table_set
    concerned = {
        n for n in (*tables.progress, *tables.parked) if {*tables.partitions_of(n)} & {*found}
    }
    active = {name: each for name, each in tables.active.items() if name in concerned}
    parked = {name: each.error for name, each in tables.parked.items() if name in concerned}
    absent = {name: each for name, each in active.items() if each.position is None}
    created = _as_created(view, absent, found)
    follower = _Follower(
        view, {**active, **created.active}, frozenset(absent), {**parked, **created.failed}
    )
    view.dry_run.reader.batches = found
    records = ((at, record) for at, batch in found.items() for record in records_of(batch))
    return [follower.follow(at, record) for at, record in records]


def _as_created(
    view: ReadOnlyWorld,
    absent: Mapping[str, TableProgress],
    found: Mapping[TopicPartition, pa.RecordBatch],
) -> TrialResult:
    """Think of tables as a run would create them: for its first epoch, as `plan` does."""
    created = TrialResult(dict(absent))
    if not absent:
        return created
    starts = {
        n: TableStart(each, view.table_set.partitions_of(n), view) for n, each in absent.items()
    }
    for start in starts.values():
        start.begin()
    backlog, sample = sampled_for(view, {n: d for n, d in starts.items() if not d.stops})
    for at, batch in found.items():
        if batch.num_rows:
            offsets, names = batch.column("offset"), tuple(absent)
            covered = span(offsets[0].as_py(), offsets[-1].as_py() + 1)
            first = frozenset(n for n in names if backlog.covers_first(n, at, covered))
            sample.add(Piece(at, covered, covered, names, first), batch)
    view.dry_run.reader.batches = sample.batches
    create_tables(view, created, sample.pieces)
    return created


def records_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return records as they are; a timestamp is a count, which may be of no date Python knows."""
    import pyarrow as pa

    at = batch.schema.get_field_index("timestamp")
    counted = batch.column(at).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    found: list[dict[str, Any]] = batch.set_column(at, "timestamp", counted).to_pylist()
    return found


@dataclass(frozen=True, slots=True)
class _Follower:
    """Follows records one by one. `parked` are tables that cannot be read, with their errors."""

    view: ReadOnlyWorld
    tables: Mapping[str, TableProgress]
    absent: frozenset[str]
    parked: Mapping[str, PenstockError]

    def follow(self, at: TopicPartition, record: Mapping[str, Any]) -> Peeked:
        """Send one record the way a run would, and return what became of it in each table."""
        offset = Offset(record["offset"])
        lane = Lane(at, OffsetRange(offset, Offset(offset + 1)), tuple(self.tables))
        outcomes = [_waits(name, error) for name, error in self.parked.items()]
        outcomes += self._outcomes(lane) if self.tables else []
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

    def _outcomes(self, lane: Lane) -> Iterator[TableOutcome]:
        result, rows = self._attempt(lane), self.view.dry_run.rows
        rejects = {row["table"]: row for row in rows.pop(QUARANTINE, [])}
        for name in self.tables:
            found = partial(TableOutcome, name, unborn=name in self.absent)
            tally = result.tallies.get(name, {}).get(lane.at)
            if name in result.failed:
                yield _waits(name, result.failed[name])
            elif name in result.requested:
                asked = ", ".join(sorted(result.requested[name]))
                yield TableOutcome(name, "asks for a table", detail=asked, unborn=True)
            elif reject := rejects.get(name):
                yield found("quarantine", code=reject["code"], detail=reject["message"])
            elif rows.get(name):
                yield found("row", rows=tuple(rows[name]))
            else:
                left_out = ", ".join(tally.filtered) if tally else ""
                yield found("left out", detail=left_out or "it is in quarantine")

    def _attempt(self, lane: Lane) -> TaskResult:
        """Do the work of a record, again if a table gets new columns for it."""
        self.view.dry_run.rows.clear()
        (result,) = self.view.attempt((lane,), self.tables)
        wide = TrialResult({name: replace(each) for name, each in self.tables.items()})
        if widen(wide, [result]):
            self.view.dry_run.rows.clear()
            (result,) = self.view.attempt((lane,), wide.active)
        return result


def _waits(name: str, error: PenstockError) -> TableOutcome:
    return TableOutcome(name, "waits", code=error.code, detail=error.message)


def decoded(value: bytes | None) -> Any:
    """Return what the bytes say as JSON, None when they are none or nested too deep to show."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
