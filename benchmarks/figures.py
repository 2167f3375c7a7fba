"""The figures: what each is called, how large it is measured, and the metrics it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from benchmarks import (
    bound,
    cluster,
    commits,
    contend,
    crowd,
    distribute,
    drain,
    epoch,
    exchange,
    fanout,
    far,
    freshness,
    growth,
    health,
    keyed,
    keyed_peers,
    keyed_reads,
    maintain,
    memory,
    peers,
    produce,
    profile,
    publish,
    publish_latency,
    publish_peers,
    recovery,
    shapes,
    specs,
    standby,
    startup,
    storms,
    window,
)
from benchmarks.results import Measured
from benchmarks.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a figure: its unit, the aim where there is one, and which way is better."""

    value: str
    what: str
    unit: str = ""
    aim: str = ""
    better: Literal["less", "more", ""] = ""

    @property
    def is_ratio(self) -> bool:
        """Return whether it compares two things measured together: it bears a busy machine."""
        return self.value.endswith("ratio")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: `full` and `quick` are its options, one measurement for each.

    Figures without a ratio, or that take long, have nothing `quick`; those that need what is not
    here are measured `only_named`.
    """

    name: str
    what: str
    measure: Callable[[Any, Scratch], Measured]
    full: Sequence[Any]
    quick: Sequence[Any]
    metrics: Sequence[Metric]
    seconds_max: int = 900
    only_named: bool = False

    @property
    def options(self) -> type[Any]:
        """Return the class of its options."""
        return type(self.full[0])

    def command(self, options: Any) -> list[str]:
        """Return the words that measure it with some options."""
        words = [self.name]
        for each in fields(options):
            value, name = getattr(options, each.name), each.name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{name}" if value else f"--no-{name}")
            else:
                words += [f"--{name}", str(value)]
        return words


AIMS = {"flink": "≥ 2.1", "delta_ingest": "≥ 10"}


def _peer(name: str, title: str) -> Sequence[Metric]:
    return (
        Metric(f"{name}_rows_per_second", f"{title}: rows a second"),
        Metric(f"{name}_cpu", "CPU for a million rows", "s"),
        Metric(f"{name}_peak_mib", "largest memory", "MiB"),
        Metric(f"{name}_cpu_ratio", "CPU, of Penstock's", "times", AIMS.get(name, "≥ 3"), "more"),
        Metric(f"{name}_rate_ratio", "rate of Penstock, of its", "times", "", "more"),
    )


def _keyed_peer(name: str, title: str, *, of: str = "") -> Sequence[Metric]:
    own = [
        Metric(f"{name}_cpu", f"{title}: CPU for a million changes", "s"),
        Metric(f"{name}_rows_per_second", "changes a second"),
        Metric(f"{name}_commits", "commits"),
        Metric(f"{name}_peak_mib", "largest memory", "MiB"),
        Metric(f"{name}_read_cpu", "Spark's read of its table: CPU", "s"),
        Metric(f"{name}_read_seconds", "time", "s"),
        Metric(f"{name}_read_cpu_copy_ratio", "CPU, of a compacted copy's", "times"),
        Metric(f"{name}_read_copy_ratio", "time, of a compacted copy's", "times"),
    ]
    compared = [
        Metric(f"{name}_cpu_ratio", f"CPU for changes, of {of}", "times", "", "more"),
        Metric(f"{name}_rate_ratio", f"rate of {of}, of its", "times", "", "more"),
        Metric(f"{name}_read_cpu_ratio", f"CPU of the read, of {of}", "times"),
        Metric(f"{name}_read_ratio", f"time of the read, of {of}", "times"),
    ]
    return own + compared if of else own


def _copy(name: str, title: str, *, of: str = "") -> Sequence[Metric]:
    own = [
        Metric(f"{name}_rows_per_second", f"{title}: rows a second"),
        Metric(f"{name}_cpu", "CPU for a million rows", "s"),
        Metric(f"{name}_commits", "times that more was there"),
        Metric(f"{name}_peak_mib", "largest memory", "MiB"),
    ]
    compared = [
        Metric(f"{name}_cpu_ratio", f"CPU, of {of}", "times", "", "more"),
        Metric(f"{name}_rate_ratio", f"rate of {of}, of its", "times", "", "more"),
    ]
    return own + compared if of else own


FIGURES = (
    Figure(
        "drain",
        "A backlog of nested JSON records, about 300 bytes each, lz4, landed as fast as possible; "
        "for comparison, on the same topic, the bound path (benchmarks/reference.py), which has no "
        "guarantees.",
        drain.measure,
        full=[drain.Options(), drain.Options(format="delta")],
        quick=[drain.Options(records=300_000, epoch_records=100_000, rounds=1)],
        metrics=[
            Metric("rows_per_second", "rows a second", "", "≥ 500,000", "more"),
            Metric("rate_ratio", "rate, of the bound path's", "", "≥ 0.85", "more"),
            Metric("cpu_seconds_per_million", "CPU for a million rows", "s", "≤ 3.4", "less"),
            Metric("cpu_ratio", "CPU, of the bound path's", "", "", "less"),
            Metric("java_seconds_per_million", "of it in Java", "s"),
            Metric("reference_rows_per_second", "the bound path: rows a second"),
            Metric("reference_cpu_seconds_per_million", "the bound path: CPU", "s"),
            Metric("broker_seconds_per_million", "the broker, not counted: CPU", "s"),
            Metric("peak_mib", "largest memory of all processes", "MiB", "", "less"),
            Metric("files", "data files"),
            Metric("bytes_per_record", "bytes written for a record", "B"),
        ],
    ),
    Figure(
        "peers",
        "Penstock and other systems: one backlog, one machine, one run, one after the other, all "
        "with the same eleven columns (benchmarks/peers.py says what is timed). The programs of "
        "the others are not part of this project, so this is measured only when it is named.",
        peers.measure,
        full=[peers.Options()],
        quick=[],
        metrics=[
            Metric("penstock_iceberg_rows_per_second", "Penstock into Iceberg: rows a second"),
            Metric("penstock_iceberg_cpu", "CPU for a million rows", "s", "≤ 3.4"),
            Metric("penstock_delta_rows_per_second", "Penstock into Delta: rows a second"),
            Metric("penstock_delta_cpu", "CPU for a million rows", "s"),
            *(each for name, title in peers.PEERS.items() for each in _peer(name, title)),
        ],
        seconds_max=3600,
        only_named=True,
    ),
    Figure(
        "shapes",
        "A backlog in other shapes, without the bound path: flat records with 10, 100 and 300 "
        "columns, the nested records as Avro, tables partitioned by 1, 24 and 1,000 values, 10 and "
        "100 tables of a `route`, topics of 1 and 16 partitions.",
        shapes.measure,
        full=[
            shapes.Options(),
            shapes.Options(format="delta"),
            shapes.Options(encoding="avro"),
            shapes.Options(columns=10),
            shapes.Options(200_000, 50_000, columns=100),
            shapes.Options(60_000, 15_000, columns=300),
            *(shapes.Options(values=each) for each in (1, 24, 1000)),
            *(shapes.Options(tables=each) for each in (10, 100)),
            *(shapes.Options(partitions=each) for each in (1, 16)),
        ],
        quick=[],
        metrics=[
            Metric("rows_per_second", "rows a second", better="more"),
            Metric("megabytes_per_second", "of what was read", "MB/s", "", "more"),
            Metric("cpu_seconds_per_million", "CPU for a million rows", "s", "", "less"),
            Metric("peak_mib", "largest memory of all processes", "MiB", "", "less"),
            Metric("record_bytes", "bytes of a record", "B"),
            Metric("bytes_per_byte_read", "bytes written per byte read"),
            Metric("files", "data files"),
            Metric("file_kib_median", "half of them larger than", "KiB"),
            Metric("file_kib_max", "the largest", "KiB"),
        ],
    ),
    Figure(
        "cluster",
        "A backlog landed on a standalone Spark cluster by one executor and by two, of one core "
        "each; driver, executors and broker share the machine.",
        cluster.measure,
        full=[cluster.Options()],
        quick=[],
        metrics=[
            Metric("one_rows_per_second", "one executor: rows a second", better="more"),
            Metric("two_rows_per_second", "two executors: rows a second", better="more"),
            Metric("rate_ratio", "rate of two, of that of one", "", "", "more"),
            Metric("one_driver_seconds_per_million", "driver's CPU for a million rows, one", "s"),
            Metric("two_driver_seconds_per_million", "the same, two", "s", "", "less"),
        ],
    ),
    Figure(
        "keyed",
        "Updates of random keys land in a keyed table (position deletes, deletion vectors), next "
        "to an append of the same records; then the table is read next to a compacted copy, by "
        "PyIceberg or deltalake. The peer is deltalake's merge of the same changes, in memory "
        "already (benchmarks/keyed.py).",
        keyed.measure,
        full=[
            *(keyed.Options(each) for each in specs.FORMATS),
            *(keyed.Options(each, 10_000_000, epochs=6, peer_epochs=1) for each in specs.FORMATS),
            *(keyed.Options(each, 100_000_000, epochs=6, peer_epochs=0) for each in specs.FORMATS),
        ],
        quick=[keyed.Options(table_rows=200_000, changes=50_000, epochs=4, peer_epochs=1)],
        metrics=[
            Metric("changes_per_second", "changes a second", "", "", "more"),
            Metric("append_rows_per_second", "the append: rows a second"),
            Metric("append_rate_ratio", "rate, of the append's", "", "", "more"),
            Metric("cpu_seconds_per_million", "CPU for a million changes", "s", "", "less"),
            Metric("append_cpu_ratio", "CPU, of the append's", "", "", "less"),
            Metric("land_median_seconds", "an epoch's look-up and commit, median", "s", "", "less"),
            Metric("land_max_seconds", "at most", "s"),
            Metric("append_land_median_seconds", "the append: its commit, median", "s"),
            Metric("peak_mib", "largest memory of all processes", "MiB", "", "less"),
            Metric("read_seconds", "two columns of the table read afterwards", "s"),
            Metric("read_ratio", "time, of a compacted copy's", "times", "", "less"),
            Metric("merge_changes_per_second", "deltalake's merge: changes a second"),
            Metric("merge_seconds", "its epoch", "s"),
            Metric("merge_rate_ratio", "rate of Penstock, of its", "times", "", "more"),
        ],
        seconds_max=3600,
    ),
    Figure(
        "keyed-peers",
        "Updates of random keys by Penstock and by others: one topic, one machine, one run, one "
        "after the other; then Spark reads `count(*), sum(amount)` of every table, next to a "
        "compacted copy. Every table must be the fold of its changes "
        "(benchmarks/keyed_peers.py says what is timed). deltalake's merge has its "
        "changes in memory: no Kafka, no JSON.",
        keyed_peers.measure,
        full=[keyed_peers.Options()],
        quick=[],
        metrics=[
            *_keyed_peer("penstock_iceberg", "Penstock, Iceberg"),
            *_keyed_peer("penstock_delta", "Penstock, Delta"),
            *(
                metric
                for name, title in keyed_peers.PEERS.items()
                for metric in _keyed_peer(name, title, of="Penstock's into Iceberg")
            ),
            *_keyed_peer(keyed_peers.MERGE, "deltalake's merge, Delta", of="Penstock's into Delta"),
        ],
        seconds_max=1500,
        only_named=True,
    ),
    Figure(
        "keyed-reads",
        "A keyed table after a hundred commits of random keys and no compaction, read by Spark "
        "(`count(*), sum(amount)`) next to a compacted copy.",
        keyed_reads.measure,
        full=[keyed_reads.Options(), keyed_reads.Options(format="delta")],
        quick=[],
        metrics=[
            Metric("read_cpu_copy_ratio", "CPU of the read, of a compacted copy's", "times"),
            Metric(
                "read_copy_ratio",
                "time of the read, of a compacted copy's",
                "times",
                "≤ 2.5; Delta ≤ 1.5",
                "less",
            ),
            Metric("read_cpu", "the table: CPU", "s"),
            Metric("read_seconds", "time", "s"),
            Metric("copy_cpu", "the copy: CPU", "s"),
            Metric("copy_seconds", "time", "s"),
            Metric("cpu_seconds_per_million", "CPU for a million changes", "s", "", "less"),
            Metric("changes_per_second", "changes a second", "", "", "more"),
            Metric("land_median_seconds", "an epoch's look-up and commit, median", "s", "", "less"),
            Metric("land_max_seconds", "at most", "s"),
        ],
        only_named=True,
    ),
    Figure(
        "produce",
        "Rows of JSON with short keys, in memory, sent to a topic in one transaction: our packer "
        "and sender, and librdkafka from Python, in turn.",
        produce.measure,
        full=[produce.Options(), produce.Options(keyed=False)],
        quick=[produce.Options(records=200_000, rounds=1)],
        metrics=[
            Metric("own_rows_per_second", "ours: rows a second", "", "", "more"),
            Metric(
                "own_cpu_seconds_per_million", "ours: CPU for a million rows", "s", "≤ 1.1", "less"
            ),
            Metric("librdkafka_rows_per_second", "librdkafka: rows a second"),
            Metric("librdkafka_cpu_seconds_per_million", "librdkafka: CPU", "s"),
            Metric("cpu_ratio", "librdkafka's CPU, of ours", "times", "≥ 2.5", "more"),
            Metric("rate_ratio", "our rate, of librdkafka's", "times", "", "more"),
            Metric("own_broker_seconds_per_million", "the broker's CPU, ours", "s"),
            Metric("librdkafka_broker_seconds_per_million", "the broker's CPU, librdkafka", "s"),
            Metric("record_bytes", "mean size of a value", "bytes"),
        ],
    ),
    Figure(
        "publish",
        "A topic (mirror) or a table of eleven columns (keyed JSON) is published into a topic, "
        "exactly once, next to the script that one would write by hand: librdkafka from Python, "
        "DuckDB for JSON, in transactions of the same size (benchmarks/publish.py).",
        publish.measure,
        full=[
            publish.Options(),
            *(publish.Options("table", each) for each in specs.FORMATS),
            *(publish.Options(what, master="local[2]") for what in ("topic", "table")),
        ],
        quick=[publish.Options(records=1_000_000, transaction_records=100_000)],
        metrics=[
            Metric("own_rows_per_second", "rows a second", "", "≥ 600 k; table ≥ 250 k", "more"),
            Metric("own_cpu", "CPU for a million rows", "s", "≤ 2.0; table ≤ 4.5", "less"),
            Metric("own_peak_mib", "largest memory of all processes", "MiB", "", "less"),
            Metric("script_rows_per_second", "the script: rows a second"),
            Metric("script_cpu", "the script: CPU for a million rows", "s"),
            Metric("script_peak_mib", "the script: memory", "MiB"),
            Metric("cpu_ratio", "the script's CPU, of ours", "times", "≥ 2", "more"),
            Metric("rate_ratio", "our rate, of the script's", "times", "", "more"),
        ],
    ),
    Figure(
        "publish-modes",
        "The same, published exactly once by either client, next to at least once (`exactly_once: "
        "off`, librdkafka): what transactions cost (benchmarks/publish.py).",
        publish.measure_modes,
        full=[publish.ModesOptions(what) for what in ("topic", "table")],
        quick=[],
        metrics=[
            Metric("own_rows_per_second", "exactly once, own sender: rows a second"),
            Metric("own_cpu", "CPU for a million rows", "s"),
            Metric("own_cpu_ratio", "CPU, of that of off", "times", "≤ 1.05", "less"),
            Metric("own_rate_ratio", "rate, of that of off", "times", "", "more"),
            Metric("library_rows_per_second", "exactly once, librdkafka: rows a second"),
            Metric("library_cpu", "CPU for a million rows", "s"),
            Metric("library_cpu_ratio", "CPU, of that of off", "times", "≤ 1.05", "less"),
            Metric("library_rate_ratio", "rate, of that of off", "times", "", "more"),
            Metric("off_rows_per_second", "off: rows a second"),
            Metric("off_cpu", "CPU for a million rows", "s"),
        ],
        only_named=True,
    ),
    Figure(
        "publish-latency",
        "A topic is mirrored in transactions of 1,000 records: bursts, a backlog, and runs after "
        "SIGKILL (benchmarks/publish_latency.py says what is timed).",
        publish_latency.measure,
        full=[publish_latency.Options()],
        quick=[publish_latency.Options(bursts=10, back_to_back=50, kills=1)],
        metrics=[
            Metric("visible_median_ms", "acknowledged to visible: median", "ms", "≤ 200", "less"),
            Metric("visible_p99_ms", "99 of 100 within", "ms", "≤ 500", "less"),
            Metric("burst_epoch_median_ms", "a transaction of it: median", "ms", "", "less"),
            Metric("epoch_median_ms", "back to back, a transaction: median", "ms", "", "less"),
            Metric("epoch_p99_ms", "99 of 100 within", "ms", "", "less"),
            Metric("epoch_cpu_ms", "CPU of a transaction", "ms", "", "less"),
            Metric("open_share", "share of the time that one is open", "", "≤ 0.4", "less"),
            Metric("memory_mib", "memory at the end", "MiB", "", "less"),
            Metric("memory_growth_mib", "more than at a quarter of the way", "MiB", "", "less"),
            Metric("recovery_median_seconds", "SIGKILL to published: median", "s", "≤ 5", "less"),
            Metric("recovery_max_seconds", "the longest", "s", "", "less"),
        ],
    ),
    Figure(
        "publish-peers",
        "A topic is copied into another one by Penstock, by librdkafka from Python, and by "
        "others: one machine, one run, one after the other (benchmarks/publish_peers.py says what "
        "is timed).",
        publish_peers.measure,
        full=[publish_peers.Options()],
        quick=[],
        metrics=[
            *_copy("own", "Penstock"),
            *_copy("script", "librdkafka from Python, exactly once", of="Penstock's"),
            *(
                metric
                for name, title in publish_peers.PEERS.items()
                for metric in _copy(name, title, of="Penstock's")
            ),
        ],
        seconds_max=1200,
        only_named=True,
    ),
    Figure(
        "exchange",
        "Rows of one key meet in one task, on a standalone Spark cluster of two executors: by "
        "files, or by Spark's shuffle of blobs or rows; the last row of each key stays.",
        exchange.measure,
        full=[exchange.Options(), exchange.Options(slice_records=2500)],
        quick=[],
        metrics=[
            Metric("files_ms", "files: from slices to buckets", "ms", "", "less"),
            Metric("files_cpu_seconds_per_million", "CPU for a million rows", "s", "", "less"),
            Metric("blobs_ms", "blobs through Spark's shuffle", "ms"),
            Metric("blobs_cpu_seconds_per_million", "CPU for a million rows", "s"),
            Metric("blobs_cpu_ratio", "CPU, of the files'", "times"),
            Metric("blobs_time_ratio", "time, of the files'", "times"),
            Metric("rows_ms", "rows through Spark's shuffle", "ms"),
            Metric("rows_cpu_seconds_per_million", "CPU for a million rows", "s"),
            Metric("rows_cpu_ratio", "CPU, of the files'", "times"),
        ],
    ),
    Figure(
        "epoch",
        "Epochs of 20,000 records back to back on warm Spark, from plan to commit.",
        epoch.measure,
        full=[epoch.Options()],
        quick=[epoch.Options(epochs=20, tiny_epochs=20)],
        metrics=[
            Metric("median_ms", "median", "ms", "≤ 190", "less"),
            Metric("p90_ms", "nine of ten within", "ms", "", "less"),
            Metric("median_ratio", "median, of the bound path's", "", "", "less"),
            Metric("between_commits_median_ms", "from commit to commit", "ms", "", "less"),
            Metric("prepared_median_ms", "plan to prepared", "ms"),
            Metric("reference_median_ms", "the bound path", "ms"),
            Metric("tiny_median_ms", "eight records", "ms", "", "less"),
            Metric("empty_median_ms", "no records, to prepared", "ms", "≤ 110", "less"),
        ],
    ),
    Figure(
        "commit",
        "One prepared commit, by default of ten files and four partitions: examined, decided, "
        "compared and set, read back.",
        commits.measure,
        full=[
            commits.Options(),
            commits.Options(format="delta"),
            *(commits.Options(each, 20, 40, 60, files=1000) for each in specs.FORMATS),
            *(commits.Options(each, 20, 40, 60, partitions=2000) for each in specs.FORMATS),
        ],
        quick=[
            commits.Options(early=25, level=40, late=60),
            commits.Options(format="delta", early=25, level=40, late=60),
        ],
        metrics=[
            Metric("early_ms", "after the early commits", "ms", "≤ 50", "less"),
            Metric("late_ms", "after the late commits", "ms", "≤ 50", "less"),
            Metric("level_ms", "with the largest number of snapshots", "ms", "≤ 50", "less"),
            Metric("ratio", "late, of those", "", "≤ 1.3", "less"),
            Metric("early_cpu_ms", "CPU after the early commits", "ms", "", "less"),
            Metric("late_cpu_ms", "CPU after the late commits", "ms", "", "less"),
            Metric("prepare_ms", "writing it to the store before", "ms"),
            Metric("housekeep_ms", "housekeeping after it", "ms"),
            Metric("housekeep_max_ms", "housekeeping, at worst", "ms"),
        ],
    ),
    Figure(
        "fanout",
        "One topic becomes many tables by a `route`, in epochs of 50,000 records (100,000 for a "
        "thousand tables); the tables are created during the run.",
        fanout.measure,
        full=[
            fanout.Options(),
            fanout.Options(format="delta"),
            fanout.Options(tables=1000, records=400_000, epoch_records=100_000),
        ],
        quick=[fanout.Options(tables=20, records=60_000, epoch_records=20_000)],
        metrics=[
            Metric("one_epoch_ms", "an epoch into one table", "ms", "", "less"),
            Metric("many_epoch_ms", "an epoch into all", "ms", "", "less"),
            Metric("table_ms", "more for each table", "ms", "≤ 30", "less"),
            Metric("one_peak_mib", "largest memory with one table", "MiB"),
            Metric("many_peak_mib", "largest memory with all", "MiB", "", "less"),
            Metric("open_files", "files open at once in a process", "", "", "less"),
            Metric("result_kib", "the pending store at the end", "KiB"),
        ],
    ),
    Figure(
        "far",
        "The same commit in an object store with slow answers; `answers` is how many a commit "
        "waits for, one after another.",
        far.measure,
        full=[far.Options(each, answer_ms=late) for late in (50, 200) for each in specs.FORMATS],
        quick=[far.Options(commits=10), far.Options(format="delta", commits=10)],
        metrics=[
            Metric("near_ms", "the store nearby", "ms", "", "less"),
            Metric("far_ms", "the store far away", "ms", "", "less"),
            Metric("answers", "answers waited for", "", "", "less"),
        ],
    ),
    Figure(
        "crowd",
        "The commits of one epoch into very many tables, each answer of the object store late.",
        crowd.measure,
        full=[crowd.Options(), crowd.Options(format="delta")],
        quick=[],
        metrics=[
            Metric("seconds", "the commits of an epoch", "s", "", "less"),
            Metric("cpu_ms", "CPU of a commit", "ms", "", "less"),
            Metric("requests", "requests of a commit", "", "", "less"),
            Metric("at_once", "commits at once, in the end"),
        ],
    ),
    Figure(
        "contend",
        "Writers that commit to one table as fast as they can: fewest commits of one to most.",
        contend.measure,
        full=[contend.Options(), contend.Options(format="delta")],
        quick=[],
        metrics=[
            Metric("fairness", "fewest commits of a writer to most", "", "", "more"),
            Metric("commits_per_s", "commits a second, of all"),
            Metric("conflicts", "attempts lost for each that landed", "", "", "less"),
        ],
    ),
    Figure(
        "growth",
        "The size of a table's metadata in an object store: per commit, per file in it, per "
        "partition of the topic.",
        growth.measure,
        full=[growth.Options(), growth.Options(format="delta")],
        quick=[],
        metrics=[
            Metric("commit_bytes", "a commit of nothing", "B", "", "less"),
            Metric("file_bytes", "more for a file", "B", "", "less"),
            Metric("partition_bytes", "more for a partition", "B", "", "less"),
            Metric("partition_beyond_bytes", "the same with very many", "B"),
            Metric("ledger_partition_bytes", "of it in the ledger", "B"),
            Metric("pending_file_bytes", "the pending store: more for a file", "B"),
            Metric("pending_partition_bytes", "the pending store: more for a partition", "B"),
            Metric("head_bytes", "what a reader begins with, metadata or checkpoint", "B"),
            Metric("head_file_bytes", "more for a live file", "B"),
            Metric("requests", "requests of a commit", "", "", "less"),
            Metric("puts", "of them PUT or POST"),
        ],
    ),
    Figure(
        "freshness",
        "From the time of a record until its row can be read, with a steady producer. The aims are "
        "those of 5,000 records a second and `every: 1s`; of 1,000 changes a second in a keyed "
        "table of 1e7 rows: p50 ≤ 1 s, p99 ≤ 2 s.",
        freshness.measure,
        full=[
            freshness.Options(),
            *(
                freshness.Options(1000, format=each, keyed_rows=10_000_000)
                for each in specs.FORMATS
            ),
            *(
                freshness.Options(rate, 30, every=every)
                for rate in (500, 5000, 50_000)
                for every in ("250ms", "1s", "10s")
            ),
        ],
        quick=[],
        metrics=[
            Metric("p50_seconds", "median", "s", "", "less"),
            Metric("p99_seconds", "p99", "s", "≤ 1.2", "less"),
            Metric("max_seconds", "at worst", "s"),
            Metric("cores", "cores used", "", "≤ 0.4", "less"),
            Metric("commits", "commits"),
        ],
    ),
    Figure(
        "freshness-maintained",
        "The same, of a table of 24 partition values that the run maintains meanwhile; and how "
        "many files it has beyond the newest, of those that would do.",
        freshness.measure_maintained,
        full=[freshness.MaintainedOptions()],
        quick=[],
        metrics=[
            Metric("p50_seconds", "median", "s", "", "less"),
            Metric("p99_seconds", "p99", "s", "≤ 1.5", "less"),
            Metric("max_seconds", "at worst", "s"),
            Metric("cores", "cores used", "", "", "less"),
            Metric("maintenance_cores", "of it by maintenance", "", "≤ 0.5", "less"),
            Metric("old_files_ratio", "older files, of those that would do", "", "≤ 1.5", "less"),
        ],
    ),
    Figure(
        "recovery",
        "From kill -9 to the first commit of newly read records; the process is restarted at once.",
        recovery.measure,
        full=[recovery.Options()],
        quick=[],
        metrics=[
            Metric("median_seconds", "median", "s", "≤ 12", "less"),
            Metric("max_seconds", "at worst", "s", "≤ 12", "less"),
            Metric("started_median_seconds", "to the claim: Python, Spark, catalogs", "s"),
            Metric("cpu_median_seconds", "CPU until then", "s", "", "less"),
            Metric("any_commit_median_seconds", "to any commit, prepared before or not", "s"),
            Metric("kills", "kills"),
        ],
    ),
    Figure(
        "standby",
        "A pipeline changes its owner, with a stand-by that is ready: from kill -9 to the first "
        "commit of newly read records, and the gap between two commits where it is handed over.",
        standby.measure,
        full=[standby.Options()],
        quick=[],
        metrics=[
            Metric("median_seconds", "SIGKILL to a new commit: median", "s", "≤ 1", "less"),
            Metric("max_seconds", "at worst", "s", "≤ 2", "less"),
            Metric("handover_median_seconds", "hand-over: gap, median", "s", "≤ 1.5", "less"),
            Metric("handover_max_seconds", "at worst", "s", "≤ 2.5", "less"),
            Metric("rest_cores", "a stand-by at rest: cores", "", "≤ 0.02", "less"),
            Metric("rest_mib", "its memory", "MiB", "≤ 900", "less"),
            Metric("kills", "kills"),
            Metric("handovers", "hand-overs"),
        ],
    ),
    Figure(
        "memory",
        "Memory over many small epochs, after a warm-up. It takes an hour, so it is measured only "
        "if it is named.",
        memory.measure,
        full=[memory.Options()],
        quick=[],
        metrics=[
            Metric("commits", "commits"),
            Metric("driver_start_mib", "driver at first", "MiB"),
            Metric("driver_end_mib", "driver at last", "MiB", "", "less"),
            Metric("driver_mib_per_hour", "driver's slope", "MiB/h", "flat"),
            Metric("java_start_mib", "Java at first", "MiB"),
            Metric("java_end_mib", "Java at last", "MiB", "", "less"),
            Metric("java_mib_per_hour", "Java's slope", "MiB/h", "flat"),
            Metric("worker_end_mib", "workers at last", "MiB"),
            Metric("worker_mib_per_hour", "workers' slope", "MiB/h", "flat"),
        ],
        seconds_max=7200,
        only_named=True,
    ),
    Figure(
        "bound",
        "CPU seconds for a million rows on one core, stage by stage, in plain processes.",
        bound.measure,
        full=[bound.Options()],
        quick=[bound.Options(records=100_000)],
        metrics=[
            Metric("reference_read", "the bound path: read", "s"),
            Metric("reference_wrap", "wrap", "s"),
            Metric("reference_parse", "parse", "s"),
            Metric("reference_unwrap", "unwrap", "s"),
            Metric("reference_parquet", "Parquet", "s"),
            Metric("reference_total", "in all", "s"),
            Metric("penstock_read", "Penstock: read", "s", "", "less"),
            Metric("penstock_convert", "convert", "s", "", "less"),
            Metric("penstock_parse", "of it wrap and parse", "s"),
            Metric("penstock_parquet", "partition, Parquet, statistics, sync", "s", "", "less"),
            Metric("penstock_total", "in all", "s", "", "less"),
            Metric("ratio", "Penstock, of the bound path", "", "", "less"),
        ],
    ),
    Figure(
        "bad",
        "CPU seconds of a worker for a million records that do not fit, by their fault; its jobs "
        "run in a plain process, from the topic to the files of table and quarantine. Under "
        "drop_value and rescue, records land without what does not fit.",
        storms.measure,
        full=[storms.Options()],
        quick=[storms.Options(records=50_000)],
        metrics=[
            Metric("good_seconds", "records that fit", "s", "", "less"),
            *(
                each
                for case, (kind, policy) in storms.CASES.items()
                if kind != storms.GOOD
                for each in (
                    Metric(f"{case}_seconds", storms.title(kind, policy), "s", "", "less"),
                    Metric(f"{case}_ratio", "of those that fit", "", "≤ 3", "less"),
                )
            ),
            Metric("worst_ratio", "at worst", "", "≤ 3", "less"),
        ],
    ),
    Figure(
        "profile",
        "Where the CPU time of a drain goes in its Python processes, by samples of Python and "
        "native code that py-spy takes after the first commit; waiting threads are not counted.",
        profile.measure,
        full=[profile.Options()],
        quick=[],
        metrics=[
            Metric("fetch_percent", "fetch: connection, codecs, batches into columns", "%"),
            Metric("parse_percent", "parse: JSON into columns", "%"),
            Metric("convert_percent", "convert: types, checks, source columns", "%"),
            Metric("parquet_percent", "Parquet, statistics, sync", "%"),
            Metric("books_percent", "accounting: lanes, tallies, results", "%"),
            Metric("spark_percent", "PySpark's worker", "%"),
            Metric("tables_percent", "connectors of tables, in workers", "%"),
            Metric("rest_percent", "no code of Penstock on the stack", "%"),
            Metric("driver_percent", "the driver: plans, commits, the store", "%"),
            Metric("samples", "samples"),
        ],
    ),
    Figure(
        "maintain",
        "Small files of a Delta table are written again as one, rows compared, next to deltalake's "
        "`optimize.compact`, in one process, and to Spark's `rewrite_data_files` and OPTIMIZE, in "
        "a warm session (benchmarks/maintain.py says what is timed).",
        maintain.measure,
        full=[maintain.Options(), maintain.Options(files_by="deltalake")],
        quick=[maintain.Options(rows=250_000, rounds=3, spark=False)],
        metrics=[
            Metric("cpu_peer_ratio", "CPU, of deltalake's", "times", "≤ 0.6", "less"),
            Metric("cpu_seconds_per_gb", "CPU for a GB of files", "s", "≤ 30", "less"),
            Metric("peer_cpu_seconds_per_gb", "deltalake's", "s"),
            Metric(
                "cpu_spark_rewrite_ratio", "CPU, of rewrite_data_files", "times", "≤ 0.25", "less"
            ),
            Metric("spark_rewrite_cpu_seconds_per_gb", "rewrite_data_files", "s"),
            Metric("cpu_spark_optimize_ratio", "CPU, of Spark's OPTIMIZE", "times", "", "less"),
            Metric("spark_optimize_cpu_seconds_per_gb", "Spark's OPTIMIZE", "s"),
            Metric("read_gb", "files that were read", "GB"),
        ],
    ),
    Figure(
        "health",
        "How long `penstock maintain --dry-run` takes, in a process of its own, on a table of "
        "100,000 files in ten partitions.",
        health.measure,
        full=[health.Options(format=each) for each in specs.FORMATS],
        quick=[health.Options(commits=10)],
        metrics=[
            Metric("seconds", "from start to end", "s", "≤ 10", "less"),
            Metric("cpu_seconds", "of it CPU", "s", "", "less"),
            Metric("files", "files"),
        ],
    ),
    Figure(
        "window",
        "CPU of one attempt to put one file in the place of a hundred, from the look at the table "
        "to the answer, and of an append of ten files, on a table of 10,000 or 100,000 files "
        "(benchmarks/window.py says what is timed).",
        window.measure,
        full=[window.Options(), window.Options(files=1000)],
        quick=[window.Options(commits=10)],
        metrics=[
            Metric("append_ms", "append", "ms"),
            Metric("together_ms", "files of few manifests", "ms"),
            Metric("together_ratio", "of an append", "times", "≤ 1.3", "less"),
            Metric("scattered_ms", "files all over the table", "ms"),
            Metric("scattered_ratio", "of an append", "times", "≤ 1.3", "less"),
        ],
    ),
    Figure(
        "distribute",
        "A backlog into a table of 1,000 or 24 partitions: a file for each in every task, by "
        "exchange, late, or as `auto` chooses, and what maintenance takes afterwards "
        "(benchmarks/distribute.py says what is timed).",
        distribute.measure,
        full=[distribute.Options(), distribute.Options(values=24)],
        quick=[],
        metrics=[
            each
            for way, landing, in_all in (
                ("none", "", ""),
                ("hash", "≤ 20", ""),
                ("late", "≤ 6", "≤ 12"),
                ("auto", "≤ 6", "≤ 12"),
            )
            for each in (
                Metric(f"{way}_cpu_seconds_per_million", f"{way}: landing", "s", landing, "less"),
                Metric(f"{way}_maintenance_seconds_per_million", f"{way}: maintenance", "s"),
                Metric(f"{way}_cpu_seconds_per_million_in_all", f"{way}: in all", "s", in_all),
                Metric(f"{way}_files", f"{way}: files that landed"),
                Metric(f"{way}_files_maintained", f"{way}: files afterwards"),
                Metric(f"{way}_peak_mib", f"{way}: largest memory", "MiB"),
            )
        ],
    ),
    Figure(
        "startup",
        "How quickly a command with nothing to do answers: the median of 21 processes.",
        startup.measure,
        full=[startup.Options()],
        quick=[startup.Options(rounds=5)],
        metrics=[
            Metric("version_seconds", "penstock --version", "s", "≤ 0.3", "less"),
            Metric("version_cpu_seconds", "of it CPU", "s", "", "less"),
            Metric("help_seconds", "penstock --help", "s", "≤ 0.5", "less"),
            Metric("help_cpu_seconds", "of it CPU", "s", "", "less"),
        ],
    ),
)


def named(name: str) -> Figure:
    """Find a figure."""
    return next(figure for figure in FIGURES if figure.name == name)
