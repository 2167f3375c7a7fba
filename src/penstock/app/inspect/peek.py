"""`penstock peek`: single records on their way: raw bytes, decoded, route, row, would-be reject.

Invariants: nothing is written (app/inspect/read_only_world.py); each record goes through the
workers' own code alone, so its fate is told as a run would decide it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.app.inspect.plan.sample_outcome import sampled_for
from penstock.app.inspect.plan.starts import Draft
from penstock.app.inspect.read_only_world import QUARANTINE, ReadOnlyWorld, open_view
from penstock.app.inspect.sample.backlog import Piece
from penstock.app.inspect.sample.sampling import read_range
from penstock.app.inspect.sample.trial import Tried, bear, widen
from penstock.core.errors import InvalidError, PenstockError, UnavailableError
from penstock.core.events import WaitBegan
from penstock.core.offsets import Offset, OffsetRange, TopicPartition
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
class Fate:
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
    fates: tuple[Fate, ...] = ()


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
            raise no_topic(topic, known, {*view.fleet.progress, *view.fleet.parked})
        observer(WaitBegan(f"records of {topic}"))
        deadline = view.world.clock.monotonic() + READ_SECONDS
        if at is None:
            found = _heard(_newest(view, partitions, count, deadline), unheard)
        else:
            found = _from(view, partitions, at, count=count, deadline=deadline)
        peeked = _told(view, found)
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
        now = view.world.clock.monotonic()
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
    at = next((each for each in partitions if each.partition == wanted.partition), None)
    bounds = None if at is None else view.bounds.get(at)
    if at is None or bounds is None:
        raise InvalidError(
            f"topic {wanted.topic} has no partition {wanted.partition} that can be read",
            code="P163",
            hint=f"its partitions are 0 to {len(partitions) - 1}",
        )
    if not bounds.start <= wanted.offset < bounds.stop:
        raise InvalidError(
            f"there is no record at {wanted.topic}:{wanted.partition}:{wanted.offset}",
            code="P163",
            hint=f"the partition holds offsets {bounds.start} to {bounds.stop - 1}",
        )
    stop = Offset(min(wanted.offset + count, bounds.stop))
    read = read_range(view.reader, at, OffsetRange(Offset(wanted.offset), stop), deadline)
    if read is None:
        raise _silent(at)
    if not read.batch.num_rows:
        raise InvalidError(
            f"there is no record at {wanted.topic}:{wanted.partition}:{wanted.offset}",
            code="P163",
            hint="the offset holds a transaction marker or a compacted record; use -n for more",
        )
    return {at: read.batch}


def _silent(at: TopicPartition) -> UnavailableError:
    return UnavailableError(
        f"{at} gave nothing in {READ_SECONDS:.0f} seconds",
        code="P250",
        hint="check its leading broker:  penstock doctor",
    )


def _told(view: ReadOnlyWorld, found: Mapping[TopicPartition, pa.RecordBatch]) -> list[Peeked]:
    fleet = view.fleet
    mine = {n for n in (*fleet.progress, *fleet.parked) if set(fleet.partitions_of(n)) & set(found)}
    tracks = {name: track for name, track in fleet.active.items() if name in mine}
    aside = {name: each.error for name, each in fleet.parked.items() if name in mine}
    unborn = {name: track for name, track in tracks.items() if track.position is None}
    born = _born(view, unborn, found)
    board = _Board(
        view,
        {**tracks, **born.active},
        frozenset(unborn),
        {**aside, **born.failed},
    )
    view.trial.reader.batches = found
    return [board.follow(at, record) for at, batch in found.items() for record in records_of(batch)]


def _born(
    view: ReadOnlyWorld,
    unborn: Mapping[str, TableProgress],
    found: Mapping[TopicPartition, pa.RecordBatch],
) -> Tried:
    """Think of tables as a run would create them: for its first epoch, as `plan` does."""
    born = Tried(dict(unborn))
    if not unborn:
        return born
    drafts = {n: Draft(track, view.fleet.partitions_of(n), view) for n, track in unborn.items()}
    for draft in drafts.values():
        draft.begin()
    backlog, sample = sampled_for(view, {n: d for n, d in drafts.items() if not d.stops})
    for at, batch in found.items():
        if batch.num_rows:
            covered, tables = _covered(batch), tuple(unborn)
            first = frozenset(n for n in tables if backlog.covers_first(n, at, covered))
            sample.add(Piece(at, covered, covered, tables, first), batch)
    view.trial.reader.batches = sample.batches
    bear(view, born, sample.pieces)
    return born


def records_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return records as they are; a timestamp is a count, which may be of no date Python knows."""
    import pyarrow as pa

    at = batch.schema.get_field_index("timestamp")
    counted = batch.column(at).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    found: list[dict[str, Any]] = batch.set_column(at, "timestamp", counted).to_pylist()
    return found


def _covered(batch: pa.RecordBatch) -> OffsetRange:
    offsets = batch.column("offset")
    return OffsetRange(Offset(offsets[0].as_py()), Offset(offsets[-1].as_py() + 1))


@dataclass(frozen=True, slots=True)
class _Board:
    """Follows records one by one. `aside` are tables that cannot be read, with their errors."""

    view: ReadOnlyWorld
    tracks: Mapping[str, TableProgress]
    unborn: frozenset[str]
    aside: Mapping[str, PenstockError] = field(default_factory=dict)

    def follow(self, at: TopicPartition, record: Mapping[str, Any]) -> Peeked:
        """Send one record the way a run would, and tell what became of it in each table."""
        offset = Offset(record["offset"])
        lane = Lane(at, OffsetRange(offset, Offset(offset + 1)), tuple(self.tracks))
        rows = self.view.trial.rows
        rows.clear()
        result = self._attempted(lane)
        refused = {row["table"]: row for row in rows.pop(QUARANTINE, [])}
        fates = []
        for name in self.tracks:
            if result is not None and name in result.failed:
                fates.append(_waits(name, result.failed[name]))
                continue
            if result is not None and name in result.requested:
                asked = ", ".join(sorted(result.requested[name]))
                fates.append(Fate(name, "asks for a table", detail=asked, unborn=True))
                continue
            tally = result.tallies.get(name, {}).get(at) if result is not None else None
            left_out = ", ".join(tally.filtered) if tally else ""
            fates.append(self._fate(name, rows.get(name, []), refused.get(name), left_out))
        fates += [_waits(name, error) for name, error in self.aside.items()]
        return Peeked(
            at.topic,
            at.partition,
            offset,
            record["timestamp"],
            record["key"],
            record["value"],
            tuple((each["key"], each["value"]) for each in record.get("headers") or ()),
            decoded(record["value"]),
            tuple(sorted(fates, key=lambda fate: fate.table)),
        )

    def _attempted(self, lane: Lane) -> TaskResult | None:
        """Do the work of a record, again if a table gets new columns for it."""
        if not self.tracks:
            return None
        (result,) = self.view.attempt((lane,), self.tracks)
        wide = Tried({name: replace(track) for name, track in self.tracks.items()})
        if widen(wide, [result]):
            self.view.trial.rows.clear()
            (result,) = self.view.attempt((lane,), wide.active)
        return result

    def _fate(self, name: str, rows: Sequence[Row], refused: Row | None, left_out: str) -> Fate:
        unborn = name in self.unborn
        if refused is not None:
            code, detail = refused["code"], refused["message"]
            return Fate(name, "quarantine", code=code, detail=detail, unborn=unborn)
        if rows:
            return Fate(name, "row", tuple(rows), unborn=unborn)
        return Fate(name, "left out", detail=left_out or "it is in quarantine", unborn=unborn)


def _waits(name: str, error: PenstockError) -> Fate:
    return Fate(name, "waits", code=error.code, detail=error.message)


def decoded(value: bytes | None) -> Any:
    """Return what the bytes say as JSON, None when they are none or nested too deep to show."""
    if value is None:
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
