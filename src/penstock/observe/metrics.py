"""Metrics for Prometheus, fed by the same events as the log (interface.md 4).

Invariants:
- names and labels are those of docs/reference/metrics.md; none is renamed or removed;
- counters and histograms count events of this process; gauges are read from the board at each
  scrape, so that they never lag behind `penstock status`;
- the registry is not global, so several pipelines can run in one process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Self

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from penstock.core import events
from penstock.core.crash_points import CrashPoint
from penstock.core.errors import InvalidError
from penstock.core.events import Event
from penstock.observe.snapshot import Snapshot, State, stalled
from penstock.observe.status import StatusBoard
from penstock.ports.runtime import Clock

if TYPE_CHECKING:
    from prometheus_client import Metric

PREFIX = "penstock_"
SMALL_SHARE = 0.25
_MS = 1000

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
_BYTES = tuple(float(4**power * 16_384) for power in range(9))  # 16 KiB to 1 GiB


_OUTCOMES: Mapping[type[Event], str] = {
    events.TableCommitted: "landed",
    events.CommitFoundLanded: "found landed",
    events.CommitConflicted: "conflict",
    events.CommitLeftInDoubt: "in doubt",
    events.CommitAborted: "aborted",
}


class Metrics(Collector):
    """Count events of several threads; `registry` is what an endpoint shows."""

    def __init__(
        self,
        board: StatusBoard,
        clock: Clock,
        *,
        version: str,
        interval_ms: int,
        target_file_bytes: int,
    ) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self._board = board
        self._clock = clock
        self._version = version
        self._interval_ms = interval_ms
        self._small_bytes = target_file_bytes * SMALL_SHARE
        self._counts = _Counts(self.registry)
        self._small: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._guard = threading.Lock()
        self.registry.register(self)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        counts = self._counts
        match event:
            case events.EpochPlanned() | events.BacklogCounted():
                self._waiting = dict(event.waiting)
            case events.SliceRead():
                _add(counts.read, event.topics)
                counts.seconds.labels("read").observe(event.seconds)
            case events.EpochPrepared():
                counts.seconds.labels("prepare").observe(event.seconds)
            case events.FilesWritten():
                self._written(event)
            case events.TableCommitted():
                counts.landed.labels(event.table, event.kind).inc(event.rows)
                counts.seconds.labels("commit").observe(event.seconds)
            case events.RecordsQuarantined():
                _add(counts.quarantined, event.codes, event.table)
            case events.RecordsFiltered():
                _add(counts.filtered, event.reasons)
            case events.SchemaChanged():
                counts.schema_changes.labels(event.kind).inc()
            case _:
                pass
        outcome = _OUTCOMES.get(type(event))
        if outcome is not None:
            counts.commits.labels(event.table, outcome).inc()  # type: ignore[attr-defined]

    def passed(self, point: CrashPoint) -> None:
        """Ignore crash points."""

    def collect(self) -> Iterator[Metric]:
        """Return the gauges, read from the board now."""
        snapshot = self._board.snapshot()
        yield from _of_tables(snapshot)
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
        self._counts.files.labels(event.table).inc(event.files)
        mean = event.size_bytes / max(event.files, 1)
        for _ in range(event.files):
            self._counts.file_bytes.labels(event.table).observe(mean)
        if mean < self._small_bytes:
            with self._guard:
                self._small[event.table] = self._small.get(event.table, 0) + event.files


class _Counts:
    """The counters and histograms of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(PREFIX + name, about, labels, registry=registry)

        def histogram(name: str, about: str, label: str, edges: Iterable[float]) -> Histogram:
            return Histogram(
                PREFIX + name, about, (label,), registry=registry, buckets=tuple(edges)
            )

        self.read = counter("records_read", "Records read from Kafka.", "topic")
        self.landed = counter("rows_landed", "Rows made visible in a table.", "table", "operation")
        self.quarantined = counter("records_quarantined", "Records rejected.", "table", "code")
        self.filtered = counter("records_filtered", "Records filtered out.", "reason")
        self.commits = counter("commits", "Attempts to commit, by outcome.", "table", "outcome")
        self.files = counter("files_written", "Data files written.", "table")
        self.schema_changes = counter("schema_changes", "Changes of tables' schemas.", "kind")
        self.seconds = histogram(
            "commit_duration_seconds", "Time of a phase: read, prepare, commit.", "phase", _SECONDS
        )
        self.file_bytes = histogram(
            "file_bytes", "Sizes of data files, as the mean of their epoch.", "table", _BYTES
        )


def _add(counter: Counter, counts: Mapping[str, int], *labels: str) -> None:
    for label, count in counts.items():
        counter.labels(*labels, label).inc(count)


def _of_tables(snapshot: Snapshot) -> Iterator[Metric]:
    tables = snapshot.tables
    yield _gauge(
        "table_valid_through_timestamp_seconds",
        "Every record readable at this time is in the table or in quarantine.",
        "table",
        {n: t.valid_through_ms / _MS for n, t in tables.items() if t.valid_through_ms is not None},
    )
    yield _gauge(
        "table_lag_records",
        "Records in Kafka that the table has not read yet, also while it is parked.",
        "table",
        {n: t.lag_records for n, t in tables.items() if t.lag_records is not None},
    )
    yield _gauge(
        "pending_commits",
        "Commits prepared and not yet visible.",
        "table",
        {name: len(table.pending) for name, table in tables.items()},
    )
    yield _gauge(
        "last_commit_timestamp_seconds",
        "Time of the newest commit of this run.",
        "table",
        {n: t.last_commit.at_ms / _MS for n, t in tables.items() if t.last_commit is not None},
    )
    yield _gauge(
        "table_parked",
        "1 while the table is parked.",
        "table",
        {name: int(table.parked is not None) for name, table in tables.items()},
    )


def _gauge(name: str, about: str, label: str, values: dict[str, float] | dict[str, int]) -> Metric:
    family = GaugeMetricFamily(PREFIX + name, about, labels=[label])
    for each, value in values.items():
        family.add_metric([each], value)
    return family


def _plain(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, about, value=value)


class MetricsEndpoint:
    """Serve metrics over HTTP at `/metrics` inside the `with` block; `port` is the port in use.

    Entering raises InvalidError (P592) when the address is not available.
    """

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        self._metrics = metrics
        self._host = host
        self.port = port

    def __enter__(self) -> Self:
        try:
            self._server, self._thread = start_http_server(
                self.port, self._host, registry=self._metrics.registry
            )
        except (OSError, UnicodeError) as error:  # the latter: not a possible host name
            why = error.strerror if isinstance(error, OSError) else "not a host name"
            raise InvalidError(
                f"metrics cannot be served at {self._host}:{self.port}: {why}",
                code="P592",
                hint="choose another address:  penstock run --metrics 127.0.0.1:0",
            ) from error
        self.port = self._server.server_port
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port`, or of a port alone on the loopback address.

    An IPv6 host may be in brackets, as in a URL; they are removed. Raises InvalidError (P592).
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004  the highest port there is
        raise InvalidError(
            f"{text[:80]!r} is not an address for metrics",
            code="P592",
            hint="write  127.0.0.1:9464",
        )
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return bare or "127.0.0.1", int(port)


def served_at(host: str, port: int) -> str:
    """Return the URL of an endpoint."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
