"""`penstock validate` and `penstock schema`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from penstock.cli.output import error_data, print_json, show_error, tell
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.specs import load_spec
from penstock.cli.waiting import waits_shown


def validate(
    spec: Annotated[Spec, Parameter(help="The spec to check.")] = SPEC,
    *,
    offline: bool = False,
    json: Json = False,
) -> int:
    """Check a spec and everything it names: brokers, topics, catalogs, tables, the store, Java.

    Prints all problems, not only the first. Touches no table. To check that a catalog can be
    written, it creates a missing one, empty, and writes and removes a small file.

    Example: penstock validate shop.yaml --offline

    Parameters
    ----------
    offline
        Check the file alone.
    """
    from penstock.app.inspect.validate import check
    from penstock.core.errors import gravest

    pipeline = load_spec(spec)
    found = None
    if not offline:
        with waits_shown(as_json=json) as observer:
            found = check(pipeline, observer=observer)
    problems = [] if found is None else list(found.problems)
    tables = {} if found is None else dict(found.tables)
    code = gravest(problem.exit_code for problem in problems)
    if json:
        print_json(
            {
                "pipeline": pipeline.name,
                "exit_code": code,
                "problems": [error_data(problem) for problem in problems],
                "tables": tables,
            }
        )
        return code
    for problem in problems:
        show_error(problem, as_json=False)
    for table, state in tables.items():
        tell(f"{table}: {state}")
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
