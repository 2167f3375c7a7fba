"""`penstock publish`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import print_json, print_line, show_error
from penstock.cli.parameters import SPEC, AcceptFound, Json, MetricsAt, Spec, Takeover
from penstock.cli.run import Voice, displayed, signals
from penstock.cli.specs import load_publications
from penstock.observe.formatting import number_of

if TYPE_CHECKING:
    from penstock.app.publish import PublishResult
    from penstock.observe.last_stops import LastStops
    from penstock.ports.runtime import Observer
    from penstock.publishing.publisher import Until
    from penstock.spec.publications import Publications


def publish(
    *names: str,
    spec: Spec = SPEC,
    once: bool = False,
    until_caught_up: bool = False,
    takeover: Takeover = False,
    standby: bool = False,
    accept: AcceptFound = (),
    metrics: MetricsAt = None,
    json: Annotated[
        Json, Parameter(help="Log JSON lines to stderr, and print the outcome as JSON.")
    ] = False,
) -> int:
    """Publish sources into Kafka, exactly once, until you stop it.

    Records and the positions behind them are in one transaction of Kafka. Ctrl-C or SIGTERM
    finishes the current transaction and exits with 0; a second one exits at once with 130: the next
    run aborts what is open, and nothing is lost.

    Example: penstock publish shop.yaml --until-caught-up

    Parameters
    ----------
    names
        The publications, by their names in the spec; all without one.
    once
        End one transaction of each, then stop.
    until_caught_up
        Stop when everything that was in the sources at the start has been published.
    standby
        Wait, ready, until a publication has no living owner; then publish it. Start it so on each
        host: the pending store must be in PostgreSQL.
    """
    from penstock.app.assembly.crash_points import from_environment, observer_for
    from penstock.app.publish import exit_code, rules_named
    from penstock.app.publish import publish as publish_all
    from penstock.observe.fanout import Observers

    loaded = load_publications(spec)
    until: Until = "once" if once else "caught-up" if until_caught_up else "stopped"
    stop = threading.Event()
    voice = Voice()
    rules = {rule.name: rule.into for rule in rules_named(loaded, names)}
    with (
        signals(stop, voice),
        _last_stops(loaded) as stops,
        _observers(rules, metrics, voice, as_json=json) as listeners,
    ):
        results = publish_all(
            loaded,
            names,
            observer=Observers(*listeners, stops, observer_for(from_environment())),
            stop=stop,
            until=until,
            takeover=takeover,
            standby=standby,
            accept=accept,
        )
    _print_outcome(results, as_json=json)
    return exit_code(results)


@contextmanager
def _last_stops(spec: Publications) -> Iterator[LastStops]:
    """Keep why publications stop, here and beside the pending store."""
    from penstock.app.assembly.assembly import open_reports
    from penstock.app.assembly.process import SystemClock
    from penstock.app.assembly.state_folder import state_folder
    from penstock.observe.last_stops import LastStops

    stops = LastStops(state_folder(spec), spec.name, SystemClock(), open_reports(spec))
    with closing(stops):
        yield stops


@contextmanager
def _observers(
    rules: Mapping[str, str], metrics: str | None, voice: Voice, *, as_json: bool
) -> Iterator[list[Observer]]:
    from penstock.app.assembly.process import SystemClock
    from penstock.observe import log as logs

    clock = SystemClock()
    found: list[Observer] = []
    with ExitStack() as stack:
        if as_json or not logs.wants_display(sys.stderr, os.environ):
            make = logs.json_log if as_json else logs.console_log
            log = make(logs.written_to(sys.stderr), clock)
        else:
            from penstock.observe.publication_board import PublicationBoard

            board = PublicationBoard(rules, clock)
            log = stack.enter_context(displayed(board.draw, clock, voice))
            found.append(board)
        found.append(log)
        if metrics is not None:
            from penstock.core.version import __version__
            from penstock.observe.metrics_endpoint import serving
            from penstock.observe.publication_metrics import PublicationMetrics

            counted = PublicationMetrics(clock, version=__version__)
            stack.enter_context(serving(counted.registry, metrics, log))
            found.append(counted)
        yield found


def _print_outcome(results: Sequence[PublishResult], *, as_json: bool) -> None:
    if as_json:
        print_json({"publications": list(results)})
        return
    for each in results:
        rows, ended = number_of(each.rows, "record"), number_of(each.transactions, "transaction")
        rejected = f", {number_of(each.rejected, 'reject')}" if each.rejected else ""
        shown = each.error is not None and each.error.message == each.reason
        reason = f"stopped by {each.error.code}" if shown and each.error else each.reason
        print_line(f"{each.publication}: {rows}{rejected} in {ended}; {reason}")
        if each.error is not None:
            show_error(each.error, as_json=False)
