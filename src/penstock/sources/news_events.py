"""What is told of the chain of a table: from where the news stand, and what its metadata say.

Invariants:
- a commit is told once, in the order of its chain, and only once it is in the table;
- what history no longer lists is told by its ranges: from what was told last up to what comes next;
- each event has the position behind it, so that reading goes on behind any of them.

The words are those of docs/how-to/news.md. Source: CloudEvents 1.0, Kafka protocol binding 1.0.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.core.commits import CommitKind, Landed
from penstock.core.offsets import Offset, OffsetRange, Positions, Progress
from penstock.core.offsets import TopicPartition as At
from penstock.core.positions import Scalar, canonical
from penstock.core.resolutions import records_only
from penstock.core.schema import Schema
from penstock.core.serialization import progress_from_json, progress_to_json
from penstock.core.shards import family_of
from penstock.ports.histories import CommitRecord, CommitsBehind
from penstock.ports.own_sources import Place

PREFIX = "dev.penstock."
LANDED, SKIPPED = "commit.landed", "commits.skipped"
CREATED, CHANGED = "table.created", "table.changed"
ROLLED_BACK, MOVED = "table.rolled-back", "table.moved"
THROUGH = "through.advanced"
OF_COMMITS = frozenset({LANDED, SKIPPED})
OF_TABLES = frozenset({CREATED, CHANGED})
"""What is so of a table, whichever chain is looked at; the rest is about a chain."""
HEADERS = (
    "ce_specversion",
    "ce_id",
    "ce_source",
    "ce_type",
    "ce_subject",
    "ce_time",
    "ce_sequence",
    "content-type",
)
RANGES = pa.list_(
    pa.struct(
        [
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("start", pa.int64()),
            ("stop", pa.int64()),
        ]
    )
)
COLUMNS = pa.struct([("name", pa.string()), ("type", pa.string()), ("required", pa.bool_())])
EVENTS = pa.schema(
    [
        *((name, pa.string()) for name in HEADERS),
        ("pipeline", pa.string()),
        ("chain", pa.string()),
        ("table", pa.string()),
        ("table_uuid", pa.string()),
        ("snapshot", pa.string()),
        ("commit_id", pa.string()),
        ("kind", pa.string()),
        ("rows", pa.int64()),
        ("files", pa.int64()),
        ("ranges", RANGES),
        ("valid_through_ms", pa.int64()),
        ("schema_id", pa.int64()),
        ("columns", pa.list_(COLUMNS)),
    ]
)
"""The columns of events: headers, and the members of `data`, of which each type has its own."""
_ZERO = Offset(0)


@dataclass(frozen=True, slots=True)
class Told:
    """Up to where a chain was told: `offsets` are next to tell, `count` is how many events were.

    `gone_back` says that the table's rollback was told, and nothing since.
    """

    uuid: str
    schema_id: int
    segment: int
    offsets: Positions
    snapshot: str = ""
    commit_id: str = ""
    gone_back: bool = False
    count: int = 0

    def place(self) -> dict[str, Scalar]:
        """Return it as the position of a source."""
        by_topic: dict[str, dict[str, int]] = {}
        for at, offset in sorted(self.offsets.items()):
            by_topic.setdefault(at.topic_id, {})[str(at.partition)] = offset
        return {
            "uuid": self.uuid,
            "schema": self.schema_id,
            "segment": self.segment,
            "offsets": json.dumps(by_topic, separators=(",", ":")),
            "snapshot": self.snapshot,
            "commit": self.commit_id,
            "gone_back": self.gone_back,
            "told": self.count,
        }


def told_of(place: Mapping[str, Any]) -> Told:
    """Read a position. Raises ValueError, KeyError, TypeError or AttributeError for another's."""
    by_topic = json.loads(place["offsets"])
    return Told(
        uuid=place["uuid"],
        schema_id=place["schema"],
        segment=place["segment"],
        offsets={
            At(topic, int(partition), topic): Offset(int(offset))
            for topic, own in by_topic.items()
            for partition, offset in own.items()
        },
        snapshot=place["snapshot"],
        commit_id=place["commit"],
        gone_back=place["gone_back"],
        count=place["told"],
    )


@dataclass(frozen=True, slots=True)
class Facts:
    """What a table says of a chain: its ledger, and the commits behind what was told last."""

    uuid: str
    schema_id: int
    schema: Schema
    snapshot: str
    landed: Landed
    is_rolled_back: bool
    behind: CommitsBehind


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its own members of `data`, and up to where the chain is told with it."""

    type: str
    told: Told
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    time_ms: int | None = None


def events_of(told: Told | None, facts: Facts) -> Iterator[Event]:
    """Yield what a chain has to tell, in order; `count` stays as it is."""
    if told is None or told.uuid != facts.uuid:
        count, landed = 0 if told is None else told.count, facts.landed
        begun = _before(records_only(landed.offsets), facts.behind.commits)
        segment = landed.segment - sum(map(_is_seek, facts.behind.commits))
        told = Told(facts.uuid, facts.schema_id, segment, begun, count=count)
        yield Event(CREATED, told, _shape(facts))
    elif told.schema_id != facts.schema_id:
        told = replace(told, schema_id=facts.schema_id)
        yield Event(CHANGED, told, _shape(facts))
    if not facts.is_rolled_back:
        yield from _commits(replace(told, gone_back=False), facts)
    elif not told.gone_back:
        told = replace(told, gone_back=True)
        yield Event(ROLLED_BACK, told, {"snapshot": facts.snapshot})


def _commits(told: Told, facts: Facts) -> Iterator[Event]:
    """Yield the commits, seeks, and by their ranges the commits between that are not listed."""
    landed, follows = facts.landed, _follows(told, facts)
    commits = _untold(told, facts, follows=follows)
    offsets, seeks = records_only(landed.offsets), sum(map(_is_seek, commits))
    if told.segment + seeks != landed.segment:  # a seek is not listed
        to = {**told.offsets, **_first_of(commits)} if seeks else _before(offsets, commits)
        told = replace(told, segment=landed.segment - seeks, offsets=to)
        yield Event(MOVED, told)
    begun = _first_of(commits) if seeks else _before(offsets, commits)
    if not follows and (missing := _between(told.offsets, begun)):
        told = replace(told, offsets=_reached(told.offsets, missing))
        yield Event(SKIPPED, told, {"ranges": _ranges(missing)})
    for number, each in enumerate(commits, 1):
        if _is_seek(each):
            seeks -= 1
            to = told.offsets if seeks else _before(offsets, commits[number:])
            told = replace(told, segment=told.segment + 1, offsets=to)
            told = replace(told, snapshot=each.snapshot, commit_id=each.commit_id)
            said = {"snapshot": each.snapshot}
            yield Event(MOVED, told, said, each.commit_id, each.timestamp_ms)
            continue
        progress = _progress_of(each)
        reached = _reached(told.offsets, progress)
        told = replace(told, offsets=reached, snapshot=each.snapshot, commit_id=each.commit_id)
        yield Event(LANDED, told, _said_of(each, progress), each.commit_id, each.timestamp_ms)


def _follows(told: Told, facts: Facts) -> bool:
    """Return whether the commits are all that came behind what was told.

    Of a chain of which no commit was told yet, none is missing that lies before those listed.
    """
    if told.snapshot or not facts.behind.follows:
        return facts.behind.follows
    begun = _before(records_only(facts.landed.offsets), facts.behind.commits)
    return all(begun.get(at, offset) <= offset for at, offset in told.offsets.items())


def _untold(told: Told, facts: Facts, *, follows: bool) -> Sequence[CommitRecord]:
    """Return the commits that were not told: where they do not follow, from the first new one on.

    Of those that cover nothing, and stand before the first that does, nobody can tell. Of seeks the
    segment tells how many are new: each is of the next one.
    """
    commits = [each for each in facts.behind.commits if each.kind != CommitKind.FENCE]
    if follows:
        return commits
    seeks = [number for number, each in enumerate(commits, 1) if _is_seek(each)]
    told_seeks = len(seeks) - (facts.landed.segment - told.segment)
    behind = commits[seeks[told_seeks - 1] :] if told_seeks > 0 else commits

    def is_new(each: CommitRecord) -> bool:
        ahead = (own.stop > told.offsets.get(at, _ZERO) for at, own in _progress_of(each).items())
        return _is_seek(each) or any(ahead)

    return [*itertools.dropwhile(lambda each: not is_new(each), behind)]


def _is_seek(each: CommitRecord) -> bool:
    return each.kind == CommitKind.SEEK


def _progress_of(each: CommitRecord) -> Progress:
    """Return the ranges of records; a retry covers others, which are no records."""
    return records_only(progress_from_json([[*row] for row in each.progress]))


def _before(offsets: Positions, commits: Sequence[CommitRecord]) -> Positions:
    """Return the positions from which commits led to others."""
    found = dict(offsets)
    for each in reversed(commits):
        found |= {at: own.start for at, own in _progress_of(each).items()}
    return found


def _first_of(commits: Sequence[CommitRecord]) -> Positions:
    """Return where the commits before a seek begin, of the partitions that they cover."""
    return _before({}, [*itertools.takewhile(lambda each: not _is_seek(each), commits)])


def _between(told: Positions, reached: Positions) -> Progress:
    """Return what lies between; a partition that is not known yet begins with its first record."""
    return {
        at: OffsetRange(begun, stop)
        for at, stop in sorted(reached.items())
        if (begun := told.get(at, _ZERO)) < stop
    }


def _reached(offsets: Positions, progress: Progress) -> Positions:
    return {**offsets, **{at: own.stop for at, own in progress.items()}}


def _shape(facts: Facts) -> dict[str, Any]:
    columns = [
        {"name": each.name, "type": str(each.type), "required": each.required}
        for each in facts.schema.fields
    ]
    return {"schema_id": facts.schema_id, "columns": columns}


def _said_of(each: CommitRecord, progress: Progress) -> dict[str, Any]:
    return {
        "snapshot": each.snapshot,
        "commit_id": each.commit_id,
        "kind": each.kind,
        "rows": each.rows,
        "files": each.files,
        "ranges": _ranges(progress),
        "valid_through_ms": each.valid_through_ms,
    }


def _ranges(progress: Progress) -> list[dict[str, Any]]:
    names = ("topic_id", "partition", "topic", "start", "stop")
    return [dict(zip(names, each, strict=True)) for each in progress_to_json(progress)]


def row_of(event: Event, part: Place, of: Facts, content_type: str) -> dict[str, Any]:
    """Return an event of a chain as a row of EVENTS."""
    table, chain = str(part["table"]), str(part["chain"])
    attributes = _attributes(
        event.type,
        own=event.id or id_of(part, event.told.place()),
        source=source_of(of.landed.cluster_id, pipeline := family_of(chain)),
        subject=table,
        count=event.told.count,
    )
    said = {"pipeline": pipeline, "chain": chain, "table": table, "table_uuid": of.uuid}
    time = {"ce_time": time_text(event.time_ms), "content-type": content_type}
    return {**attributes, **time, **said, **event.data}


def through_row(
    pipeline: str, cluster_id: str, through_ms: int, count: int, content_type: str
) -> dict[str, Any]:
    """Return the event that everything up to a time is in all tables, as a row of EVENTS."""
    attributes = _attributes(
        THROUGH,
        own=id_of({"through": pipeline}, {"ms": through_ms}),
        source=source_of(cluster_id, pipeline),
        subject=pipeline,
        count=count,
    )
    said = {"pipeline": pipeline, "valid_through_ms": through_ms}
    return {**attributes, "content-type": content_type, **said}


def _attributes(kind: str, *, own: str, source: str, subject: str, count: int) -> dict[str, str]:
    """Return what every event has, by the headers of Kafka's binding."""
    return {
        "ce_specversion": "1.0",
        "ce_id": own,
        "ce_source": source,
        "ce_type": f"{PREFIX}{kind}.v1",
        "ce_subject": subject,
        "ce_sequence": str(count),
    }


def source_of(cluster_id: str, pipeline: str) -> str:
    """Return who tells: a pipeline, with the cluster that it reads."""
    return f"/penstock/{cluster_id}/{pipeline}"


def id_of(part: Place, place: Place) -> str:
    """Identify an event that is no commit by the position behind it."""
    text = f"{canonical(part)}{canonical(place)}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def time_text(time_ms: int | None) -> str | None:
    """Write a time as RFC 3339 asks."""
    if time_ms is None:
        return None
    moment = dt.datetime.fromtimestamp(time_ms / 1000, dt.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
