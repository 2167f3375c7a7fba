"""`penstock quarantine`: what was refused and what became of it, as the tables tell; closing it.

Invariants: looking writes nothing and asks no broker; what closes records is decided under the
hold of the pipeline (app/repair/confirmed_change.py), and is landed as `landing.closing` says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.app.assembly import assembly, worker
from penstock.app.assembly.functions import function_at
from penstock.app.inspect.read_only_world import open_view
from penstock.app.repair.confirmed_change import Change, Step, exclusive_change
from penstock.core.commits import Chain
from penstock.core.errors import InvalidError
from penstock.core.offsets import TopicPartition
from penstock.core.resolutions import Resolution, resolutions_of
from penstock.landing.repair.reconvert import WriteContext, reconverted
from penstock.landing.repair.retry import QuarantineResolver, RetryResult
from penstock.landing.repair.selection import (
    Selection,
    batches,
    read_quarantine_status,
    retryable,
    selected,
)
from penstock.observe.fanout import UNHEARD
from penstock.observe.formatting import number_of
from penstock.rows.quarantine.status import BYTES, READ, records_of, status_of
from penstock.spec.checks.agreement import is_read
from penstock.spec.model import Pipeline
from penstock.spec.routing.names import is_led_to, no_table, no_topic

if TYPE_CHECKING:
    from penstock.landing.tables.progress import TableProgress
    from penstock.ports.runtime import Observer
    from penstock.ports.tables import Table, TableFormat

UNFINISHED = "unfinished"
_CODE = re.compile(r"P\d{3}")
_GROUPED = ("table", "code", "stage", "status")
_OF_STATUS = (*_GROUPED, "topic", "partition", "offset", "timestamp", "message")


@dataclass(frozen=True, slots=True)
class Group:
    """Records of one table, refused for one reason, with one status.

    `status` is open, retried, dropped, or unfinished: a retry closed it and died before its row
    landed, which the next one makes good. `oldest` and `newest` are when they were refused.
    """

    table: str
    code: str
    stage: str
    status: str
    records: int
    oldest: datetime
    newest: datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """One refused record, with its bytes as they came and what became of it."""

    table: str
    topic: str
    partition: int
    offset: int
    timestamp: datetime | None
    code: str
    stage: str
    message: str
    status: str
    refused_at: datetime
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def groups(pipeline: Pipeline, table: str = "") -> tuple[Group, ...]:
    """Count what was refused, by table, reason and status; of one table when it is named.

    Raises UnavailableError when a catalog does not answer.
    """
    with _looking(pipeline) as (quarantine, catalogs):
        statuses = _statuses(pipeline, quarantine, table)
        if statuses is None:
            return ()
        column = _status_column(statuses, _followed(pipeline, catalogs, statuses))
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


def records(pipeline: Pipeline, table: str, choice: Selection, count: int) -> tuple[Refused, ...]:
    """Return open records of a table with their bytes, the first `count` by topic and offset.

    A record named by its spot is given whatever its status. Raises UnavailableError.
    """
    with _looking(pipeline) as (quarantine, _):
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
        _refused(row, held[row["topic_id"], row["partition"], row["offset"]]) for row in rows
    )


def retry_forecast(
    pipeline: Pipeline, table: str, choice: Selection, observer: Observer = UNHEARD
) -> Change:
    """Return what a retry would land and leave, judged as the retry will. Writes nothing.

    Raises InvalidError for a table that no topic is routed to, UnavailableError.
    """
    with ExitStack() as stack:
        view = open_view(pipeline, stack, observer=observer)
        progress = view.progress_of(table)
        statuses = read_quarantine_status(view.table_set.quarantine, progress)
        followers = [progress]
        if progress.target.is_route:
            followers = [
                view.table_set.progress[name] for name in sorted(progress.route_tables or ())
            ]
        unfinished = _unfinished_count(statuses, followers)
        steps = [Step(f"{unfinished:,} records that an earlier retry closed are landed")]
        steps = steps if unfinished else []
        found = retryable(statuses, choice)
        for batch in batches(found):
            judged = reconverted(
                view.table_set.quarantine, progress, followers, batch, means_of(pipeline)
            )
            for name, rows in judged.rows.items():
                count = sum(each.num_rows for each in rows)
                steps.append(Step(f"{count:,} records are landed in {name}, once, and closed"))
            codes = Counter(reject.code for reject in judged.rejects.values())
            steps += [Step(_still_refused(count, code)) for code, count in sorted(codes.items())]
            left = found.num_rows - len(batch)
            if left:
                steps.append(Step(f"{left:,} more records are tried"))
            break
    return Change(pipeline.name, tuple(steps))


def drop_forecast(pipeline: Pipeline, table: str, choice: Selection) -> Change:
    """Return what a drop would give up. Writes nothing. Raises UnavailableError."""
    with _looking(pipeline) as (quarantine, _):
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
    pipeline: Pipeline,
    table: str,
    choice: Selection,
    *,
    observer: Observer | None = None,
    faults: str = "",
) -> RetryResult:
    """Land refused records that fit by now, each once, and close them.

    Raises UnavailableError (P510) while the pipeline runs, InvalidError for an unknown table, and
    what keeps the table from being landed in.
    """
    with exclusive_change(pipeline, observer=observer, faults=faults) as held:
        return QuarantineResolver(held, means_of(pipeline), table).retry(choice)


def drop(
    pipeline: Pipeline,
    table: str,
    choice: Selection,
    *,
    observer: Observer | None = None,
    faults: str = "",
) -> int:
    """Drop rejected records; return how many. Raises like `retry`."""
    with exclusive_change(pipeline, observer=observer, faults=faults) as held:
        return QuarantineResolver(held, means_of(pipeline), table).drop(choice)


@contextmanager
def _looking(pipeline: Pipeline) -> Iterator[tuple[Table | None, Mapping[str, TableFormat]]]:
    """Open the quarantine table, if it is there, and the catalogs, to read them."""
    with ExitStack() as stack:
        catalogs = assembly.open_catalogs(pipeline, UNHEARD, stack, read_only=True)
        place = assembly.place_of(pipeline, pipeline.quarantine.into)
        yield catalogs[place.catalog].load(place.name), catalogs


def _statuses(
    pipeline: Pipeline, quarantine: Table | None, table: str, choice: Selection | None = None
) -> pa.Table | None:
    """Return what became of the refused records of a table, or of all; None where none ever was.

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


def _followed(
    pipeline: Pipeline, catalogs: Mapping[str, TableFormat], statuses: pa.Table
) -> dict[tuple[str, str], int]:
    """Return how many resolutions were followed, by rejecting table or route and by table."""
    found: dict[tuple[str, str], int] = {}
    retried = statuses.filter(pc.is_valid(statuses["into"]))
    for pair in retried.group_by(["table", "into"]).aggregate([]).to_pylist():
        place = assembly.place_of(pipeline, pair["into"])
        table = catalogs[place.catalog].load(place.name) if place.catalog in catalogs else None
        landed = table.state(Chain(pipeline.name, pair["into"])).landed if table else None
        reached = landed.offsets.get(resolutions_of(pair["table"]), 0) if landed else 0
        found[pair["table"], pair["into"]] = int(reached)
    return found


def _status_column(statuses: pa.Table, followed: Mapping[tuple[str, str], int]) -> pa.Array:
    if not followed:
        return statuses["status"].combine_chunks()
    columns = (statuses[name].to_pylist() for name in ("status", "table", "into", "closing"))
    shown = [
        UNFINISHED
        if status == str(Resolution.RETRIED) and closing >= followed[table, into]
        else status
        for status, table, into, closing in zip(*columns, strict=True)
    ]
    return pa.array(shown, pa.string())


def _unfinished_count(statuses: pa.Table, followers: Sequence[TableProgress]) -> int:
    count = 0
    for each in followers:
        landed = each.state.landed if each.state else None
        for name in {*statuses["table"].to_pylist()}:
            reached = 0 if landed is None else landed.offsets.get(resolutions_of(name), 0)
            mine = pc.and_(pc.equal(statuses["into"], each.name), pc.equal(statuses["table"], name))
            open_yet = pc.and_(mine, pc.greater_equal(statuses["closing"], int(reached)))
            count += int(pc.sum(pc.fill_null(open_yet, fill_value=False)).as_py() or 0)
    return count


def _still_refused(count: int, code: str) -> str:
    if count == 1:
        return f"1 record still does not fit: {code}; it stays open"
    return f"{count:,} records still do not fit: {code}; they stay open"


def means_of(pipeline: Pipeline) -> WriteContext:
    """Return what is needed to resolve records of a pipeline in this process."""
    names = {assembly.place_of(pipeline, f"{name}.").connector for name in pipeline.catalogs}
    writers = {name: worker.writer(name) for name in names}
    return WriteContext(writers, worker.readers, function_at)


def _refused(row: Mapping[str, Any], record: Mapping[str, Any]) -> Refused:
    headers = record["headers"] or ()
    return Refused(
        **{name: row[name] for name in _OF_STATUS},
        refused_at=row["quarantined_at"],
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
