"""A topic is copied into another one by Penstock and by other systems: one machine, one run.

Each copies the same records, one after the other, in transactions of about the same size where it
has any. The others are no part of this project. A folder holds one program for each of `PEERS`, by
its name: `NAME` copies a topic, and ends at its end or is ended when all of it is there. They are
told by their environment: PEER_BROKERS, PEER_TOPIC, PEER_INTO, PEER_PARTITIONS, PEER_RECORDS,
PEER_COMMIT_RECORDS (what one transaction is to hold, where a system can be told that) and
PEER_FOLDER, which is theirs.

How far one has come is what a reader of committed records may read. Rate and CPU are those between
the first and the last but one time that this was more, as in `benchmarks/peers.py`. Each target is
read back and must hold each record of the source once; the order is asked of Penstock's alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import keyed_peers, peers, publish, topics
from benchmarks.children import Child, FailedError
from benchmarks.meter import usage_of, watched
from benchmarks.peers import Leg, Reading
from benchmarks.publish import SOURCE
from benchmarks.results import Measured
from benchmarks.scratch import Scratch

PEERS = {
    "java": "Java's client, exactly once",
    "flink": "Flink's KafkaSink, exactly once",
    "mirrormaker": "MirrorMaker 2, exactly once",
    "spark": "Spark's Kafka sink, at least once",
}
POLL_SECONDS = 0.1
QUIET_SECONDS = 5.0
"""A topic that holds all records, and got nothing more for so long, is complete."""
SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """Where the programs are, how much is copied, and how many a transaction holds at most."""

    programs: str = "peers"
    records: int = 3_000_000
    transaction_records: int = 250_000
    partitions: int = 4

    @property
    def published(self) -> publish.Options:
        """Return what `benchmarks/publish.py` is to publish."""
        return publish.Options(
            records=self.records,
            transaction_records=self.transaction_records,
            partitions=self.partitions,
        )


def measure(options: Options, place: Scratch) -> Measured:
    """Measure Penstock, the script by hand, and each peer for which there is a program."""
    programs = {name: Path(options.programs) / name for name in PEERS}
    programs = {name: path for name, path in programs.items() if os.access(path, os.X_OK)}
    if not programs:
        raise FailedError(f"{options.programs} holds none of {', '.join(PEERS)}; see  --programs")
    place.topic(SOURCE, options.partitions)
    topics.fill(place.brokers, SOURCE, options.partitions, options.records)
    ours, folder = options.published, place.subfolder("p")
    legs = {
        "own": publish.leg(publish.own(folder, place, ours), "RowsPublished"),
        "script": publish.leg(publish.script(folder, place, ours), "Committed"),
    }
    for name in legs:
        publish.check(name, place, ours)
    sent = _values(place, SOURCE, options)
    for name, path in programs.items():
        legs[name] = _peer(path, options, place, sent)
    values = {f"{name}_{what}": each for name in legs for what, each in asdict(legs[name]).items()}
    for name in legs.keys() - {"own"}:
        values |= {
            f"{name}_cpu_ratio": legs[name].cpu / legs["own"].cpu,
            f"{name}_rate_ratio": legs["own"].rows_per_second / legs[name].rows_per_second,
        }
    return Measured(values, {"load": os.getloadavg()})


def _peer(path: Path, options: Options, place: Scratch, sent: list[bytes]) -> Leg:
    into = f"{path.name}.{SOURCE}"  # as MirrorMaker names copies
    place.topic(into, options.partitions)
    environment = {
        "PEER_BROKERS": place.brokers,
        "PEER_TOPIC": SOURCE,
        "PEER_INTO": into,
        "PEER_PARTITIONS": str(options.partitions),
        "PEER_RECORDS": str(options.records),
        "PEER_COMMIT_RECORDS": str(options.transaction_records),
        "PEER_FOLDER": str(place.subfolder(path.name)),
    }
    child = place.program(path, environment=environment)
    with watched(child.root) as samples:
        readings = list(_copied(child, place, into, options))
    child.end()
    found = _values(place, into, options)
    if found != sent:
        raise FailedError(f"{into} is no copy: it has {len(found)} records of {len(sent)}")
    return peers.leg(keyed_peers.scaled(readings, options.records), samples.peak_mib)


def _values(place: Scratch, topic: str, options: Options) -> list[bytes]:
    """Return the values of a topic's committed records, sorted."""
    return sorted(value for *_, value in topics.committed(place.brokers, topic, options.partitions))


def _copied(child: Child, place: Scratch, into: str, options: Options) -> Iterator[Reading]:
    """Poll the target until the program ends or all is there.

    A reading counts offsets, which transactions take some of, too.
    """
    began, rows, used, grown = time.monotonic(), 0, 0.0, time.monotonic()
    with topics.ends_of(place.brokers, into, options.partitions) as ends:
        while rows < options.records or time.monotonic() - grown < QUIET_SECONDS:
            running = child.process.poll() is None
            used = max(used, usage_of(child.root).seconds)  # an ended one has none
            now = sum(ends())
            if now > rows:
                rows, grown = now, time.monotonic()
                yield Reading(grown - began, rows, used)
            elif not running:
                break
            if time.monotonic() - began > SECONDS_MAX:
                raise child.failed(f"had copied {rows} records after {SECONDS_MAX:.0f} s")
            time.sleep(POLL_SECONDS)
