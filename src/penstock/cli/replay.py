"""`penstock replay`."""

from __future__ import annotations

import sys
from dataclasses import asdict

from penstock.cli.parameters import SPEC, Json, Spec, Table, Yes
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown
from penstock.observe.formatting import number_of


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

    Example: penstock replay lake.bronze.orders shop.orders:0:100-200 --yes shop

    Parameters
    ----------
    places
        What to re-ingest: topic, topic:partition or topic:partition:start-end (end exclusive).
    new_rows
        Also land records that have no row now: filtered out by an earlier rule, or deleted since.
    """
    from penstock.app.assembly.crash_points import from_environment
    from penstock.app.assembly.process import SystemClock
    from penstock.app.repair.confirmed_change import Done
    from penstock.app.repair.replay_and_seek import place_of, plan_replay
    from penstock.app.repair.replay_and_seek import replay as replay_table
    from penstock.cli.confirming import confirm_and_apply
    from penstock.observe.log import console_log, json_log, written_to

    pipeline = load_spec(spec)
    meant = [place_of(each) for each in places]

    def apply() -> Done:
        log = (json_log if json else console_log)(written_to(sys.stderr), SystemClock())
        done = replay_table(
            pipeline, table, meant, new_rows=new_rows, observer=log, faults=from_environment()
        )
        left = "".join(f", {count:,} {why}" for why, count in done.filtered.items())
        line = f"{table}: {number_of(done.removed, 'row')} removed, {done.landed:,} landed{left}"
        return Done({**asdict(done), "filtered": dict(done.filtered)}, (line,))

    with waits_shown(as_json=json) as observer:
        change = plan_replay(pipeline, table, meant, observer)
    return confirm_and_apply(change, apply, yes, json=json)
