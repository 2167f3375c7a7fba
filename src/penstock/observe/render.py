"""A snapshot as people see it: a few lines and a table, for `status` and the progress display.

Invariants:
- pure: the same snapshot, time and width give the same text;
- readable from 60 columns on, with more columns on a wider terminal; a long name loses its middle
  (widths are in terminal cells), a number never;
- what is not known is `?`, never 0;
- parked tables and those that wait come first when not all can be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from penstock.core.maintenance import worst_first
from penstock.observe.formatting import (
    NOT_KNOWN,
    NOTHING,
    age_text,
    count_text,
    health_text,
    name_text,
    number_of,
    one_line,
    rate_text,
    seconds_text,
    size_text,
)
from penstock.observe.snapshot import Snapshot, Stall, State, TableStatus, rows_per_second
from penstock.observe.why import Grade, Why

WIDE_FROM = 110
OFFSETS_SHOWN_MAX = 8
USUAL_FROM = 72
NAME_CELLS_MIN = 12
CODES_SHOWN_MAX = 4

_STATE_STYLES = {
    State.RUNNING: "green",
    State.IDLE: "green",
    State.STANDBY: "yellow",
    State.CATCHING_UP: "yellow",
    State.STOPPING: "yellow",
    State.FAILED: "bold red",
}

_GRADE_STYLES = {Grade.FLOWS: "bold", Grade.HELD: "bold yellow", Grade.STANDS: "bold red"}


@dataclass(frozen=True, slots=True)
class StatusText:
    """A snapshot as text at `now_ms`, in the width of the console that prints it.

    `stall` is the result of `snapshot.stalled`, `why` that of `why.why`. Of more than
    `tables_max` tables the rest is counted.
    """

    snapshot: Snapshot
    now_ms: int
    stall: Stall | None = None
    tables_max: int | None = None
    why: Why | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        tables = self.snapshot.tables
        names = sorted(tables, key=lambda n: (not tables[n].parked, -len(tables[n].pending), n))
        shown = names if self.tables_max is None else names[: self.tables_max]
        if self.why is not None:
            yield _reason(self.why)
        yield _headline(self.snapshot, self.now_ms)
        yield _second_line(self.snapshot, self.now_ms)
        if self.snapshot.waiting is not None and not self.snapshot.state.ended:
            age = age_text(self.now_ms - self.snapshot.waiting.since_ms)
            yield Text(f"waiting {age} for {one_line(self.snapshot.waiting.what)}", "yellow")
        if shown:
            yield Text()
            yield _table(self.snapshot, shown, self.now_ms, width=options.max_width)
        if len(shown) < len(names):
            yield _line(f"and {number_of(len(names) - len(shown), 'more table')}", "dim")
        landed = [*_landed(self.snapshot, shown)]
        if landed:
            yield Text()
            yield Group(*landed)
        remarks = [*_remarks(self.snapshot, self.now_ms, self.stall)]
        if remarks:
            yield Text()
            yield Group(*remarks)


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cell: Callable[[TableStatus, Snapshot, int], str]
    from_width: int = 0


@dataclass(frozen=True, slots=True)
class _Name:
    text: str

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        cells = cell_len(name_text(self.text))
        return Measurement(min(cells, NAME_CELLS_MIN), cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(name_text(self.text, options.max_width), no_wrap=True, overflow="crop")


def _headline(snapshot: Snapshot, now_ms: int) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(name_text(snapshot.pipeline), "bold")
    line.append("  ")
    line.append(snapshot.state.value, _STATE_STYLES.get(snapshot.state, ""))
    if snapshot.state.ended and not snapshot.updated_ms:
        line.append("  no run has written its status here")
    elif snapshot.state.ended:
        line.append(f" {age_text(now_ms - snapshot.updated_ms)} ago")
    else:
        up = ", up for" if snapshot.state is State.IDLE else " for"
        line.append(f"{up} {age_text(now_ms - snapshot.started_ms)}")
    if snapshot.generation:
        line.append(f"  epoch {snapshot.epoch}  generation {snapshot.generation}")
    if snapshot.owner:
        line.append(f"  {one_line(snapshot.owner)}", "dim")
    return line


def _reason(why: Why) -> Text:
    code = f"  {why.code}" if why.code else ""
    return Text(one_line(f"{why.text}{code}"), _GRADE_STYLES[why.grade])


def _second_line(snapshot: Snapshot, now_ms: int) -> Text:
    lag, suffix = snapshot.lag_records, ""
    if lag == 0 and snapshot.parked_lag_records != 0:  # all others are level
        lag, suffix = snapshot.parked_lag_records, " of parked tables"
    parts = [f"lag {number_of(lag, 'record')}{suffix}"]
    parts.append(f"pending {number_of(snapshot.pending, 'commit')}")
    if snapshot.recovering:
        parts.append(f"{count_text(snapshot.recovering)} of an earlier run to settle")
    if snapshot.reading is not None:
        read = number_of(snapshot.reading.records, "record")
        parts.append(f"reading epoch {snapshot.reading.epoch}, {read} so far")
    through = [table.valid_through_ms for table in snapshot.tables.values()]
    known = [at_ms for at_ms in through if at_ms is not None]
    if known and len(known) == len(through):
        parts.append(f"all valid through {age_text(now_ms - min(known))} ago")
    return _line("  ".join(parts))


def _table(snapshot: Snapshot, names: list[str], now_ms: int, *, width: int) -> Table:
    asked = any(each.table_rows is not None for each in snapshot.tables.values())
    unasked = "in table" if not asked else "rows/s" if snapshot.state.ended else ""
    columns = [each for each in _COLUMNS if width >= each.from_width and each.title != unasked]
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    grid.add_column("table")
    for column in columns:
        grid.add_column(column.title, justify="right", no_wrap=True)
    for name in names:
        table = snapshot.tables[name]
        cells = [column.cell(table, snapshot, now_ms) for column in columns]
        grid.add_row(_Name(name), *cells, style="red" if table.parked else "")
    return grid


def _landed(snapshot: Snapshot, names: list[str]) -> Iterator[Text]:
    """Return how far tables have landed, unless a run is active: it would change while read."""
    for name in names if snapshot.state.ended else ():
        offsets = snapshot.tables[name].offsets
        listed = [f"{at} to {next_:,}" for at, next_ in sorted(offsets.items())]
        left = len(listed) - OFFSETS_SHOWN_MAX
        more = f" and {number_of(left, 'more partition')}" if left > 0 else ""
        if listed:
            offsets_text = ", ".join(listed[:OFFSETS_SHOWN_MAX])
            yield _line(f"{name_text(name)} has landed {offsets_text}{more}", "dim")


def _remarks(snapshot: Snapshot, now_ms: int, stall: Stall | None) -> Iterator[Text]:
    if stall is not None:
        age = age_text(now_ms - stall.since_ms)
        if stall.tables or stall.reading is not None:
            what = ", ".join(map(name_text, stall.tables)) or f"epoch {stall.reading}"
            text = f"stalled: records read {age} ago are not committed in {what}"
            yield Text(text, "bold red")
        if stall.kafka:
            yield _line(f"stalled: no broker has answered for {age}", "bold red")
    yield from _remarks_on_tables(snapshot, now_ms)
    if snapshot.state is State.FAILED:
        yield Text(one_line(f"failed  {snapshot.code}  {snapshot.reason}"), "bold red")
    elif snapshot.state is State.STOPPED and snapshot.reason:
        yield _line(
            f"stopped: {snapshot.reason}; rows, files, sizes and last commits are those of that run"
        )
    elif snapshot.reason:
        yield _line(snapshot.reason)
    if snapshot.clean is False and snapshot.state is State.STOPPED:
        yield _line("the next run continues from where each table stands")


def _remarks_on_tables(snapshot: Snapshot, now_ms: int) -> Iterator[Text]:
    for name, table in sorted(snapshot.tables.items()):
        if table.parked is not None:
            age = age_text(now_ms - table.parked.since_ms)
            reason = table.parked.reason.removeprefix(f"{name}: ")
            text = f"{name_text(name)} parked {age} ago  {table.parked.code}  {reason}"
            yield Text(one_line(text), "red")
            if table.parked.hint:
                yield Text(one_line(f"  → {table.parked.hint}"), "red")
    yield from _pauses(snapshot, now_ms)
    yield from _purges(snapshot)
    yield from _changes(snapshot)
    yield from _health(snapshot, now_ms)
    for name, table in sorted(snapshot.tables.items()):
        if table.quarantined:
            yield Text(f"{name_text(name)} quarantined {_codes(table)}", "yellow")


def _changes(snapshot: Snapshot) -> Iterator[Text]:
    """Return what changes of keyed tables did in this run."""
    when = "in that run" if snapshot.state.ended else "since the start"
    for name, table in sorted(snapshot.tables.items()):
        counts = ", ".join(f"{count_text(n)} {what}" for what, n in table.changes.items() if n)
        again = table.rewritten_bytes
        files = f"; files of {size_text(again)} written again" if again else ""
        if counts:
            yield Text(f"{name_text(name)} {when}: {counts}{files}")


def _health(snapshot: Snapshot, now_ms: int) -> Iterator[Text]:
    """Return how the files of tables lie that need maintenance, and which are not looked at."""
    widened = snapshot.widened
    if widened is not None and not snapshot.state.ended:
        apart = seconds_text(widened.every_seconds)
        usual = seconds_text(widened.usual_seconds)
        yield _line(
            f"epochs are {apart} apart, usually {usual}: {name_text(widened.table)} had "
            f"{number_of(widened.excess_files, 'file')} too many",
            "bold yellow",
        )
    known = {name: table.health for name, table in snapshot.tables.items()}
    for name, health in worst_first(known).items():
        yield _line(f"{name_text(name)} has {health_text(health, now_ms)}", "yellow")
    for name, table in sorted(snapshot.tables.items()):
        if table.is_unseen:
            text = f"{name_text(name)} has {table.table_files:,} files, too many to look at here"
            yield _line(text, "yellow")


def _purges(snapshot: Snapshot) -> Iterator[Text]:
    for name, table in sorted(snapshot.tables.items()):
        if table.purged_through_ms is not None:
            until = (
                f"{datetime.fromtimestamp(table.purged_through_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
            )
            yield _line(f"{name_text(name)} purged of keys deleted until {until}", "dim")


def _pauses(snapshot: Snapshot, now_ms: int) -> Iterator[Text]:
    for name, table in sorted(snapshot.tables.items()):
        if table.paused_until_ms is not None and table.is_paused(now_ms):
            left = age_text(table.paused_until_ms - now_ms)
            until = f"{datetime.fromtimestamp(table.paused_until_ms / 1000, UTC):%H:%M:%S} UTC"
            text = f"{name_text(name)} paused until {until}, for {left} more: nothing is committed"
            yield _line(text, "yellow")


def _codes(table: TableStatus) -> str:
    most = sorted(table.quarantined.items(), key=lambda pair: (-pair[1], pair[0]))
    counts = [f"{count_text(count)} by {code}" for code, count in most[:CODES_SHOWN_MAX]]
    return ", ".join([*counts, *(["…"] if len(most) > CODES_SHOWN_MAX else [])])


def _line(text: str, style: str = "") -> Text:
    return Text(one_line(text), style, no_wrap=True, overflow="ellipsis")


def _rate(table: TableStatus, snapshot: Snapshot, now_ms: int) -> str:
    if snapshot.state.ended:
        return NOTHING
    return rate_text(rows_per_second(table, now_ms, started_ms=snapshot.started_ms))


def _lag(table: TableStatus, snapshot: Snapshot, _now_ms: int) -> str:
    """Return `?` for what is not known yet, and a dash for a quarantine table, which has no lag."""
    not_yet = table.parked is not None or snapshot.lag_records is None
    return NOT_KNOWN if table.lag_records is None and not_yet else count_text(table.lag_records)


def _last(table: TableStatus, _snapshot: Snapshot, now_ms: int) -> str:
    return _ago(table.last_commit.at_ms if table.last_commit else None, now_ms)


def _ago(at_ms: int | None, now_ms: int) -> str:
    return NOTHING if at_ms is None else f"{age_text(now_ms - at_ms)} ago"


_COLUMNS = (
    _Column("rows", lambda table, *_: count_text(table.rows)),
    _Column("in table", lambda table, *_: count_text(table.table_rows)),
    _Column("rows/s", _rate, USUAL_FROM),
    _Column("lag", _lag),
    _Column("pending", lambda table, *_: "parked" if table.parked else f"{len(table.pending):,}"),
    _Column("last commit", _last, USUAL_FROM),
    _Column("valid through", lambda table, _, now: _ago(table.valid_through_ms, now), WIDE_FROM),
    _Column("files", lambda table, *_: count_text(table.files), WIDE_FROM),
    _Column("size", lambda table, *_: size_text(table.size_bytes), WIDE_FROM),
    _Column("quarantined", lambda table, *_: count_text(table.quarantined_total), WIDE_FROM),
)
