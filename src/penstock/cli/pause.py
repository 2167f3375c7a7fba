"""`penstock pause` and `penstock resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from penstock.cli.output import pasteable, print_json, print_line, say
from penstock.cli.parameters import SPEC, Json, Spec, Table
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_spec

if TYPE_CHECKING:
    from penstock.app.pause import TablePause


@by_shard()
def pause(
    table: str | None = None,
    /,
    *,
    spec: Spec = SPEC,
    length: Annotated[str, Parameter(name="--for")] = "10m",
    json: Json = False,
) -> int:
    """Commit nothing to a table for a while, so that another writer has it to itself.

    Runs go on reading and preparing; what they prepared lands after the pause, which ends by
    itself. When the command has returned, no commit of this pipeline begins; it waits for a run to
    confirm that. Without a table it lists the pauses.

    Example: penstock pause lake.bronze.orders --for 30m

    Parameters
    ----------
    table
        The table, by its name in the spec, or the quarantine table.
    length
        How long, such as 90s, 10m or 2h; 24h at most. Of a paused table it counts from now.
    """
    from penstock.app import pause as pausing
    from penstock.app.assembly.process import SystemClock

    lasting_ms = pausing.duration_of(length)
    pipeline, clock = load_spec(spec), SystemClock()
    if table is None:
        found = pausing.pauses(pipeline, clock)
        if json:
            print_json({"pauses": found})
            return 0
        for each in found:
            print_line(_text(each))
        if not found:
            print_line("no table is paused")
        return 0
    done = pausing.pause(
        pipeline, table, lasting_ms, clock, lambda: say(f"{table}: waiting for the run to confirm")
    )
    if json:
        print_json(done)
    else:
        print_line(_text(done))
        print_line(pasteable(f"to end the pause:  penstock resume {table}"))
    return 0


@by_shard()
def resume(table: Table, /, *, spec: Spec = SPEC, json: Json = False) -> int:
    """End the pause of a table. A run commits again within a few seconds.

    Example: penstock resume lake.bronze.orders
    """
    from penstock.app import pause as pausing

    ended = pausing.resume(load_spec(spec), table)
    if json:
        print_json({"table": table, "resumed": ended})
    else:
        print_line(f"{table}: {'paused no longer' if ended else 'was not paused'}")
    return 0


def _text(found: TablePause) -> str:
    state = "nothing is committed" if found.confirmed else "not yet confirmed by the run"
    return f"{found.table}: paused until {found.until}, {state}"
