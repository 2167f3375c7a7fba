"""Metrics for Prometheus, fed by the same events as the log (interface.md 4).

Invariants:
- names and labels are those of docs/reference/metrics.md; none is renamed or removed;
- counters and histograms count events of this process; gauges are read from the board when they
  are asked for, so that they never lag behind `penstock status`;
- a registry of its own: nothing global, so several pipelines may live in one process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from penstock.core import events
from penstock.core.crash_points import Point
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


class Metrics:
    """Listen to events; several threads may tell. `registry` is what an endpoint shows."""

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
        self._small_bytes = target_file_bytes * SMALL_SHARE
        self._counts = _Counts(self.registry)
        self._small: dict[str, int] = {}
        self._waiting: dict[str, int] = {}
        self._guard = threading.Lock()
        self.registry.register(
            _Board(board, clock, version, interval_ms, lambda: (dict(self._small), self._waiting))
        )

    def __call__(self, event: Event) -> None:
        """Count an event."""
        counts = self._counts
        match event:
            case events.EpochPlanned() | events.BacklogCounted():
                self._waiting = dict(event.waiting)
            case events.SliceRead():
                for topic, records in event.topics.items():
                    counts.read.labels(topic).inc(records)
                counts.seconds.labels("read").observe(event.seconds)
            case events.EpochPrepared():
                counts.seconds.labels("prepare").observe(event.seconds)
            case events.FilesWritten():
                self._written(event)
            case events.TableCommitted():
                counts.landed.labels(event.table, event.kind).inc(event.rows)
                counts.commits.labels(event.table, "landed").inc()
                counts.seconds.labels("commit").observe(event.seconds)
            case _:
                counts.count(event)

    def reached(self, point: Point) -> None:
        """Pass: crash points are not counted."""

    def _written(self, event: events.FilesWritten) -> None:
        """Count files; their sizes are told by epoch, so each counts with the mean of its epoch."""
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
        self.landed = counter(
            "rows_landed", "Rows that became visible in a table.", "table", "operation"
        )
        self.quarantined = counter(
            "records_quarantined", "Records that did not fit.", "table", "code"
        )
        self.filtered = counter("records_filtered", "Records left out on purpose.", "reason")
        self.seconds = histogram(
            "commit_duration_seconds", "Time of a phase: read, prepare, commit.", "phase", _SECONDS
        )
        self.commits = counter(
            "commits", "Attempts to commit, by how they went.", "table", "outcome"
        )
        self.files = counter("files_written", "Data files written.", "table")
        self.file_bytes = histogram(
            "file_bytes", "Sizes of data files, as the mean of their epoch.", "table", _BYTES
        )
        self.schema_changes = counter("schema_changes", "Changes of tables' schemas.", "kind")

    def count(self, event: Event) -> None:
        """Count what may happen to a commit and to records on their way."""
        match event:
            case events.CommitFoundLanded():
                self.commits.labels(event.table, "found landed").inc()
            case events.CommitConflicted():
                self.commits.labels(event.table, "conflict").inc()
            case events.CommitLeftInDoubt():
                self.commits.labels(event.table, "in doubt").inc()
            case events.CommitAborted():
                self.commits.labels(event.table, "aborted").inc()
            case events.RecordsQuarantined():
                for code, count in event.codes.items():
                    self.quarantined.labels(event.table, code).inc(count)
            case events.RecordsFiltered():
                for reason, count in event.reasons.items():
                    self.filtered.labels(reason).inc(count)
            case events.SchemaChanged():
                self.schema_changes.labels(event.kind).inc()
            case _:
                return


class _Board(Collector):
    """Gives the gauges, read from the board at the moment they are asked for."""

    def __init__(
        self,
        board: StatusBoard,
        clock: Clock,
        version: str,
        interval_ms: int,
        counted: Callable[[], tuple[dict[str, int], dict[str, int]]],
    ) -> None:
        self._board = board
        self._clock = clock
        self._version = version
        self._interval_ms = interval_ms
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        """Give all gauges."""
        snapshot = self._board.snapshot()
        small, waiting = self._counted()
        yield from _of_tables(snapshot)
        yield _gauge(
            "table_small_files", "Files of this run far below their target.", "table", small
        )
        lag = GaugeMetricFamily(
            PREFIX + "lag_records",
            "Records waiting when the newest epoch was planned, but for parked tables.",
            labels=["topic", "partition"],
        )
        idle = snapshot.state in {State.IDLE, State.STOPPED}
        for at, records in waiting.items():
            topic, _, partition = at.removesuffix("]").rpartition("[")
            lag.add_metric([topic, partition], 0 if idle else records)
        yield lag
        yield _plain("generation", "Generation that holds the pipeline.", snapshot.generation)
        states = {state.value: int(state is snapshot.state) for state in State}
        yield _gauge("pipeline_state", "1 for the state it is in.", "state", states)
        stall = stalled(snapshot, self._clock.now_ms(), self._interval_ms)
        about = "1 when records were consumed and not committed for two commit intervals."
        yield _plain("stalled", about, int(stall is not None))
        yield _gauge("build_info", "1, with the version.", "version", {self._version: 1})


def _of_tables(snapshot: Snapshot) -> Iterator[Metric]:
    tables = snapshot.tables
    yield _gauge(
        "table_valid_through_timestamp_seconds",
        "All records up to this time that were readable then are in the table, or in quarantine.",
        "table",
        {n: t.valid_through_ms / _MS for n, t in tables.items() if t.valid_through_ms is not None},
    )
    yield _gauge(
        "table_lag_records",
        "Records that wait for the table in Kafka, also while it is parked.",
        "table",
        {n: t.lag_records for n, t in tables.items() if t.lag_records is not None},
    )
    yield _gauge(
        "pending_commits",
        "Commits prepared and not visible yet.",
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
    """Serve metrics over HTTP at `/metrics` while inside the `with` block; `port` is the one taken.

    Entering raises InvalidError (P592) when the address cannot be taken.
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
        except (OSError, UnicodeError) as error:  # a host that no name may look like is the latter
            why = error.strerror if isinstance(error, OSError) else "its host is no name"
            raise InvalidError(
                f"metrics cannot be served at {self._host}:{self.port}: {why}",
                code="P592",
                hint="choose another address:  penstock run --metrics 127.0.0.1:0",
            ) from error
        self.port = self._server.server_port
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def address(text: str) -> tuple[str, int]:
    """Read `host:port`, or a port alone on the loopback address. Raises InvalidError (P592).

    An IPv6 host may stand in brackets, as in a URL, and is given without them.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535:  # noqa: PLR2004  the highest port there is
        raise InvalidError(
            f"{text[:80]!r} is no address for metrics", code="P592", hint="write  127.0.0.1:9464"
        )
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    return bare or "127.0.0.1", int(port)


def served_at(host: str, port: int) -> str:
    """Give the URL of an endpoint."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"
