"""Changes of random keys land in a table that has rows, next to an append of the same records.

A table of `table_rows` is made by a run of its own, in epochs of a million; then `epochs` epochs of
`changes` follow, each an update of a key at random, the worst case: all files are read for each
epoch, and any of them loses rows. The first of them warms up. The append lands both parts in the
same epochs, with the same settings, and no keys.

Two readers that are not ours then read the table: what stands there must be the last record of each
key. They are timed, and next to them the same rows in a table that they wrote themselves, without
row deletes. The peer is deltalake's `merge`, from Arrow tables in memory: without Kafka and JSON,
and with one row for each key already.

Invariant: a key is in one partition, whose offsets are those of its records in their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import json as arrow_json

from benchmarks import records, specs, topics
from benchmarks.children import FailedError
from benchmarks.meter import Usage, usage_of, watched
from benchmarks.results import Measured
from benchmarks.scratch import Scratch
from benchmarks.specs import TABLE, Format

TOPIC = "keyed"
MILLION = 1_000_000
SEED = 7
KEYED = {"mode": "upsert", "keys": ["id"], "tombstones": "skip"}
READINGS = 3
PATIENCE_SECONDS = 300.0
CHECKED = ("id", "user_id")
_USER = slice(len(b'"user_id":"'), len(b'"user_id":"') + 32)
UNTIL = ("--until-caught-up",)

Keys = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Options:
    """`epochs` of `changes` each are timed, after one that warms up, into so many rows.

    With no `peer_epochs` nothing is measured next to them: no append, no copy, no peer.
    """

    format: Format = "iceberg"
    table_rows: int = 1_000_000
    changes: int = 100_000
    epochs: int = 8
    partitions: int = 4
    peer_epochs: int = 2


@dataclass(frozen=True, slots=True)
class Leg:
    """How one run went from its first commit to its last; `land` is each commit's own seconds."""

    rate: float
    cpu: float
    land: tuple[float, ...]
    peak_mib: float


@dataclass(frozen=True, slots=True)
class Spent:
    """What something took, of the clock and of the processors."""

    seconds: float
    cpu: float


def measure(options: Options, place: Scratch) -> Measured:
    """Measure both runs, the readers, and the peer."""
    assert not options.table_rows % options.partitions, "a key stays in its partition"
    assert not options.changes % options.partitions, "a key stays in its partition"
    place.topic(TOPIC, options.partitions)
    topics.fill(place.brokers, TOPIC, options.partitions, options.table_rows)
    folder = place.subfolder("k")
    make(folder, place, options, KEYED)
    beside = _appending(place, options) if options.peer_epochs else None
    drawn = keys(options)
    change(place, options, drawn)
    append = landed(beside, place, options, {}) if beside else None
    keyed = landed(folder, place, options, KEYED)
    check_offsets(folder, options.format, options.partitions, options.table_rows, drawn)
    figures = {
        "changes_per_second": keyed.rate,
        "cpu_seconds_per_million": keyed.cpu,
        "land_median_seconds": median(keyed.land),
        "land_max_seconds": max(keyed.land),
        "peak_mib": keyed.peak_mib,
    }
    raw: dict[str, Any] = {"land_seconds": keyed.land}
    if append is None:
        return Measured(figures, raw)
    ratio, read_seconds = _read(folder, options)
    peer = [spent.seconds for spent in merged(place.subfolder("m"), options, drawn)]
    figures |= {
        "append_rows_per_second": append.rate,
        "append_cpu_seconds_per_million": append.cpu,
        "append_rate_ratio": keyed.rate / append.rate,
        "append_cpu_ratio": keyed.cpu / append.cpu,
        "append_land_median_seconds": median(append.land),
        "read_seconds": read_seconds,
        "read_ratio": ratio,
        "merge_changes_per_second": options.changes / median(peer),
        "merge_seconds": median(peer),
        "merge_rate_ratio": keyed.rate * median(peer) / options.changes,
    }
    return Measured(figures, raw | {"append_land_seconds": append.land, "merge_seconds": peer})


def _appending(place: Scratch, options: Options) -> Path:
    """Make the table of the append; return its folder."""
    folder = place.subfolder("a")
    make(folder, place, options, {})
    return folder


def keys(options: Options) -> Keys:
    """Draw the key of each change; change i is of partition i modulo their number."""
    count, by = (options.epochs + 1) * options.changes, options.partitions
    draw = np.random.default_rng(SEED).integers(0, options.table_rows // by, count)
    found: Keys = draw * by + np.arange(count) % by
    return found


def values(drawn: Keys, first: int) -> Iterator[bytes]:
    """Yield the records of changes, the first of which has a number."""
    tails = records.pool()
    for number, key in enumerate(drawn.tolist(), start=first):
        yield b'{"id":%d,%b' % (key, tails[number % records.POOL])


def make(folder: Path, place: Scratch, options: Options, rule: dict[str, Any]) -> None:
    """Land the rows that the table begins with."""
    child = place.penstock(spec(folder, place, options, rule, MILLION), *UNTIL)
    for _ in child.lines(PATIENCE_SECONDS):
        pass
    child.ended()


def change(place: Scratch, options: Options, drawn: Keys) -> None:
    """Send the changes."""
    made, first = values(drawn, options.table_rows), options.table_rows
    topics.send(place.brokers, TOPIC, options.partitions, made, first=first)


def fold(table_rows: int, drawn: Keys) -> Keys:
    """Return the number of the last record of each key."""
    last = np.arange(table_rows)
    last[drawn] = np.arange(len(drawn)) + table_rows  # of a key drawn twice, the later one
    return last


def check(found: pa.Table, options: Options, drawn: Keys, name: str = "the table") -> None:
    """Raise FailedError unless rows, sorted by their key, are the last records of their keys."""
    tails = records.pool()
    users = pa.array([str(tail[_USER], "ascii") for tail in tails])
    wanted = users.take(pa.array(fold(options.table_rows, drawn) % records.POOL))
    ids, user_ids = (found[each].combine_chunks() for each in CHECKED)
    if ids != pa.array(range(options.table_rows)) or not user_ids.equals(wanted):
        raise FailedError(f"{name}: its {len(ids)} rows are not the last records of their keys")


def spec(
    folder: Path, place: Scratch, options: Options, rule: dict[str, Any], or_records: int
) -> Path:
    return specs.write(
        folder,
        place.brokers,
        TOPIC,
        table_format=options.format,
        or_records=or_records,
        rule=rule,
    )


def landed(folder: Path, place: Scratch, options: Options, rule: dict[str, Any]) -> Leg:
    """Land the changes; time the epochs after the first."""
    child = place.penstock(spec(folder, place, options, rule, options.changes), *UNTIL)
    readings: list[tuple[float, Usage]] = []
    land = []
    with watched(child.root) as samples:
        for line in child.lines(PATIENCE_SECONDS):
            if line["event"] == "TableCommitted" and line["rows"]:
                readings.append((time.monotonic(), usage_of(child.root)))
                land.append(line["seconds"])
    child.ended()
    if len(readings) != options.epochs + 1:
        raise FailedError(f"{len(readings)} commits landed, not {options.epochs + 1}")
    (began, before), (ended, after) = readings[0], readings[-1]
    changes = options.epochs * options.changes
    used = after.seconds - before.seconds
    return Leg(changes / (ended - began), used / changes * MILLION, (*land[1:],), samples.peak_mib)


def _read(folder: Path, options: Options) -> tuple[float, float]:
    """Return the table's reading time, of that of a compacted copy, and its own."""
    read, copied = READERS[options.format](folder)
    names = ["id", "amount"]
    copy = copied(read(None))
    own, other = [], []
    for _ in range(READINGS):
        own.append(_timed(lambda: read(names)))
        other.append(_timed(lambda: copy(names)))
    return median(own) / median(other), median(own)


def check_offsets(
    folder: Path, table_format: Format, partitions: int, table_rows: int, drawn: Keys
) -> None:
    """Raise FailedError unless each key's row is its last record, by a reader that is not ours."""
    read, _ = READERS[table_format](folder)
    found = read(["id", "_kafka_offset"]).sort_by("id")
    wanted = fold(table_rows, drawn) // partitions
    ids, offsets = (found[name].to_numpy() for name in ("id", "_kafka_offset"))
    if not np.array_equal(ids, np.arange(table_rows)) or not np.array_equal(offsets, wanted):
        raise FailedError(f"the table's {len(ids)} rows are not the last records of their keys")


Read = Callable[[list[str] | None], pa.Table]


def _iceberg(folder: Path) -> tuple[Read, Callable[[pa.Table], Read]]:
    """Read by PyIceberg, which also writes the copy."""
    from pyiceberg.catalog import load_catalog

    uri = f"sqlite:///{folder}/catalog.db"
    catalog = load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{folder}/lake")

    def read(name: str) -> Read:
        table = catalog.load_table(name)
        return lambda names: table.scan(selected_fields=tuple(names or ["*"])).to_arrow()

    def copied(rows: pa.Table) -> Read:
        catalog.create_table("bench.copy", rows.schema).append(rows)
        return read("bench.copy")

    return read(TABLE), copied


def _delta(folder: Path) -> tuple[Read, Callable[[pa.Table], Read]]:
    """Read by deltalake, which also writes the copy."""
    from deltalake import DeltaTable, QueryBuilder, write_deltalake

    def read(place: Path) -> Read:
        builder = QueryBuilder().register("it", DeltaTable(str(place)))
        return lambda names: pa.table(
            builder.execute(f"select {', '.join(names or ['*'])} from it").read_all()
        )

    def copied(rows: pa.Table) -> Read:
        write_deltalake(str(folder / "copy"), rows)
        return read(folder / "copy")

    return read(folder / "delta" / TABLE.replace(".", "/")), copied


READERS = {"iceberg": _iceberg, "delta": _delta}


def merged(folder: Path, options: Options, drawn: Keys) -> list[Spent]:
    """Merge the changes of some epochs by deltalake; return what each took."""
    from deltalake import DeltaTable, write_deltalake

    path = str(folder / "table")
    write_deltalake(path, arrow(records.values(0, options.table_rows)))
    took = []
    for number in range(options.peer_epochs):
        start = number * options.changes
        part = drawn[start : start + options.changes]
        rows = arrow(values(part, options.table_rows + start))
        _, lasts = np.unique(part[::-1], return_index=True)
        source = rows.take(pa.array(np.sort(len(part) - 1 - lasts)))
        merge = DeltaTable(path).merge(
            source, predicate="t.id = s.id", source_alias="s", target_alias="t"
        )
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        used = time.process_time()
        seconds = _timed(merge.execute)
        took.append(Spent(seconds, time.process_time() - used))
    rows_after = DeltaTable(path).to_pyarrow_dataset().count_rows()
    if rows_after != options.table_rows:
        raise FailedError(f"the peer's table has {rows_after} rows")
    return took


def arrow(made: Iterator[bytes]) -> pa.Table:
    """Return the values of records as the columns of a table."""
    options = arrow_json.ParseOptions(explicit_schema=records.ARROW)
    return arrow_json.read_json(BytesIO(b"\n".join(made)), parse_options=options)


def _timed(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began
