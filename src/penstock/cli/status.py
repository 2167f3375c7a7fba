"""`penstock status`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.output import print_json
from penstock.cli.run import SPEC


def status(spec: Path = SPEC, *, json: Annotated[bool, Parameter(negative=())] = False) -> int:
    """Show how each table stands: freshness, lag, last commit, pending, parked with its reason.

    What the tables say is the truth; totals and rates are those of the last run. Nothing is
    written.

    Example: penstock status shop.yaml --json

    Parameters
    ----------
    spec
        The spec of the pipeline.
    json
        Print JSON.
    """
    from msgspec import to_builtins
    from rich.console import Console

    from penstock.app.process import SystemClock
    from penstock.app.status import status as read
    from penstock.cli.specs import load_spec
    from penstock.observe.render import render_status
    from penstock.observe.snapshot import stalled

    pipeline, clock = load_spec(spec), SystemClock()
    found = read(pipeline, clock)
    if json:
        print_json({"running": found.running, **to_builtins(found.snapshot)})
        return 0
    now_ms = clock.now_ms()
    interval_ms = int(pipeline.commit.every_seconds * 1000)
    stall = stalled(found.snapshot, now_ms, interval_ms) if found.running else None
    Console().print(render_status(found.snapshot, now_ms, stall=stall))
    return 0
