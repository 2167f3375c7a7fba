"""Maintenance beside a run: `penstock maintain` in a process of its own, again and again.

A process takes neither the run's interpreter nor its memory, and may die at any point: whatever it
was about yields to landing, and the next one finds the rest (docs/design/0309). Without maintenance
it only looks how tables lie (docs/design/0323).

Invariants:
- at most one runs, at the lowest priority and with one thread of Arrow's; where memory is short,
  the kernel ends it before the run;
- what lands while it is looked at tables is counted with the next look;
- it ends with the run, and no end of it ends the run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.core.events import Event
from penstock.core.maintenance import MaintenanceAct, acts_of
from penstock.core.maintenance_events import (
    LayoutMeasured,
    MaintenanceFailed,
    RowsDoubled,
    TableMaintained,
)
from penstock.core.shards import Shard
from penstock.observe.periodic import periodic
from penstock.observe.status import StatusBoard
from penstock.ports.runtime import Clock, Observer
from penstock.spec.model import Pipeline

EventsIn = Callable[[Mapping[str, Any]], Iterable[Event]]
"""Reads the events in what a command said."""

LOOK_SECONDS = 3_600.0
LOOK_SECONDS_HELD = 300.0
LOOK_SECONDS_LEAST = 60.0
_LOWEST = 19
_PROCESSES = Path("/proc")
_ENDED_FIRST = "1000"
"""The kernel ends such a process first where memory is short, and not the run."""
_ENDS_WITHIN_SECONDS = 10.0
_ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@contextmanager
def maintained_beside(
    pipeline: Pipeline, spec: Path, observer: Observer, clock: Clock, board: StatusBoard
) -> Iterator[None]:
    """Maintain the tables of a pipeline inside a `with` block, as often as its spec says, and look
    how they lie: a minute after the start, then hourly, more often while one is held.

    While this process only stands by, its owner does both.
    """
    settings, shard = pipeline.maintain, Shard.named(pipeline.name, pipeline.shards)
    acts = acts_of(shard.number, settings.only)
    of = ("--shard", str(shard.number)) if shard.count > 1 else ()
    only = [word for act in acts for word in ("--only", act)]
    process = MaintenanceProcess(observer)
    maintain = _command(spec, "--yes", pipeline.name, *only, *of)
    looks = Looks(process, _command(spec, "--dry-run", "--only", "rearrange", *of), clock, board)

    def maintain_in_turn() -> None:
        if not board.is_standing_by:
            process.run(maintain, _done)

    with ExitStack() as stack:
        every_seconds = settings.every_seconds
        if every_seconds is not None and (acts or shard.number == 0):
            acting = periodic(maintain_in_turn, every_seconds=every_seconds, name="maintenance")
            stack.enter_context(acting)
        stack.enter_context(
            periodic(looks.look_if_due, every_seconds=LOOK_SECONDS_LEAST, name="looks")
        )
        stack.callback(process.close)
        yield


@dataclass(slots=True)
class Looks:
    """Looks how tables lie once an hour, and more often while one is held for it."""

    process: MaintenanceProcess
    command: Sequence[str]
    clock: Clock
    board: StatusBoard
    _looked_at: float | None = None

    def look_if_due(self) -> None:
        """Look, where the last look is long ago; the first time at once. A stand-by does not, and
        knows nothing when its turn begins.
        """
        if self.board.is_standing_by:
            self._looked_at = None
            return
        now = self.clock.monotonic()
        pause_seconds = LOOK_SECONDS_HELD if self.board.is_held else LOOK_SECONDS
        if self._looked_at is None or now >= self._looked_at + pause_seconds:
            self._looked_at = now
            self.process.run(self.command, _seen)


class MaintenanceProcess:
    """Runs commands, one after the other, and reports what they say; `close` ends it for good."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._turn = threading.Lock()
        self._lock = threading.Lock()
        self._running: subprocess.Popen[str] | None = None
        self._closed = threading.Event()

    def run(self, command: Sequence[str], events_in: EventsIn) -> None:
        """Run a command to its end, once no other one runs, and report it."""
        with self._turn:
            self._run(command, events_in)

    def _run(self, command: Sequence[str], events_in: EventsIn) -> None:
        with self._lock:
            if self._closed.is_set():
                return
            try:
                process = self._running = _started(command)
            except OSError as error:
                self._observer(MaintenanceFailed("", f"no process could be started: {error}"))
                return
        said, complained = process.communicate()
        with self._lock:
            self._running = None
            if self._closed.is_set():
                return
        for event in _events(said, complained, process.returncode, events_in):
            self._observer(event)

    def close(self) -> None:
        """End the command, if it runs, and start none again."""
        with self._lock:
            self._closed.set()
            process = self._running
        if process is not None:
            process.terminate()
            try:
                process.wait(_ENDS_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a process of its own session, so that Ctrl-C is the run's alone."""
    process = subprocess.Popen(  # noqa: S603 - this interpreter, and Penstock's module
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**_ONE_THREAD, **os.environ},
        start_new_session=True,
    )
    with suppress(OSError):  # it has ended already
        os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST)
        if _PROCESSES.is_dir():  # Linux
            (_PROCESSES / str(process.pid) / "oom_score_adj").write_text(_ENDED_FIRST)
    return process


def _command(spec: Path, *words: str) -> Sequence[str]:
    penstock = (sys.executable, "-P", "-m", "penstock")
    return [*penstock, "maintain", "--spec", str(spec), "--json", *words]


def _events(said: str, complained: str, exit_code: int, events_in: EventsIn) -> Iterator[Event]:
    """Read what a command said, or why it said nothing."""
    try:
        data: Mapping[str, Any] = json.loads(said)
    except ValueError:
        lines = complained.strip().splitlines() or [f"exit code {exit_code}"]
        yield MaintenanceFailed("", lines[-1][:300])
        return
    if error := data.get("error"):
        yield MaintenanceFailed("", _reason(error))
        return
    yield from events_in(data)


def _seen(data: Mapping[str, Any]) -> Iterator[LayoutMeasured | RowsDoubled]:
    """Read how tables lie; one that cannot be looked at is not known."""
    for table in data["tables"]:
        if (health := table["health"]) is not None:
            last = health.pop("maintained") or {}
            yield LayoutMeasured(
                table["table"],
                **health,
                maintained_ms=last.get("at_ms"),
                maintained_by=last.get("by", ""),
            )
            if health["doubled"]:
                yield RowsDoubled(table["table"], health["doubled"])


def _done(data: Mapping[str, Any]) -> Iterator[TableMaintained | MaintenanceFailed]:
    """Read what was done to each table, or could not be."""
    for table in data["tables"]:
        for act, error in {"": table["error"], **table["left_alone"]}.items():
            if error is not None and (act != MaintenanceAct.REARRANGE or table["groups"]):
                yield MaintenanceFailed(table["table"], _reason(error))
    for table in data["done"] or ():
        for error in table["errors"]:
            yield MaintenanceFailed(table["table"], _reason(error))
        done, swept = table["done"], table["swept"]
        found = TableMaintained(
            table["table"],
            done["files_before"],
            done["files_after"],
            table["expired"],
            swept["deleted"],
            swept["noted"],
            done["written_bytes"],
            done["given_up"],
        )
        acts = (found.files_before, found.expired, found.deleted, found.noted, found.given_up)
        if any(acts):
            yield found


def _reason(error: Mapping[str, Any]) -> str:
    return f"{error['code']}  {error['message']}"
