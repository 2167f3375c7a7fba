"""`penstock seek`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from penstock.cli.specs import SPEC, Spec, load_spec
from penstock.cli.waiting import waits_told


def seek(
    table: str,
    /,
    *places: str,
    spec: Spec = SPEC,
    yes: str | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Put a table back to where its rows end: what is gone behind that lands again.

    The way out of a rollback (P455), and of rows that were deleted at the end of a table. The truth
    is read from the table's rows. Refused while a run is alive, and where a row would land twice.
    Without --yes and without a terminal it only shows what it would do.

    Example: penstock seek lake.bronze.orders --yes shop

    Parameters
    ----------
    table
        The table, by its name in the spec.
    places
        Only these partitions, and where to put them: topic:partition:offset, the next to read.
    spec
        The spec of the pipeline.
    yes
        The pipeline's name, to do it without being asked.
    json
        Print JSON.
    """
    from penstock.app.changing import Done
    from penstock.app.faults import from_environment
    from penstock.app.relanding import place_of, plan_seek
    from penstock.app.relanding import seek as seek_table
    from penstock.cli.confirming import change_by_hand

    pipeline = load_spec(spec)
    meant = [place_of(each) for each in places]

    def act() -> Done:
        moves = seek_table(pipeline, table, meant, faults=from_environment())
        data = [
            {"topic": m.at.topic, "partition": m.at.partition, "start": m.start, "stop": m.stop}
            for m in moves
        ]
        return Done({"moves": data}, (f"{table}: it goes on from there with  penstock run",))

    with waits_told(as_json=json) as observer:
        change = plan_seek(pipeline, table, meant, observer)
    return change_by_hand(change, act, yes, json=json)
