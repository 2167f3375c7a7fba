"""`penstock load`."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.confirming import Done, confirm_and_apply
from penstock.cli.parameters import SPEC, Json, Spec, Table, Yes
from penstock.cli.specs import load_spec
from penstock.core.errors import InvalidError
from penstock.observe.formatting import number_of


def load(
    table: Table,
    /,
    *partitions: str,
    replace: Annotated[bool, Parameter(negative=())] = False,
    spec: Spec = SPEC,
    dry_run: Annotated[bool, Parameter(name="--dry-run", negative=())] = False,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Land partitions of a table again, or all of it, in place of what stands there: in one commit.

    The records of the rows that stand there are read again and land by the present spec, wherever
    they belong by it. Of a whole table all records land up to its progress, also those that an
    earlier rule left out, or whose rows were deleted since. Progress stays where it is, and a run
    goes on from there. Readers see the old rows or the new ones.

    Refused while a run is alive, and where rows would go that this pipeline has not landed. With
    neither --yes nor a terminal it only shows the change.

    Example: penstock load lake.bronze.orders --replace day=2026-10-01 --yes shop

    Parameters
    ----------
    partitions
        FIELD=VALUE of the table's partitioning, as in day=2026-10-01 or day=2026-10-01/country=IT;
        without any, the whole table.
    replace
        What is loaded takes the place of what stands there. There is no other way to load yet.
    dry_run
        Show the change and do nothing.
    """
    if not replace:
        raise InvalidError(
            "a load takes the place of what stands there, and was not asked to",
            code="P278",
            hint=f"penstock load {table} --replace  shows what would go; what has not landed yet"
            " lands with  penstock run",
        )
    from penstock.app.assembly.process import SystemClock
    from penstock.app.repair import load as repair
    from penstock.observe.log import console_log, json_log, written_to

    pipeline = load_spec(spec, any_shard=True)  # of several each lands in the table: refused

    def apply() -> Done:
        log = (json_log if json else console_log)(written_to(sys.stderr), SystemClock())
        done = repair.load(pipeline, table, partitions, log)
        left = "".join(f", {count:,} {why}" for why, count in done.filtered.items())
        line = f"{table}: {number_of(done.removed, 'row')} removed, {done.landed:,} landed{left}"
        return done, [line]

    plan = partial(repair.plan_load, pipeline, table, partitions)
    return confirm_and_apply(plan, apply, yes, json=json, dry_run=dry_run)
