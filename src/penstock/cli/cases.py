"""`penstock test`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from penstock.cli.output import USAGE, print_json, tell
from penstock.cli.specs import SPEC, Spec, load_spec


def try_cases(
    spec: Spec = SPEC,
    *,
    cases: Path | None = None,
    json: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Try a spec on cases: records in, rows and rejects out. Needs no broker and no catalog.

    The real coordinator and workers land each case in tables in memory. Exits with 2 when a case
    did not end as it says.

    Example: penstock test shop.yaml --cases shop.test.yaml

    Parameters
    ----------
    spec
        The spec to try.
    cases
        The cases; beside the spec, shop.test.yaml for shop.yaml, when left out.
    json
        Print JSON.
    """
    from penstock.app.cases.judging import differences
    from penstock.app.cases.playing import play
    from penstock.app.cases.reading import read_cases

    pipeline = load_spec(spec)
    path = cases or spec.with_suffix(f".test{spec.suffix}")
    file = read_cases(path)
    told = [(case, differences(case, play(pipeline, case, file.tables))) for case in file.cases]
    failed = sum(bool(found) for _, found in told)
    if json:
        results = [
            {"case": case.name, "line": case.line, "differences": found} for case, found in told
        ]
        print_json({"exit_code": USAGE if failed else 0, "cases": results})
        return USAGE if failed else 0
    for case, found in told:
        tell(f"{'FAILED' if found else 'ok'}  {case.name}")
        for each in found:
            tell(f"    {path}:{case.line}  {each}")
    tell(f"{len(told) - failed} of {len(told)} cases ended as they say")
    return USAGE if failed else 0
