"""Metrics for Prometheus, fed by the same events as the log (interface.md 4).

Invariants:
- names and labels are those of docs/reference/metrics.md; none is renamed or removed;
- counters and histograms count events of this process; gauges are read from the board at each
  scrape, so that they never lag behind `penstock status`;
- the registry is not global, so several pipelines can run in one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from penstock.core import events, maintenance_events
from penstock.core.crash_points import CrashPoint
from penstock.core.events import Event
from penstock.observe.snapshot import State, TableStatus, stalled
from penstock.observe.status import StatusBoard
from penstock.ports.runtime import Clock

if TYPE_CHECKING:
    from prometheus_client import Metric

PREFIX = "penstock_"
SMALL_SHARE = 0.25

SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_BYTES = tuple(float(4**power * 16_384) for power in range(9))  # 16 KiB to 1 GiB


_OUTCOMES: Mapping[type[Event], str] = {
    events.TableCommitted: "landed",
    events.CommitFoundLanded: "found landed",
    events.CommitConflicted: "conflict",
    events.CommitLeftInDoubt: "in doubt",
    events.CommitAborted: "aborted",
}


def seconds_of(at_ms: int | None) -> float | None:
    """Return a time as Prometheus has it: seconds, or None where it is not known."""
    return None if at_ms is None else at_ms / 1000


_TABLE_GAUGES: Sequence[tuple[str, str, Callable[[TableStatus], float | None]]] = (
    (
        "table_valid_through_timestamp_seconds",
        "Every record readable at this time is in the table or in quarantine.",
        lambda table: seconds_of(table.valid_through_ms),
    ),
    (
        "table_lag_records",
        "Records in Kafka that the table has not read yet, also while it is parked.",
        lambda table: table.lag_records,
    ),
    ("pending_commits", "Commits prepared and not yet visible.", lambda table: len(table.pending)),
    (
        "last_commit_timestamp_seconds",
        "Time of the newest commit of this run.",
        lambda table: seconds_of(table.last_commit.at_ms) if table.last_commit else None,
    ),
    (
        "table_paused_until_timestamp_seconds",
        "Until when a table is paused; missing if it is not.",
        lambda table: seconds_of(table.paused_until_ms),
    ),
    (
        "table_excess_files",
        "Files that maintenance would save: as looked at last, and what landed since.",
        lambda table: table.health.excess_files if table.health else None,
    ),
    (
        "table_late_files",
        "Files of rows that wait for their partitions, as looked at last.",
        lambda table: table.health.late if table.health else None,
    ),
    (
        "table_deleted_share",
        "Share of the rows in the table's files that are deleted, as looked at last.",
        lambda table: table.health.deleted_share if table.health else None,
    ),
    (
        "table_metadata_bytes",
        "Bytes of metadata that a reader reads first, as looked at last.",
        lambda table: table.health.metadata_bytes if table.health else None,
    ),
    ("table_parked", "1 while the table is parked.", lambda table: int(table.parked is not None)),
)


class Metrics(Collector):
    """Count events of several threads; `registry` is what an endpoint shows.

    `promised` says in seconds how old what is in a table may be; None where nothing is promised.
    """

    def __init__(
        self,
        board: StatusBoard,
        clock: Clock,
        *,
        version: str,
        interval_ms: int,
        target_file_bytes: int,
        promised: Callable[[str], float | None] = lambda _: None,
    ) -> None:
        self.registry = CollectorRegistry(auto_describe=False)

        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(PREFIX + name, about, labels, registry=self.registry)

        def histogram(name: str, about: str, label: str, edges: Sequence[float]) -> Histogram:
            return Histogram(PREFIX + name, about, (label,), registry=self.registry, buckets=edges)

        self._board = board
        self._clock = clock
        self._version = version
        self._interval_ms, self._promised = interval_ms, promised
        self._small_bytes = target_file_bytes * SMALL_SHARE
        self._read = counter("records_read", "Records read from Kafka.", "topic")
        self._landed = counter("rows_landed", "Rows made visible in a table.", "table", "operation")
        about = "Changes of keyed tables, by what they did."
        self._changes = counter("changes_landed", about, "table", "outcome")
        about = "Bytes of files that were written again where rows went."
        self._rewritten = counter("rewritten_bytes", about, "table")
        about = "Bytes of files that maintenance beside the run wrote in the place of others."
        self._maintained = counter("maintenance_bytes", about, "table")
        about = "Groups of files that maintenance wrote, and that yielded to commits."
        self._yields = counter("maintenance_yields", about, "table")
        self._quarantined = counter("records_quarantined", "Records rejected.", "table", "code")
        self._filtered = counter("records_filtered", "Records filtered out.", "reason")
        self._commits = counter("commits", "Attempts to commit, by outcome.", "table", "outcome")
        self._files = counter("files_written", "Data files written.", "table")
        self._schema_changes = counter("schema_changes", "Changes of tables' schemas.", "kind")
        about = "Time of a phase: read, prepare, commit."
        self._seconds = histogram("commit_duration_seconds", about, "phase", SECONDS)
        about = "Sizes of data files, as the mean of their epoch."
        self._file_bytes = histogram("file_bytes", about, "table", _BYTES)
        self._small: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._guard = threading.Lock()
        self.registry.register(self)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        match event:
            case events.EpochPlanned() | events.BacklogCounted():
                self._waiting = dict(event.partition_lag)
            case events.SliceRead():
                _add(self._read, event.topics)
                self._seconds.labels("read").observe(event.seconds)
            case events.EpochPrepared():
                self._seconds.labels("prepare").observe(event.seconds)
            case events.FilesWritten():
                self._written(event)
            case events.TableCommitted():
                self._landed.labels(event.table, event.kind).inc(event.rows)
                _add(self._changes, event.changes, event.table)
                self._rewritten.labels(event.table).inc(event.rewritten_bytes)
                self._seconds.labels("commit").observe(event.seconds)
            case events.RecordsQuarantined():
                _add(self._quarantined, event.codes, event.table)
            case events.RecordsFiltered():
                _add(self._filtered, event.reasons)
            case maintenance_events.TableMaintained():
                self._maintained.labels(event.table).inc(event.written_bytes)
                self._yields.labels(event.table).inc(event.given_up)
            case events.SchemaChanged():
                self._schema_changes.labels(event.kind).inc()
        outcome = _OUTCOMES.get(type(event))
        if outcome is not None:
            self._commits.labels(event.table, outcome).inc()  # type: ignore[attr-defined]

    def passed(self, point: CrashPoint) -> None:
        """Ignore crash points."""

    def collect(self) -> Iterator[Metric]:
        """Return the gauges, read from the board now."""
        snapshot = self._board.snapshot()
        for name, about, value_of in _TABLE_GAUGES:
            values = {n: value_of(table) for n, table in snapshot.tables.items()}
            known = {n: value for n, value in values.items() if value is not None}
            yield _gauge(name, about, "table", known)
        promises = {n: seconds for n in snapshot.tables if (seconds := self._promised(n))}
        about = "How old what is in the table may be, where the spec promises it."
        yield _gauge("table_freshness_promise_seconds", about, "table", promises)
        about = "Files of this run that are far below the target size."
        yield _gauge("table_small_files", about, "table", dict(self._small))
        lag = GaugeMetricFamily(
            PREFIX + "lag_records",
            "Backlog when the newest epoch was planned, without that of parked tables.",
            labels=["topic", "partition"],
        )
        idle = snapshot.state in {State.IDLE, State.STOPPED}
        for at, records in self._waiting.items():
            topic, _, partition = at.removesuffix("]").rpartition("[")
            lag.add_metric([topic, partition], 0 if idle else records)
        yield lag
        yield _plain("generation", "Generation that holds the pipeline.", snapshot.generation)
        states = {state.value: int(state is snapshot.state) for state in State}
        yield _gauge("pipeline_state", "1 for the current state.", "state", states)
        stall = stalled(snapshot, self._clock.now_ms(), self._interval_ms)
        about = "1 when records were consumed and not committed for two commit intervals."
        yield _plain("stalled", about, int(stall is not None))
        yield _gauge("build_info", "1, with the version.", "version", {self._version: 1})

    def _written(self, event: events.FilesWritten) -> None:
        """Count files; only the sum of their sizes is known, so each counts with the mean."""
        self._files.labels(event.table).inc(event.files)
        mean = event.size_bytes / max(event.files, 1)
        for _ in range(event.files):
            self._file_bytes.labels(event.table).observe(mean)
        if mean < self._small_bytes:
            with self._guard:
                self._small[event.table] = self._small.get(event.table, 0) + event.files


def _add(counter: Counter, counts: Mapping[str, int], *labels: str) -> None:
    for label, count in counts.items():
        counter.labels(*labels, label).inc(count)


def _gauge(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, about, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family


def _plain(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, about, value=value)
