"""`penstock seek`."""

from __future__ import annotations

from functools import partial

from penstock.cli.confirming import Done, confirm_and_apply
from penstock.cli.parameters import SPEC, Json, Spec, Table, Yes
from penstock.cli.specs import load_spec


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
    from penstock.app.repair import replay_and_seek as repair

    pipeline = load_spec(spec)
    meant = [repair.place_of(each) for each in places]

    def apply() -> Done:
        moves = repair.seek(pipeline, table, meant)
        data = [
            {"topic": m.at.topic, "partition": m.at.partition, "start": m.start, "stop": m.stop}
            for m in moves
        ]
        return {"moves": data}, [f"{table}: to land the records again:  penstock run"]

    plan = partial(repair.plan_seek, pipeline, table, meant)
    return confirm_and_apply(plan, apply, yes, json=json)
