"""Why nothing moves, in one sentence, or that everything flows: for `status` and for the page.

Invariants:
- pure: the same knowledge and time give the same sentence; there is always one;
- the first cause that applies is named, the gravest first: what stands, then what holds up a part,
  then what passes by itself;
- it names no more than one table, and counts the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.observe.formatting import (
    age_text,
    name_text,
    number_of,
    one_line,
    seconds_text,
)
from penstock.observe.snapshot import (
    SILENT_FOR_MS,
    Snapshot,
    Stall,
    State,
    TableStatus,
    rows_per_second,
)

FLOWS = "Everything flows"
RUN = "penstock run"


class Grade(StrEnum):
    """How grave it is: all moves, a part is held up, or nothing moves."""

    FLOWS = "flows"
    HELD = "held"
    STANDS = "stands"


@dataclass(frozen=True, slots=True)
class Why:
    """One sentence on a pipeline, with the code of its cause and what to do; "" where none is."""

    grade: Grade
    text: str
    code: str = ""
    hint: str = ""


NOTHING_KNOWN = Why(Grade.HELD, "It is being looked at")


def why(
    snapshot: Snapshot,
    now_ms: int,
    *,
    running: bool,
    tells: bool = True,
    stall: Stall | None = None,
    holdups: Sequence[str] = (),
) -> Why:
    """Say why a pipeline does not move, or that it does.

    `running` says whether a process holds it, `tells` whether that process says how it is.
    `stall` is the result of `snapshot.stalled`; `holdups` are texts of what holds up reading.
    """
    causes = (
        _not_running(snapshot, now_ms) if not running else None,
        None if tells else Why(Grade.HELD, "It runs, and says nothing of itself here"),
        _in_turn(snapshot),
        _of_kafka(snapshot, now_ms),
        _of_tables(snapshot, now_ms, stall),
        _of_reading(snapshot, now_ms, stall),
        *(Why(Grade.HELD, one_line(each)) for each in holdups),
        _of_start(snapshot, now_ms),
        _of_pauses(snapshot, now_ms),
        _of_width(snapshot),
    )
    return next((each for each in causes if each is not None), _flow(snapshot, now_ms))


def _not_running(snapshot: Snapshot, now_ms: int) -> Why:
    if not snapshot.updated_ms:
        return Why(Grade.STANDS, "Nobody runs it, and no run has said anything here", "", RUN)
    ago = age_text(now_ms - snapshot.updated_ms)
    if snapshot.state is State.FAILED:
        text = f"The last run failed {ago} ago: {one_line(snapshot.reason)}"
        return Why(Grade.STANDS, text, snapshot.code, f"penstock explain {snapshot.code}")
    if snapshot.reason:
        return Why(Grade.STANDS, f"It was stopped {ago} ago: {one_line(snapshot.reason)}", "", RUN)
    return Why(Grade.STANDS, f"Nobody runs it: the last run was heard {ago} ago", "", RUN)


def _in_turn(snapshot: Snapshot) -> Why | None:
    if snapshot.state is State.STANDBY:
        return Why(Grade.FLOWS, f"It stands by, {one_line(snapshot.reason) or 'ready'}")
    if snapshot.state is State.STOPPING:
        reason = f": {one_line(snapshot.reason)}" if snapshot.reason else ""
        return Why(Grade.HELD, f"It stops after the current epoch{reason}")
    return None


def _of_kafka(snapshot: Snapshot, now_ms: int) -> Why | None:
    silence = snapshot.silence
    if silence is None or now_ms - silence.reported_ms >= SILENT_FOR_MS:
        return None
    return Why(Grade.STANDS, f"No broker has answered for {age_text(now_ms - silence.since_ms)}")


def _of_tables(snapshot: Snapshot, now_ms: int, stall: Stall | None) -> Why | None:
    """Name the first table that is parked, or whose records are read and not committed."""
    parked = [
        (each.parked.since_ms, name, each.parked)
        for name, each in sorted(snapshot.tables.items())
        if each.parked is not None and not each.is_paused(now_ms)
    ]
    waiting = {name for _, name, _ in parked} | {*(stall.tables if stall is not None else ())}
    all_stand = len(waiting) >= len(snapshot.tables)
    grade = Grade.STANDS if all_stand else Grade.HELD
    rest = _others(len(snapshot.tables) - len(waiting), len(waiting) - 1)
    if parked:
        since_ms, name, reason = min(parked, key=lambda each: each[:2])
        said = one_line(reason.reason.removeprefix(f"{name}: "))
        text = f"{name_text(name)} has been parked for {age_text(now_ms - since_ms)}: {said}{rest}"
        return Why(grade, text, reason.code, reason.hint)
    if stall is not None and stall.tables:
        age = age_text(now_ms - stall.since_ms)
        text = f"Records read {age} ago are not committed in {name_text(stall.tables[0])}{rest}"
        return Why(grade, text)
    return None


def _others(flow: int, wait: int) -> str:
    parts = [f"{number_of(wait, 'more table')} {'wait' if wait > 1 else 'waits'}"] if wait else []
    parts += [f"{number_of(flow, 'other')} {'flow' if flow > 1 else 'flows'}"] if flow else []
    return f"; {', '.join(parts)}" if parts else ""


def _of_reading(snapshot: Snapshot, now_ms: int, stall: Stall | None) -> Why | None:
    if stall is None or stall.reading is None:
        return None
    age = age_text(now_ms - stall.since_ms)
    wait = f": it waits for {one_line(snapshot.waiting.what)}" if snapshot.waiting else ""
    return Why(Grade.STANDS, f"Epoch {stall.reading} has been read for {age}{wait}")


def _of_start(snapshot: Snapshot, now_ms: int) -> Why | None:
    if snapshot.waiting is not None:
        age = age_text(now_ms - snapshot.waiting.since_ms)
        verb = "It starts, and has waited" if snapshot.state is State.STARTING else "It has waited"
        return Why(Grade.HELD, f"{verb} {age} for {one_line(snapshot.waiting.what)}")
    if snapshot.recovering:
        return Why(
            Grade.HELD, f"It settles {number_of(snapshot.recovering, 'commit')} of an earlier run"
        )
    return Why(Grade.HELD, "It starts") if snapshot.state is State.STARTING else None


def _of_pauses(snapshot: Snapshot, now_ms: int) -> Why | None:
    paused = [*_paused(snapshot, now_ms)]
    if not paused:
        return None
    until_ms, name = min(paused)
    rest = _others(len(snapshot.tables) - len(paused), 0)
    also = f", and {number_of(len(paused) - 1, 'more table')}" if len(paused) > 1 else ""
    text = f"{name_text(name)}{also} paused for {age_text(until_ms - now_ms)} more{rest}"
    return Why(Grade.HELD, text, "", "penstock resume TABLE")


def _paused(snapshot: Snapshot, now_ms: int) -> Iterator[tuple[int, str]]:
    for name, table in snapshot.tables.items():
        if table.paused_until_ms is not None and table.is_paused(now_ms):
            yield table.paused_until_ms, name


def _of_width(snapshot: Snapshot) -> Why | None:
    widened = snapshot.widened
    if widened is None:
        return None
    apart, usual = seconds_text(widened.every_seconds), seconds_text(widened.usual_seconds)
    text = (
        f"Epochs are {apart} apart instead of {usual}: {name_text(widened.table)} has "
        f"{number_of(widened.excess_files, 'file')} too many"
    )
    return Why(Grade.HELD, text, "", "penstock maintain")


def _flow(snapshot: Snapshot, now_ms: int) -> Why:
    lag = snapshot.lag_records
    if not lag:
        text = FLOWS if lag is None else f"{FLOWS}: all that is in Kafka is in the tables"
        return Why(Grade.FLOWS, text)
    text = f"{FLOWS}: {number_of(lag, 'record')} behind"
    rate = max(
        (_rate(each, now_ms, snapshot.started_ms) for each in snapshot.tables.values()), default=0
    )
    if snapshot.state is State.CATCHING_UP and rate > 0:
        text += f", about {age_text(int(lag / rate * 1000))} of work"
    return Why(Grade.FLOWS, text)


def _rate(table: TableStatus, now_ms: int, started_ms: int) -> float:
    return rows_per_second(table, now_ms, started_ms=started_ms)
