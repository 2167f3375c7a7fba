"""The command: measure, keep, compare, write the page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from benchmarks import page, scale_page
from benchmarks.bystanders import bystanders
from benchmarks.children import FailedError
from benchmarks.figures import FIGURES, Figure, named
from benchmarks.machine import circumstances
from benchmarks.page import number
from benchmarks.results import KEPT, Result, keep, newest
from benchmarks.scratch import scratch, stated

SLOWER = 1.15


def main(words: Sequence[str]) -> int:
    """Do what the words say; give the exit code."""
    given = _parser().parse_args(words)
    if given.figure == "page":
        page.write(given.results)
        return 0
    if given.figure == "scale":
        return _scale(given.results)
    if given.figure is not None:
        figure = named(given.figure)
        work = [(figure, _options(figure, given))]
    else:
        wanted = [figure for figure in FIGURES if not figure.only_named]
        work = [(f, options) for f in wanted for options in (f.quick if given.quick else f.full)]
    failed = 0
    slower: list[str] = []
    for figure, options in work:
        try:
            result = _measured(figure, options, given.seconds_max or figure.seconds_max)
        except FailedError as error:
            print(f"{figure.name}: {error}", file=sys.stderr, flush=True)
            failed += 1
            continue
        print(_shown(figure, result, given.results), flush=True)
        slower += _slower(figure, result, given.results)
        if given.keep if given.keep is not None else not given.quick:
            print(f"  kept in {keep(result, given.results)}\n", flush=True)
    if given.quick:
        verdict = "\n".join(slower) or "no ratio got worse by more than 15 %"
        print(f"\nAgainst the last that were kept:\n{verdict}", flush=True)
    if given.figure is None and not given.quick:
        page.write(given.results)
    return 1 if failed else 0


def _scale(results: Path) -> int:
    """Write the page of the model and print it."""
    try:
        print(scale_page.write(results))
    except FailedError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _measured(figure: Figure, options: Any, seconds_max: int) -> Result:
    command = stated(figure.command(options))
    print(f"==> {command}", flush=True)
    with scratch(seconds_max) as place, bystanders() as others:
        measured = figure.measure(options, place)
    return Result(
        figure=figure.name,
        command=command,
        seconds=round(others.ended - others.began, 1),
        others_cores=round(others.cores, 2),
        others_seen=True,
        circumstances=circumstances(),
        values=measured.values,
        raw=measured.raw,
    )


def _shown(figure: Figure, result: Result, folder: Path) -> str:
    """Show a result next to the last that was kept of the same command."""
    last = newest(figure.name, folder).get(result.command)
    lines = []
    for each in figure.metrics:
        if each.value not in result.values:
            continue
        value = result.values[each.value]
        line = f"  {each.what:<40}{number(value):>12} {each.unit:<6}{each.aim:<10}"
        if last is not None and each.value in last.values:
            before = last.values[each.value]
            line += f"  was {number(before)}{_verdict(value, before, each.better)}"
        lines.append(line.rstrip())
    lines.append(f"  in {result.seconds:.0f} s; {result.others}")
    return "\n".join(lines)


def _slower(figure: Figure, result: Result, folder: Path) -> list[str]:
    """Name the ratios that got worse since they were kept, each with its command."""
    last = newest(figure.name, folder).get(result.command)
    if last is None:
        return [f"{result.command}: none was kept; keep one:  … --quick --keep"]
    return [
        f"{result.command}: {each.what} {number(result.values[each.value])},"
        f" was {number(last.values[each.value])}"
        for each in figure.metrics
        if each.is_ratio
        and each.value in last.values
        and "WORSE" in _verdict(result.values[each.value], last.values[each.value], each.better)
    ]


def _verdict(value: float, before: float, better: str) -> str:
    if not better or before <= 0 or value <= 0:
        return ""
    worse = value / before if better == "less" else before / value
    return "  WORSE" if worse > SLOWER else "  better" if worse < 1 / SLOWER else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.set_defaults(figure=None)
    parser.add_argument("--quick", action="store_true", help="small sizes, compared, not kept")
    _common(parser)
    commands = parser.add_subparsers(metavar="FIGURE")
    written = commands.add_parser("page", help="write docs/reference/performance.md again")
    written.add_argument("--results", type=Path, default=KEPT)
    written.set_defaults(figure="page")
    model = commands.add_parser(
        "scale", help="predict other sizes; write docs/explanation/scale.md"
    )
    model.add_argument("--results", type=Path, default=KEPT)
    model.set_defaults(figure="scale")
    for figure in FIGURES:
        command = commands.add_parser(figure.name, help=figure.what, description=figure.what)
        command.set_defaults(figure=figure.name, quick=False)
        _common(command)
        for each in fields(figure.options):
            default = getattr(figure.full[0], each.name)
            flag = f"--{each.name.replace('_', '-')}"
            if isinstance(default, bool):
                command.add_argument(flag, action=argparse.BooleanOptionalAction, default=default)
            else:
                command.add_argument(flag, type=type(default), default=default)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=KEPT, help="folder of the results")
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--seconds-max", type=int, default=0, help="time limit of a figure")


def _options(figure: Figure, given: argparse.Namespace) -> Any:
    names = [each.name for each in fields(figure.options)]
    return replace(figure.full[0], **{name: getattr(given, name) for name in names})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
