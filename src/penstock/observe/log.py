"""Events as log lines: short and aligned for people, or one JSON object a line.

Invariants:
- a healthy pipeline logs one line per commit and no more: planning, reading, preparing and anchors
  are at debug, what needs attention at warning or error, the rest at info;
- lines go where `write` puts them, which is never stdout (interface.md 2);
- a line that a stream refuses (its reader has ended, the disk is full) is lost, and only that line;
- a JSON line has every field of its event: its form is docs/reference/events.md.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, tzinfo
from logging import DEBUG, ERROR, INFO, WARNING, getLevelName
from typing import Any, Literal, TextIO

from penstock.core import (
    events,
    leadership_events,
    maintenance_events,
    outlook_events,
    publication_events,
)
from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event
from penstock.observe.formatting import (
    age_text,
    name_text,
    number_of,
    one_line,
    padded,
    seconds_text,
    size_text,
)
from penstock.observe.repeats import Repeats
from penstock.ports.runtime import Clock

Write = Callable[[str], None]

_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31"}
_SUBJECT_WIDTH = 28


@dataclass(frozen=True, slots=True)
class Line:
    """One event as people read it: what it is about, and what happened to it."""

    level: int
    subject: str
    text: str


Render = Callable[[datetime, str, Line, dict[str, Any]], str]
"""Makes a line of text: of the time in UTC, the level's name, the line, and the event's data."""


class LogLines:
    """Listen to events and log them; safe for threads, since every line is one write."""

    def __init__(self, write: Write, clock: Clock, level: int, render: Render) -> None:
        self._write = write
        self._clock = clock
        self._level = level
        self._render = render
        self._repeats = Repeats(clock)

    def __call__(self, event: Event) -> None:
        """Log an event at its level; a partition that stays unreadable every five minutes only, and
        what was rejected for causes that were warned of before as no warning.
        """
        if self._repeats.has_just_told(event):
            return
        data = {each.name: getattr(event, each.name) for each in fields(event)}
        line = line_of(event)
        if self._repeats.is_known(event):
            line = replace(line, level=INFO)
        self._log(line, {"event": type(event).__name__, **data})

    def passed(self, point: CrashPoint) -> None:
        """Ignore crash points."""

    def complain(self, text: str) -> None:
        """Log a message that belongs to no event, as a warning."""
        self._log(Line(WARNING, "penstock", text), {"event": "Message", "text": text})

    def _log(self, line: Line, data: dict[str, Any]) -> None:
        if line.level >= self._level:
            at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
            self._write(self._render(at, getLevelName(line.level).lower(), line, data))


def console_log(
    write: Write,
    clock: Clock,
    *,
    level: int = INFO,
    zone: tzinfo = UTC,
    colour: Literal["always", "never"] = "never",
) -> LogLines:
    """Return a log for people: `10:47:03  lake.bronze.flights  20,000 rows in 4 files …`.

    `colour` is `always` or `never`: see `wants_colour`. Times are those of `zone`.
    """

    def rendered(at: datetime, name: str, line: Line, _data: dict[str, Any]) -> str:
        mark = "" if line.level < WARNING else f"{name}: "
        subject = padded(name_text(line.subject), _SUBJECT_WIDTH)
        text = f"{at.astimezone(zone):%H:%M:%S}  {subject}  {mark}{one_line(line.text)}"
        return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m" if colour == "always" else text

    return LogLines(write, clock, level, rendered)


def json_log(write: Write, clock: Clock, *, level: int = INFO) -> LogLines:
    """Return a log for machines: one JSON object a line, with `time`, `level`, `event` and the
    fields of the event; times are UTC.
    """

    def rendered(at: datetime, name: str, _line: Line, data: dict[str, Any]) -> str:
        time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        plain = {field: dict(v) if isinstance(v, Mapping) else v for field, v in data.items()}
        return json.dumps({"time": time, "level": name, **plain}, default=repr)

    return LogLines(write, clock, level, rendered)


def written_to(stream: TextIO) -> Write:
    """Return a function that writes whole lines to a stream such as stderr."""
    guard = threading.Lock()

    def write(text: str) -> None:
        with guard, suppress(OSError):
            stream.write(text + "\n")
            stream.flush()

    return write


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether to colour: on a terminal, unless NO_COLOR is set or TERM is dumb."""
    return wants_display(stream, environment) and not environment.get("NO_COLOR")


def wants_display(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Return whether lines can be overwritten: on a terminal that moves its cursor."""
    return stream.isatty() and environment.get("TERM") not in ("dumb", "unknown")


def line_of(event: Event) -> Line:
    """Return an event in words."""
    level, text = _template(event)
    words = {each.name: _in_words(each.name, getattr(event, each.name)) for each in fields(event)}
    words |= _composed(event)
    named = (words[name] for name in _SUBJECT_FIELDS if name in words)
    subject = _SUBJECTS.get(type(event)) or next(named, f"epoch {words.get('epoch')}")
    return Line(level, subject, text.format_map(words))


def level_of(event: Event) -> int:
    """Return the level that an event is logged at."""
    return _template(event)[0]


def _template(event: Event) -> tuple[int, str]:
    level, text = _TEMPLATES[type(event)]
    match event:
        case events.PipelineStarted() if event.pending:
            return level, f"{text}, {{pending}} to settle"
        case publication_events.PublicationStopped() if event.waits:
            return WARNING, "waits, and is tried again, {code}: {reason}"
        case events.PipelineStopped() | publication_events.PublicationStopped() if event.code:
            return ERROR, "failed, {code}: {reason}"
        case publication_events.RowsPublished() if event.rejected:
            return WARNING, f"{text}; rejected {{rejects}}"
        case events.TopicUnrouted() if event.reason:
            return level, f"{text}: {{reason}}"
        case events.CommitFoundLanded() if not event.as_prepared:
            return level, "commit {commit_id} had landed already, with other files"
        case events.CommitConflicted() if event.attempt > 1:
            return WARNING, text
        case events.TableCommitted() if event.kind == "fence":
            return WARNING, "fenced at snapshot {snapshot}"
        case events.TableCommitted() if event.changes:
            return level, text.replace("{rows}", "{changes}; {rows}")
        case events.KeysAcrossPartitions() if not event.keys:
            return INFO, "{rows} of other partitions replaced: later commits win"
        case events.TableCommitted() if event.kind == "anchor":
            return DEBUG, "progress anchored at snapshot {snapshot}"
    return level, text


def _composed(event: Event) -> dict[str, str]:
    match event:
        case events.CommitsStalled():
            kafka = ["Kafka"] if event.kafka else []
            epoch = [] if event.reading is None else [f"epoch {event.reading}"]
            return {"where": ", ".join([*event.tables, *kafka, *epoch])}
        case events.WaitLasted():
            return {"seconds": age_text(int(event.seconds * 1000))}
        case events.BacklogCounted():
            return {"lag": number_of(sum(event.lag.values()), "record")}
        case leadership_events.StandbyChanged():
            return {"text": event.text}
        case events.PauseBegan():
            at = datetime.fromtimestamp(event.until_ms / 1000, UTC)
            return {"until": f"{at:%Y-%m-%d %H:%M:%S} UTC"}
        case events.TableParked():
            return {"reason": event.reason.removeprefix(f"{event.table}: ")}
        case publication_events.RowsPublished():
            return {"rejects": ", ".join(f"{n:,} by {code}" for code, n in event.rejected.items())}
        case events.RecordsFiltered():
            return {"reasons": ", ".join(f"{n:,} {why}" for why, n in event.reasons.items())}
        case events.TableCommitted():
            return {"changes": ", ".join(f"{n:,} {what}" for what, n in event.changes.items())}
        case events.RecordsQuarantined():
            return {"codes": ", ".join(f"{n:,} by {code}" for code, n in event.codes.items())}
    return {}


def _in_words(name: str, value: Any) -> str:
    if name in _NOUNS and isinstance(value, int):
        return number_of(value, _NOUNS[name])
    match name:
        case "seconds" | "every_seconds" | "usual_seconds":
            return seconds_text(value)
        case "size_bytes":
            return size_text(value)
        case "commit_id":
            return str(value)[:8]
        case "offsets_read" | "offsets" | "files_after" | "excess_files":
            return f"{value:,}"
    return str(value)


_NOUNS = {
    "backlog": "record",
    "columns": "column",
    "keys": "key",
    "files": "file",
    "partitions": "partition",
    "pending": "commit",
    "records": "record",
    "rows": "row",
    "slices": "slice",
    "tables": "table",
}

_SUBJECT_FIELDS = ("publication", "table", "topic", "partition", "pipeline")

_SUBJECTS: Mapping[type[Event], str] = {
    events.CoordinatorFenced: "pipeline",
    events.WaitBegan: "waiting",
    events.WaitLasted: "waiting",
    events.BacklogCounted: "Kafka",
    events.KafkaAnswered: "Kafka",
    outlook_events.GroupNotMoved: "Kafka",
    events.CommitsStalled: "commits",
    events.CommitsResumed: "commits",
    events.ClassArchiveBegun: "Java",
    outlook_events.MetricsServed: "metrics",
    outlook_events.PageServed: "page",
    maintenance_events.EpochsNarrowed: "epochs",
}
"""What an event is about that names no table, topic, partition, pipeline or epoch."""

_TEMPLATES: Mapping[type[Event], tuple[int, str]] = {
    events.PipelineStarted: (INFO, "started as generation {generation}, {tables}"),
    events.PipelineStopped: (INFO, "stopped: {reason}"),
    events.CoordinatorFenced: (
        ERROR,
        "generation {by_generation} of {by_owner} took over from generation {generation}",
    ),
    events.WaitBegan: (DEBUG, "for {what}"),
    events.WaitLasted: (INFO, "{seconds} so far for {what}"),
    events.BacklogCounted: (DEBUG, "{lag} to read"),
    events.KafkaAnswered: (INFO, "answers again after {seconds}"),
    outlook_events.GroupNotMoved: (WARNING, "group {group} does not follow: {reason}"),
    events.PartitionStalled: (WARNING, "cannot be read: {reason}"),
    events.TopicsGrew: (INFO, "{partitions} found: what was there before is read first"),
    events.TopicUnrouted: (WARNING, "no rule writes it to a table; its records are not read"),
    events.PoisonFound: (
        WARNING,
        "offset {offset} kills the process that reads it; the record is rejected, P343",
    ),
    events.ConcurrencyLowered: (
        WARNING,
        (
            "{slices} together need more memory than workers have; at most {concurrency_max} run "
            "at once for now: raise workers' memory, or lower slice_bytes"
        ),
    ),
    events.EpochPlanned: (DEBUG, "planned: {records} in {slices}"),
    events.ExchangeGivenUp: (WARNING, "read again, without an exchange of rows: {reason} ({code})"),
    events.SliceRead: (DEBUG, "slice {slice} read: {records}, {size_bytes} in {seconds}"),
    events.EpochPrepared: (DEBUG, "prepared: {records} for {tables} in {seconds}"),
    events.FilesWritten: (DEBUG, "epoch {epoch} written: {rows} in {files}, {size_bytes}"),
    events.TableCommitted: (
        INFO,
        "epoch {epoch}: {rows} in {files}, {size_bytes}, committed in {seconds}",
    ),
    events.KeysAcrossPartitions: (
        WARNING,
        "{keys} changed in two partitions of one commit: the change of the higher one wins",
    ),
    events.CommitFoundLanded: (INFO, "commit {commit_id} had landed already, as prepared"),
    events.CommitConflicted: (
        DEBUG,
        "commit {commit_id}, attempt {attempt}: the table changed: {reason}",
    ),
    events.CommitLeftInDoubt: (
        WARNING,
        "commit {commit_id}, attempt {attempt}: the answer was lost: {reason}",
    ),
    events.CommitAborted: (WARNING, "commit {commit_id} dropped: {reason}"),
    events.GapFound: (WARNING, "commit {commit_id} is ahead of the table; planned again"),
    events.CommitsStalled: (ERROR, "stalled for two commit intervals: {where}"),
    events.CommitsResumed: (INFO, "resumed after {seconds}"),
    events.TableAbsent: (
        WARNING,
        "not there: the next record that fits creates it, without rows of records before {begin}",
    ),
    events.TableCreated: (INFO, "created with {columns}"),
    events.SchemaChanged: (INFO, "schema: {kind}, {change}"),
    events.TableParked: (ERROR, "parked, {code}: {reason}"),
    events.TableResumed: (INFO, "resumed after {seconds}, catching up"),
    events.PauseBegan: (WARNING, "paused until {until}: nothing is committed"),
    events.PauseEnded: (INFO, "paused no longer"),
    events.TableAbandoned: (WARNING, "its topics were deleted: the run no longer waits for it"),
    events.RecordsFiltered: (DEBUG, "epoch {epoch} filtered: {reasons}"),
    events.RecordsQuarantined: (WARNING, "epoch {epoch} quarantined records: {codes}"),
    events.ReplayProgressed: (INFO, "{offsets_read} of {offsets} offsets read again"),
    events.HousekeepingFailed: (WARNING, "housekeeping failed, which does no harm: {reason}"),
    leadership_events.StandbyChanged: (INFO, "stands by, {text}"),
    leadership_events.LeadershipGained: (WARNING, "takes over: {reason}"),
    leadership_events.HandoverBegan: (INFO, "gives way after the current epoch"),
    maintenance_events.TableMaintained: (
        INFO,
        "files {files_before} → {files_after}, {expired} snapshots gone, {deleted} files swept",
    ),
    maintenance_events.MaintenanceFailed: (WARNING, "not maintained; landing goes on: {reason}"),
    maintenance_events.LayoutMeasured: (DEBUG, "{files} where {files_after} would do"),
    maintenance_events.RowsDoubled: (WARNING, "rows may be there twice: {reason}"),
    maintenance_events.EpochsWidened: (
        WARNING,
        (
            "{excess_files} files more than would do: epochs are {every_seconds} apart now, "
            "usually {usual_seconds}"
        ),
    ),
    maintenance_events.EpochsNarrowed: (
        INFO,
        "are {every_seconds} apart now, usually {usual_seconds}: tables have fewer files",
    ),
    maintenance_events.HoldExceeded: (
        WARNING,
        "{excess_files} files more than would do; `penstock maintain` makes fewer of them",
    ),
    events.ClassArchiveBegun: (
        INFO,
        "caches its classes in the background, once: later starts take half the time",
    ),
    outlook_events.MetricsServed: (INFO, "{url}"),
    outlook_events.PageServed: (INFO, "{url}"),
    publication_events.PublicationStarted: (
        INFO,
        "started as generation {generation}, after transaction {epoch}: {backlog} to publish",
    ),
    publication_events.RowsPublished: (
        INFO,
        "transaction {epoch}: {rows} into {partitions} of {into}, visible after {seconds}",
    ),
    publication_events.TransactionGivenUp: (WARNING, "transaction {epoch} given up: {reason}"),
    publication_events.ColumnTypesChanged: (WARNING, "columns have other types now: {changes}"),
    publication_events.FieldsAbsent: (WARNING, "of {records} none has the field {fields}"),
    publication_events.PublicationStopped: (INFO, "stopped: {reason}"),
}
"""Level and text of each event; `{field}` is put in words by `_in_words`."""
