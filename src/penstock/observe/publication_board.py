"""Publications as people watch them: what events add up to, and a few lines and a table of it.

Invariants: those of `render.py`; totals are those of this run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from penstock.core import publication_events as events
from penstock.core.claims import claimed_publication
from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event
from penstock.core.leadership_events import LeadershipGained, StandbyChanged
from penstock.observe.formatting import (
    NOT_KNOWN,
    NOTHING,
    age_text,
    count_text,
    name_text,
    number_of,
    one_line,
    rate_text,
    seconds_text,
)
from penstock.observe.progress import Drawing
from penstock.observe.snapshot import RATE_WINDOW_MS, RECENT_COMMITS_MAX
from penstock.ports.runtime import Clock

WIDE_FROM = 90
STANDBY = "stands by"


@dataclass(frozen=True, slots=True)
class PublicationStatus:
    """What is known of one publication; `recent` holds (time, rows) of its last transactions."""

    state: str = "starting"
    rows: int = 0
    filtered: int = 0
    rejected: int = 0
    transactions: int = 0
    lag: int | None = None
    seconds: float | None = None
    last_ms: int | None = None
    given_up: str = ""
    reason: str = ""
    code: str = ""
    recent: tuple[tuple[int, int], ...] = ()


class PublicationBoard:
    """Listen to events of publications; safe for threads."""

    def __init__(self, names: Mapping[str, str], clock: Clock) -> None:
        self._names, self._clock = names, clock
        self._began_ms = clock.now_ms()
        self._guard = threading.Lock()
        self._found = dict.fromkeys(names, PublicationStatus())

    def __call__(self, event: Event) -> None:
        """Apply an event."""
        name = getattr(event, "publication", None)
        if isinstance(event, StandbyChanged | LeadershipGained):
            name = claimed_publication(event.pipeline)
        if name in self._found:
            with self._guard:
                self._found[name] = _after(self._found[name], event, self._clock.now_ms())

    def passed(self, point: CrashPoint) -> None:
        """Ignore crash points."""

    def found(self) -> dict[str, PublicationStatus]:
        """Return what is known now."""
        with self._guard:
            return dict(self._found)

    def draw(self, lines_max: int) -> Drawing:
        """Draw all publications, those that failed first where not all can be shown."""
        found = self.found()
        shown = PublicationsText(
            self._names, found, self._clock.now_ms(), self._began_ms, lines_max
        )
        return Drawing(shown, all(_has_ended(each) for each in found.values()))


@dataclass(frozen=True, slots=True)
class PublicationsText:
    """Publications as text at `now_ms`, in the width of the console that prints it."""

    into: Mapping[str, str]
    found: Mapping[str, PublicationStatus]
    now_ms: int
    began_ms: int
    lines_max: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = sorted(self.found, key=lambda name: (not self.found[name].code, name))
        shown = names[: self.lines_max]
        yield self._headline()
        yield Text()
        yield self._table(shown, width=options.max_width)
        if left := len(names) - len(shown):
            yield Text(f"and {number_of(left, 'more publication')}", "dim")
        remarks = [*_remarks(self.found)]
        if remarks:
            yield Text()
            yield Group(*remarks)

    def _headline(self) -> Text:
        line = Text("publishing", "bold", no_wrap=True, overflow="ellipsis")
        known = [each.lag for each in self.found.values() if each.lag is not None]
        lag = sum(known) if len(known) == len(self.found) else None
        age = age_text(self.now_ms - self.began_ms)
        return line.append(f"  for {age}  lag {number_of(lag, 'record')}", "not bold")

    def _table(self, names: Sequence[str], *, width: int) -> Table:
        columns = [each for each in _COLUMNS if width >= each.from_width]
        grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        grid.add_column("publication", no_wrap=True, overflow="ellipsis", min_width=8)
        if width >= WIDE_FROM:
            grid.add_column("into", no_wrap=True, overflow="ellipsis")
        for column in columns:
            grid.add_column(column.title, justify="right", no_wrap=True)
        for name in names:
            each = self.found[name]
            cells = [name_text(name), *([name_text(self.into[name])] if width >= WIDE_FROM else [])]
            cells += [column.cell(each, self.now_ms, self.began_ms) for column in columns]
            grid.add_row(*cells, style="red" if each.code else "")
        return grid


Cell = Callable[[PublicationStatus, int, int], str]
"""Writes a cell: of a publication, now, in a run that began then."""


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cell: Cell
    from_width: int = 0


def _after(before: PublicationStatus, event: Event, now_ms: int) -> PublicationStatus:
    match event:
        case events.PublicationStarted():
            return replace(before, state="running", lag=event.backlog, reason="", code="")
        case events.RowsPublished():
            recent = (*before.recent, (now_ms, event.rows))[-RECENT_COMMITS_MAX:]
            return replace(
                before,
                rows=before.rows + event.rows,
                filtered=before.filtered + sum(event.filtered.values()),
                rejected=before.rejected + sum(event.rejected.values()),
                transactions=before.transactions + 1,
                lag=event.lag,
                seconds=event.seconds,
                last_ms=now_ms,
                given_up="",
                recent=recent,
            )
        case events.TransactionGivenUp():
            return replace(before, given_up=event.reason)
        case StandbyChanged():
            known = replace(before, state=STANDBY, reason=event.text, code="")
            return replace(known, lag=None, seconds=None, last_ms=None, given_up="")
        case LeadershipGained():
            return replace(before, state="starting", reason="")
        case events.PublicationStopped():
            state = "stopped" if event.clean else "waits" if event.waits else "failed"
            return replace(before, state=state, reason=event.reason, code=event.code)
    return before


def _has_ended(each: PublicationStatus) -> bool:
    return each.state in ("stopped", "failed")


def _rate(each: PublicationStatus, now_ms: int, began_ms: int) -> str:
    begun_ms = max(now_ms - RATE_WINDOW_MS, began_ms)
    if len(each.recent) == RECENT_COMMITS_MAX:
        begun_ms = max(begun_ms, each.recent[0][0])
    rows = sum(rows for at_ms, rows in each.recent if at_ms > begun_ms)
    return rate_text(0 if _has_ended(each) else rows / max((now_ms - begun_ms) / 1000, 1.0))


def _remarks(found: Mapping[str, PublicationStatus]) -> Iterator[Text]:
    for name, each in sorted(found.items()):
        if each.code:
            failed = f"{name_text(name)} failed  {each.code}  {each.reason}"
            yield Text(one_line(failed), "bold red")
        elif each.state == STANDBY:
            yield Text(one_line(f"{name_text(name)} stands by, {each.reason}"))
        elif each.given_up:
            given_up = f"{name_text(name)} gave a transaction up: {each.given_up}"
            yield Text(one_line(given_up), "yellow")
        if each.rejected:
            yield Text(f"{name_text(name)} rejected {number_of(each.rejected, 'row')}", "yellow")


def _took(each: PublicationStatus, _now_ms: int, _began_ms: int) -> str:
    return NOTHING if each.seconds is None else seconds_text(each.seconds)


def _last(each: PublicationStatus, now_ms: int, _began_ms: int) -> str:
    return NOTHING if each.last_ms is None else f"{age_text(now_ms - each.last_ms)} ago"


_COLUMNS = (
    _Column("rows", lambda each, *_: count_text(each.rows)),
    _Column("rows/s", _rate),
    _Column("lag", lambda each, *_: NOT_KNOWN if each.lag is None else count_text(each.lag)),
    _Column("transactions", lambda each, *_: count_text(each.transactions), WIDE_FROM),
    _Column("took", _took, WIDE_FROM),
    _Column("last", _last),
)
