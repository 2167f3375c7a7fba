"""`penstock upgrade-check`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.checks import print_checks
from penstock.cli.doctor import SPEC_HELP
from penstock.cli.output import say
from penstock.cli.parameters import SPEC, SPEC_VARIABLE, Json
from penstock.cli.shards import by_shard
from penstock.cli.specs import Parts, load_publications, load_spec, parts_of

CHANGES = 10
"""The exit code of changes, as that of `penstock plan --exit-code`."""


@by_shard()
def upgrade_check(
    spec: Annotated[Path | None, Parameter(env_var=SPEC_VARIABLE, help=SPEC_HELP)] = None,
    *,
    exit_code: bool = False,
    json: Json = False,
) -> int:
    """Check what this release meets and changes where an older one has run. Writes nothing.

    Install the new release into an environment of its own, and run it there while the old one still
    lands: it says whether the spec has words that are gone, what the first run adds to the pending
    store, whether prepared commits and the ledgers of all tables can be read, whether Java, Spark
    and libraries fit, and whether the executors' archive is to be packed again.

    Exits with the code that a run of this release would end with for the worst problem, 0 when
    there is none.

    Example: penstock upgrade-check shop.yaml

    Parameters
    ----------
    exit_code
        Exit with 10 when something changes, or is left to do; problems keep their exit code.
    """
    from penstock.app.doctor.upgrade import examine_upgrade
    from penstock.ports.checks import CheckStatus

    path = spec or (SPEC if SPEC.exists() else None)
    parts = Parts(lands=False, publishes=False) if path is None else parts_of(path)
    found = examine_upgrade(
        load_spec(path, any_shard=True) if path and parts.lands else None,
        load_publications(path) if path and parts.publishes else None,
        environment=os.environ,
        progressed=(lambda _: None) if json else say,
    )
    print_checks(found, json=json)
    changes = any(each.status is CheckStatus.WARNING for each in found.checks)
    return found.exit_code or (CHANGES if exit_code and changes else 0)
