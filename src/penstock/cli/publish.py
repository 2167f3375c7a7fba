"""`penstock publish`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import print_json, print_line, show_error
from penstock.cli.parameters import SPEC, AcceptFound, Json, Spec, Takeover
from penstock.cli.run import Voice, signals
from penstock.cli.specs import load_publications
from penstock.observe.formatting import number_of

if TYPE_CHECKING:
    from penstock.app.publish import PublishResult
    from penstock.observe.log import LogLines
    from penstock.publishing.publisher import Until


def publish(
    *names: str,
    spec: Spec = SPEC,
    once: bool = False,
    until_caught_up: bool = False,
    takeover: Takeover = False,
    accept: AcceptFound = (),
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
    """
    from penstock.app.assembly.crash_points import from_environment, observer_for
    from penstock.app.publish import exit_code
    from penstock.app.publish import publish as publish_all
    from penstock.observe.fanout import Observers

    loaded = load_publications(spec)
    until: Until = "once" if once else "caught-up" if until_caught_up else "stopped"
    stop = threading.Event()
    with signals(stop, Voice()):
        results = publish_all(
            loaded,
            names,
            observer=Observers(_log(as_json=json), observer_for(from_environment())),
            stop=stop,
            until=until,
            takeover=takeover,
            accept=accept,
        )
    _print_outcome(results, as_json=json)
    return exit_code(results)


def _log(*, as_json: bool) -> LogLines:
    from penstock.app.assembly.process import SystemClock
    from penstock.observe import log

    write, clock = log.written_to(sys.stderr), SystemClock()
    if as_json:
        return log.json_log(write, clock)
    coloured = log.wants_colour(sys.stderr, os.environ)
    return log.console_log(write, clock, colour="always" if coloured else "never")


def _print_outcome(results: Sequence[PublishResult], *, as_json: bool) -> None:
    if as_json:
        print_json({"publications": list(results)})
        return
    for each in results:
        rows, ended = number_of(each.rows, "record"), number_of(each.transactions, "transaction")
        print_line(f"{each.publication}: {rows} in {ended}; {each.reason}")
        if each.error is not None:
            show_error(each.error, as_json=False)
