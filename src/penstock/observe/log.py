"""Events as log lines: short and aligned for people, or one JSON object a line.

Invariants:
- a healthy pipeline logs one line per commit and no more: planning, reading, preparing and anchors
  are at debug, what needs attention at warning or error, the rest at info;
- lines go where `write` puts them, which is never stdout (interface.md 2);
- a line that a stream refuses (its reader is gone, the disk is full) is lost, and only that line;
- a JSON line has every field of its event: its form is docs/reference/events.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, tzinfo
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, Literal, TextIO

import structlog

from penstock.core import events
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
from penstock.ports.runtime import Clock

STALLED_AGAIN_AFTER_SECONDS = 300

Fields = MutableMapping[str, Any]
Write = Callable[[str], None]

_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31"}
_SUBJECT_WIDTH = 28


@dataclass(frozen=True, slots=True)
class Line:
    """One event as people read it: what it is about, and what happened to it."""

    level: int
    subject: str
    text: str


class LogLines:
    """Listen to events and log them; safe for threads, since every line is one write."""

    def __init__(self, logger: Any, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._guard = threading.Lock()
        self._told: dict[events.PartitionStalled, float] = {}

    def __call__(self, event: Event) -> None:
        """Log an event at its level."""
        if isinstance(event, events.PartitionStalled) and not self._worth_telling(event):
            return
        line = line_of(event)
        data = {each.name: _plain(getattr(event, each.name)) for each in fields(event)}
        self._logger.log(line.level, type(event).__name__, line=line, data=data)

    def passed(self, point: CrashPoint) -> None:
        """Ignore crash points."""

    def complain(self, text: str) -> None:
        """Log a message that belongs to no event, as a warning."""
        line = Line(WARNING, "penstock", text)
        self._logger.log(line.level, "Complaint", line=line, data={"text": text})

    def _worth_telling(self, event: events.PartitionStalled) -> bool:
        """Return whether to log it: a partition that stays unreadable every five minutes only."""
        now = self._clock.monotonic()
        with self._guard:
            told = self._told.get(event)
            if told is not None and now - told < STALLED_AGAIN_AFTER_SECONDS:
                return False
            self._told[event] = now
        return True


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

    def rendered(_logger: Any, name: str, entry: Fields) -> str:
        line: Line = entry["line"]
        at = datetime.fromtimestamp(clock.now_ms() / 1000, zone)
        mark = "" if line.level < WARNING else f"{name}: "
        subject, told = padded(name_text(line.subject), _SUBJECT_WIDTH), one_line(line.text)
        text = f"{at:%H:%M:%S}  {subject}  {mark}{told}"
        return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m" if colour == "always" else text

    return LogLines(_logger(write, level, rendered), clock)


def json_log(write: Write, clock: Clock, *, level: int = INFO) -> LogLines:
    """Return a log for machines: one JSON object a line, with `time`, `level`, `event` and the
    fields of the event; times are UTC.
    """

    def shaped(_logger: Any, name: str, entry: Fields) -> Fields:
        at = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"time": time, "level": name, "event": entry["event"], **entry["data"]}

    return LogLines(_logger(write, level, shaped, structlog.processors.JSONRenderer()), clock)


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
    named = (words[name] for name in ("table", "topic", "partition", "pipeline") if name in words)
    subject = _SUBJECTS.get(type(event)) or next(named, f"epoch {words.get('epoch')}")
    return Line(level, subject, text.format_map(words))


def _template(event: Event) -> tuple[int, str]:
    """Return level and text: those of the event's type, or of a variant."""
    level, text = _TEMPLATES[type(event)]
    match event:
        case events.PipelineStarted() if event.pending:
            return level, f"{text}, {{pending}} to settle"
        case events.PipelineStopped() if event.code:
            return ERROR, "failed, {code}: {reason}"
        case events.PipelineStopped() if not event.clean:
            return level, f"{text}; not all tables are level"
        case events.TopicUnrouted() if event.reason:
            return level, f"{text}: {{reason}}"
        case events.CommitFoundLanded() if not event.ours:
            return level, "commit {commit_id} had landed already, with other files"
        case events.CommitConflicted() if event.turn > 1:
            return WARNING, text
        case events.TableCommitted() if event.kind == "fence":
            return WARNING, "fenced at snapshot {snapshot}"
        case events.TableCommitted() if event.kind == "anchor":
            return DEBUG, "progress anchored at snapshot {snapshot}"
    return level, text


def _composed(event: Event) -> dict[str, str]:
    """Return the words that are made of several fields, or of one in its own way."""
    match event:
        case events.CommitsStalled():
            kafka = ["Kafka"] if event.kafka else []
            epoch = [] if event.reading is None else [f"epoch {event.reading}"]
            return {"where": ", ".join([*event.tables, *kafka, *epoch])}
        case events.WaitLasted():
            return {"seconds": age_text(int(event.seconds * 1000))}
        case events.BacklogCounted():
            return {"lag": number_of(sum(event.lag.values()), "record")}
        case events.TableParked():
            return {"reason": event.reason.removeprefix(f"{event.table}: ")}
        case events.RecordsFiltered():
            return {"reasons": ", ".join(f"{n:,} {why}" for why, n in event.reasons.items())}
        case events.RecordsQuarantined():
            return {"codes": ", ".join(f"{n:,} by {code}" for code, n in event.codes.items())}
    return {}


def _in_words(name: str, value: Any) -> str:
    """Return a field of an event as people read it, by the field's name."""
    if name in _NOUNS and isinstance(value, int):
        return number_of(value, _NOUNS[name])
    match name:
        case "seconds":
            return seconds_text(value)
        case "size_bytes":
            return size_text(value)
        case "commit_id":
            return str(value)[:8]
        case "read" | "positions":
            return f"{value:,}"
    return str(value)


_NOUNS = {
    "columns": "column",
    "files": "file",
    "pending": "commit",
    "records": "record",
    "rows": "row",
    "slices": "slice",
    "tables": "table",
}

_SUBJECTS: Mapping[type[Event], str] = {
    events.CoordinatorFenced: "pipeline",
    events.WaitBegan: "waiting",
    events.WaitLasted: "waiting",
    events.BacklogCounted: "Kafka",
    events.KafkaAnswered: "Kafka",
    events.CommitsStalled: "commits",
    events.CommitsResumed: "commits",
    events.ClassArchiveBegun: "Java",
    events.MetricsServed: "metrics",
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
    events.PartitionStalled: (WARNING, "cannot be read: {reason}"),
    events.TopicUnrouted: (WARNING, "no rule writes it to a table; its records are not read"),
    events.PoisonFound: (
        WARNING,
        "offset {offset} kills the process that reads it; the record is rejected, P343",
    ),
    events.ConcurrencyLowered: (
        WARNING,
        (
            "{slices} together need more memory than workers have; at most {at_once} run at once "
            "for now: raise workers' memory, or lower slice_bytes"
        ),
    ),
    events.EpochPlanned: (DEBUG, "planned: {records} in {slices}"),
    events.SliceRead: (DEBUG, "slice {slice} read: {records}, {size_bytes} in {seconds}"),
    events.EpochPrepared: (DEBUG, "prepared: {records} for {tables} in {seconds}"),
    events.FilesWritten: (DEBUG, "epoch {epoch} written: {rows} in {files}, {size_bytes}"),
    events.TableCommitted: (
        INFO,
        "epoch {epoch}: {rows} in {files}, {size_bytes}, committed in {seconds}",
    ),
    events.CommitFoundLanded: (INFO, "commit {commit_id} had landed already, as prepared"),
    events.CommitConflicted: (
        DEBUG,
        "commit {commit_id}, turn {turn}: the table changed: {reason}",
    ),
    events.CommitLeftInDoubt: (
        WARNING,
        "commit {commit_id}, turn {turn}: the answer was lost: {reason}",
    ),
    events.CommitAborted: (WARNING, "commit {commit_id} dropped: {reason}"),
    events.GapFound: (WARNING, "commit {commit_id} is ahead of the table; planned again"),
    events.CommitsStalled: (ERROR, "stalled for two commit intervals: {where}"),
    events.CommitsResumed: (INFO, "resumed after {seconds}"),
    events.TableCreated: (INFO, "created with {columns}"),
    events.SchemaChanged: (INFO, "schema: {kind}, {change}"),
    events.TableParked: (ERROR, "parked, {code}: {reason}"),
    events.TableResumed: (INFO, "resumed after {seconds}, catching up"),
    events.TableLeft: (WARNING, "its topics were deleted: the run no longer waits for it"),
    events.RecordsFiltered: (DEBUG, "epoch {epoch} left out: {reasons}"),
    events.RecordsQuarantined: (WARNING, "epoch {epoch} quarantined records: {codes}"),
    events.StretchRead: (INFO, "{read} of {positions} offsets read again"),
    events.HousekeepingFailed: (WARNING, "housekeeping failed, which does no harm: {reason}"),
    events.ClassArchiveBegun: (
        INFO,
        "caches its classes in the background, once: later starts take half the time",
    ),
    events.MetricsServed: (INFO, "{url}"),
}
"""Level and text of each event; `{field}` is put in words by `_in_words`."""


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


class _Writer:
    """The logger that structlog calls with a finished line."""

    def __init__(self, write: Write) -> None:
        self.debug = self.info = self.warning = self.error = write


def _logger(write: Write, level: int, *processors: Any) -> Any:
    return structlog.wrap_logger(
        _Writer(write),
        processors=list(processors),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
