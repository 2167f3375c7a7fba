"""`penstock run`."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from penstock.cli.output import INTERRUPTED, error_data, print_json, say, show_error
from penstock.cli.specs import SPEC, Spec, load_spec

if TYPE_CHECKING:
    from penstock.landing.coordinator import Ended
    from penstock.observe.log import LogLines
    from penstock.observe.progress import Progress
    from penstock.observe.status import StatusBoard
    from penstock.ports.running import Clock, Observer
    from penstock.spec.model import Pipeline

STDERR = 2
_SHOW_CURSOR = "\x1b[?25h"


def run(
    spec: Spec = SPEC,
    *,
    once: Annotated[bool, Parameter(negative=())] = False,
    until_caught_up: Annotated[bool, Parameter(negative=())] = False,
    takeover: Annotated[bool, Parameter(negative=())] = False,
    accept: tuple[Literal["gap", "topic", "rules"], ...] = (),
    metrics: Annotated[str | None, Parameter(env_var="PENSTOCK_METRICS")] = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Land records, until told to stop.

    Ctrl-C or SIGTERM finishes the open epoch, levels all tables and exits with 0; a second one
    leaves at once with 130, and nothing is lost. SIGQUIT tells where each thread stands, and
    changes nothing.

    Example: penstock run shop.yaml --until-caught-up

    Parameters
    ----------
    spec
        The spec to run.
    once
        Land one epoch, then stop.
    until_caught_up
        Stop when all that was in the topics at the start has landed.
    takeover
        Take the place of another owner, though it is alive; it exits with 3.
    accept
        A decision of yours that an exit with 4 asked for: gap, topic or rules.
    metrics
        Serve metrics for Prometheus at host:port, such as 127.0.0.1:9464.
    json
        Log JSON lines, and print the outcome as JSON.
    """
    from penstock.app.faults import from_environment, observer_for
    from penstock.app.run import RunOptions, exit_code
    from penstock.app.run import run as run_pipeline
    from penstock.observe.fanout import Observers

    pipeline = load_spec(spec)
    faults = from_environment()
    until = "once" if once else "caught-up" if until_caught_up else "stopped"
    options = RunOptions(until, takeover, frozenset(accept), faults)  # type: ignore[arg-type]
    stop, voice = threading.Event(), Voice()
    with signals(stop, voice), _listening(pipeline, metrics, voice, as_json=json) as listeners:
        observer = Observers(*listeners, observer_for(faults))
        ended = run_pipeline(pipeline, options, observer=observer, stop=stop)
    code = exit_code(ended, options.until, asked_to_stop=stop.is_set())
    _tell_outcome(ended, code, as_json=json)
    return code


@contextmanager
def _listening(
    pipeline: Pipeline, metrics: str | None, voice: Voice, *, as_json: bool
) -> Iterator[list[Observer]]:
    """Give those who listen to a run: board, log and, when asked for, metrics."""
    from penstock.app.process import SystemClock
    from penstock.app.status import status_file
    from penstock.observe.regularly import Regularly
    from penstock.observe.status import StatusBoard, StatusFile
    from penstock.observe.watches import LOOK_EVERY_SECONDS, StallWatch

    clock = SystemClock()
    board = StatusBoard(pipeline.name, clock)
    interval_ms = int(pipeline.commit.every_seconds * 1000)
    with ExitStack() as stack:
        log = stack.enter_context(_talk(board, clock, interval_ms, voice, as_json=as_json))
        stack.enter_context(StatusFile(status_file(pipeline), board, clock, log.complain))
        watch = StallWatch(board, clock, log, interval_ms=interval_ms)
        stack.enter_context(
            Regularly(watch.look, every_seconds=LOOK_EVERY_SECONDS, name="stall-watch")
        )
        if metrics is None:
            yield [board, log]
            return
        from penstock import __version__
        from penstock.core.events import MetricsServed
        from penstock.observe.metrics import Metrics, MetricsEndpoint, address, served_at

        counted = Metrics(
            board,
            clock,
            version=__version__,
            interval_ms=interval_ms,
            target_file_bytes=pipeline.target_file_bytes,
        )
        host, port = address(metrics)
        served = stack.enter_context(MetricsEndpoint(counted, host, port))
        log(MetricsServed(served_at(host, served.port)))
        yield [board, log, counted]


def _tell_outcome(ended: Ended, code: int, *, as_json: bool) -> None:
    if as_json:
        parked = {name: error_data(error) for name, error in ended.parked.items()}
        with suppress(OSError):  # who is gone may still learn it from the exit code
            print_json({"reason": ended.reason, "exit_code": code, "parked": parked})
        return
    for name, error in ended.parked.items():
        say(f"{name} is parked:")
        show_error(error, as_json=False)


class Voice:
    """Says what a signal does: past Python's buffers, or within the display that is up.

    For handlers of signals, which may have interrupted whoever writes to the terminal.
    """

    def __init__(self) -> None:
        self.display: Progress | None = None

    def say(self, text: str) -> None:
        """Say it, and go on."""
        if self.display is not None:
            self.display.note(text)
        else:
            _write_now(f"{text}\n".encode())

    def say_last(self, text: str) -> None:
        """Say it before the process ends: below the display, with the cursor shown again."""
        below = "" if self.display is None else f"\r\n{_SHOW_CURSOR}"
        _write_now(f"{below}{text}\n".encode())


@contextmanager
def signals(stop: threading.Event, voice: Voice) -> Iterator[None]:
    """Ask to stop at the first SIGINT or SIGTERM; leave at once at the second.

    SIGQUIT prints the stacks of all threads on stderr, as Java does: it is told in C, also while
    Python waits in a library.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            voice.say_last("leaving at once; what is prepared is finished by the next run")
            os._exit(INTERRUPTED)
        stop.set()
        voice.say("stopping: the open epoch is finished first; once more to leave at once")

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    faulthandler.register(signal.SIGQUIT, file=STDERR, all_threads=True)
    try:
        yield
    finally:
        faulthandler.unregister(signal.SIGQUIT)
        for number, handler in before.items():
            signal.signal(number, handler)


def _write_now(text: bytes) -> None:
    """Say it on stderr past Python's buffer, which the handler may have interrupted."""
    with suppress(OSError):
        os.write(STDERR, text)


@contextmanager
def _talk(
    board: StatusBoard, clock: Clock, interval_ms: int, voice: Voice, *, as_json: bool
) -> Iterator[LogLines]:
    """Log to stderr: JSON lines, lines for people, or those above a live display."""
    from penstock.observe.log import console_log, json_log, wants_display, written_to

    if not as_json and wants_display(sys.stderr, os.environ):
        with _displayed(board, clock, interval_ms, voice) as log:
            yield log
        return
    log = (json_log if as_json else console_log)(written_to(sys.stderr), clock)
    from penstock.observe.regularly import Regularly
    from penstock.observe.watches import LOOK_EVERY_SECONDS, WaitWatch

    watch = WaitWatch(board, clock, log)
    with Regularly(watch.look, every_seconds=LOOK_EVERY_SECONDS, name="wait-watch"):
        yield log


@contextmanager
def _displayed(
    board: StatusBoard, clock: Clock, interval_ms: int, voice: Voice
) -> Iterator[LogLines]:
    """Show a live display on stderr, and log lines above it."""
    from penstock.observe.log import console_log, wants_colour
    from penstock.observe.progress import Progress, above, console_on

    colour = wants_colour(sys.stderr, os.environ)
    console = console_on(sys.stderr, colour=colour)

    with Progress(board, clock, console, interval_ms=interval_ms) as display:
        voice.display = display
        try:
            yield console_log(above(console), clock, colour="always" if colour else "never")
        finally:
            voice.display = None
