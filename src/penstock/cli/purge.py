"""`penstock purge`."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.confirming import Done, confirm_and_apply
from penstock.cli.parameters import SPEC, Json, Spec, Table, Yes
from penstock.cli.specs import load_spec
from penstock.observe.formatting import number_of


def purge(
    table: Table,
    /,
    *,
    older_than: Annotated[str, Parameter(name="--older-than")],
    spec: Spec = SPEC,
    yes: Yes = None,
    json: Json = False,
) -> int:
    """Remove the rows of keys that were deleted long ago, in one commit.

    For tables with `deletes: soft`. A run may go on meanwhile: it moves no position, and a key that
    gets a row again keeps it. With neither --yes nor a terminal it only shows what it would remove.

    Example: penstock purge lake.silver.orders --older-than 30d --yes shop

    Parameters
    ----------
    older_than
        How long ago, such as 12h or 30d; 1h at least, and longer than any change may come late.
    """
    from penstock.app.assembly.process import SystemClock
    from penstock.app.repair import purge as purging

    age_ms, clock = purging.age_of(older_than), SystemClock()
    pipeline = load_spec(spec)

    def apply() -> Done:
        done = purging.purge(pipeline, table, age_ms, clock)
        rows, files = number_of(done.rows, "row"), number_of(done.files, "file")
        if not done.rows:
            return done, [f"{table}: nothing was left to remove"]
        return done, [
            f"{table}: {rows} in {files} removed, of keys deleted {purging.between(done)}"
        ]

    plan = partial(purging.plan_purge, pipeline, table, age_ms, clock)
    return confirm_and_apply(plan, apply, yes, json=json)
