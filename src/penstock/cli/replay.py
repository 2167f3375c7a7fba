"""`penstock replay`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.specs import SPEC, Spec, load_spec
from penstock.cli.waiting import waits_told


def replay(
    table: str,
    /,
    *places: str,
    spec: Spec = SPEC,
    yes: str | None = None,
    new_rows: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Land a stretch again: the files that hold it are replaced by new ones, in one commit.

    Refused while a run is alive, and where a file holds other rows as well: it is named, with the
    stretch that holds it whole. Without --yes and without a terminal it only shows what it
    would do.

    Example: penstock replay lake.bronze.orders shop.orders:0:100-200 --yes shop

    Parameters
    ----------
    table
        The table, by its name in the spec.
    places
        What to land again: topic, topic:partition or topic:partition:start-end, end not included.
    spec
        The spec of the pipeline.
    yes
        The pipeline's name, to do it without being asked.
    new_rows
        Land records as well that have no row now: left out by a former rule, or deleted since.
    json
        Print JSON.
    """
    from penstock.app.changing import Done
    from penstock.app.faults import from_environment
    from penstock.app.process import SystemClock
    from penstock.app.relanding import place_of, plan_replay
    from penstock.app.relanding import replay as replay_table
    from penstock.cli.confirming import change_by_hand
    from penstock.observe.figures import number_of
    from penstock.observe.log import console_log, json_log, written_to

    pipeline = load_spec(spec)
    meant = [place_of(each) for each in places]

    def act() -> Done:
        log = (json_log if json else console_log)(written_to(sys.stderr), SystemClock())
        done = replay_table(
            pipeline, table, meant, new_rows=new_rows, observer=log, faults=from_environment()
        )
        left = "".join(f", {count:,} {why}" for why, count in done.filtered.items())
        removed = number_of(done.removed, "row")
        line = f"{table}: {removed} taken away, {done.landed:,} landed{left}"
        return Done({**asdict(done), "filtered": dict(done.filtered)}, (line,))

    with waits_told(as_json=json) as observer:
        change = plan_replay(pipeline, table, meant, observer)
    return change_by_hand(change, act, yes, json=json)
