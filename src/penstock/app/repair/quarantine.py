"""`penstock quarantine`: rejected records and their status, read from the tables; resolving them.

Invariants: a read writes nothing and asks no broker; what resolves records is decided under
the claim on the pipeline (app/repair/confirmed_change.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.app.assembly import assembly, worker
from penstock.app.assembly.functions import function_at
from penstock.app.assembly.schema_readers import schema_readers
from penstock.app.inspect.read_only_world import open_world
from penstock.app.repair.confirmed_change import Change, Step, exclusive_change
from penstock.commit.row_deltas import Fate
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.resolutions import resolutions_of
from penstock.landing.repair.keyed_retry import WORDS, Tried, tried
from penstock.landing.repair.reconvert import WriteContext
from penstock.landing.repair.retry import QuarantineResolver, RetryResult, require_keys_to_insert
from penstock.landing.repair.selection import (
    Selection,
    batches,
    read_quarantine_status,
    retryable,
    selected,
)
from penstock.observe.fanout import UNHEARD
from penstock.observe.formatting import number_of
from penstock.ports.runtime import Observer
from penstock.ports.tables import Table, TableFormat, TableState
from penstock.rows.keyed.touched import Retry
from penstock.rows.quarantine.status import BYTES, READ, records_of, status_of
from penstock.spec.checks.rules import is_read
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import is_led_to, no_table, no_topic

UNFINISHED = "unfinished"
_CODE = re.compile(r"P\d{3}")
_GROUPED = ("table", "code", "stage", "status")
_OF_STATUS = (*_GROUPED, "topic", "partition", "offset", "timestamp", "message")


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one table, rejected for one reason, with one status.

    `status` is open, retried, dropped, or unfinished: a retry resolved it and ended before its row
    landed; the next one lands it. `oldest` and `newest` are when they were rejected.
    """

    table: str
    code: str
    stage: str
    status: str
    records: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """One rejected record, with its original bytes and its status."""

    table: str
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    code: str
    stage: str
    message: str
    status: str
    quarantined_at: datetime
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def groups(pipeline: Pipeline, table: str = "") -> tuple[Group, ...]:
    """Count rejected records, by table, reason and status; of one table when it is named.

    Raises UnavailableError when a catalog does not answer.
    """
    with _opened(pipeline) as (quarantine, catalogs):
        statuses = _statuses(pipeline, quarantine, table)
        if statuses is None:
            return ()
        unfinished = _unfinished(statuses, _all_followed(pipeline, catalogs, statuses))
    column = pc.if_else(unfinished, UNFINISHED, statuses["status"])
    at = statuses.schema.get_field_index("status")
    counted = (
        statuses.set_column(at, "status", column)
        .group_by(list(_GROUPED))
        .aggregate([("offset", "count"), ("quarantined_at", "min"), ("quarantined_at", "max")])
    )
    found = [
        Group(
            **{name: row[name] for name in _GROUPED},
            records=row["offset_count"],
            oldest=row["quarantined_at_min"],
            newest=row["quarantined_at_max"],
        )
        for row in counted.to_pylist()
    ]
    return tuple(sorted(found, key=lambda each: (each.table, each.status, -each.records)))


def records(
    pipeline: Pipeline, table: str, choice: Selection, count: int
) -> tuple[RejectedRecord, ...]:
    """Return open records of a table with their bytes, the first `count` by topic and offset.

    A record named by its spot is given whatever its status. Raises UnavailableError.
    """
    with _opened(pipeline) as (quarantine, _):
        statuses = _statuses(pipeline, quarantine, table, choice)
        if quarantine is None or statuses is None:
            return ()
        chain = _chain(pipeline, table)
        found = _named(statuses, choice) if choice.spot else selected(statuses, choice)
        rows = found.slice(0, max(count, 0)).to_pylist()
        wanted: dict[TopicPartition, list[int]] = {}
        for row in rows:
            at = TopicPartition(row["topic_id"], row["partition"], row["topic"])
            wanted.setdefault(at, []).append(row["offset"])
        ranges = [
            [at.topic_id, at.partition, at.topic, min(offsets), max(offsets) + 1]
            for at, offsets in wanted.items()
        ]
        read = quarantine.read_quarantine(chain, (*BYTES, "stage"), ranges)
        batches = records_of(read, wanted)
    held = {
        (at.topic_id, at.partition, record["offset"]): record
        for at, batch in batches.items()
        for record in batch.to_pylist()
    }
    return tuple(
        _rejected(row, held[row["topic_id"], row["partition"], row["offset"]]) for row in rows
    )


@dataclass(frozen=True, slots=True)
class TriedRecord:
    """What a retry would do with one record of a keyed table.

    `fate` is `wins`: it lands; `loses` to a later change, `absent`: its key has no row,
    `undecided`: nothing says whether the row is later, or `rejected`; then it stays open.
    """

    topic: str
    partition: int
    offset: int
    code: str
    fate: str


@dataclass(frozen=True, slots=True)
class RetryPlan(Change):
    """What a retry would do now; `records` has each of those that are tried, of a keyed table."""

    records: tuple[TriedRecord, ...] = ()


def retry_forecast(
    pipeline: Pipeline,
    table: str,
    choice: Selection,
    retry: Retry = Retry.REPLACES,
    observer: Observer = UNHEARD,
) -> RetryPlan:
    """Return what a retry would land and leave, tried as the retry will. Writes nothing.

    Raises InvalidError for a table that no topic is routed to, or (P267) that appends and shall
    have rows inserted by key; UnavailableError.
    """
    done: Tried | None = None
    with open_world(pipeline, observer=observer) as world:
        tables, progress = world.table_set, world.progress_of(table)
        require_keys_to_insert(progress, retry)
        statuses = read_quarantine_status(tables.quarantine, progress)
        followers = [progress]
        if progress.target.is_route:
            followers = [tables.progress[name] for name in sorted(progress.route_tables or ())]
        followed = {
            (name, each.name): _followed(each.state, name)
            for name in {*statuses["table"].to_pylist()}
            for each in followers
        }
        steps = []
        if unfinished := pc.sum(_unfinished(statuses, followed)).as_py():
            steps.append(Step(f"{unfinished:,} records that an earlier retry resolved are landed"))
        found = retryable(statuses, choice)
        batch = next(batches(found), [])
        if batch:
            context = write_context(pipeline)
            done = tried(tables.quarantine, progress, followers, batch, context, retry=retry)
            steps += _tried_steps(done)
        if left := found.num_rows - len(batch):
            steps.append(Step(f"{left:,} more records are tried"))
    keyed = done is not None and progress.target.options.keyed is not None
    return RetryPlan(pipeline.name, tuple(steps), _tried_records(done) if done and keyed else ())


def _tried_steps(done: Tried) -> Iterator[Step]:
    """Say what a retry does with records: how many of each kind."""
    for name, landed in done.found.coordinates.items():
        if landed:
            text = f"{len(landed):,} records are landed in {name}, once, and marked as retried"
            yield Step(text)
    codes = Counter(reject.code for reject in done.found.rejects.values())
    for code, count in sorted(codes.items()):
        yield Step(_still_rejected(count, code), changes=False)
    for fate, count in sorted(Counter(done.withheld.values()).items()):
        yield Step(withheld_text(fate, count), changes=False)


def withheld_text(fate: Fate, count: int) -> str:
    """Say of records that do not win why, and what a person can do."""
    stays = "it stays open" if count == 1 else "they stay open"
    then = {
        Fate.LOSES: "; to give up:  quarantine drop",
        Fate.ABSENT: "; to bring a row all the same:  --insert",
    }.get(fate, "")
    return f"{number_of(count, 'record')} {fate.name.lower()}: {WORDS[fate]}; {stays}{then}"


def _tried_records(done: Tried) -> tuple[TriedRecord, ...]:
    wins = [(each, "wins") for each, _ in done.found.landed()]
    others = [(each, fate.name.lower()) for each, fate in done.withheld.items()]
    rejected = [(each, "rejected") for each in done.found.rejects]
    return tuple(
        TriedRecord(each.at.topic, each.at.partition, each.offset, each.code, fate)
        for each, fate in sorted((*wins, *others, *rejected), key=lambda pair: pair[0].coordinate)
    )


def drop_forecast(pipeline: Pipeline, table: str, choice: Selection) -> Change:
    """Return which records a drop would mark. Writes nothing. Raises UnavailableError."""
    with _opened(pipeline) as (quarantine, _):
        statuses = _statuses(pipeline, quarantine, table, choice)
        if statuses is None:
            return Change(pipeline.name, ())
        found = selected(statuses, choice)
    codes = Counter(found["code"].to_pylist())
    steps = (
        Step(f"{number_of(count, 'record')} of {table} to give up: {code}", destructive=True)
        for code, count in sorted(codes.items())
    )
    return Change(pipeline.name, tuple(steps))


def retry(
    pipeline: Pipeline, table: str, choice: Selection, retry: Retry = Retry.REPLACES
) -> RetryResult:
    """Land rejected records that fit by now, each once, and mark them as retried.

    Of a keyed table only those whose change wins against the rows there; `retry` says whether it
    may bring a row for a key that has none. Raises UnavailableError (P510) while the pipeline runs,
    InvalidError for an unknown table, and what keeps the table from being landed in.
    """
    with exclusive_change(pipeline) as held:
        return QuarantineResolver(held, write_context(pipeline), table).retry(choice, retry)


def drop(pipeline: Pipeline, table: str, choice: Selection) -> int:
    """Drop rejected records; return how many. Raises like `retry`."""
    with exclusive_change(pipeline) as held:
        return QuarantineResolver(held, write_context(pipeline), table).drop(choice)


@contextmanager
def _opened(
    pipeline: Pipeline,
) -> Iterator[tuple[Table | None, Mapping[str, TableFormat]]]:
    with ExitStack() as stack:
        catalogs = assembly.open_catalogs(pipeline, stack, read_only=True)
        place = assembly.place_of(pipeline, pipeline.quarantine.into)
        yield catalogs[place.catalog].load(place.name), catalogs


def _statuses(
    pipeline: Pipeline, quarantine: Table | None, table: str, choice: Selection | None = None
) -> pa.Table | None:
    """Return the status of the rejected records of a table, or of all; None where there are none.

    Raises InvalidError for a table (P185), or a topic in the choice (P161), that neither the spec
    nor the quarantine knows.
    """
    statuses = None
    if quarantine is not None:
        statuses = status_of(quarantine.read_quarantine(_chain(pipeline, table or "*"), READ))
    if table and not is_led_to(pipeline, table) and not (statuses and statuses.num_rows):
        known = {rule.table for rule in pipeline.tables}
        if quarantine is not None:
            everyone = status_of(quarantine.read_quarantine(_chain(pipeline, "*"), READ))
            known |= {*everyone["table"].to_pylist()}
        raise no_table(table, known, pipeline.kafka.names)
    topic = choice.spot[0] if choice is not None and choice.spot else ""
    held = {*statuses["topic"].to_pylist()} if statuses is not None else set()
    if topic and topic not in held and not is_read(topic, pipeline.kafka):
        raise no_topic(topic, {*pipeline.kafka.names, *held})
    return statuses


def _chain(pipeline: Pipeline, table: str) -> Chain:
    return Chain(f"{pipeline.name}/{table}", pipeline.quarantine.into)


def _named(statuses: pa.Table, choice: Selection) -> pa.Table:
    assert choice.spot is not None, "a spot names a record"
    wanted = pa.array([True] * statuses.num_rows)
    for name, value in zip(("topic", "partition", "offset"), choice.spot, strict=True):
        wanted = pc.and_(wanted, pc.equal(statuses[name], value))
    return statuses.filter(wanted)


def _all_followed(
    pipeline: Pipeline, catalogs: Mapping[str, TableFormat], statuses: pa.Table
) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    retried = statuses.filter(pc.is_valid(statuses["into"]))
    for pair in retried.group_by(["table", "into"]).aggregate([]).to_pylist():
        place = assembly.place_of(pipeline, pair["into"])
        table = catalogs[place.catalog].load(place.name) if place.catalog in catalogs else None
        state = table.state(Chain(pipeline.name, pair["into"])) if table else None
        found[pair["table"], pair["into"]] = _followed(state, pair["table"])
    return found


def _followed(state: TableState | None, name: str) -> int:
    landed = state.landed if state else None
    return int(landed.offsets.get(resolutions_of(name), 0)) if landed else 0


def _unfinished(statuses: pa.Table, followed: Mapping[tuple[str, str], int]) -> pa.Array:
    """Return the records that a retry resolved, but the table has not landed yet."""
    found = pa.repeat(pa.scalar(value=False), statuses.num_rows)
    for (table, into), number in followed.items():
        retried = pc.and_(pc.equal(statuses["table"], table), pc.equal(statuses["into"], into))
        waiting = pc.and_(retried, pc.greater_equal(statuses["closing"], number))
        found = pc.or_(found, pc.fill_null(waiting, fill_value=False))
    return found


def _still_rejected(count: int, code: str) -> str:
    if count == 1:
        return f"1 record still does not fit: {code}; it stays open"
    return f"{count:,} records still do not fit: {code}; they stay open"


def write_context(pipeline: Pipeline) -> WriteContext:
    """Return what is needed to resolve records of a pipeline in this process."""
    names = {assembly.place_of(pipeline, f"{name}.").connector for name in pipeline.catalogs}
    writers = {name: worker.writer(name) for name in names}
    return WriteContext(writers, schema_readers, function_at)


def _rejected(row: Mapping[str, Any], record: Mapping[str, Any]) -> RejectedRecord:
    headers = record["headers"] or ()
    return RejectedRecord(
        **{name: row[name] for name in _OF_STATUS},
        quarantined_at=row["quarantined_at"],
        key=record["key"],
        value=record["value"],
        headers=tuple((each["key"], each["value"]) for each in headers),
    )


def spot_choice(codes: Sequence[str], at: tuple[str, int, int] | None) -> Selection:
    """Return the choice that a command's words make. Raises InvalidError (P174) for no code."""
    for code in codes:
        if _CODE.fullmatch(code) is None:
            raise InvalidError(
                f"{code[:40]!r} is not a code of a rejected record",
                code="P174",
                hint="see the codes there are:  penstock quarantine list",
            )
    return Selection(tuple(codes), at)
