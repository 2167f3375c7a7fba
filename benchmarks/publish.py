"""A topic or a table is published into a topic, next to the script that one would write by hand.

A mirror copies records of JSON from topic to topic; a table has the same eleven columns, and each
row becomes a keyed message of JSON. Both ends are exactly once: the script sends the positions
of a topic in its transaction, and starts a table from its beginning. It is librdkafka's Python
client with what is quickest around it: consuming in lists; Arrow batches made JSON by DuckDB.

What exactly once costs is measured without the script: `exactly_once: required`, by either client,
next to `off`, in turn, round after round.

Rate and CPU are those between the first transaction and the last but one, as in
`benchmarks/peers.py`. The targets are read back by librdkafka, committed records only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from io import BytesIO
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from pyarrow import json as arrow_json

from benchmarks import keyed, peers, records, specs, topics
from benchmarks.children import Child, FailedError
from benchmarks.meter import usage_of, watched
from benchmarks.peers import Leg, Reading
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import Format

SOURCE = "source"
NAME = "bench"
PATIENCE_SECONDS = 120.0
MODES = {
    "own": {"exactly_once": "required", "producer": "own"},
    "library": {"exactly_once": "required", "producer": "librdkafka"},
    "off": {"exactly_once": "off"},
}


@dataclass(frozen=True, slots=True)
class Options:
    """What is published, how many rows, and how many a transaction holds at most."""

    what: Literal["topic", "table"] = "topic"
    format: Format = "iceberg"
    records: int = 3_000_000
    transaction_records: int = 250_000
    partitions: int = 4
    master: str = "inline"


@dataclass(frozen=True, slots=True)
class ModesOptions(Options):
    """The same, and how often each mode is measured."""

    rounds: int = 3


def measure(options: Options, place: Scratch) -> Measured:
    """Measure Penstock, then the script."""
    folder = _filled(place, options)
    legs = {
        "own": leg(own(folder, place, options), "RowsPublished"),
        "script": leg(script(folder, place, options), "Committed"),
    }
    for name in legs:
        check(name, place, options)
    values = {f"{name}_{what}": each for name in legs for what, each in asdict(legs[name]).items()}
    values |= {
        "cpu_ratio": legs["script"].cpu / legs["own"].cpu,
        "rate_ratio": legs["own"].rows_per_second / legs["script"].rows_per_second,
    }
    return Measured(values)


def measure_modes(options: ModesOptions, place: Scratch) -> Measured:
    """Measure each mode of Penstock, in turn; what is reported is the median of the rounds."""
    folder = _filled(place, options)
    legs: dict[str, list[Leg]] = {mode: [] for mode in MODES}
    for number in range(options.rounds):
        for mode, settings in MODES.items():
            into = f"{mode}-{number}"
            place.topic(into, options.partitions)
            limits = {"interval": "30s", "or_records": options.transaction_records}
            publishing = {**settings, "group": into}
            path = spec(folder, place, options, limits, into=into, publishing=publishing)
            legs[mode].append(leg(started(path, place, to_the_end=True), "RowsPublished"))
            check(into, place, options)
    values = {}
    for mode, own in legs.items():
        values[f"{mode}_rows_per_second"] = median(each.rows_per_second for each in own)
        values[f"{mode}_cpu"] = median(each.cpu for each in own)
        if mode != "off":
            pairs = [*zip(own, legs["off"], strict=True)]
            values[f"{mode}_cpu_ratio"] = median(mine.cpu / off.cpu for mine, off in pairs)
            values[f"{mode}_rate_ratio"] = median(
                mine.rows_per_second / off.rows_per_second for mine, off in pairs
            )
    return Measured(values, {mode: [asdict(each) for each in own] for mode, own in legs.items()})


def _filled(place: Scratch, options: Options) -> Path:
    """Fill the source; return the folder of specs, and of the table."""
    place.topic(SOURCE, options.partitions)
    topics.fill(place.brokers, SOURCE, options.partitions, options.records)
    folder = place.subfolder("p")
    if options.what == "table":
        _land(folder, place, options)
    return folder


def _land(folder: Path, place: Scratch, options: Options) -> None:
    spec = specs.write(
        folder,
        place.brokers,
        SOURCE,
        table_format=options.format,
        or_records=1_000_000,
        source_columns=(),
    )
    child = place.penstock(spec, "--until-caught-up")
    for _ in child.lines(PATIENCE_SECONDS):
        pass
    child.ended()


def own(folder: Path, place: Scratch, options: Options) -> Child:
    """Start Penstock, publishing into `own`."""
    place.topic("own", options.partitions)
    limits = {"interval": "30s", "or_records": options.transaction_records}
    return started(spec(folder, place, options, limits), place, to_the_end=True)


def started(path: Path, place: Scratch, *, to_the_end: bool) -> Child:
    """Start Penstock by a spec."""
    words = ("publish", str(path), "--json", *(["--until-caught-up"] if to_the_end else []))
    return place.start("penstock", *words, says="stderr")


def spec(
    folder: Path,
    place: Scratch,
    options: Options,
    transaction: dict[str, Any],
    *,
    into: str = "own",
    publishing: Mapping[str, str] | None = None,
) -> Path:
    """Write a spec that publishes into a topic."""
    source: dict[str, Any] = {"topic": SOURCE}
    rule: dict[str, Any] = {}
    written: dict[str, Any] = {
        "name": NAME,
        "kafka": {"brokers": place.brokers},
        "spark": {"master": options.master},
        "publishing": dict(publishing or {}),
    }
    if options.what == "table":
        source, rule = {"table": specs.table_name(options.format)}, {"key": "id"}
        landed = json.loads((folder / "penstock.yaml").read_text())
        written["catalogs"] = landed["catalogs"]
    rule |= {"name": NAME, "from": source, "into": into, "transaction": transaction}
    path = folder / "publish.yaml"
    path.write_text(json.dumps(written | {"publish": [rule]}))
    return path


def script(folder: Path, place: Scratch, options: Options) -> Child:
    """Start the script, publishing into `script`."""
    place.topic("script", options.partitions)
    order = {**asdict(options), "brokers": place.brokers, "folder": str(folder)}
    return place.start("benchmarks.publish_work", json.dumps(order))


def leg(child: Child, event: str) -> Leg:
    """Follow a child by what it says of its transactions; return how it went."""
    began, rows = time.monotonic(), 0
    readings: list[Reading] = []
    with watched(child.root) as samples:
        for line in child.lines(PATIENCE_SECONDS):
            if line["event"] == event:
                rows += line["rows"]
                used = usage_of(child.root).seconds
                readings.append(Reading(time.monotonic() - began, rows, used))
    child.ended()
    return peers.leg(readings, samples.peak_mib)


def check(target: str, place: Scratch, options: Options) -> None:
    """Raise FailedError unless the target holds the source's records, each once."""
    found = _committed(place, target, options.partitions)
    count = options.records
    if options.what == "topic":
        if found != _committed(place, SOURCE, options.partitions):
            raise FailedError(f"{target} is no copy: it has {len(found)} records of {count}")
        return
    parsed = arrow_json.ParseOptions(explicit_schema=records.ARROW)
    rows = arrow_json.read_json(BytesIO(b"\n".join(value for *_, value in found)), None, parsed)
    unchanged = np.empty(0, np.int64)
    keyed.check(rows.sort_by("id"), keyed.Options(table_rows=count), unchanged, target)


def _committed(place: Scratch, topic: str, partitions: int) -> list[tuple[int, Any, Any]]:
    """Return the committed records by partition, each in its order."""
    return sorted(topics.committed(place.brokers, topic, partitions), key=itemgetter(0))
