"""`penstock replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.output import print_json, say
from penstock.cli.run import SPEC


def replay(
    table: str,
    /,
    *places: str,
    spec: Path = SPEC,
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
    from penstock.app.faults import from_environment
    from penstock.app.relanding import place_of, plan_replay
    from penstock.app.relanding import replay as replay_table
    from penstock.cli.confirming import confirmed, told
    from penstock.cli.specs import load_spec

    pipeline = load_spec(spec)
    meant = [place_of(each) for each in places]
    change = plan_replay(pipeline, table, meant)
    if not confirmed(change, yes):
        if json:
            print_json({"done": False, **told(change)})
        return 0
    faults = from_environment()
    done = replay_table(pipeline, table, meant, new_rows=new_rows, faults=faults)
    filtered = dict(done.filtered)
    if json:
        counts = {"removed": done.removed, "landed": done.landed, "filtered": filtered}
        print_json({"done": True, **told(change), **counts})
        return 0
    left = "".join(f", {count:,} {why}" for why, count in filtered.items())
    say(f"{table}: {done.removed:,} rows taken away, {done.landed:,} landed{left}")
    return 0
