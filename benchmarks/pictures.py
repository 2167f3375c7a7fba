"""Plots of the figures, docs/images/performance-*.svg, from the results that were kept.

Invariant: a figure of which too little was kept has no plot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

from benchmarks import plots
from benchmarks.machine import ROOT
from benchmarks.peers import PEERS
from benchmarks.plots import Axis, Points
from benchmarks.results import Result, newest

PLACE = ROOT / "docs" / "images"
SMOOTHED = 20
STAGES = ("read", "wrap", "parse", "unwrap", "convert", "parquet")

Results = Mapping[str, Result]


def drawn(folder: Path) -> dict[str, str]:
    """Draw what there is to draw, by the name of the figure."""
    found: dict[str, str] = {}
    for name, draw in PLOTS.items():
        picture = draw(newest(name, folder))
        if picture:
            found[name] = picture
    return found


def file_name(figure: str) -> str:
    """Name the file of a figure's plot."""
    return f"performance-{figure}.svg"


def options(result: Result) -> dict[str, str]:
    """Read the options of a command, by their names without dashes before them."""
    words = result.command.partition(f" {result.figure} ")[2]
    pairs = [part.split(" ", 1) for part in f" {words}".split(" --")[1:]]
    return {pair[0]: pair[-1] if len(pair) > 1 else "yes" for pair in pairs}


def _drain(results: Results) -> str:
    rows: dict[str, float] = {}
    for result in results.values():
        given = options(result)
        name = f"{given['format']}, {given.get('reader', 'librdkafka')}"
        rows[name] = result.values["rows_per_second"]
        rows[f"bound path next to {name}"] = result.values["reference_rows_per_second"]
    return plots.bars("A backlog: rows a second", rows, "rows/s") if rows else ""


def _peers(results: Results) -> str:
    rows: dict[str, float] = {}
    titles = {"penstock_iceberg": "Penstock, Iceberg", "penstock_delta": "Penstock, Delta", **PEERS}
    for result in results.values():
        found = {name: result.values.get(f"{name}_rows_per_second") for name in titles}
        rows |= {titles[name]: rate for name, rate in found.items() if rate is not None}
    return plots.bars("A backlog, by system: rows a second", rows, "rows/s") if rows else ""


def _shapes(results: Results) -> str:
    rows = {}
    for result in results.values():
        given = options(result)
        rows[_shape(given)] = result.values["megabytes_per_second"]
    return plots.bars("A backlog in other shapes: what is read", rows, "MB/s") if rows else ""


def _shape(given: Mapping[str, str]) -> str:
    said = [given["format"], given["encoding"]]
    for name, usual in (("columns", "0"), ("values", "0"), ("tables", "1"), ("partitions", "4")):
        if given[name] != usual:
            said.append(f"{given[name]} {name}")
    return ", ".join(said)


def _commit(results: Results) -> str:
    series: dict[str, Points] = {}
    for result in results.values():
        took, given = result.raw.get("settle_ms", []), options(result)
        if int(given["late"]) >= 1000:
            series[given["format"]] = _smoothed(took)
    x, y = Axis("commits before it"), Axis("ms, the median of 20")
    return plots.lines("What a commit takes", series, x, y) if series else ""


def _smoothed(took: Sequence[float]) -> Points:
    return [(float(at), median(took[at : at + SMOOTHED])) for at in range(0, len(took), SMOOTHED)]


def _freshness(results: Results) -> str:
    series: dict[str, list[tuple[float, float]]] = {}
    for result in results.values():
        given = options(result)
        rate, every = int(given["rate"]), _in_seconds(given["every"])
        series.setdefault(f"{rate:,} records/s", []).append((every, result.values["p99_seconds"]))
    sound = {name: sorted(series[name]) for name in sorted(series) if len(series[name]) > 1}
    x, y = Axis("seconds between epochs", logarithmic=True), Axis("seconds, p99", logarithmic=True)
    return plots.lines("From a record's making to its row", sound, x, y) if sound else ""


def _in_seconds(text: str) -> float:
    return float(text[:-2]) / 1e3 if text.endswith("ms") else float(text[:-1])


def _memory(results: Results) -> str:
    longest = max(results.values(), key=lambda each: each.seconds, default=None)
    if longest is None:
        return ""
    samples = longest.raw["seconds_driver_java_workers_mib"]
    names = ("driver", "Java", "workers")
    series = {
        name: [(row[0] / 60, row[number]) for row in samples]
        for number, name in enumerate(names, start=1)
    }
    return plots.lines("Memory over small epochs", series, Axis("minutes"), Axis("MiB"))


def _bound(results: Results) -> str:
    rows: dict[str, float] = {}
    for result in results.values():
        for path, name in (("reference", "bound path"), ("penstock", "Penstock")):
            found = {stage: result.values.get(f"{path}_{stage}") for stage in STAGES}
            if found["convert"] is not None:
                found["parse"] = None  # a part of converting
            rows |= {f"{name}: {stage}": cpu for stage, cpu in found.items() if cpu is not None}
    return plots.bars("CPU for a million rows on one core", rows, "s") if rows else ""


def _profile(results: Results) -> str:
    newest_one = max(results.values(), key=lambda each: each.circumstances["date"], default=None)
    if newest_one is None:
        return ""
    title = "A drain's CPU time in Python processes, by stage and function"
    return plots.flames(title, newest_one.raw["stacks"], "samples")


PLOTS: Mapping[str, Callable[[Results], str]] = {
    "drain": _drain,
    "peers": _peers,
    "shapes": _shapes,
    "commit": _commit,
    "freshness": _freshness,
    "memory": _memory,
    "bound": _bound,
    "profile": _profile,
}
