"""`penstock seek`."""

from __future__ import annotations

from penstock.cli.parameters import SPEC, Json, Spec, Table, Yes
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown


def seek(
    table: Table,
    /,
    *places: str,
    spec: Spec = SPEC,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Move a table's progress back to where its rows end; the records after that land again.

    Use it after a rollback (P455), or when rows at the end of a table were deleted. What has landed
    is read from the table's rows. Refused while a run is alive, and where a row would land twice.
    With neither --yes nor a terminal it only shows the change.

    Example: penstock seek lake.bronze.orders --yes shop

    Parameters
    ----------
    places
        Only these partitions, as topic:partition:offset; the offset is the next to read.
    """
    from penstock.app.assembly.crash_points import from_environment
    from penstock.app.repair.confirmed_change import Done
    from penstock.app.repair.replay_and_seek import place_of, plan_seek
    from penstock.app.repair.replay_and_seek import seek as seek_table
    from penstock.cli.confirming import confirm_and_apply

    pipeline = load_spec(spec)
    meant = [place_of(each) for each in places]

    def apply() -> Done:
        moves = seek_table(pipeline, table, meant, faults=from_environment())
        data = [
            {"topic": m.at.topic, "partition": m.at.partition, "start": m.start, "stop": m.stop}
            for m in moves
        ]
        return Done({"moves": data}, (f"{table}: to land the records again:  penstock run",))

    with waits_shown(as_json=json) as observer:
        change = plan_seek(pipeline, table, meant, observer)
    return confirm_and_apply(change, apply, yes, json=json)
