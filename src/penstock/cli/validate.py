"""`penstock validate` and `penstock schema`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from penstock.cli.output import error_data, print_json, show_error, tell
from penstock.cli.specs import SPEC, Spec, load_spec
from penstock.cli.waiting import waits_told


def validate(
    spec: Spec = SPEC,
    *,
    offline: Annotated[bool, Parameter(negative=())] = False,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Check a spec, and what it names: brokers, topics, catalogs, tables, the store, Java.

    All problems are printed, not only the first. No table is touched. That catalogs may be written
    is tried: one that is not there yet is made, empty, and a small file is written and removed.

    Example: penstock validate shop.yaml --offline

    Parameters
    ----------
    spec
        The spec to check.
    offline
        Check the file alone.
    json
        Print JSON.
    """
    from penstock.app.validate import check
    from penstock.core.errors import gravest

    pipeline = load_spec(spec)
    found = None
    if not offline:
        with waits_told(as_json=json) as observer:
            found = check(pipeline, observer=observer)
    problems = [] if found is None else list(found.problems)
    code = gravest(problem.exit_code for problem in problems)
    if json:
        print_json(
            {
                "pipeline": pipeline.name,
                "exit_code": code,
                "problems": [error_data(problem) for problem in problems],
                "tables": {} if found is None else dict(found.tables),
            }
        )
        return code
    for problem in problems:
        show_error(problem, as_json=False)
    if found is not None:
        for table, standing in found.tables.items():
            tell(f"{table}: {standing}")
    if not problems:
        tell(f"{spec}: pipeline {pipeline.name} is valid")
    return code


def schema() -> int:
    """Print the JSON Schema of a spec, for editors.

    Example: penstock schema > penstock.schema.json
    """
    from penstock.spec.writing import json_schema

    print_json(json_schema())
    return 0
