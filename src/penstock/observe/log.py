"""Events as log lines: short and aligned for people, or one JSON object a line.

Invariants:
- a healthy pipeline logs one line per commit and no more: planning, reading, preparing and anchors
  stand at debug, what needs no attention at info, what does at warning and error;
- lines go where `write` puts them, which is never stdout (interface.md 2);
- a line that a stream does not take (its reader is gone, the disk is full) is lost, and only it;
- a JSON line has every field of its event: its form is docs/reference/events.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, tzinfo
from typing import Any, Literal, TextIO

import structlog

from penstock.core import events
from penstock.core.crash_points import Point
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
    """Hold one event as people read it: what it is about, and what happened to it."""

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

    def reached(self, point: Point) -> None:
        """Pass: crash points are not news."""

    def complain(self, text: str) -> None:
        """Log a sentence that belongs to no event, as a warning."""
        line = Line(logging.WARNING, "penstock", text)
        self._logger.log(line.level, "Complaint", line=line, data={"text": text})

    def _worth_telling(self, event: events.PartitionStalled) -> bool:
        """Tell of a partition that stays unreadable every five minutes, not every epoch."""
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
    level: int = logging.INFO,
    zone: tzinfo = UTC,
    colour: Literal["always", "never"] = "never",
) -> LogLines:
    """Make a log for people: `10:47:03  lake.bronze.flights  20,000 rows in 4 files …`.

    `colour` is `always` or `never`: see `wants_colour`. Times are those of `zone`.
    """

    def rendered(_logger: Any, name: str, entry: Fields) -> str:
        line: Line = entry["line"]
        at = datetime.fromtimestamp(clock.now_ms() / 1000, zone)
        mark = "" if line.level < logging.WARNING else f"{name}: "
        subject, told = padded(name_text(line.subject), _SUBJECT_WIDTH), one_line(line.text)
        text = f"{at:%H:%M:%S}  {subject}  {mark}{told}"
        return f"\x1b[{_COLOURS[name]}m{text}\x1b[0m" if colour == "always" else text

    return LogLines(_logger(write, level, rendered), clock)


def json_log(write: Write, clock: Clock, *, level: int = logging.INFO) -> LogLines:
    """Make a log for machines: one JSON object a line, with `time`, `level`, `event` and the
    fields of the event; times are UTC.
    """

    def shaped(_logger: Any, name: str, entry: Fields) -> Fields:
        at = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
        time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"time": time, "level": name, "event": entry["event"], **entry["data"]}

    return LogLines(_logger(write, level, shaped, structlog.processors.JSONRenderer()), clock)


def written_to(stream: TextIO) -> Write:
    """Give what writes whole lines to a stream at once, such as stderr."""
    guard = threading.Lock()

    def write(text: str) -> None:
        with guard, suppress(OSError):
            stream.write(text + "\n")
            stream.flush()

    return write


def wants_colour(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Tell whether to colour: on a terminal, unless NO_COLOR or a dumb terminal forbids it."""
    return wants_display(stream, environment) and not environment.get("NO_COLOR")


def wants_display(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Tell whether lines may be written over: on a terminal that moves its cursor."""
    return stream.isatty() and environment.get("TERM") not in ("dumb", "unknown")


def line_of(event: Event) -> Line:
    """Put an event in words."""
    match event:
        case events.PipelineStarted():
            left = f", {number_of(event.pending, 'commit')} to settle" if event.pending else ""
            text = f"started as generation {event.generation}, {number_of(event.tables, 'table')}"
            return Line(logging.INFO, event.pipeline, text + left)
        case events.PipelineStopped():
            return _stopped(event)
        case events.CoordinatorFenced():
            text = f"generation {event.by_generation} of {event.by_owner} took over from "
            return Line(logging.ERROR, "pipeline", f"{text}generation {event.generation}")
        case events.PartitionStalled():
            return Line(logging.WARNING, event.partition, f"cannot be read: {event.reason}")
        case events.PoisonFound() | events.ConcurrencyLowered():
            return _death(event)
        case events.TopicUnrouted():
            reason = f": {event.reason}" if event.reason else ""
            text = f"goes to no table; its records are not read{reason}"
            return Line(logging.WARNING, event.topic, text)
        case events.EpochPlanned() | events.SliceRead() | events.EpochPrepared():
            return _of_epoch(event)
        case events.CommitsStalled() | events.CommitsResumed():
            return _stall(event)
        case events.WaitBegan() | events.WaitLasted() | events.BacklogCounted():
            return _beginning(event)
        case events.ClassArchiveBegun() | events.MetricsServed() | events.KafkaAnswered():
            return _of_others(event)
        case events.FilesWritten():
            return Line(logging.DEBUG, event.table, f"epoch {event.epoch} written: {_made(event)}")
        case _:
            return _of_table(event)


def _of_others(
    event: events.ClassArchiveBegun | events.MetricsServed | events.KafkaAnswered,
) -> Line:
    match event:
        case events.KafkaAnswered():
            text = f"answers again after {seconds_text(event.seconds)}"
            return Line(logging.INFO, "Kafka", text)
        case events.ClassArchiveBegun():
            text = "archives its classes in the background, once: later starts take half the time"
            return Line(logging.INFO, "Java", text)
        case events.MetricsServed():
            return Line(logging.INFO, "metrics", event.url)


def _beginning(event: events.WaitBegan | events.WaitLasted | events.BacklogCounted) -> Line:
    match event:
        case events.WaitBegan():
            return Line(logging.DEBUG, "waiting", f"for {event.what}")
        case events.WaitLasted():
            text = f"{age_text(int(event.seconds * 1000))} so far for {event.what}"
            return Line(logging.INFO, "waiting", text)
        case events.BacklogCounted():
            text = f"{number_of(sum(event.lag.values()), 'record')} to read"
            return Line(logging.DEBUG, "Kafka", text)


def _of_epoch(event: events.EpochPlanned | events.SliceRead | events.EpochPrepared) -> Line:
    subject, records = f"epoch {event.epoch}", number_of(event.records, "record")
    match event:
        case events.EpochPlanned():
            text = f"planned: {records} in {number_of(event.slices, 'slice')}"
        case events.SliceRead():
            took = seconds_text(event.seconds)
            text = f"slice {event.slice} read: {records}, {size_text(event.size_bytes)}"
            text = f"{text} in {took}"
        case events.EpochPrepared():
            took = seconds_text(event.seconds)
            text = f"prepared: {records} for {number_of(event.tables, 'table')} in {took}"
    return Line(logging.DEBUG, subject, text)


def _of_table(event: Event) -> Line:
    match event:
        case events.TableCommitted():
            return _committed(event)
        case events.TableCreated():
            return Line(
                logging.INFO, event.table, f"created with {number_of(event.columns, 'column')}"
            )
        case events.SchemaChanged():
            return Line(logging.INFO, event.table, f"schema: {event.kind}, {event.change}")
        case events.TableParked():
            reason = event.reason.removeprefix(f"{event.table}: ")
            return Line(logging.ERROR, event.table, f"parked, {event.code}: {reason}")
        case events.TableResumed():
            text = f"is back after {seconds_text(event.seconds)} and catches up"
            return Line(logging.INFO, event.table, text)
        case events.TableLeft():
            return Line(logging.WARNING, event.table, "its topics are gone: no longer waited for")
        case events.HousekeepingFailed():
            text = f"housekeeping failed, without harm: {event.reason}"
            return Line(logging.WARNING, event.table, text)
        case events.StretchRead():
            text = f"{event.read:,} of {event.positions:,} positions are read again"
            return Line(logging.INFO, event.table, text)
        case events.RecordsFiltered():
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in event.reasons.items())
            return Line(logging.DEBUG, event.table, f"epoch {event.epoch} left out: {reasons}")
        case events.RecordsQuarantined():
            codes = ", ".join(f"{n:,} by {code}" for code, n in event.codes.items())
            text = f"epoch {event.epoch} quarantined records: {codes}"
            return Line(logging.WARNING, event.table, text)
        case _:
            return _of_commit(event)


def _of_commit(event: Event) -> Line:
    match event:
        case events.CommitFoundLanded():
            whose = "ours" if event.ours else "of other files"
            text = f"commit {_short(event.commit_id)} had landed already, {whose}"
            return Line(logging.INFO, event.table, text)
        case events.CommitConflicted():
            level = logging.DEBUG if event.turn <= 1 else logging.WARNING
            text = f"commit {_short(event.commit_id)}, turn {event.turn}: the table moved"
            return Line(level, event.table, f"{text}: {event.reason}")
        case events.CommitLeftInDoubt():
            text = f"commit {_short(event.commit_id)}, turn {event.turn}: the answer was lost"
            return Line(logging.WARNING, event.table, f"{text}: {event.reason}")
        case events.CommitAborted():
            text = f"commit {_short(event.commit_id)} given up: {event.reason}"
            return Line(logging.WARNING, event.table, text)
        case events.GapFound():
            text = f"commit {_short(event.commit_id)} is ahead of the table; planned again"
            return Line(logging.WARNING, event.table, text)
        case _:
            return Line(logging.DEBUG, "pipeline", type(event).__name__)


def _committed(event: events.TableCommitted) -> Line:
    if event.kind == "fence":
        text = f"fenced at snapshot {event.snapshot}"
        return Line(logging.WARNING, event.table, text)
    if event.kind == "anchor":
        text = f"progress anchored at snapshot {event.snapshot}"
        return Line(logging.DEBUG, event.table, text)
    took = seconds_text(event.seconds)
    text = f"epoch {event.epoch}: {_made(event)}, committed in {took}"
    return Line(logging.INFO, event.table, text)


def _stall(event: events.CommitsStalled | events.CommitsResumed) -> Line:
    if isinstance(event, events.CommitsResumed):
        text = f"go on after {seconds_text(event.seconds)}"
        return Line(logging.INFO, "commits", text)
    where = [*event.tables, *(["Kafka"] if event.kafka else [])]
    where += [f"epoch {event.reading}"] if event.reading is not None else []
    text = f"stalled for two commit intervals: {', '.join(where)}"
    return Line(logging.ERROR, "commits", text)


def _death(event: events.PoisonFound | events.ConcurrencyLowered) -> Line:
    if isinstance(event, events.PoisonFound):
        text = f"the process that reads offset {event.offset} dies of it: it is refused, P343"
        return Line(logging.WARNING, event.partition, text)
    text = f"{event.slices} slices together want more memory than workers have: "
    text = f"{text}{event.at_once} at once for now; give them more, or lower slice_bytes"
    return Line(logging.WARNING, f"epoch {event.epoch}", text)


def _stopped(event: events.PipelineStopped) -> Line:
    if event.code:
        return Line(logging.ERROR, event.pipeline, f"failed, {event.code}: {event.reason}")
    left = "" if event.clean else "; not all tables are level"
    return Line(logging.INFO, event.pipeline, f"stopped: {event.reason}{left}")


def _made(event: events.TableCommitted | events.FilesWritten) -> str:
    rows, files = number_of(event.rows, "row"), number_of(event.files, "file")
    return f"{rows} in {files}, {size_text(event.size_bytes)}"


def _short(commit_id: str) -> str:
    return commit_id[:8]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


class _Writer:
    """What structlog calls with a finished line."""

    def __init__(self, write: Write) -> None:
        self.debug = self.info = self.warning = self.error = write


def _logger(write: Write, level: int, *processors: Any) -> Any:
    return structlog.wrap_logger(
        _Writer(write),
        processors=list(processors),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
