"""What a worker takes for records that do not fit, and for those that do: one kind of fault at a
time and nothing else, then all of them mixed; and once more under the policies that let records
land without what does not fit.

A process of its own does the worker's jobs, without Spark, epochs and commits: it reads a real
topic, lands or refuses every record, and writes the files of table and quarantine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import records, topics
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from penstock.engines.allocation import KEEPING_ENVIRONMENT

Spoil = Callable[[bytes], bytes | None]
GOOD, MIXED = "good", "mixed"
FAULTS: Mapping[str, Spoil] = {
    "cut_off": lambda value: value[:-7],
    "not_utf8": lambda value: value.replace(b"shop", b"\xff\xfe"),
    "unknown_field": lambda value: value[:-1] + b',"colour":"red"}',
    "wrong_type": lambda value: value.replace(b'"ok":true', b'"ok":"yes"').replace(
        b'"ok":false', b'"ok":"no"'
    ),
    "out_of_range": lambda value: b'{"id":9999999999999999999,' + value.partition(b",")[2],
    "no_time": lambda value: value.replace(b'"ts":"2026', b'"ts":"26'),
    "tombstone": lambda _: None,
}
"""How records are spoilt."""
KINDS = (GOOD, *FAULTS, MIXED)
FORGIVEN = ("unknown_field", "wrong_type", "out_of_range", "no_time")
"""The faults that a lenient policy lands a record without."""
STRICT = "quarantine"
CASES: Mapping[str, tuple[str, str]] = {
    **{kind: (kind, STRICT) for kind in KINDS},
    **{
        f"{kind}_{policy}": (kind, policy)
        for policy in ("drop_value", "rescue")
        for kind in (*FORGIVEN, MIXED)
    },
}
"""What is measured: records of a kind, under a policy for their fields and values."""
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """So many records of each kind, worked on after as many that warm up."""

    records: int = 200_000


def measure(options: Options, place: Scratch) -> Measured:
    """Measure each case; `worst_ratio` is that of the dearest, of the good ones."""
    for kind in KINDS:
        place.topic(kind, 1)
        topics.send(place.brokers, kind, 1, values(kind, 2 * options.records))
    order = {
        "brokers": place.brokers,
        "records": options.records,
        "folder": str(place.subfolder("s")),
    }
    child = place.start("benchmarks.storms", json.dumps(order), environment=KEEPING_ENVIRONMENT)
    taken: dict[str, float] = {}
    for line in child.lines():
        taken |= line["seconds"]
    child.ended()
    ratios = {f"{case}_ratio": taken[case] / taken[GOOD] for case in CASES if case != GOOD}
    worst = max(ratios.values())
    return Measured(
        {**{f"{k}_seconds": s for k, s in taken.items()}, **ratios, "worst_ratio": worst}
    )


def title(kind: str, policy: str) -> str:
    """Name a case for a reader."""
    name = kind.replace("_", " ")
    return name if policy == STRICT else f"{name}, {policy}"


def values(kind: str, count: int) -> Iterator[bytes | None]:
    """Yield the values of so many records of a kind."""
    spoils = [*FAULTS.values()] if kind == MIXED else [FAULTS.get(kind, _as)]
    for number, value in enumerate(records.values(0, count)):
        yield spoils[number % len(spoils)](value)


def _as(value: bytes) -> bytes:
    return value


def main(order: dict[str, Any]) -> None:
    """Do the jobs of each case, and report the CPU seconds for a million of its records."""
    import gc

    import pyarrow as pa

    gc.disable()
    pa.set_cpu_count(1)
    for case in CASES:
        folder = Path(order["folder"], case)
        folder.mkdir()
        seconds = _seconds(folder, order["brokers"], case, order["records"])
        measured = {"event": "Measured", "seconds": {case: seconds / order["records"] * MILLION}}
        print(json.dumps(measured), flush=True)


def _seconds(folder: Path, brokers: str, case: str, count: int) -> float:
    from penstock.app.assembly.worker import work
    from penstock.core.offsets import span
    from penstock.landing.task.message_json import result_from_json

    kind, policy = CASES[case]
    job = _job(folder, brokers, kind, policy)
    for number in range(2):
        began = time.process_time()
        text = work(job(number, span(number * count, (number + 1) * count)))
        seconds = time.process_time() - began
    result = result_from_json(text)
    assert result.error is None, str(result.error)
    ((tally,),) = (each.values() for each in result.tallies.values())
    lands = sum(_lands(kind, policy, number) for number in range(count, 2 * count))
    refused = sum(tally.quarantined.values())
    assert (refused, tally.landed) == (count - lands, lands), str(tally)
    return seconds


def _lands(kind: str, policy: str, number: int) -> bool:
    fault = [*FAULTS][number % len(FAULTS)] if kind == MIXED else kind
    return fault == GOOD or (policy != STRICT and fault in FORGIVEN)


def _job(folder: Path, brokers: str, topic: str, policy: str) -> Callable[[int, Any], str]:
    """Create a table and its quarantine, and give what writes a job on a range as JSON."""
    from benchmarks import making, specs
    from penstock.app.assembly import assembly
    from penstock.commit.creation import create
    from penstock.core.claims import Claim, Generation
    from penstock.core.commits import Chain
    from penstock.core.planning import Lane
    from penstock.landing.task.message_json import job_to_json
    from penstock.landing.task.messages import Job, TableJob, WriteTarget
    from penstock.observe.fanout import Observers
    from penstock.ports.tables import TableDefinition
    from penstock.rows.quarantine.rows import QUARANTINE_SCHEMA
    from penstock.testing.prepared import origin

    claim = Claim(Generation(1), "bench")
    made = making.made(specs.write(folder, brokers, topic, policy=policy), claim, 1, topic=topic)
    place = assembly.place_of(made.pipeline, made.pipeline.quarantine.into)
    chain = Chain(f"{made.pipeline.name}/{made.chain.table}", place.table)
    catalog = assembly.open_catalog(made.pipeline, place.catalog, Observers())
    quarantine = create(
        catalog,
        (place.table, place.name),
        TableDefinition(QUARANTINE_SCHEMA, (), {}),
        (origin(chain, {0: 0}, claim),),
        Observers(),
    )
    (at,) = assembly.open_log(made.pipeline).partitions()
    connector = made.target.location.connector
    table = TableJob(
        made.schema,
        made.target.options,
        WriteTarget(connector, made.table.state(made.chain).target),
    )

    def job(number: int, covered: Any) -> str:
        name = made.target.location.table
        return job_to_json(
            Job(
                pipeline=made.pipeline.name,
                epoch=1,
                number=number,
                survey=False,
                prefix=f"bench-{number}",
                lanes=(Lane(at, covered, (name,)),),
                tables={name: table},
                quarantine=WriteTarget(connector, quarantine.state(chain).target),
                timeout_seconds=600.0,
                now_ms=1,
                log=assembly.log_settings(made.pipeline),
            )
        )

    return job


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
