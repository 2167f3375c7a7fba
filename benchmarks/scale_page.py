"""The page of the model of scale, docs/explanation/scale.md, and its picture.

Invariants: every number on it is computed from kept results or is an assumption that it states;
without the results that the model needs there is no page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import plots, scale
from benchmarks.children import FailedError
from benchmarks.constants import (
    CLUSTER_EPOCH_RECORDS,
    EPOCH_RECORDS,
    Constants,
    constants,
    found,
    used,
)
from benchmarks.machine import ROOT
from benchmarks.page import number
from benchmarks.plots import Axis, short
from benchmarks.scale import Load, Predicted, Prices, Site
from benchmarks.specs import Format

PAGE = ROOT / "docs" / "explanation" / "scale.md"
PICTURE = ROOT / "docs" / "images" / "scale.svg"
TIMES = (1, 10, 100, 1000)
ANSWERS_MS = (1, 10, 50, 200)

REMEDIES = {
    "planning": "longer epochs: `commit.every`",
    "records": "more cores: executors",
    "commit": "longer epochs",
    "tables": "longer epochs, then several pipelines with a part of the tables each",
    "ledger": "longer epochs, then several pipelines with a part of the topics each",
    "answers": (
        "a nearer store and catalog, longer epochs, more commits at once than eight, then several "
        "pipelines"
    ),
}
MEANT = {
    "planning": "an epoch's own time: plan, job, accounting",
    "records": "read, decoded, converted, written",
    "commit": "one commit: examined, decided, compared and set, read back",
    "tables": "a further table: its files, its row in the store, its commit",
    "ledger": "a partition in the ledger of each table",
    "answers": "answers of the store, waited for one after another",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was both predicted and measured; what it was predicted from is given."""

    what: str
    source: str
    predicted: float
    measured: float
    unit: str

    @property
    def error_percent(self) -> float:
        """Return how far the prediction is off, above or below what was measured."""
        return 100 * (self.predicted / self.measured - 1)


def write(folder: Path) -> str:
    """Write page and picture; give the page's text. Raises FailedError without the results."""
    measured = constants(folder)
    text = page(folder, measured)
    PAGE.write_text(text)
    PICTURE.write_text(picture(measured))
    return text


def checks(folder: Path, measured: Constants) -> list[Check]:
    """Compare the model with whatever was measured of what it predicts."""
    made: list[Check] = []
    for of in (_drain, _epoch, _cluster, _far, _fanout, _freshness):
        try:
            made += of(folder, measured)
        except FailedError:
            continue
    return made


def _drain(folder: Path, measured: Constants) -> Iterator[Check]:
    result = found(folder, "drain", format="iceberg", epoch_records=1_000_000)
    rate = scale.drained(measured, 1_000_000, Site())
    source, actual = "its CPU, the time of an epoch", result.values["rows_per_second"]
    yield Check("a backlog on 2 cores", source, rate, actual, "rows/s")


def _epoch(folder: Path, measured: Constants) -> Iterator[Check]:
    actual = found(folder, "epoch", epoch_records=EPOCH_RECORDS).values["tiny_median_ms"]
    load = Load(8.0, measured.record_bytes)
    made = scale.predicted(measured, load, Site(answer_seconds=0.0))
    took = 1e3 * (made.work_seconds + made.commits_seconds)
    yield Check("8 records, plan to commit", f"epochs of {EPOCH_RECORDS:,}", took, actual, "ms")


def _cluster(folder: Path, measured: Constants) -> Iterator[Check]:
    actual = found(folder, "cluster", epoch_records=CLUSTER_EPOCH_RECORDS).values
    rate = scale.drained(measured, CLUSTER_EPOCH_RECORDS, Site(), executors=2)
    what, source = "a cluster with two executors of a core", "a cluster with one"
    yield Check(what, source, rate, actual["two_rows_per_second"], "rows/s")


def _far(folder: Path, measured: Constants) -> Iterator[Check]:
    del measured  # each format has answers of its own
    formats: tuple[Format, ...] = ("iceberg", "delta")
    for each in formats:
        answers = found(folder, "far", format=each, answer_ms=200).values["answers"]
        actual = found(folder, "far", format=each, answer_ms=50).values
        late = actual["near_ms"] + 50 * answers
        what = f"a commit to {each.capitalize()}, answers 50 ms late"
        yield Check(what, "answers counted at 200 ms", late, actual["far_ms"], "ms")


def _fanout(folder: Path, measured: Constants) -> Iterator[Check]:
    actual = found(folder, "fanout", tables=1000).values["many_epoch_ms"]
    load = Load(100_000.0, measured.record_bytes, tables=1000)
    made = scale.predicted(measured, load, Site(answer_seconds=0.0))
    took = 1e3 * max(made.work_seconds, made.commits_seconds)
    yield Check("an epoch into 1,000 tables", "a table more, of 100", took, actual, "ms")


def _freshness(folder: Path, measured: Constants) -> Iterator[Check]:
    actual = found(folder, "freshness", rate=5000, every="1s").values
    made = scale.predicted(measured, Load(5000.0, measured.record_bytes), Site(answer_seconds=0.0))
    took = made.work_seconds + made.commits_seconds
    what = "5,000 records/s, every second:"
    yield Check(
        f"{what} median", "half the time between epochs", 0.5 + took, actual["p50_seconds"], "s"
    )
    yield Check(f"{what} p99", "all of it", 0.99 + took, actual["p99_seconds"], "s")


def page(folder: Path, measured: Constants) -> str:
    """Write the page."""
    load, site = Load(), Site()
    rows = [
        _HEAD.format(
            rate=f"{load.rate:,.0f}",
            size=f"{load.record_bytes:.0f}",
            partitions=load.partitions,
            cores=site.cores,
            every=f"{site.every_seconds:.0f} s",
            answer=f"{1e3 * site.answer_seconds:.0f} ms",
        ),
        *_ladder(
            "More records, from as many more partitions, into one table", measured, load.of_records
        ),
        *_ladder("The same records, into more tables", measured, load.of_tables),
        *_answers(measured, load, site),
        *_tested(checks(folder, measured)),
        *_constants(folder, measured),
        _FOOT,
    ]
    return "\n".join(rows)


def picture(measured: Constants) -> str:
    """Draw what takes how much of the time between epochs, for each multiple of the load."""
    site = Site()
    many = [round(10 ** (step / 4)) for step in range(13)]
    shares = {
        "records, 2 cores": [(k, _share(measured, Load().of_records(k), "records")) for k in many],
        "ledger": [(k, _share(measured, Load().of_records(k), "ledger")) for k in many],
        "tables": [(k, _share(measured, Load().of_tables(k), "tables")) for k in many if k > 1],
        "answers, by tables": [(k, _share(measured, Load().of_tables(k), "answers")) for k in many],
        "planning": [(k, _share(measured, Load(), "planning")) for k in many],
    }
    return plots.lines(
        f"Share of the {site.every_seconds:.0f} s between epochs, by what takes it",
        shares,
        Axis("times the base load", logarithmic=True),
        Axis("epochs", logarithmic=True),
        limit=1.0,
    )


def _share(measured: Constants, load: Load, part: str) -> float:
    site = Site()
    return scale.parts(measured, load, site)[part] / site.every_seconds


def _ladder(title: str, measured: Constants, grown: Callable[[int], Load]) -> Iterator[str]:
    yield from (f"## {title}", "", "| | " + " | ".join(_times(k) for k in TIMES) + " |")
    yield "|---|" + "--:|" * len(TIMES)
    rungs = [scale.predicted(measured, grown(times), Site()) for times in TIMES]
    yield _row("records a second", [f"{each.load.rate:,.0f}" for each in rungs])
    yield _row("partitions", [f"{each.load.partitions:,}" for each in rungs])
    yield _row("tables", [f"{each.load.tables:,}" for each in rungs])
    yield _row("work of an epoch", [_seconds(each.work_seconds) for each in rungs])
    yield _row("commits of an epoch", [_seconds(each.commits_seconds) for each in rungs])
    yield _row("keeps up", ["yes" if each.keeps_up else "**no**" for each in rungs])
    yield _row("first bottleneck", [_first(each) for each in rungs])
    enough = [_enough(measured, each) for each in rungs]
    yield _row("cores it takes", [f"{each.site.cores}" for each in enough])
    yield _row("time between epochs it takes", [_seconds(e.site.every_seconds) for e in enough])
    yield _row("commits a second, then", [_commits(each) for each in enough])
    yield _row("files a day, then", [short(each.files_a_day) for each in enough])
    yield _row(
        "their mean size", [_bytes(each.data_bytes_a_day / each.files_a_day) for each in enough]
    )
    yield _row("landed a day", [_bytes(each.data_bytes_a_day) for each in enough])
    yield _row("metadata a day, then", [_bytes(each.metadata_bytes_a_day) for each in enough])
    ledger = [each.load.partitions * measured.ledger_partition_bytes for each in rungs]
    yield _row("ledger of a table", [_bytes(each) for each in ledger])
    yield _row("dollars a day, then", [f"{each.dollars_a_day:,.2f}" for each in enough])
    yield ""
    for times, rung in zip(TIMES, rungs, strict=True):
        if not rung.keeps_up:
            name = rung.bottleneck
            yield f"- {_times(times)}: *{name}* ({MEANT[name]}). What helps: {REMEDIES[name]}."
    yield ""


def _enough(measured: Constants, rung: Predicted) -> Predicted:
    """Return the site with enough cores and time: cores first, then a longer time per epoch."""
    cores = scale.cores_needed(measured, rung.load, rung.site)
    site = replace(rung.site, cores=max(cores or rung.site.cores, rung.site.cores))
    every = scale.every_needed(measured, rung.load, site) or site.every_seconds
    site = replace(site, every_seconds=max(site.every_seconds, every))
    return scale.predicted(measured, rung.load, site, Prices())


def _answers(measured: Constants, load: Load, site: Site) -> Iterator[str]:
    yield from ("## How far the object store is", "")
    yield "| answers after | " + " | ".join(f"{late} ms" for late in ANSWERS_MS) + " |"
    yield "|---|" + "--:|" * len(ANSWERS_MS)
    for tables in (1, 100):
        found_at = []
        for late in ANSWERS_MS:
            there = replace(site, answer_seconds=late / 1e3)
            made = scale.predicted(measured, replace(load, tables=tables), there)
            found_at.append(_seconds(made.commits_seconds))
        yield _row(f"commits of an epoch, {tables} table{'s' * (tables > 1)}", found_at)
    yield ""


def _tested(made: list[Check]) -> Iterator[str]:
    yield from ("## Checked against what was measured", "")
    yield "| | predicted from | predicted | measured | error |"
    yield "|---|---|--:|--:|--:|"
    for each in made:
        numbers = f"{number(each.predicted)} {each.unit} | {number(each.measured)} {each.unit}"
        yield f"| {each.what} | {each.source} | {numbers} | {each.error_percent:+.0f} % |"
    yield ""


def _constants(folder: Path, measured: Constants) -> Iterator[str]:
    yield from ("## Its constants", "", "| constant | |", "|---|--:|")
    said: Mapping[str, str] = {
        "CPU of a record": f"{1e6 * measured.record_cpu_seconds:.2f} µs",
        "bytes of that record, and written of it": (
            f"{measured.record_bytes:.0f} B, {measured.written_bytes:.0f} B"
        ),
        "an epoch of very few records; on executors": (
            f"{1e3 * measured.epoch_seconds:.0f} ms; {1e3 * measured.cluster_epoch_seconds:.0f} ms"
        ),
        "one more table in it": f"{1e3 * measured.table_seconds:.1f} ms",
        "a commit of nothing": f"{1e3 * measured.commit_seconds:.1f} ms",
        "one more file in it": f"{1e6 * measured.commit_file_seconds:.0f} µs",
        "one more partition in it": f"{1e6 * measured.commit_partition_seconds:.1f} µs",
        "answers it waits for": f"{measured.answers:.1f}",
        "metadata of a commit; of a file": (
            f"{measured.commit_bytes:,.0f} B; {measured.commit_file_bytes:,.0f} B"
        ),
        f"metadata of a partition; of more than {measured.ranges_partitions:.0f}": (
            f"{measured.commit_partition_bytes:,.0f} B; {measured.partition_beyond_bytes:,.0f} B"
        ),
        "requests of a commit, of them PUT or POST": (
            f"{measured.requests:.1f}, {measured.puts:.1f}"
        ),
    }
    yield from (f"| {name} | {value} |" for name, value in said.items())
    yield ""
    yield "From these results ([performance](../reference/performance.md)):"
    yield ""
    for result in dict.fromkeys(each.command for each in used(folder, "iceberg").values()):
        yield f"    {result}"
    busy = [n for n, each in used(folder, "iceberg").items() if each.busy]
    if busy:
        yield from (
            "",
            f"Other programs used the machine while these were measured: {', '.join(busy)}.",
        )
    yield ""


def _row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _seconds(value: float) -> str:
    return f"{1e3 * value:.0f} ms" if value < 1 else f"{value:.1f} s"


def _commits(each: Predicted) -> str:
    return f"{each.load.tables / each.site.every_seconds:.3g}"


def _first(each: Predicted) -> str:
    share = max(each.work_seconds, each.commits_seconds) / each.site.every_seconds
    return f"{each.bottleneck}, {share:.0%}"


def _bytes(value: float) -> str:
    return f"{short(value)}{'' if value >= 1000 else ' '}B"


def _times(times: int) -> str:
    return "base" if times == 1 else f"{times:,} times"


_HEAD = """\
# How far it scales

*Generated by `.venv/bin/python -m benchmarks scale` from benchmarks/results/. Not edited by hand.*

A model, for sizes that the machine of the benchmarks does not have. Its laws are in
benchmarks/scale.py, its constants were measured ([performance](../reference/performance.md)).
Below, its predictions are compared with measurements that are not part of it.

The base load is {rate} records a second of {size} bytes from {partitions} partitions into one
Iceberg table; the site has {cores} cores, an epoch every {every}, and an object store that answers
after {answer}. An epoch's *work* is planning and records; its *commits* run during the work of the
next one. *Keeps up* and *first bottleneck*, with the share of the time between epochs that it
takes, are those of that site. *Then* means a site with enough cores and time, which has executors
from the third core on.

![What takes the time between epochs](../images/scale.svg)
"""

_FOOT = """\
## Not in the model

The cost of a further task for Spark's driver, beyond those of two executors; the network of a
host; the limits of a broker; an object store that throttles; readers, and other systems that
compact [small files](small-files.md) for them. Prices were assumed: $0.04 for a core's hour,
$0.005 for 1,000 PUTs, $0.0004 for 1,000 other requests, $0.023 for a gigabyte kept for a month.
"""
