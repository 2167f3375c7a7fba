"""`penstock run`."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import INTERRUPTED, print_json, say, show_error
from penstock.cli.parameters import SPEC, Accept, Json, MetricsAt, PageAt, Spec, Takeover
from penstock.cli.shards import ANY, by_shard, named_shard
from penstock.cli.specs import load_spec, load_whole, named_again

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.app.any_shard import RunShard
    from penstock.app.standby import Turn
    from penstock.landing.coordinator import RunResult
    from penstock.landing.settings import Until
    from penstock.observe.log import LogLines
    from penstock.observe.progress import Draw, Progress
    from penstock.observe.status import StatusBoard
    from penstock.ports.runtime import Clock, Observer
    from penstock.spec.model import Pipeline

STDERR = 2
STOPPING = "Stopping after the current epoch. Press Ctrl-C again to quit now (nothing is lost)."
_SHOW_CURSOR = "\x1b[?25h"


@by_shard(alone=True)
def run(
    spec: Annotated[Spec, Parameter(help="The spec to run.")] = SPEC,
    *,
    once: bool = False,
    until_caught_up: bool = False,
    takeover: Takeover = False,
    standby: bool = False,
    accept: Accept = (),
    metrics: MetricsAt = None,
    page: PageAt = None,
    json: Annotated[
        Json, Parameter(help="Log JSON lines to stderr, and print the outcome as JSON.")
    ] = False,
) -> int:
    """Land records until you stop it.

    Ctrl-C or SIGTERM finishes the current epoch, brings all tables level and exits with 0. A second
    one exits at once with 130; nothing is lost. SIGQUIT prints all threads' stacks and goes on.

    Example: penstock run shop.yaml --until-caught-up

    Parameters
    ----------
    once
        Land one epoch, then stop.
    until_caught_up
        Stop when everything that was in the topics at the start has landed.
    standby
        Wait, ready, until the pipeline has no living owner; then run it. Start it so on each host:
        the pending store must be in PostgreSQL.
    """
    from penstock.app.assembly.crash_points import from_environment
    from penstock.app.run import exit_code
    from penstock.app.run import run as run_pipeline

    until: Until = "once" if once else "caught-up" if until_caught_up else "stopped"
    stop, voice = threading.Event(), Voice()
    served = Served(named_again(spec), metrics, page)
    start = partial(
        run_pipeline,
        stop=stop,
        until=until,
        takeover=takeover,
        standby=standby,
        accept=frozenset(accept),
        faults=from_environment(),
    )

    def land(pipeline: Pipeline, turn: Turn | None = None) -> RunResult:
        heard = _observers(pipeline, served, voice, as_json=json, standby=standby)
        with heard as (board, *others), _beside(pipeline, spec, board, others) as observer:
            return start(pipeline, observer=observer, health=board.health, turn=turn)

    with signals(stop, voice):
        if named_shard() == ANY:
            ended = _whichever(load_whole(spec), land, stop, takeover=takeover, as_json=json)
        else:
            ended = land(load_spec(spec))
    return _print_outcome(ended, exit_code(ended, until, asked_to_stop=stop.is_set()), as_json=json)


@contextmanager
def _beside(
    pipeline: Pipeline, spec: Path, board: StatusBoard, others: Sequence[Observer]
) -> Iterator[Observer]:
    """Maintain tables beside a run, heard by all observers; give them as one."""
    from penstock.app.assembly.crash_points import from_environment, observer_for
    from penstock.app.assembly.process import SystemClock
    from penstock.app.maintenance_process import maintained_beside
    from penstock.observe.fanout import Observers

    observer = Observers(board, *others, observer_for(from_environment()))
    with maintained_beside(pipeline, spec, observer, SystemClock(), board):
        yield observer


def _whichever(
    pipeline: Pipeline, land: RunShard, stop: threading.Event, *, takeover: bool, as_json: bool
) -> RunResult:
    """Land whichever shard is free. Raises InvalidError (P526)."""
    from penstock.app.any_shard import run_any
    from penstock.app.assembly.process import SystemClock
    from penstock.app.standby import waits_or_takes_over
    from penstock.observe.log import console_log, json_log, written_to

    if takeover:
        raise waits_or_takes_over("--shard any")
    log = (json_log if as_json else console_log)(written_to(sys.stderr), SystemClock())
    return run_any(pipeline, land, observer=log, stop=stop)


@dataclass(frozen=True, slots=True)
class Served:
    """What a run serves, at which addresses: metrics and the page; `spec` names its spec."""

    spec: str
    metrics: str | None = None
    page: str | None = None


@contextmanager
def _observers(
    pipeline: Pipeline, served: Served, voice: Voice, *, as_json: bool, standby: bool
) -> Iterator[tuple[StatusBoard, *tuple[Observer, ...]]]:
    from penstock.app.assembly.process import SystemClock
    from penstock.app.inspect.reported import reported, status_file
    from penstock.app.standby import WARMING
    from penstock.cli.page import page_of_run
    from penstock.core.leadership_events import StandbyChanged
    from penstock.core.outlook_events import PageServed
    from penstock.observe.fanout import Observers
    from penstock.observe.periodic import periodic
    from penstock.observe.reporting import Happenings
    from penstock.observe.status import StatusBoard, StatusFile
    from penstock.observe.watches import CHECK_EVERY_SECONDS, StallWatch

    clock = SystemClock()
    board = StatusBoard(pipeline.name, clock)
    if standby:  # from its first moment on: the status file is its owner's
        board(StandbyChanged(pipeline.name, "", WARMING))
    interval_ms = int(pipeline.commit.every_seconds * 1000)
    happenings = Happenings(clock)
    with ExitStack() as stack:
        log = stack.enter_context(_log(board, clock, interval_ms, voice, as_json=as_json))
        stack.enter_context(StatusFile(status_file(pipeline), board, clock, log.complain))
        stack.enter_context(reported(pipeline, board, happenings, clock, log.complain))
        watch = StallWatch(board, clock, Observers(log, happenings), interval_ms=interval_ms)
        stack.enter_context(
            periodic(watch.check, every_seconds=CHECK_EVERY_SECONDS, name="stall-watch")
        )
        if served.page is not None:
            page = page_of_run(
                served.page,
                pipeline,
                spec=served.spec,
                board=board,
                happenings=happenings,
                clock=clock,
            )
            log(PageServed(stack.enter_context(page)))
        if served.metrics is None:
            yield board, log, happenings
            return
        from penstock.core.version import __version__
        from penstock.observe.metrics import Metrics
        from penstock.observe.metrics_endpoint import serving
        from penstock.spec.routing.names import promised_seconds

        counted = Metrics(
            board,
            clock,
            version=__version__,
            interval_ms=interval_ms,
            target_file_bytes=pipeline.target_file_bytes,
            promised=partial(promised_seconds, pipeline),
        )
        stack.enter_context(serving(counted.registry, served.metrics, log))
        yield board, log, happenings, counted


def _print_outcome(ended: RunResult, code: int, *, as_json: bool) -> int:
    """Print how a run ended, and return its exit code."""
    if as_json:
        with suppress(OSError):  # the exit code says it too
            print_json({"reason": ended.reason, "exit_code": code, "parked": {**ended.parked}})
        return code
    for name, error in ended.parked.items():
        say(f"{name} is parked:")
        show_error(error, as_json=False)
    return code


class Voice:
    """Print what a signal does: in the display if there is one, else past Python's buffers.

    For signal handlers, which may have interrupted a write to the terminal.
    """

    def __init__(self) -> None:
        self.display: Progress | None = None

    def say(self, text: str) -> None:
        """Print a line; the process goes on."""
        if self.display is not None:
            self.display.note(text)
        else:
            _write_now(f"{text}\n".encode())

    def say_last(self, text: str) -> None:
        """Print a last line: below the display, with the cursor shown again."""
        below = "" if self.display is None else f"\r\n{_SHOW_CURSOR}"
        _write_now(f"{below}{text}\n".encode())


@contextmanager
def signals(stop: threading.Event, voice: Voice, *, says: str = STOPPING) -> Iterator[None]:
    """Ask to stop at the first SIGINT or SIGTERM, and say so; exit at once at the second.

    SIGQUIT prints the stacks of all threads on stderr, as Java does; the handler is in C, so it
    works while Python waits in a library.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            voice.say_last("Quit. The next run finishes what is prepared; nothing is lost.")
            os._exit(INTERRUPTED)
        stop.set()
        if says:
            voice.say(says)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    faulthandler.register(signal.SIGQUIT, file=STDERR, all_threads=True)
    try:
        yield
    finally:
        faulthandler.unregister(signal.SIGQUIT)
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_now(text: bytes) -> None:
    """Write to stderr past Python's buffer, which the handler may have interrupted."""
    with suppress(OSError):
        os.write(STDERR, text)


@contextmanager
def _log(
    board: StatusBoard, clock: Clock, interval_ms: int, voice: Voice, *, as_json: bool
) -> Iterator[LogLines]:
    from penstock.observe import log as logs
    from penstock.observe.periodic import periodic
    from penstock.observe.watches import CHECK_EVERY_SECONDS, WaitWatch

    if as_json or not logs.wants_display(sys.stderr, os.environ):
        log = (logs.json_log if as_json else logs.console_log)(logs.written_to(sys.stderr), clock)
        watch = WaitWatch(board, clock, log)
        with periodic(watch.check, every_seconds=CHECK_EVERY_SECONDS, name="wait-watch"):
            yield log
        return
    from penstock.observe.progress import of_tables

    with displayed(of_tables(board, clock, interval_ms=interval_ms), clock, voice) as shown:
        yield shown


@contextmanager
def displayed(draw: Draw, clock: Clock, voice: Voice) -> Iterator[LogLines]:
    """Show a live display on the terminal; the log that is given writes above it."""
    from penstock.observe import log as logs
    from penstock.observe.progress import Progress, above, console_on

    colour = logs.wants_colour(sys.stderr, os.environ)
    console = console_on(sys.stderr, colour=colour)
    with Progress(draw, console) as display:
        voice.display = display
        try:
            yield logs.console_log(above(console), clock, colour="always" if colour else "never")
        finally:
            voice.display = None
