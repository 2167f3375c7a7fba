"""`penstock test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.output import USAGE, print_json, print_line
from penstock.cli.parameters import SPEC, Json, Spec
from penstock.cli.specs import load_spec


def try_cases(
    spec: Annotated[Spec, Parameter(help="The spec to test.")] = SPEC,
    *,
    cases: Path | None = None,
    json: Json = False,
) -> int:
    """Test a spec on example records: records in, rows and rejects out. Needs no Kafka, no catalog.

    The real coordinator and workers land each case in tables in memory. Exits with 2 when a result
    differs from the expected one.

    Example: penstock test shop.yaml --cases shop.test.yaml

    Parameters
    ----------
    cases
        The file of cases; default: shop.test.yaml next to shop.yaml.
    """
    from penstock.app.spec_tests.comparing import differences
    from penstock.app.spec_tests.reading import read_cases
    from penstock.app.spec_tests.running import run_case

    pipeline = load_spec(spec, any_shard=True)
    path = cases or spec.with_suffix(f".test{spec.suffix}")
    file = read_cases(path)
    results = [
        (case, differences(case, run_case(pipeline, case, file.tables))) for case in file.cases
    ]
    failed = sum(bool(found) for _, found in results)
    code = USAGE if failed else 0
    if json:
        data = [{"case": c.name, "line": c.line, "differences": found} for c, found in results]
        print_json({"exit_code": code, "cases": data})
        return code
    for case, found in results:
        print_line(f"{'FAILED' if found else 'ok'}  {case.name}")
        for each in found:
            print_line(f"    {path}:{case.line}  {each}")
    print_line(f"{len(results) - failed} of {len(results)} cases passed")
    return code
