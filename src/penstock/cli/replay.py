"""`penstock replay`."""

from __future__ import annotations

import sys
from functools import partial

from penstock.cli.confirming import Done, confirm_and_apply
from penstock.cli.parameters import SPEC, Json, Spec, Table, Yes
from penstock.cli.shards import by_shard
from penstock.cli.specs import load_publications, load_spec, parts_of
from penstock.observe.formatting import number_of


@by_shard(changes=True)
def replay(
    table: Table,
    /,
    *places: str,
    spec: Spec = SPEC,
    yes: Yes = None,
    new_rows: bool = False,
    json: Json = False,
) -> int:
    """Re-ingest an offset range: its files are replaced by new ones, in one commit.

    Refused while a run is alive, and where a file also holds other rows: the error names the file
    and the range that covers it. With neither --yes nor a terminal it only shows the change.

    A publication is not replayed: what was sent stays in its topic. It may be sent once more, from
    a place on (penstock seek).

    Example: penstock replay lake.bronze.orders shop.orders:0:100-200 --yes shop

    Parameters
    ----------
    places
        What to re-ingest: topic, topic:partition or topic:partition:start-end (end exclusive).
    new_rows
        Also land records that have no row now: filtered out by an earlier rule, or deleted since.
    """
    if "." not in table and parts_of(spec).publishes:  # publications have no dot
        from penstock.app.repair.publication_seek import no_replay

        raise no_replay(load_publications(spec), table)
    from penstock.app.assembly.process import SystemClock
    from penstock.app.repair import replay_and_seek as repair
    from penstock.observe.log import console_log, json_log, written_to

    pipeline = load_spec(spec)
    meant = [repair.place_of(each) for each in places]

    def apply() -> Done:
        log = (json_log if json else console_log)(written_to(sys.stderr), SystemClock())
        done = repair.replay(pipeline, table, meant, new_rows=new_rows, observer=log)
        left = "".join(f", {count:,} {why}" for why, count in done.filtered.items())
        line = f"{table}: {number_of(done.removed, 'row')} removed, {done.landed:,} landed{left}"
        return done, [line]

    plan = partial(repair.plan_replay, pipeline, table, meant)
    return confirm_and_apply(plan, apply, yes, json=json)
