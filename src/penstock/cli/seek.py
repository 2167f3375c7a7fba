"""`penstock seek`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.confirming import Done, confirm_and_apply
from penstock.cli.parameters import SPEC, Json, Spec, Yes
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_publications, load_spec, parts_of

if TYPE_CHECKING:
    from penstock.app.repair.confirmed_change import Change
    from penstock.ports.runtime import Observer


@by_shard(changes=True)
def seek(
    name: Annotated[str, Parameter(help="The table or publication, by its name in the spec.")],
    /,
    *places: str,
    spec: Spec = SPEC,
    reapply: bool = False,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Move a table's progress back to where its rows end; the records after that land again.

    Use it after a rollback (P455), or when rows at the end of a table were deleted. What has landed
    is read from the table's rows. Refused while a run is alive, and where a row would land twice.
    A keyed table may go back further, and has its changes applied again (--reapply). With neither
    --yes nor a terminal it only shows the change.

    A publication goes on from the places that you name, forward or back: what is between is not
    published, or again. Use it also where its offsets topic is damaged or gone (P807, P810, P811).

    Example: penstock seek lake.bronze.orders --yes shop

    Parameters
    ----------
    places
        Only these partitions, as topic:partition:offset; the offset is the next to read. For a
        publication also  earliest  or  latest.
    reapply
        Keyed tables: apply all changes from these places on again, by the rules of now. Rows go
        back to what they were until all have been.
    """
    if "." in name or not parts_of(spec).publishes:  # publications have no dot
        return _seek_table(spec, name, places, yes, json=json, reapply=reapply)
    return _seek_publication(spec, name, places, yes, json=json)


def _seek_publication(
    spec: Path, name: str, places: Sequence[str], yes: str | None, *, json: bool
) -> int:
    from penstock.app.repair import publication_seek as repair

    loaded = load_publications(spec)

    def apply() -> Done:
        moves = repair.seek(loaded, name, places)
        data = [{"of": each.of, "start": each.start, "stop": each.stop} for each in moves]
        return {"moves": data}, [f"{name}: to go on from there:  penstock publish"]

    return confirm_and_apply(
        lambda _: repair.plan_seek(loaded, name, places), apply, yes, json=json
    )


def _seek_table(
    spec: Path, table: str, places: Sequence[str], yes: str | None, *, json: bool, reapply: bool
) -> int:
    from penstock.app.repair import replay_and_seek as repair

    pipeline = load_spec(spec)
    meant = [repair.place_of(each) for each in places]

    def apply() -> Done:
        moves = repair.seek(pipeline, table, meant, reapply=reapply)
        data = [
            {"topic": m.at.topic, "partition": m.at.partition, "start": m.start, "stop": m.stop}
            for m in moves
        ]
        return {"moves": data}, [f"{table}: to land the records again:  penstock run"]

    def plan(observer: Observer) -> Change:
        return repair.plan_seek(pipeline, table, meant, reapply=reapply, observer=observer)

    return confirm_and_apply(plan, apply, yes, json=json)
