"""`penstock doctor`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.checks import print_checks
from penstock.cli.output import say
from penstock.cli.parameters import SPEC, SPEC_VARIABLE, Json
from penstock.cli.shards import by_shard
from penstock.cli.specs import Parts, load_publications, load_spec, parts_of

SPEC_HELP = "The spec of the pipeline; default: penstock.yaml if it exists."


@by_shard()
def doctor(
    spec: Annotated[Path | None, Parameter(env_var=SPEC_VARIABLE, help=SPEC_HELP)] = None,
    *,
    read_only: bool = False,
    json: Json = False,
) -> int:
    """Check that everything a run needs is in place: this machine, and what the spec names.

    Checks Java, Python, libraries, jars, ports, memory and disk; brokers, their release,
    permissions and clocks; the pending store; each catalog, with its compare-and-set measured on a
    scratch table that is dropped again; each table, its features and snapshots; of publications the
    transaction protocol, permissions, timeouts and topics. Without a spec, it checks this machine
    alone.

    Exits with the code that a run would end with for the worst problem, 0 when there is none.

    Example: penstock doctor shop.yaml

    Parameters
    ----------
    read_only
        Create no scratch tables: write nothing at all.
    """
    from penstock.app.doctor.examination import examine

    path = spec or (SPEC if SPEC.exists() else None)
    parts = Parts(lands=False, publishes=False) if path is None else parts_of(path)
    found = examine(
        load_spec(path, any_shard=True) if path and parts.lands else None,
        load_publications(path) if path and parts.publishes else None,
        touch=not read_only,
        environment=os.environ,
        progressed=(lambda _: None) if json else say,
    )
    print_checks(found, json=json)
    return found.exit_code
