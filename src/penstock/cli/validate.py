"""`penstock validate` and `penstock schema`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from penstock.cli import publications
from penstock.cli.output import print_json, print_line, show_error
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.specs import load_spec, parts_of
from penstock.cli.waiting import waits_shown
from penstock.core.errors import PenstockError, gravest


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

    parts, published = parts_of(spec), publications.NOTHING
    if parts.publishes:
        published = publications.checked(spec, offline=offline)
    if not parts.lands:
        return published.show(json=json)
    pipeline = load_spec(spec, any_shard=True)
    problems: list[PenstockError] = []
    tables: dict[str, str] = {}
    if not offline:
        with waits_shown(as_json=json) as observer:
            problems, tables = check(pipeline, observer=observer)
    code = gravest((published.exit_code, *(problem.exit_code for problem in problems)))
    if json:
        data = {"pipeline": pipeline.name, "exit_code": code}
        print_json({**data, "problems": problems, "tables": tables, **published.data})
        return code
    for problem in problems:
        show_error(problem, as_json=False)
    for table, state in tables.items():
        print_line(f"{table}: {state}")
    if not problems:
        print_line(f"{spec}: pipeline {pipeline.name} is valid")
    published.show_lines()
    return code


def schema() -> int:
    """Print the JSON Schema of a spec, for editors.

    Example: penstock schema > penstock.schema.json
    """
    from penstock.spec.json_schema import json_schema

    print_json(json_schema())
    return 0
